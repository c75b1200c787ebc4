//! Whole lives of tasks whose tool answers at once: from the call to the result in the client's hands, with two
//! durable commits between.

use std::path::Path;

use anyhow::Result;
use rusqlite::Connection;

use super::clients::{Calls, Lives};
use super::section::{MIDDLE, SERVER, Section};
use super::{Bench, Servers, remove};
use crate::args::Era;
use crate::gateway::Gateway;
use crate::load::closed_loop;
use crate::load::speaker::{Speaker, Wish};
use crate::load::{Measured, Plan};
use crate::report::{Figure, Mark, Unit, count, median};
use crate::sqlite::{self, row::Row};

/// In the middle, at one client.
const P50_MILLIS_MAX: f64 = 2.0;

/// Tasks a second, at 64 clients.
const RATE_MIN: f64 = 2_500.0;

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let servers = Servers::start()?;
    for era in [Era::Legacy, Era::Modern] {
        let front = match era {
            Era::Legacy => "dialect A, held result",
            Era::Modern => "dialect B, answered inline",
        };
        for clients in [1, 64] {
            let (mut bare, mut rates, mut p50, mut commits) = (vec![], vec![], vec![], vec![]);
            for run in 0..bench.runs {
                let path = bench.file("bare.db");
                let single = sqlite::closed_loop(&path, Row::Ours, clients, bench.plan)?;
                // Two commits are one life.
                bare.push((single.rate() / 2.0, single.millis(0.5) * 2.0));
                remove(&path);
                let mut gateway =
                    bench.gateway(&format!("life-{}-{clients}-{run}", era.word()), &servers).await?;
                let server = servers.of(era)?.0;
                let measured = lives(&gateway, era, clients, bench.plan, server).await?;
                section.keep(&format!("life, {front}, {}", count(clients, "client")), &measured);
                rates.push(measured.times.rate());
                p50.push(measured.times.millis(0.5));
                gateway.kill()?;
                commits.push(commits_of_a_life(&gateway.store())?);
                remove(&gateway.store());
            }
            let (bare_rates, bare_p50): (Vec<_>, Vec<_>) = bare.into_iter().unzip();
            let name = |what: &str| format!("whole life, {front}, {}: {what}", count(clients, "client"));
            let slow = Figure::new(name("p50"), median(p50), Unit::Millis)
                .against("two bare commits", median(bare_p50))
                .durable();
            let fast = Figure::new(name("tasks"), median(rates), Unit::PerSecond)
                .against("two bare commits", median(bare_rates))
                .durable();
            section.figures.extend(match clients {
                1 => [slow.mark(Mark::AtMost(P50_MILLIS_MAX)), fast],
                _ => [fast.mark(Mark::AtLeast(RATE_MIN)), slow],
            });
            section.figures.push(Figure::new(name("written"), median(commits), Unit::Commits));
        }
    }
    Ok(section)
}

/// Each version of a record is a commit; two are the least.
fn commits_of_a_life(store: &Path) -> Result<f64> {
    let database = Connection::open(store)?;
    Ok(database.query_row("SELECT avg(version) FROM task WHERE phase = 2", [], |row| row.get(0))?)
}

async fn lives(gateway: &Gateway, era: Era, clients: usize, plan: Plan, server: u32) -> Result<Measured> {
    let watched = [(MIDDLE, gateway.pid()?), (SERVER, server)];
    let peer = gateway.peer(era);
    match era {
        Era::Legacy => {
            let speakers = Speaker::open_all(&peer, clients).await?;
            closed_loop(speakers.into_iter().map(|speaker| Lives { speaker }).collect(), plan, &watched).await
        }
        Era::Modern => {
            closed_loop(Calls::open(&peer, clients, "write", Wish::Task).await?, plan, &watched).await
        }
    }
}
