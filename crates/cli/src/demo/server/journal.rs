//! What happened to the world, written down before it is answered.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use taskgate_engine::clock::{Clock, SystemClock};

/// How far an effect has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Begun,
    Done,
}

/// One line of the file.
#[derive(Serialize)]
struct Entry<'a> {
    at: i64,
    effect: &'a str,
    key: &'a str,
    stage: Stage,
}

/// How often one effect happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Count {
    /// The tool.
    pub(crate) effect: String,
    /// What of.
    pub(crate) key: String,
    /// How often it was begun.
    pub(crate) begun: u32,
    /// How often it was completed.
    pub(crate) done: u32,
}

/// The journal of effects.
#[derive(Clone)]
pub(super) struct Journal(Arc<Mutex<Kept>>);

struct Kept {
    file: Option<File>,
    counts: BTreeMap<(String, String), (u32, u32)>,
}

impl Journal {
    /// Opens the file, new or old.
    pub(super) fn open(path: Option<&Path>) -> io::Result<Journal> {
        let file = path.map(|path| OpenOptions::new().create(true).append(true).open(path)).transpose()?;
        Ok(Journal(Arc::new(Mutex::new(Kept { file, counts: BTreeMap::new() }))))
    }

    /// Writes an entry; it is on disk when this returns.
    pub(super) async fn record(&self, effect: &'static str, key: &str, stage: Stage) -> io::Result<()> {
        let (kept, key) = (self.0.clone(), key.to_owned());
        let written = tokio::task::spawn_blocking(move || {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(file) = &mut kept.file {
                let entry = Entry { at: SystemClock.now().0, effect, key: &key, stage };
                let mut line = serde_json::to_vec(&entry)?;
                line.push(b'\n');
                file.write_all(&line)?;
                file.sync_data()?;
            }
            let (begun, done) = kept.counts.entry((effect.to_owned(), key)).or_default();
            match stage {
                Stage::Begun => *begun += 1,
                Stage::Done => *done += 1,
            }
            Ok(())
        });
        written.await.map_err(io::Error::other)?
    }

    /// Whether an effect was completed since the start.
    pub(super) fn is_done(&self, effect: &str, key: &str) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.counts.get(&(effect.to_owned(), key.to_owned())).is_some_and(|(_, done)| *done > 0)
    }

    /// How often each effect happened since the start.
    pub(super) fn counts(&self) -> Vec<Count> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |((effect, key), (begun, done)): (&(String, String), &(u32, u32))| Count {
            effect: effect.clone(),
            key: key.clone(),
            begun: *begun,
            done: *done,
        };
        kept.counts.iter().map(count).collect()
    }
}
