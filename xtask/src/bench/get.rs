//! Reads of a task's status beside hyper that answers any request with the same JSON.

use anyhow::Result;

use super::clients::{Bare, Reads};
use super::section::{MIDDLE, Section};
use super::{Bench, Servers};
use crate::args::Era;
use crate::gateway::Gateway;
use crate::load::closed_loop;
use crate::load::speaker::{Peer, Speaker, Wish};
use crate::process::Process;
use crate::report::{Figure, Mark, Unit, median};

const CLIENTS: usize = 64;

/// Of the bare rate: wished for.
const RATIO_WISHED: f64 = 0.75;

/// What is read, and how. Those that wait come last, since they take all places at their server.
const CASES: [(&str, Era, &str, &str); 3] = [
    ("dialect A, finished task", Era::Legacy, "write", "\"status\":\"completed\""),
    ("dialect B, finished task", Era::Modern, "write", "\"text\":\"done\""),
    ("dialect A, waiting task", Era::Legacy, "never", "\"status\":\"working\""),
];

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let servers = Servers::start()?;
    let gateway = bench.gateway("get", &servers).await?;
    let (bare, address) = Process::server(&["bare"])?;
    for (what, era, tool, needle) in CASES {
        let tasks = tasks(&gateway, tool).await?;
        // Every endpoint speaks both dialects, and knows the tasks of its own server.
        let peer = Peer { era, ..gateway.peer(Era::Legacy) };
        let (mut rates, mut references) = (vec![], vec![]);
        for _ in 0..bench.runs {
            let clients = Bare::open(address, CLIENTS).await?;
            let measured = closed_loop(clients, bench.plan, &[(MIDDLE, bare.pid())]).await?;
            section.keep("bare hyper", &measured);
            references.push(measured.times.rate());

            let speakers = Speaker::open_all(&peer, CLIENTS).await?;
            let reads = speakers
                .into_iter()
                .zip(&tasks)
                .map(|(speaker, task)| Reads { speaker, task: task.clone(), needle })
                .collect();
            let measured = closed_loop(reads, bench.plan, &[(MIDDLE, gateway.pid()?)]).await?;
            section.keep(&format!("tasks/get, {what}"), &measured);
            rates.push(measured.times.rate());
        }
        let figure =
            Figure::new(format!("tasks/get, {what}, {CLIENTS} connections"), median(rates), Unit::PerSecond)
                .against("bare hyper", median(references))
                .mark(Mark::Wish(RATIO_WISHED));
        section.figures.push(figure);
    }
    Ok(section)
}

/// One task for each client; those of the instant tool are finished.
async fn tasks(gateway: &Gateway, tool: &'static str) -> Result<Vec<String>> {
    let mut speaker = Speaker::open(&gateway.peer(Era::Legacy), 999).await?;
    let mut tasks = Vec::with_capacity(CLIENTS);
    for _ in 0..CLIENTS {
        let task = speaker.call(tool, Wish::Task, "\"taskId\":\"").await?.text("taskId")?.to_owned();
        if tool == "write" {
            speaker.task("tasks/result", &task, "\"text\":\"done\"").await?;
        }
        tasks.push(task);
    }
    Ok(tasks)
}
