//! Puts one bug after the other into the gateway, and sees that the test that is named for it finds it (notes 3.5).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use taskgate_seeded::Bug;
use tokio::time::Instant;

/// What is built with the bugs.
const PACKAGES: [&str; 5] =
    ["taskgate-seeded", "taskgate-core", "taskgate-store-sqlite", "taskgate-engine", "taskgate-gateway"];

/// Which of their tests: those that find something.
const TARGETS: [&str; 9] = ["--lib", "--test", "it", "--test", "sim", "--test", "model", "--test", "power"];

/// A test of a fraction of a second that has not ended by then stands still, and that is noticed too.
const PATIENCE: Duration = Duration::from_secs(30);

/// Those that take long have found nothing by then.
const PATIENCE_LONG: Duration = Duration::from_secs(300);

/// A bug, and who must find it.
struct Case {
    bug: Bug,
    /// What notes 3.5 has in its place.
    stands_for: &'static str,
    /// By the numbers of notes 3.3.
    harness: &'static str,
    package: &'static str,
    target: &'static str,
    /// Which tests of that; an empty text means all.
    filter: &'static str,
}

const fn case(
    bug: Bug,
    stands_for: &'static str,
    (harness, package, target): (&'static str, &'static str, &'static str),
    filter: &'static str,
) -> Case {
    Case { bug, stands_for, harness, package, target, filter }
}

type Harness = (&'static str, &'static str, &'static str);

const MODEL: Harness = ("H1 model", "taskgate-core", "model");
const STORE: Harness = ("H2 stores", "taskgate-store-sqlite", "it");
const ENGINE: Harness = ("engine", "taskgate-engine", "it");
const SIM: Harness = ("H4 simulation", "taskgate-engine", "sim");
const FRONTS: Harness = ("H4 with the fronts", "taskgate-gateway", "sim");
const GATEWAY: Harness = ("gateway", "taskgate-gateway", "taskgate_gateway");
const POWER: Harness = ("H11 power", "taskgate-store-sqlite", "power");

const CASES: &[Case] = &[
    case(Bug::AnswerBeforeCommit, "answer before commit", POWER, "h11_inv_01"),
    case(Bug::SyncNormal, "sync NORMAL", POWER, "h11_inv_01"),
    case(Bug::ReadsUnsynced, "one of ours", POWER, "h11_inv_05"),
    case(Bug::SendBeforeRecord, "dispatch before commit", ENGINE, "calls::"),
    case(Bug::RetryUnknown, "retry from unknown", MODEL, "h1_inv_03"),
    case(Bug::NotFoundIsNotApplied, "\"not found\" read as not applied", MODEL, "h1_inv_03"),
    // One process owns the file, so there are no epochs; what must not act is a version that is no longer the newest.
    case(Bug::StaleWrite, "epoch check dropped", STORE, "conforms::append"),
    // Nor are there leases; what a lease would wrongly prove is that an exchange is over.
    case(Bug::SettleFromDispatch, "guard on state instead of epoch", MODEL, "h1_inv_03"),
    case(Bug::KeyExpires, "key lock that expires", STORE, "conforms::purge"),
    case(Bug::WordFreesKey, "one of ours", STORE, "conforms::keys"),
    case(Bug::ClockAskedOnce, "one of ours", ENGINE, "calls::r4_5"),
    // Waiters are woken in the process, not by the database.
    case(Bug::ShowBeforeAppend, "notify before commit", SIM, "h4_inv"),
    // Its test waits for ever, which is how it finds this.
    case(Bug::LookBeforeListen, "check before register", ENGINE, "calls::what_an_answer_means"),
    case(Bug::PurgeOpen, "purge with an open operation", STORE, "conforms::purge"),
    // There is no kill switch yet; a cancellation is what stops a dispatch.
    case(Bug::DispatchUnwanted, "kill switch read outside the dispatch statement", SIM, "h4_inv"),
    // Whoever hears the error calls again, under a new id.
    case(Bug::ErrorBelieved, "ambiguous commit resubmitted under a new command id", SIM, "h4_inv"),
    case(Bug::FrameIgnored, "one of ours", STORE, "conforms::frame"),
    case(Bug::CancelIgnored, "one of ours", ENGINE, "crash::"),
    case(Bug::SendUndispatched, "one of ours", ENGINE, "doubtful::inv_10"),
    case(Bug::DigestIgnored, "fingerprint ignored", STORE, "conforms::join"),
    case(Bug::FirstAttemptForgotten, "one of ours", MODEL, "h1_inv_03"),
    case(Bug::EndsTwice, "one of ours", MODEL, "h1_inv_03"),
    case(Bug::AnsweredTwice, "one of ours", MODEL, "questions::"),
    case(Bug::UnknownFreesKey, "key lock that expires", FRONTS, "h4_inv"),
    case(Bug::AssumedFreesKey, "key lock that expires", STORE, "conforms::keys"),
    case(Bug::CorrectionUntold, "one of ours", FRONTS, "h4_inv"),
    case(Bug::CorrectionFreesAgain, "one of ours", STORE, "conforms::keys"),
    case(Bug::HandedUnnoted, "one of ours", GATEWAY, "fetched::"),
    case(Bug::GivenWhenMade, "one of ours", FRONTS, "h4_inv"),
    case(Bug::FrameDropped, "one of ours", FRONTS, "h4_inv"),
    case(Bug::FoundByAnyone, "one of ours", FRONTS, "h4_inv"),
    case(Bug::ResultForOthers, "one of ours", GATEWAY, "results::r6_1"),
    case(Bug::ToldAfterAnswer, "one of ours", FRONTS, "h4_inv"),
    // What the fronts show of bugs that another finds too.
    case(Bug::WordFreesKey, "one of ours", FRONTS, "h4_inv"),
    case(Bug::SendBeforeRecord, "dispatch before commit", FRONTS, "h4_inv"),
];

/// What a run showed.
struct Run {
    was_reached: bool,
    found: Option<String>,
    took: Duration,
}

/// Builds once, plays all, prints the table.
pub(crate) fn run(only: &[String]) -> Result<()> {
    let began = Instant::now();
    let programs = build()?;
    println!("built in {:.0} s", began.elapsed().as_secs_f64());
    println!("| bug | for | harness | found after | by |\n|---|---|---|---|---|");
    let mut missed = vec![];
    for case in CASES {
        let name = case.bug.name();
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let program = programs
            .get(&(case.package.to_owned(), case.target.to_owned()))
            .with_context(|| format!("{} has no test {}", case.package, case.target))?;
        let Run { was_reached, found, took } = play(program, case)?;
        let by = match (&found, was_reached) {
            (Some(by), true) => by.clone(),
            (Some(_), false) => "FAILED WITHOUT HAVING REACHED IT".to_owned(),
            (None, _) => "NOT FOUND".to_owned(),
        };
        println!("| {name} | {} | {} | {:.1} s | {by} |", case.stands_for, case.harness, took.as_secs_f64());
        if found.is_none() || !was_reached {
            missed.push(name);
        }
    }
    println!("{:.0} s in all", began.elapsed().as_secs_f64());
    if !missed.is_empty() {
        bail!("not found: {}", missed.join(", "));
    }
    Ok(())
}

/// The test programs, by package and target.
fn build() -> Result<BTreeMap<(String, String), PathBuf>> {
    #[derive(Deserialize)]
    struct Said {
        executable: Option<PathBuf>,
        target: Option<Target>,
        manifest_path: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(root).args(["test", "--quiet", "--no-run", "--message-format=json"]);
    cargo.args(["--features", "taskgate-seeded/on"]);
    cargo.args(PACKAGES.iter().flat_map(|package| ["--package", package])).args(TARGETS);
    let built = cargo.stderr(Stdio::inherit()).output().context("cargo could not be started")?;
    if !built.status.success() {
        bail!("the tests could not be built with the bugs");
    }
    let mut programs = BTreeMap::new();
    for line in built.stdout.split(|byte| *byte == b'\n') {
        let Ok(Said { executable: Some(path), target: Some(target), manifest_path: Some(manifest) }) =
            serde_json::from_slice(line)
        else {
            continue;
        };
        let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        programs.insert((format!("taskgate-{}", folder.display()), target.name), path);
    }
    Ok(programs)
}

fn play(program: &Path, case: &Case) -> Result<Run> {
    let began = Instant::now();
    let mut test = Command::new(program);
    let crate_folder = case.package.trim_start_matches("taskgate-");
    test.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates").join(crate_folder));
    test.args(["--nocapture", case.filter]).env("TASKGATE_SEEDED_BUG", case.bug.name());
    test.env("RUST_BACKTRACE", "0").stdout(Stdio::piped()).stderr(Stdio::piped());
    // A disk that breaks a promise is kept for a person; nobody looks at these.
    let scratch = tempfile::tempdir().context("no scratch folder")?;
    test.env("TMPDIR", scratch.path());
    let mut child = test.spawn().context("the test program could not be started")?;
    let said = [
        child.stdout.take().map(|stream| listen(Box::new(stream))),
        child.stderr.take().map(|stream| listen(Box::new(stream))),
    ];
    // The tests of these targets take no time; whoever waits there waits for ever.
    let is_brief = matches!(case.target, "it" | "taskgate_gateway");
    let ended = wait(&mut child, if is_brief { PATIENCE } else { PATIENCE_LONG })?;
    let took = began.elapsed();
    let texts = said.into_iter().flatten().map(|listener| listener.join().unwrap_or_default());
    let text = texts.collect::<Vec<_>>().join("\n");
    let was_reached = text.contains(&format!("seeded bug {} was reached", case.bug.name()));
    let found = match ended {
        None if is_brief => Some("it stands still".to_owned()),
        None | Some(true) => None,
        Some(false) => Some(first_panic(&text)),
    };
    Ok(Run { was_reached, found, took })
}

fn listen(mut stream: Box<dyn Read + Send>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = vec![];
        // What was said before an error is what there is.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether it ended well; `None` if it did not end, and was killed.
fn wait(child: &mut Child, patience: Duration) -> Result<Option<bool>> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if Instant::now() > until {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The test that failed first, and the beginning of what it said.
fn first_panic(text: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.contains("panicked at"));
    let test = lines.next().and_then(|line| line.split('\'').nth(1)).unwrap_or("?").to_owned();
    let words: String = lines.next().unwrap_or_default().chars().take(110).collect();
    format!("`{test}`: {}", words.replace('|', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_somebody_who_must_find_it() {
        let cases: Vec<_> = CASES.iter().map(|case| case.bug).collect();
        for bug in Bug::ALL {
            assert!(cases.contains(bug), "{bug:?}");
        }
        assert!(cases.len() >= 14, "notes 3.5 asks for fourteen");
    }

    #[test]
    fn a_release_build_refuses_the_bugs() {
        let cargo = |arguments: &[&str]| {
            let mut cargo = Command::new("cargo");
            cargo.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).args(arguments);
            cargo.output().unwrap()
        };
        let refused =
            cargo(&["check", "--quiet", "--release", "--package", "taskgate-seeded", "--features", "on"]);
        assert!(!refused.status.success());
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(words.contains("seeded bugs are for tests only"), "{words}");
        let tree = cargo(&[
            "tree",
            "--package",
            "taskgate-cli",
            "--edges",
            "features",
            "--invert",
            "taskgate-seeded",
        ]);
        let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
        assert!(
            tree.contains("taskgate-seeded v") && !tree.contains("taskgate-seeded feature \"on\""),
            "{tree}"
        );
    }

    #[test]
    fn this_build_has_no_bug() {
        assert!(Bug::ALL.iter().all(|bug| !taskgate_seeded::is(*bug)));
    }
}
