//! `taskgate`: flags, files, environment, terminal, exit codes and wiring. What the gateway does lives in the other
//! crates.
//!
//! - `args`: the command line as it is typed
//! - `config`: files, as written and as understood
//! - `environment`, `ui`: the two things that a process shares with its surroundings
//! - `rules`: the workflows of a configuration, as the engine asks them
//! - `commands`: what each command does
//! - `hosts`: MCP hosts and the files in which they keep their servers
//! - `demo`: the demo server and the play
//! - `exit`, `failure`: how a command ends

mod args;
mod commands;
mod config;
mod demo;
mod environment;
mod exit;
mod failure;
mod hosts;
mod rules;
mod ui;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Cli, Command};
use crate::environment::Environment;
use crate::failure::Failure;
use crate::ui::Ui;

/// A call makes and drops many small buffers on several threads; this allocator spends less on that than the system's
/// (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before anything else is started: it must outlive whoever started it, and need nothing.
    if let Command::Guard = cli.command {
        taskgate_client::guard::main();
    }
    let environment = Environment::read();
    let ui = Ui::new(&environment);
    match run(cli.command, &environment, ui) {
        Ok(()) => ExitCode::from(exit::OK),
        Err(failure) => {
            ui.failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}

fn run(command: Command, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => commands::serve::main(&args, environment, ui),
        Command::Run(args) => commands::run::main(&args, environment, ui),
        Command::Keeper { command } => commands::keeper::main(&command, environment, ui),
        Command::Tasks(args) => commands::tasks::main(&args, environment, ui),
        Command::Ops(args) => commands::ops::main(&args, environment, ui),
        Command::Op { command } => commands::ops::show(&command, environment, ui),
        Command::Reconcile(args) => commands::ops::reconcile(&args, environment, ui),
        Command::Resolve(args) => commands::ops::resolve(&args, environment, ui),
        Command::Demo(args) => demo::play::main(&args, ui),
        Command::Probe(args) => commands::probe::main(&args, environment, ui),
        Command::Import(args) => commands::import::main(&args, environment, ui),
        Command::Config { command } => commands::config::main(command, environment, ui),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "taskgate", &mut text);
            ui.raw(&String::from_utf8_lossy(&text));
            Ok(())
        }
        Command::DemoServer(args) => demo::server::main(&args, ui),
        Command::KeeperProcess(args) => commands::keeper::process::main(&args, environment, ui),
        // Handled before.
        Command::Guard => Ok(()),
    }
}
