//! Why a command ended badly: the words, and the exit code that goes with them.

use std::fmt;

use crate::config::problem::Problems;
use crate::exit;

/// The end of a command that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// See [`exit`].
    pub(crate) code: u8,
    /// What to show.
    pub(crate) words: Words,
}

/// What a person reads.
#[derive(Debug)]
pub(crate) enum Words {
    /// A sentence that says what was attempted and what went wrong, and one that says what to do.
    Plain {
        /// What went wrong.
        what: String,
        /// What to do.
        help: Option<String>,
    },
    /// Places in configuration files.
    Config(Vec<Problems>),
    /// Everything was said already.
    Said,
}

impl Failure {
    pub(crate) fn new(code: u8, what: impl Into<String>, help: impl Into<String>) -> Failure {
        Failure { code, words: Words::Plain { what: what.into(), help: Some(help.into()) } }
    }

    /// The end of a process whose store is [lost](taskgate_engine::Engine::lost).
    pub(crate) fn lost(error: &taskgate_store::Error) -> Failure {
        let what = if let taskgate_store::Error::Broken { place, reason } = error {
            format!("taskgate has ended, because {place} failed while it was used: {reason}")
        } else {
            format!("taskgate has ended: {error}")
        };
        let help = "start it again: it reads what is on disk, and finds all that it had acknowledged; if that fails too, the \
                    system's log may say what is wrong with the disk";
        Failure::new(exit::STORE_LOST, what, help)
    }

    pub(crate) fn said(code: u8) -> Failure {
        Failure { code, words: Words::Said }
    }
}

impl From<Vec<Problems>> for Failure {
    fn from(problems: Vec<Problems>) -> Failure {
        Failure { code: exit::CONFIG, words: Words::Config(problems) }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure { code: exit::FAILED, words: Words::Plain { what: format!("{error:#}"), help: None } }
    }
}

impl From<taskgate_store::Error> for Failure {
    /// The store's words say what to do.
    fn from(error: taskgate_store::Error) -> Failure {
        Failure {
            code: exit::STORE,
            words: Words::Plain { what: format!("{:#}", anyhow::Error::new(error)), help: None },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.words {
            Words::Plain { what, .. } => f.write_str(what),
            Words::Config(_) => f.write_str("the configuration cannot be used"),
            Words::Said => f.write_str("failed"),
        }
    }
}
