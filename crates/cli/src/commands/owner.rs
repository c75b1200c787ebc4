//! Which process is asked about tasks and operations: a database is opened by its owner alone, so others ask that.
//!
//! Owners are the user's keeper, and every `taskgate serve`. Without a word the keeper and the `serve` with the default
//! database are asked, as far as there are such.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use taskgate_keeper::control::{self, Ask};
use taskgate_keeper::hello::{self, Kind};
use taskgate_keeper::place::Place;
use taskgate_keeper::reach::{Reached, Surroundings, Unreached};

use super::keeper::{surroundings, unreached};
use crate::args::Owner as Given;
use crate::config::load::store_of;
use crate::config::understand::store;
use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Words};

/// A process that answers for a store.
pub(crate) struct Owner {
    /// `keeper`, or the path of the database of a `serve`.
    pub(crate) name: String,
    reached: Reached,
}

/// Everybody who is asked.
pub(crate) struct Owners {
    pub(crate) all: Vec<Owner>,
    /// What is said of a store that nobody answers for, where none was named.
    pub(crate) absent: Option<String>,
    /// Whether one was named.
    is_named: bool,
}

/// Something of an owner.
#[derive(Serialize)]
pub(crate) struct Owned<T> {
    /// Whose: `keeper`, or the path of the database of a `serve`.
    pub(crate) owner: String,
    #[serde(flatten)]
    pub(crate) it: T,
}

impl Owner {
    pub(crate) fn ask<T: DeserializeOwned>(&mut self, ask: &Ask) -> Result<T, String> {
        control::ask(&mut self.reached.stream, ask).map_err(|error| error.to_string())
    }
}

impl Owners {
    /// Those that `given` names, the environment after the flags.
    pub(crate) fn find(given: &Given, environment: &Environment) -> Result<Owners, Failure> {
        let surroundings = surroundings(environment);
        let named = match (&given.store, &given.config) {
            (Some(store), _) => Some(store.clone()),
            (None, Some(config)) => Some(configured(config, environment)?),
            (None, None) => match (environment.text("TASKGATE_STORE"), environment.text("TASKGATE_CONFIG")) {
                (Some(store), _) => Some(PathBuf::from(store)),
                (None, Some(config)) => Some(configured(Path::new(config), environment)?),
                (None, None) => None,
            },
        };
        let Some(path) = named else { return Owners::usual(&surroundings, environment) };
        let is_of_keeper = fs::canonicalize(&path).is_ok_and(|path| {
            let same = |place: &Place| fs::canonicalize(place.store()).is_ok_and(|store| store == path);
            surroundings.places.iter().any(same)
        });
        let found = if is_of_keeper { keeper(&surroundings)? } else { Some(serve(&path)?) };
        Ok(Owners { all: found.into_iter().collect(), absent: None, is_named: true })
    }

    fn usual(surroundings: &Surroundings, environment: &Environment) -> Result<Owners, Failure> {
        let mut all: Vec<Owner> = keeper(surroundings)?.into_iter().collect();
        let mut absent = None;
        if let Some(path) = store(None, Path::new(""), environment)
            && path.exists()
        {
            match serve(&path) {
                Ok(owner) => all.push(owner),
                Err(failure) => absent = Some(failure.to_string()),
            }
        }
        Ok(Owners { all, absent, is_named: false })
    }

