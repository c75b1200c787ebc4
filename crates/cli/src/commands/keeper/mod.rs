//! `keeper`: the background process behind `run`, for the person who wants to know how it is.
//!
//! - `process`: the keeper itself
//! - `status`, `logs`: what it shows

mod logs;
pub(crate) mod process;
mod status;

pub(crate) use status::ago;

use std::io::Read;

use taskgate_keeper::control::{self, Ask, Done};
use taskgate_keeper::hello::{self, Kind};
use taskgate_keeper::place;
use taskgate_keeper::reach::{Reached, Surroundings, Unreached};

use crate::args::Keeper as Args;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

pub(crate) fn main(args: &Args, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let surroundings = surroundings(environment);
    match args {
        Args::Status { json } => status::main(&surroundings, *json, ui),
        Args::Stop { now } => stop(&surroundings, *now, ui),
        Args::Restart { server: None } => {
            stop(&surroundings, false, ui)?;
            let reached = surroundings.reach(Kind::Control).map_err(unreached)?;
            ui.out(&format!("started: process {}, version {}", reached.host.pid, reached.host.version));
            Ok(())
        }
        Args::Restart { server: Some(server) } => {
            let Reached { mut stream, .. } = surroundings.find(Kind::Control).map_err(unreached)?;
            control::ask::<Done>(&mut stream, &Ask::Restart { server: server.clone() }).map_err(refused)?;
            ui.out(&format!("the process of {server} has ended; the next use starts it anew"));
            Ok(())
        }
        Args::Logs { server, follow, lines } => {
            logs::main(&surroundings.places, server.as_deref(), *follow, *lines, ui)
        }
    }
}

/// Where this user's keeper may live, and what is needed to start it.
pub(crate) fn surroundings(environment: &Environment) -> Surroundings {
    let state = environment
        .state_dir()
        // Hosts that pass no HOME get the same keeper as all others.
        .or_else(|| place::home().map(|home| home.join(".local/state/taskgate")));
    Surroundings {
        places: place::candidates(state.as_deref(), environment.runtime_dir().as_deref()),
        environment: environment.all(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: hello::PLAIN,
    }
}

/// Ends the keeper that runs, and waits until it is gone.
fn stop(surroundings: &Surroundings, now: bool, ui: Ui) -> Result<(), Failure> {
    let Reached { mut stream, host, .. } = match surroundings.find(Kind::Control) {
        Ok(reached) => reached,
        Err(Unreached::NotRunning) => {
            ui.out("no keeper is running");
            return Ok(());
        }
        Err(error) => return Err(unreached(error)),
    };
    control::ask::<Done>(&mut stream, &Ask::Stop { now }).map_err(refused)?;
    // The connection closes with the process.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    ui.out(&format!("stopped: process {}, version {}", host.pid, host.version));
    Ok(())
}

pub(crate) fn unreached(error: Unreached) -> Failure {
    let help = match &error {
        Unreached::NotRunning => "it is started by the first `taskgate run`",
        Unreached::NotStarted(_) => "`taskgate keeper logs` may say more",
        Unreached::OtherProtocol(_) => "use the taskgate of that version",
        Unreached::Io(_) => "if it does not answer, end its process: `taskgate keeper status` and `kill`",
        Unreached::Trouble(_) => "then try again",
    };
    Failure::new(exit::FAILED, error.to_string(), help)
}

pub(crate) fn refused(error: std::io::Error) -> Failure {
    Failure::from(anyhow::Error::new(error))
}
