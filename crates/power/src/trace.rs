//! What was done to the files of one folder, in order.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::vfs;

/// One thing that was done to a file of the folder. Files are told apart by their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A file came to be, empty. Its name is durable once the folder was synced.
    Create {
        /// Which.
        name: Arc<str>,
    },
    /// A file's name went. Likewise.
    Delete {
        /// Which.
        name: Arc<str>,
    },
    /// Bytes went into a file.
    Write {
        /// Which.
        name: Arc<str>,
        /// Where the first of them went.
        offset: usize,
        /// All of them.
        bytes: Vec<u8>,
    },
    /// A file was cut, or made longer.
    Resize {
        /// Which.
        name: Arc<str>,
        /// To so many bytes.
        size: usize,
    },
    /// Whatever was written to a file before is durable.
    Sync {
        /// Which.
        name: Arc<str>,
    },
    /// The names of the folder are durable.
    SyncFolder,
}

#[derive(Debug)]
pub(crate) struct Tape {
    folder: PathBuf,
    /// Files that are there, as far as the steps tell.
    names: Mutex<BTreeSet<Arc<str>>>,
    steps: Mutex<Vec<Step>>,
    /// How long a sync takes.
    sync: Duration,
    /// Whether a sync does anything.
    honest: bool,
}

impl Tape {
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Does `act`, and notes `step` if that is what came of it. Nobody else's step comes between the two.
    pub(crate) fn note<T>(&self, act: impl FnOnce() -> (T, Vec<Step>)) -> T {
        let mut steps = self.steps.lock();
        let (done, step) = act();
        steps.extend(step);
        done
    }

    /// The step by which a file came to be that is there now: SQLite made it, or somebody else did just before and
    /// left it empty.
    pub(crate) fn meet(&self, name: &Arc<str>) -> Vec<Step> {
        let is_new = self.names.lock().insert(Arc::clone(name));
        if is_new { vec![Step::Create { name: Arc::clone(name) }] } else { vec![] }
    }

    /// The step by which it went.
    pub(crate) fn part(&self, name: Arc<str>) -> Vec<Step> {
        self.names.lock().remove(&name);
        vec![Step::Delete { name }]
    }

    /// Notes that a sync is over, after the time that it takes.
    pub(crate) fn sync(&self, step: Vec<Step>) {
        std::thread::sleep(self.sync);
        if self.honest {
            self.steps.lock().extend(step);
        }
    }
}

/// Notes what SQLite does to the files of one folder, from now until it is dropped.
///
/// The first recording puts itself between SQLite and its file system for the whole process. Connections that were
/// open before are not seen.
#[derive(Debug)]
pub struct Recording(Arc<Tape>);

impl Recording {
    /// Begins, with syncs that take `sync` each.
    ///
    /// # Panics
    /// If the folder has no true name, or SQLite refuses a file system of ours.
    #[must_use]
    pub fn start(folder: &Path, sync: Duration) -> Recording {
        Recording::new(folder, sync, true)
    }

    /// As [`Recording::start`], for a disk that ignores syncs. A test of a promise about power must fail with it.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    pub fn start_lying(folder: &Path, sync: Duration) -> Recording {
        Recording::new(folder, sync, false)
    }

    fn new(folder: &Path, sync: Duration, honest: bool) -> Recording {
        let folder = folder.canonicalize().expect("the folder to record is there");
        let entries = fs::read_dir(&folder).expect("the folder to record can be read");
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into()).collect();
        let tape = Arc::new(Tape { folder, names: Mutex::new(names), steps: Mutex::default(), sync, honest });
        vfs::listen(&tape);
        Recording(tape)
    }

    /// How many steps were taken by now. What is acknowledged at this moment must survive a loss of power at any
    /// position from here on.
    #[must_use]
    pub fn position(&self) -> usize {
        self.0.steps.lock().len()
    }

    /// All steps so far.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        self.0.steps.lock().clone()
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        vfs::forget(&self.0);
    }
}
