//! `taskgate run`: what pipe and keeper add to a server on stdin and stdout, to each call and to the start of a session.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::section::{MIDDLE, Section};
use super::{Bench, remove};
use crate::gateway::workspace;
use crate::load::talk::{Line, Talk};
use crate::load::{Client, closed_loop};
use crate::report::{Figure, Mark, Unit, median};
use crate::sqlite::{self, row::Row};

/// Added to a read-only call by pipe and keeper.
const ADDED_MILLIS_MAX: f64 = 0.3;

/// Added to the start of a session where a keeper runs.
const START_MILLIS_MAX: f64 = 100.0;

/// From nothing to a listed tool, with the start of a keeper: well under a second.
const COLD_MILLIS_MAX: f64 = 500.0;

/// What is asked in a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    Ping,
    /// A tool that says it is read-only, with `--trust-annotations`: nothing is recorded.
    Small,
    /// Two commits: before it is sent, and its end.
    Write,
}

/// The session outlasts the loop, so that its processes are there when their time is read.
struct Asks {
    talk: Rc<Mutex<Talk>>,
    ask: Ask,
    count: u64,
}

impl Client for Asks {
    async fn once(&mut self) -> Result<()> {
        self.count += 1;
        match self.ask {
            Ask::Ping => self.talk.lock().await.ask("ping", "{}", "\"result\":{}").await,
            Ask::Small => self.call("small").await,
            Ask::Write => self.call("write").await,
        }
    }
}

impl Asks {
    async fn call(&mut self, tool: &str) -> Result<()> {
        // Each differs, as a model's calls do.
        let params = format!("{{\"name\":\"{tool}\",\"arguments\":{{\"count\":{}}}}}", self.count);
        self.talk.lock().await.ask("tools/call", &params, "\"text\":\"done\"").await
    }
}

/// The person at whose desk it is measured: a keeper's folder, and what hosts pass on.
struct Desk<'b> {
    bench: &'b Bench,
    folder: PathBuf,
}

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let desk = Desk::new(bench)?;
    let mut section = Section::default();
    let measured = desk.all(&mut section).await;
    desk.stop()?;
    measured.map(|()| section)
}

