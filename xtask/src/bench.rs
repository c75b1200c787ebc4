//! Every figure stands beside a reference that was taken in the same run: on a shared machine absolute numbers move
//! by factors, ratios by far less.

mod clients;
mod create;
mod floor;
mod get;
mod life;
mod memory;
mod pass;
mod restart;
mod run;
mod section;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::args::{Bench as Options, Era, Name};
use crate::disk::Disk;
use crate::gateway::{self, Gateway};
use crate::load::Plan;
use crate::machine::Machine;
use crate::process::Process;
use crate::report::{self, Figure};
use section::Section;

/// What all measurements share.
struct Bench {
    binary: PathBuf,
    folder: PathBuf,
    plan: Plan,
    runs: usize,
    is_quick: bool,
}

/// Measures what was asked for, prints it and keeps it.
pub(crate) fn run(options: &Options) -> Result<()> {
    let names = match options.names.as_slice() {
        [] => Name::value_variants(),
        names => names,
    };
    let binary = match &options.gateway {
        Some(binary) => fs::canonicalize(binary)?,
        None if names == [Name::Floor] => PathBuf::new(),
        None => gateway::build()?,
    };
    let kept = gateway::workspace().join("target/bench");
    fs::create_dir_all(&kept)?;
    // On the disk that is measured, which a folder for temporary files need not be.
    let folder = tempfile::Builder::new().prefix("run-").tempdir_in(&kept)?;
    let millis = |quick, full| Duration::from_millis(if options.quick { quick } else { full });
    let machine = Machine::state(options.date.as_deref(), Disk::measure(folder.path(), millis(300, 1_500))?)?;
    println!("{}\n", machine.lines());
    let bench = Bench {
        binary,
        folder: folder.path().to_owned(),
        plan: Plan { warm_up: millis(200, 700), measured: millis(500, 2_500) },
        runs: options.runs.unwrap_or(if options.quick { 1 } else { 3 }).max(1),
        is_quick: options.quick,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut missed = Vec::new();
    for name in names {
        let section = runtime.block_on(bench.section(*name))?;
        println!("{}\n{}", report::table(&section.figures), section.costs());
        let file = kept.join(format!("{}.json", name.word()));
        fs::write(file, serde_json::to_string_pretty(&bench.json(&machine, &section))?)?;
        let slowness = machine.disk().slowness();
        missed.extend(section.figures.into_iter().filter(|figure| figure.fails(options.slack, slowness)));
    }
    if options.keep {
        println!("kept {}", folder.keep().display());
    }
    if options.check && !missed.is_empty() {
        bail!("marks missed:\n{}", report::table(&missed));
    }
    Ok(())
}

impl Bench {
    async fn section(&self, name: Name) -> Result<Section> {
        match name {
            Name::Floor => floor::measure(self).await,
            Name::Pass => pass::measure(self).await,
            Name::Create => create::measure(self).await,
            Name::Life => life::measure(self).await,
            Name::Get => get::measure(self).await,
            Name::Memory => memory::measure(self).await,
            Name::Restart => restart::measure(self).await,
            Name::Run => run::measure(self).await,
        }
    }

    /// A gateway with an empty store.
    async fn gateway(&self, scene: &str, servers: &Servers) -> Result<Gateway> {
        Gateway::start(&self.binary, &self.folder.join(scene), &servers.addresses()).await
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn json(&self, machine: &Machine, section: &Section) -> Value {
        json!({
            "machine": machine.json(),
            "runs": self.runs,
            "is_quick": self.is_quick,
            "figures": section.figures.iter().map(Figure::json).collect::<Vec<_>>(),
            "measured": section.measured,
        })
    }
}

/// The instant servers, one of each era.
struct Servers(Vec<(Era, Process, std::net::SocketAddr)>);

impl Servers {
    fn start() -> Result<Servers> {
        let start = |era: Era| {
            let (process, address) = Process::server(&["back", "--era", era.word()])?;
            anyhow::Ok((era, process, address))
        };
        Ok(Servers(vec![start(Era::Legacy)?, start(Era::Modern)?]))
    }

    fn addresses(&self) -> Vec<(Era, std::net::SocketAddr)> {
        self.0.iter().map(|(era, _, address)| (*era, *address)).collect()
    }

    fn of(&self, era: Era) -> Result<(u32, std::net::SocketAddr)> {
        match self.0.iter().find(|(other, _, _)| *other == era) {
            Some((_, process, address)) => Ok((process.pid(), *address)),
            None => bail!("no server of that era"),
        }
    }
}

/// Removes a database and its log, so that the next one is made anew.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // What is not there need not go.
        let _ = fs::remove_file(name);
    }
}
