//! What the keeper remembers of workflows whose rules are not here: who decides about their operations, when their systems
//! of record are to be asked, and which file declared them. Nothing of it is secret, and no rule stands there.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use taskgate_core::budget::Allowance;
use taskgate_core::time::Millis;
use taskgate_engine::rules::Asks;
use taskgate_workflow::Workflow;

use super::pace;

/// The notes, in a file of the keeper's folder. One that cannot be read or written stops nothing: what it would say is
/// known again once a host comes.
#[derive(Debug)]
pub(crate) struct Notes {
    file: PathBuf,
    known: Mutex<BTreeMap<String, Note>>,
}

/// What is remembered of one workflow, by the name under which its operations are kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Note {
    /// The file that declared it last.
    file: String,
    /// Who decides when nothing else can.
    owners: Vec<String>,
    /// How its system of record is asked; none if it says nobody.
    asks: Option<Pace>,
}

/// Times in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Pace {
    first: u64,
    every: u64,
    budget: Option<(u64, u32)>,
    settle: Option<u64>,
    resend: bool,
}

impl Notes {
    /// Those in `file`.
    pub(super) fn read(file: PathBuf) -> Notes {
        let known = match fs::read(&file) {
            Ok(text) => serde_json::from_slice(&text).unwrap_or_else(|_| {
                tracing::warn!(file = %file.display(), "what was noted of workflows cannot be read; it is noted anew");
                BTreeMap::new()
            }),
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    tracing::warn!(file = %file.display(), %error, "what was noted of workflows cannot be read");
                }
                BTreeMap::new()
            }
        };
        Notes { file, known: Mutex::new(known) }
    }

    /// How a workflow's system of record is asked; `None` if nothing is known of it.
    pub(super) fn asks(&self, workflow: &str) -> Option<Option<Asks>> {
        let known = self.known.lock();
        let pace = known.get(workflow)?.asks;
        Some(pace.map(|pace| Asks {
            first: Millis(pace.first),
            every: Millis(pace.every),
            budget: pace.budget.map(|(time, attempts)| Allowance { time: Millis(time), attempts }),
            settle: pace.settle.map(Millis),
            resend: pace.resend,
        }))
    }

    pub(super) fn owners(&self, workflow: &str) -> Vec<String> {
        self.known.lock().get(workflow).map(|note| note.owners.clone()).unwrap_or_default()
    }

    /// The file that declared a workflow last.
    pub(super) fn file_of(&self, workflow: &str) -> Option<String> {
        self.known.lock().get(workflow).map(|note| note.file.clone())
    }

    /// Whether any workflow's name begins so.
    pub(super) fn has(&self, start: &str) -> bool {
        self.known.lock().keys().any(|name| name.starts_with(start))
    }

    /// Notes these. Those that are gone from the file stay: their operations may not be settled.
    pub(super) fn put(&self, file: &str, workflows: &[Arc<Workflow>]) {
        let mut known = self.known.lock();
        let before = known.clone();
        for workflow in workflows {
            let asks = pace(workflow).map(|asks| Pace {
                first: asks.first.0,
                every: asks.every.0,
                budget: asks.budget.map(|budget| (budget.time.0, budget.attempts)),
                settle: asks.settle.map(|settle| settle.0),
                resend: asks.resend,
            });
            let note = Note { file: file.to_owned(), owners: workflow.owners.clone(), asks };
            known.insert(workflow.name.clone(), note);
        }
        if *known != before
            && let Err(error) = self.write(&known)
        {
            tracing::warn!(file = %self.file.display(), %error, "workflows could not be noted");
        }
    }

    fn write(&self, known: &BTreeMap<String, Note>) -> io::Result<()> {
        let new = self.file.with_extension("new");
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(known)?)?;
        file.sync_all()?;
        fs::rename(new, &self.file)
    }
}
