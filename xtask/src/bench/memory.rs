//! What waiting tasks hold in memory.

use std::time::Duration;

use anyhow::Result;

use super::clients::Creates;
use super::section::Section;
use super::{Bench, Servers};
use crate::args::Era;
use crate::load::fixed;
use crate::load::speaker::Speaker;
use crate::process::resident;
use crate::report::{Figure, Unit};

const TASKS: usize = 10_000;

const CLIENTS: usize = 16;

pub(super) async fn measure(bench: &Bench) -> Result<Section> {
    let servers = Servers::start()?;
    let gateway = bench.gateway("memory", &servers).await?;
    let speakers = Speaker::open_all(&gateway.peer(Era::Legacy), CLIENTS).await?;
    // Sessions, caches and the upstream session are there before.
    let mut creates: Vec<_> =
        speakers.into_iter().map(|speaker| Creates { speaker, tool: "write", ids: None }).collect();
    for create in &mut creates {
        crate::load::Client::once(create).await?;
        create.tool = "never";
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = resident(gateway.pid()?)?;
    fixed(creates, TASKS).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let after = resident(gateway.pid()?)?;
    let added = after.saturating_sub(before) as f64;
    let mut section = Section::default();
    section.figures.extend([
        Figure::new(
            "memory before the first waiting task",
            before as f64 / f64::from(1 << 20),
            Unit::Mebibytes,
        ),
        Figure::new(format!("memory of {TASKS} waiting tasks"), added / f64::from(1 << 20), Unit::Mebibytes),
        Figure::new("memory of one of them", added / 1024.0 / TASKS as f64, Unit::Kibibytes),
    ]);
    Ok(section)
}
