//! Read-only calls: through the gateway, through a thin proxy and past both, in turns.

use anyhow::Result;

use super::clients::Calls;
use super::section::{MIDDLE, SERVER, Section};
use super::{Bench, Servers};
use crate::args::Era;
use crate::load::closed_loop;
use crate::load::speaker::{Peer, Wish};
use crate::process::Process;
use crate::report::{Figure, Mark, Unit, count, median};

/// Added in the middle, at one connection.
const ADDED_MILLIS_MAX: f64 = 0.2;

/// Small calls a second, at 16 connections and more.
const RATE_MIN: f64 = 10_000.0;

/// One way to the server, and what was measured on it.
struct Way {
    name: &'static str,
    peer: Peer,
    gateway: Option<u32>,
    p50: Vec<f64>,
    rate: Vec<f64>,
}

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let servers = Servers::start()?;
    let gateway = bench.gateway("pass", &servers).await?;
    for era in [Era::Modern, Era::Legacy] {
        let (server, direct) = servers.of(era)?;
        let (thin, through_thin) = Process::server(&["thin", "--upstream", &direct.to_string()])?;
        for (tool, size) in [("small", "small"), ("big", "64 KiB")] {
            for clients in [1, 16, 64] {
                let at = |address| Peer { address, path: "/mcp".to_owned(), era };
                let way = |name, peer, gateway| Way { name, peer, gateway, p50: vec![], rate: vec![] };
                let mut ways = [
                    way("direct", at(direct), None),
                    way("thin proxy", at(through_thin), Some(thin.pid())),
                    way(MIDDLE, gateway.peer(era), Some(gateway.pid()?)),
                ];
                for _ in 0..bench.runs {
                    for way in &mut ways {
                        let calls = Calls::open(&way.peer, clients, tool, Wish::Plain).await?;
                        let watched: Vec<_> = way
                            .gateway
                            .map(|pid| (MIDDLE, pid))
                            .into_iter()
                            .chain([(SERVER, server)])
                            .collect();
                        let measured = closed_loop(calls, bench.plan, &watched).await?;
                        let connections = count(clients, "connection");
                        let what = format!("{} {size}, {connections}, {}", era.word(), way.name);
                        section.keep(&what, &measured);
                        way.p50.push(measured.times.millis(0.5));
                        way.rate.push(measured.times.rate());
                    }
                }
                section.figures.push(figure(&ways, era, size, clients));
            }
        }
    }
    Ok(section)
}

fn figure(ways: &[Way; 3], era: Era, size: &str, clients: usize) -> Figure {
    let [direct, thin, gateway] = ways;
    let era = era.word();
    if clients == 1 {
        let added =
            |way: &Way| median(way.p50.iter().zip(&direct.p50).map(|(way, direct)| way - direct).collect());
        return Figure::new(
            format!("pass-through {era}, {size}: added p50, 1 connection"),
            added(gateway),
            Unit::Millis,
        )
        .against("thin proxy", added(thin))
        .mark(Mark::AtMost(ADDED_MILLIS_MAX));
    }
    let rate = |way: &Way| median(way.rate.clone());
    let figure = Figure::new(
        format!("pass-through {era}, {size}: calls, {clients} connections"),
        rate(gateway),
        Unit::PerSecond,
    )
    .against(format!("thin proxy ({:.0}/s direct)", rate(direct)), rate(thin));
    if size == "small" { figure.mark(Mark::AtLeast(RATE_MIN)) } else { figure }
}