    /// Asks everybody about one thing, of which at most one should know.
    pub(crate) fn ask_about<T: DeserializeOwned>(
        &mut self,
        ask: &Ask,
        what: &str,
    ) -> Result<(&mut Owner, T), Failure> {
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for (number, owner) in self.all.iter_mut().enumerate() {
            match owner.ask::<T>(ask) {
                Ok(answer) => found.push((number, answer)),
                Err(words) => refused.push(words),
            }
        }
        let is_alone = found.len() == 1;
        match found.pop() {
            Some((number, answer)) if is_alone => match self.all.get_mut(number) {
                Some(owner) => Ok((owner, answer)),
                None => Err(Failure::said(exit::FAILED)),
            },
            Some(_) => {
                let names: Vec<&str> = self.all.iter().map(|owner| owner.name.as_str()).collect();
                let what = format!("several have such {what}: {}", names.join(", "));
                Err(Failure::new(exit::FAILED, what, "write more of the id, or name the store: --store FILE"))
            }
            None => {
                // The one that knows of something like it says more than the one that does not.
                refused.sort_by_key(|words| words.starts_with("there is no") || words.starts_with("no task"));
                let words = refused
                    .into_iter()
                    .next()
                    .unwrap_or_else(|| format!("there are no {what}: nothing has gone through taskgate yet"));
                let is_unknown = words.starts_with("there ") || words.starts_with("no task");
                let help = match &self.absent {
                    Some(absent) if is_unknown => Some(absent.clone()),
                    None if is_unknown && !self.is_named => {
                        Some("for another `taskgate serve`: --store FILE, or --config FILE".to_owned())
                    }
                    Some(_) | None => None,
                };
                Err(Failure { code: exit::FAILED, words: Words::Plain { what: words, help } })
            }
        }
    }
}

fn configured(config: &Path, environment: &Environment) -> Result<PathBuf, Failure> {
    store_of(config, environment)?.ok_or_else(|| {
        Failure::new(
            exit::STORE,
            format!("{} names no store, and there is no default one without a home", config.display()),
            "name the file: --store FILE",
        )
    })
}

/// The keeper owns the tasks of `run`: it is started where it left some.
fn keeper(surroundings: &Surroundings) -> Result<Option<Owner>, Failure> {
    let owner = |reached| Some(Owner { name: "keeper".to_owned(), reached });
    match surroundings.find(Kind::Control) {
        Ok(reached) => Ok(owner(reached)),
        Err(Unreached::NotRunning) => {
            let has_tasks = surroundings
                .places
                .iter()
                .any(|place| matches!(place.check(), Ok(true)) && place.store().exists());
            if !has_tasks {
                return Ok(None);
            }
            surroundings.reach(Kind::Control).map(owner).map_err(unreached)
        }
        Err(error) => Err(unreached(error)),
    }
}

/// The `serve` that has the database open.
fn serve(path: &Path) -> Result<Owner, Failure> {
    let shown = path.display();
    let Ok(whole) = fs::canonicalize(path) else {
        return Err(Failure::new(
            exit::FAILED,
            format!("there is no database {shown}"),
            "`taskgate serve` makes it when it first starts",
        ));
    };
    let surroundings = Surroundings {
        places: vec![Place::of_store(path)],
        environment: Vec::new(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: hello::PLAIN,
    };
    match surroundings.find(Kind::Control) {
        Ok(reached) => Ok(Owner { name: whole.display().to_string(), reached }),
        Err(Unreached::NotRunning) => Err(Failure::new(
            exit::FAILED,
            format!("no running process answers for the database {shown}"),
            "start `taskgate serve` with it; one that runs and does not answer is of an older version: restart it",
        )),
        Err(Unreached::OtherProtocol(host)) => Err(Failure::new(
            exit::FAILED,
            format!(
                "the process {} that has the database {shown} open is of another version ({})",
                host.pid, host.version
            ),
            "use the taskgate of that version, or restart the process with this one",
        )),
        Err(Unreached::Io(error)) => Err(Failure::new(
            exit::FAILED,
            format!("the process that has the database {shown} open does not answer: {}", io_words(&error)),
            "look whether it is stopped or overloaded; it can be restarted, and takes up what it had begun",
        )),
        Err(error @ (Unreached::NotStarted(_) | Unreached::Trouble(_))) => Err(Failure::new(
            exit::FAILED,
            format!("the process that has the database {shown} open could not be asked: {error}"),
            "make the folder beside it yours alone, then ask again",
        )),
    }
}

/// What a socket says is wrong: that its time is over comes as two kinds of errors, neither of which says so.
fn io_words(error: &std::io::Error) -> String {
    if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) {
        return "it was waited for in vain".to_owned();
    }
    error.to_string()
}

/// What an owner says is wrong: its words say what to do.
pub(crate) fn refused(words: String) -> Failure {
    Failure { code: exit::FAILED, words: Words::Plain { what: words, help: None } }
}