impl Desk<'_> {
    fn new(bench: &Bench) -> Result<Desk<'_>> {
        let folder = bench.file("desk");
        fs::create_dir_all(folder.join("state"))?;
        Ok(Desk { bench, folder })
    }

    async fn all(&self, section: &mut Section) -> Result<()> {
        for (ask, what) in
            [(Ask::Small, "read-only call"), (Ask::Write, "recorded call"), (Ask::Ping, "ping")]
        {
            self.latency(section, ask, what).await?;
        }
        let starts = if self.bench.is_quick { 3 } else { 20 };
        self.starts(section, "native", &self.native()?, starts).await?;
        self.starts(section, "Node", &node()?, starts).await?;
        self.cold(section, if self.bench.is_quick { 2 } else { 7 }).await
    }

    /// The same loop past the keeper and through it, in turns.
    async fn latency(&self, section: &mut Section, ask: Ask, what: &str) -> Result<()> {
        const QUANTILES: [(f64, &str); 3] = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99")];
        let mut added = QUANTILES.map(|_| Vec::new());
        let mut direct = QUANTILES.map(|_| Vec::new());
        let mut bare = Vec::new();
        let server = self.native()?;
        for _ in 0..self.bench.runs {
            if ask == Ask::Write {
                let path = self.bench.file("bare.db");
                let commits = sqlite::closed_loop(&path, Row::Ours, 1, self.bench.plan)?;
                bare.push(commits.millis(0.5) * 2.0);
                remove(&path);
            }
            let mut past = None;
            for (is_through, words) in [(false, server.clone()), (true, self.through(&server))] {
                let (talk, _) = Talk::open(&self.line(words)).await?;
                let watched = if is_through {
                    vec![(MIDDLE, self.keeper()?), ("pipe", talk.pid()?)]
                } else {
                    Vec::new()
                };
                let talk = Rc::new(Mutex::new(talk));
                let asks = vec![Asks { talk: talk.clone(), ask, count: 0 }];
                let measured = closed_loop(asks, self.bench.plan, &watched).await?;
                section
                    .keep(&format!("{what}, {}", if is_through { "through" } else { "direct" }), &measured);
                Rc::into_inner(talk).context("somebody still asks")?.into_inner().close().await?;
                let times = QUANTILES.map(|(quantile, _)| measured.times.millis(quantile));
                match past {
                    None => past = Some(times),
                    Some(past) => {
                        for at in 0..QUANTILES.len() {
                            added[at].push(times[at] - past[at]);
                            direct[at].push(past[at]);
                        }
                    }
                }
            }
        }
        for (at, (_, quantile)) in QUANTILES.iter().enumerate() {
            let name = format!("run, {what}: added {quantile}");
            let figure = Figure::new(name, median(added[at].clone()), Unit::Millis);
            let past = median(direct[at].clone());
            section.figures.push(match (ask, *quantile) {
                (Ask::Write, "p50") => figure.against("two bare commits", median(bare.clone())).durable(),
                (Ask::Small, "p50") => {
                    figure.against("the server directly", past).mark(Mark::AtMost(ADDED_MILLIS_MAX))
                }
                (Ask::Small | Ask::Write | Ask::Ping, _) => figure.against("the server directly", past),
            });
        }
        Ok(())
    }

    /// From the start of the process to the listed tools: the server alone, through a keeper that has to start it, and
    /// through one whose server another host already uses.
    async fn starts(&self, section: &mut Section, what: &str, server: &[String], times: usize) -> Result<()> {
        let through = self.through(server);
        // It holds the keeper, and nothing of the server that is measured.
        let (warm, _) = Talk::open(&self.line(self.through(&self.other()?))).await?;
        let (mut direct, mut started, mut joined) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..times {
            direct.push(self.one_start(server).await?);
            started.push(self.one_start(&through).await?);
        }
        let (holder, _) = Talk::open(&self.line(through.clone())).await?;
        for _ in 0..times {
            joined.push(self.one_start(&through).await?);
        }
        holder.close().await?;
        warm.close().await?;
        section.measured.push(json!({
            "what": format!("session start, {what} server"),
            "direct_ms": direct, "through_ms": started, "second_host_ms": joined,
        }));
        let added: Vec<f64> = started.iter().zip(&direct).map(|(ours, theirs)| ours - theirs).collect();
        let alone = median(direct);
        section.figures.extend([
            Figure::new(format!("run, {what} server: session start, added"), median(added), Unit::Millis)
                .against("the server's own", alone)
                .mark(Mark::AtMost(START_MILLIS_MAX)),
            Figure::new(
                format!("run, {what} server: session start of a second host"),
                median(joined),
                Unit::Millis,
            )
            .against("the server's own", alone),
        ]);
        Ok(())
    }

    /// The same where no keeper runs yet.
    async fn cold(&self, section: &mut Section, times: usize) -> Result<()> {
        let server = self.native()?;
        let (mut cold, mut direct) = (Vec::new(), Vec::new());
        for _ in 0..times {
            self.stop()?;
            cold.push(self.one_start(&self.through(&server)).await?);
            direct.push(self.one_start(&server).await?);
        }
        section.measured.push(json!({ "what": "session start without a keeper", "through_ms": cold }));
        section.figures.push(
            Figure::new("run, native server: session start without a keeper", median(cold), Unit::Millis)
                .against("the server's own", median(direct))
                .mark(Mark::AtMost(COLD_MILLIS_MAX)),
        );
        Ok(())
    }

    /// In milliseconds.
    async fn one_start(&self, words: &[String]) -> Result<f64> {
        let (talk, took) = Talk::open(&self.line(words.to_vec())).await?;
        talk.close().await?;
        Ok(took.as_secs_f64() * 1e3)
    }

    /// The instant server of this program.
    fn native(&self) -> Result<Vec<String>> {
        let program = std::env::current_exe()?;
        Ok(vec![program.to_str().context("a path in UTF-8")?.to_owned(), "stdio".to_owned()])
    }

    /// The same under another key.
    fn other(&self) -> Result<Vec<String>> {
        let mut words = self.native()?;
        words.push("--other".to_owned());
        Ok(words)
    }

    fn through(&self, server: &[String]) -> Vec<String> {
        let own =
            [&*self.bench.binary.to_string_lossy(), "run", "--trust-annotations", "--"].map(str::to_owned);
        own.into_iter().chain(server.iter().cloned()).collect()
    }

    fn line(&self, words: Vec<String>) -> Line {
        let folder = self.folder.clone();
        Line { words, environment: self.environment(), log: folder.join("stderr"), folder }
    }

    fn environment(&self) -> Vec<(String, String)> {
        let at = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        [
            ("HOME", at("")),
            ("XDG_STATE_HOME", at("state")),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("TASKGATE_PEERS", workspace().join("target/peers").to_string_lossy().into_owned()),
            // Should we be stopped, it does not stay for long.
            ("TASKGATE_KEEPER_IDLE", "20s".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// The keeper's process.
    fn keeper(&self) -> Result<u32> {
        let status = self.taskgate(&["keeper", "status", "--json"])?;
        let status: Value = serde_json::from_str(&status).with_context(|| status.clone())?;
        let pid = status["pid"].as_u64().with_context(|| format!("no keeper runs: {status}"))?;
        Ok(u32::try_from(pid)?)
    }

    fn stop(&self) -> Result<()> {
        self.taskgate(&["keeper", "stop"]).map(drop)
    }

    fn taskgate(&self, args: &[&str]) -> Result<String> {
        let output = Command::new(&self.bench.binary)
            .args(args)
            .env_clear()
            .envs(self.environment())
            .stdin(Stdio::null())
            .output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            output.status.success(),
            "taskgate {args:?}: {said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(said)
    }
}

/// A server as people have them, from the tests' peers.
fn node() -> Result<Vec<String>> {
    let peers = workspace().join("target/peers/bin/node");
    ensure!(peers.exists(), "no peers are installed: run tests/peers/install");
    let script = workspace().join("tests/peers/servers/node_plain.mjs");
    Ok([peers, script].map(|path| path.to_string_lossy().into_owned()).into())
}
