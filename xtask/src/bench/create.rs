//! Durable creates beside bare group commits by as many clients.

use anyhow::Result;

use super::clients::{Bare, Creates};
use super::section::{MIDDLE, SERVER, Section};
use super::{Bench, Servers, remove};
use crate::args::Era;
use crate::load::closed_loop;
use crate::load::speaker::Speaker;
use crate::process::Process;
use crate::report::{Figure, Mark, Unit, count, median};
use crate::sqlite::{self, row::Row};

/// Of the bare rate, at 64 clients.
const RATIO_MIN: f64 = 0.6;

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let servers = Servers::start()?;
    for clients in [1, 16, 64] {
        let (mut raw, mut ours, mut served, mut rates, mut p50) = (vec![], vec![], vec![], vec![], vec![]);
        for run in 0..bench.runs {
            for (row, rates) in [(Row::Raw, &mut raw), (Row::Ours, &mut ours)] {
                let path = bench.file("bare.db");
                rates.push(sqlite::closed_loop(&path, row, clients, bench.plan)?.rate());
                remove(&path);
            }
            served.push(bare_over_http(bench, clients, &mut section).await?);
            let mut gateway = bench.gateway(&format!("create-{clients}-{run}"), &servers).await?;
            let speakers = Speaker::open_all(&gateway.peer(Era::Legacy), clients).await?;
            let creates =
                speakers.into_iter().map(|speaker| Creates { speaker, tool: "never", ids: None }).collect();
            let watched = [(MIDDLE, gateway.pid()?), (SERVER, servers.of(Era::Legacy)?.0)];
            let measured = closed_loop(creates, bench.plan, &watched).await?;
            section.keep(&format!("create, {}, gateway", count(clients, "client")), &measured);
            rates.push(measured.times.rate());
            p50.push(measured.times.millis(0.5));
            gateway.kill()?;
            remove(&gateway.store());
        }
        let [raw, ours, served, rate] = [raw, ours, served, rates].map(median);
        let name = |what: &str| format!("durable create, {}: {what}", count(clients, "client"));
        let figure =
            Figure::new(name("tasks"), rate, Unit::PerSecond).against("bare commit, same bytes", ours);
        let figure = if clients == 64 { figure.mark(Mark::Ratio(RATIO_MIN)) } else { figure };
        section.figures.extend([
            figure,
            Figure::new(name("the same"), rate, Unit::PerSecond).against("bare commit, raw profile", raw),
            Figure::new(name("the same"), rate, Unit::PerSecond)
                .against("bare commit behind bare HTTP", served),
            Figure::new(name("p50"), median(p50), Unit::Millis),
        ]);
    }
    Ok(section)
}

/// The same commits behind HTTP with nothing else in it, in a process of its own and with our clients: what is left
/// for a gateway that does no work.
async fn bare_over_http(bench: &Bench, clients: usize, section: &mut Section) -> Result<f64> {
    let path = bench.file("served.db");
    let (process, address) = Process::server(&["bare", "--store", &path.to_string_lossy()])?;
    let bare = Bare::open(address, clients).await?;
    let measured = closed_loop(bare, bench.plan, &[(MIDDLE, process.pid())]).await?;
    section.keep(&format!("create, {}, bare commit behind bare HTTP", count(clients, "client")), &measured);
    drop(process);
    remove(&path);
    Ok(measured.times.rate())
}
