//! Killed and started again: over many stored tasks, and over many that were under way.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::Instant;

use super::clients::Creates;
use super::section::Section;
use super::{Bench, Servers};
use crate::args::Era;
use crate::gateway::Gateway;
use crate::load::fixed;
use crate::load::speaker::Speaker;
use crate::report::{Figure, Mark, Unit};

/// From the start of the process.
const SECONDS_MAX: f64 = 1.0;

const CLIENTS: usize = 64;

const LIVE: usize = 1_000;

/// How long the last of the stored tasks may take to end.
const END_MAX: Duration = Duration::from_secs(120);

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let stored = if bench.is_quick { 5_000 } else { 100_000 };
    let servers = Servers::start()?;
    let mut gateway = bench.gateway("restart", &servers).await?;
    let finished = create(&gateway, "write", stored).await?;
    let session = all_over(&gateway, &finished).await?;
    let mut section = Section::default();

    gateway.kill()?;
    let started = Instant::now();
    let ready = gateway.start_again().await?;
    let old = finished.first().context("no task")?;
    is_right(&gateway, &session, old, &["\"status\":\"completed\""]).await?;
    let answered = started.elapsed();
    let name = |what: &str| format!("kill -9 with {stored} stored tasks: {what}");
    section.figures.extend([
        Figure::new(name("ready"), ready.as_secs_f64(), Unit::Seconds).mark(Mark::AtMost(SECONDS_MAX)),
        Figure::new(name("right answer"), answered.as_secs_f64(), Unit::Seconds)
            .mark(Mark::AtMost(SECONDS_MAX)),
    ]);
    for task in [finished.len() / 2, finished.len() - 1].map(|at| &finished[at]) {
        is_right(&gateway, &session, task, &["\"status\":\"completed\""]).await?;
    }

    let live = create(&gateway, "never", LIVE).await?;
    gateway.kill()?;
    let started = Instant::now();
    let ready = gateway.start_again().await?;
    // Sent and unanswered: nobody can know what it did. Not yet sent: it goes on.
    let right = ["\"status\":\"failed\"", "\"status\":\"working\""];
    is_right(&gateway, &session, &live[0], &right[..1]).await?;
    let first = started.elapsed();
    for task in &live {
        is_right(&gateway, &session, task, &right).await?;
    }
    let all = started.elapsed();
    let name = |what: &str| format!("kill -9 with {LIVE} live tasks: {what}");
    section.figures.extend([
        Figure::new(name("ready"), ready.as_secs_f64(), Unit::Seconds).mark(Mark::AtMost(SECONDS_MAX)),
        Figure::new(name("right answer"), first.as_secs_f64(), Unit::Seconds).mark(Mark::AtMost(SECONDS_MAX)),
        Figure::new(name("right answer for each"), all.as_secs_f64(), Unit::Seconds),
    ]);
    Ok(section)
}

async fn create(gateway: &Gateway, tool: &'static str, tasks: usize) -> Result<Vec<String>> {
    let speakers = Speaker::open_all(&gateway.peer(Era::Legacy), CLIENTS).await?;
    let ids = Rc::new(RefCell::new(Vec::with_capacity(tasks)));
    let creates =
        speakers.into_iter().map(|speaker| Creates { speaker, tool, ids: Some(ids.clone()) }).collect();
    fixed(creates, tasks).await?;
    let ids = ids.take();
    ensure!(ids.len() == tasks, "{} of {tasks} tasks were created", ids.len());
    Ok(ids)
}

/// Waits until every one has ended; the session that asked.
async fn all_over(gateway: &Gateway, tasks: &[String]) -> Result<String> {
    let mut speaker = Speaker::open(&gateway.peer(Era::Legacy), 998).await?;
    let until = Instant::now() + END_MAX;
    // They end in about the order in which they came, so the newest are seen to last.
    for task in tasks.iter().step_by((tasks.len() / 500).max(1)).chain(tasks.iter().rev().take(500)) {
        while speaker.task("tasks/get", task, "\"status\":\"completed\"").await.is_err() {
            if Instant::now() > until {
                bail!("task {task} has not ended");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    speaker.session().map(str::to_owned).context("no session")
}

/// Asks in the session that was opened before the kill.
async fn is_right(gateway: &Gateway, session: &str, task: &str, right: &[&str]) -> Result<()> {
    let mut speaker = Speaker::resume(&gateway.peer(Era::Legacy), 997, Some(session.to_owned())).await?;
    let answer = speaker.task("tasks/get", task, "\"result\"").await?;
    if right.iter().any(|right| answer.expect(&[right]).is_ok()) {
        return Ok(());
    }
    bail!("task {task} is told wrong: {}", String::from_utf8_lossy(answer.body))
}
