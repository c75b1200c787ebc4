//! One run of the suite, and what it says.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;

use crate::cast::{Before, Front, Job};
use crate::expected;
use crate::stage::{Stage, installed, peers, with_us};

/// For one scenario, in milliseconds, on a busy machine.
const TIMEOUT: &str = "90000";

pub(crate) struct Outcome {
    pub(crate) job: Job,
    /// In the order in which they were run.
    pub(crate) scenarios: Vec<Scenario>,
    /// Whether everything was as the suite was told to expect.
    is_as_expected: bool,
    seconds: u64,
    /// What the suite printed.
    said: String,
}

pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) checks: Vec<Check>,
    /// Why its version does not count it, where it does not.
    pub(crate) not_scored: Option<String>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Check {
    pub(crate) id: String,
    pub(crate) status: Status,
    pub(crate) why: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
}

impl Scenario {
    pub(crate) fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|check| check.status == status).count()
    }

    /// Checks that came to a verdict.
    pub(crate) fn judged(&self) -> usize {
        self.checks.len() - self.count(Status::Skipped)
    }
}

impl Outcome {
    /// What is not as it should be. What the fixture does alone is nobody's business here.
    pub(crate) fn faults(&self) -> Vec<String> {
        if self.job.is_direct() || self.is_as_expected {
            return Vec::new();
        }
        let mut faults = Vec::new();
        for scenario in &self.scenarios {
            let wrong = scenario.checks.iter().filter(|check| {
                matches!(check.status, Status::Failure | Status::Warning)
                    && expected::reason(&scenario.name, &check.id).is_none()
            });
            faults
                .extend(wrong.map(|check| format!("{self}: {}:{}: {}", scenario.name, check.id, check.why)));
        }
        faults.push(format!("{self}: the suite is not content:\n{}", tail(&self.said)));
        faults
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.job {
            Job::Server { revision, before, scenario } => {
                format!("{} of {revision}, {before:?}", scenario.as_deref().unwrap_or("what is required"))
            }
            Job::Tasks { scenario, before } => format!("{scenario}, {before:?}"),
            Job::Client { scenario, revision, front } => {
                format!("client {scenario} of {revision}, {front:?} in front")
            }
        };
        let count = |status| self.scenarios.iter().map(|scenario| scenario.count(status)).sum::<usize>();
        let (passed, failed) = (count(Status::Success), count(Status::Failure) + count(Status::Warning));
        write!(f, "{what}: {passed} passed, {failed} not, in {} s", self.seconds)
    }
}

pub(crate) fn run(stage: &Stage, job: Job) -> Outcome {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let results = stage.folder().join(format!("run-{}", RUNS.fetch_add(1, Ordering::SeqCst)));
    let suite = installed().join("conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let node = installed().join("bin/node");
    let mut command = with_us(&node);
    command.arg(suite);
    match &job {
        Job::Server { revision, before, scenario: None } => {
            command.args(["server", "--url", &stage.core(*before), "--requirements", revision]);
        }
        Job::Server { revision, before, scenario: Some(scenario) } => {
            command.args(["server", "--url", &stage.core(*before), "--scenario", scenario]);
            command.args(["--spec-version", revision]);
        }
        Job::Tasks { scenario, before } => {
            command.args(["server", "--url", &stage.tasks(*before), "--scenario", scenario]);
        }
        Job::Client { scenario, revision, front } => {
            let front = match front {
                Front::Legacy => "legacy",
                Front::Modern => "modern",
            };
            let driver = peers().join("clients/conformance.mjs");
            let words = [text(&node), text(&driver), env!("CARGO_BIN_EXE_taskgate"), front];
            // It splits the words at spaces itself.
            assert!(
                words.iter().all(|word| !word.contains(' ')),
                "the suite takes no path with a space: {words:?}"
            );
            command.args(["client", "--command", &words.join(" "), "--scenario", scenario]);
            command.args(["--spec-version", revision]).env("TASKGATE_PEERS", installed());
        }
    }
    command.args(["--timeout", TIMEOUT, "--output-dir"]).arg(&results);
    if !job.is_direct() {
        command.arg("--expected-failures").arg(expected::file());
    }
    let began = Instant::now();
    let (is_as_expected, said) = output(&mut command);
    let not_scored = not_scored(&said);
    let mut scenarios = read(&results, &not_scored);
    if let Job::Server { .. } = job {
        // They are run with a fixture that has tasks.
        scenarios.retain(|scenario| !scenario.name.starts_with("tasks-"));
    }
    Outcome { job, scenarios, is_as_expected, seconds: began.elapsed().as_secs(), said }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of UTF-8")
}

fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("the suite is started");
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    (output.status.success(), plain(&said))
}

/// Without what colours a terminal.
fn plain(said: &str) -> String {
    let mut parts = said.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

fn tail(said: &str) -> String {
    let lines: Vec<_> = said.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

/// Scenarios that a version runs and does not count, from the end of what the suite prints: `✓ NAME (REASON)`.
fn not_scored(said: &str) -> Vec<(String, String)> {
    let section = said.split("\nNot scored for").nth(1).unwrap_or_default();
    let read = |line: &str| {
        let (name, reason) = line.trim().split_once(' ')?.1.split_once(" (")?;
        Some((name.to_owned(), reason.strip_suffix(')')?.to_owned()))
    };
    section.lines().skip(1).filter_map(read).collect()
}

/// Each scenario has a folder, `[server-]NAME-TIME`.
fn read(results: &Path, not_scored: &[(String, String)]) -> Vec<Scenario> {
    const TIME: usize = "-2026-11-30T15-37-02-785Z".len();
    let mut found: Vec<(String, Scenario)> = Vec::new();
    for entry in fs::read_dir(results).into_iter().flatten() {
        let folder = entry.unwrap();
        let name = folder.file_name().into_string().unwrap();
        let (name, time) = name.split_at(name.len() - TIME);
        let name = name.strip_prefix("server-").filter(|_| !is_client(&folder.path())).unwrap_or(name);
        let checks = fs::read(folder.path().join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_slice(&checks).unwrap();
        let scenario = Scenario {
            name: name.to_owned(),
            checks: checks.iter().filter_map(check).collect(),
            not_scored: not_scored.iter().find(|(of, _)| of == name).map(|(_, reason)| reason.clone()),
        };
        found.push((time.to_owned(), scenario));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    let names: BTreeSet<_> = found.iter().map(|(_, scenario)| &scenario.name).collect();
    assert_eq!(names.len(), found.len(), "each scenario is run once");
    found.into_iter().map(|(_, scenario)| scenario).collect()
}

/// Results of client scenarios have what the client printed beside them.
fn is_client(folder: &Path) -> bool {
    folder.join("stdout.txt").exists()
}

/// What it only tells, such as that a request came, is left out.
fn check(check: &Value) -> Option<Check> {
    let status = match check["status"].as_str()? {
        "SUCCESS" => Status::Success,
        "FAILURE" => Status::Failure,
        "WARNING" => Status::Warning,
        "SKIPPED" => Status::Skipped,
        "INFO" => return None,
        other => panic!("a status that nobody knows: {other}"),
    };
    Some(Check {
        id: check["id"].as_str()?.to_owned(),
        status,
        why: check["errorMessage"].as_str().unwrap_or_default().to_owned(),
    })
}

impl Before {
    pub(crate) fn all() -> [Before; 3] {
        [Before::Direct, Before::Modern, Before::Legacy]
    }
}
