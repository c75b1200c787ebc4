//! What the machine gives without a gateway: the server alone, a thin proxy, bare hyper, bare commits. It also shows
//! that the generator is faster than what it measures.

use anyhow::Result;

use super::clients::{Bare, Calls};
use super::section::{MIDDLE, SERVER, Section};
use super::{Bench, Servers, remove};
use crate::args::Era;
use crate::load::closed_loop;
use crate::load::speaker::{Peer, Wish};
use crate::process::Process;
use crate::report::{Figure, Unit, count};
use crate::sqlite::{self, row::Row};

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let mut section = Section::default();
    let servers = Servers::start()?;
    let (server, direct) = servers.of(Era::Modern)?;
    let (thin, through_thin) = Process::server(&["thin", "--upstream", &direct.to_string()])?;
    let (bare, bare_address) = Process::server(&["bare"])?;
    for clients in [1, 16, 64] {
        let connections = count(clients, "connection");
        for tool in ["small", "big"] {
            for (name, address) in [("direct", direct), ("thin proxy", through_thin)] {
                let peer = Peer { address, path: "/mcp".to_owned(), era: Era::Modern };
                let calls = Calls::open(&peer, clients, tool, Wish::Plain).await?;
                let measured =
                    closed_loop(calls, bench.plan, &[(MIDDLE, thin.pid()), (SERVER, server)]).await?;
                let what = format!("{name}, {tool}, {connections}");
                section.keep(&what, &measured);
                section.figures.extend([
                    Figure::new(format!("{what}: calls"), measured.times.rate(), Unit::PerSecond),
                    Figure::new(format!("{what}: p50"), measured.times.millis(0.5), Unit::Millis),
                ]);
            }
        }
        let measured =
            closed_loop(Bare::open(bare_address, clients).await?, bench.plan, &[(SERVER, bare.pid())])
                .await?;
        let what = format!("bare hyper, {connections}");
        section.keep(&what, &measured);
        section.figures.push(Figure::new(format!("{what}: calls"), measured.times.rate(), Unit::PerSecond));
        for (row, name) in [(Row::Raw, "raw profile"), (Row::Ours, "same bytes")] {
            let path = bench.file("bare.db");
            let times = sqlite::closed_loop(&path, row, clients, bench.plan)?;
            remove(&path);
            let what = format!("bare commit, {name}, {}", count(clients, "client"));
            section.figures.extend([
                Figure::new(format!("{what}: commits"), times.rate(), Unit::PerSecond),
                Figure::new(format!("{what}: p50"), times.millis(0.5), Unit::Millis),
            ]);
        }
    }
    Ok(section)
}
