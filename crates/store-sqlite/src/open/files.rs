//! The files around a database: who may read them, and that only one process has them.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use taskgate_store::Error;

/// How long to wait for a lock that somebody has.
const PATIENCE: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(10);

/// That this process has the file for itself. The operating system gives it back when the process ends, however it
/// does; the lock file itself stays, since removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

impl Lock {
    pub(super) fn take(path: &Path, place: &str) -> Result<Lock, Error> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        private_file(&mut options);
        let file = options.open(beside(path, ".lock")).map_err(|error| cannot_write(place, &error))?;
        // A child that another thread is just starting shares our open files until it runs its own program; and a
        // process that was told to end may take a moment.
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            match file.try_lock() {
                Ok(()) => return Ok(Lock(file)),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
                Err(TryLockError::Error(error)) => {
                    return Err(cannot_open(place, format!("it cannot be locked: {error}")));
                }
            }
        }
        Err(Error::InUse { place: place.to_owned() })
    }
}

/// Makes the folder, and finds the one true name of the file, so that two names of it share one lock.
pub(super) fn prepare(path: &Path, place: &str) -> Result<PathBuf, Error> {
    let Some(name) = path.file_name() else {
        return Err(cannot_open(place, "it names no file".into()));
    };
    if path.is_dir() {
        return Err(cannot_open(place, "it is a folder; name a file in it".into()));
    }
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    if !folder.is_dir() {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        private_folder(&mut builder);
        builder.create(folder).map_err(|error| cannot_write(place, &error))?;
    }
    let folder = folder.canonicalize().map_err(|error| cannot_write(place, &error))?;
    Ok(folder.join(name))
}

/// Makes the file if there is none. SQLite gives its log the same permissions.
pub(super) fn make_private(path: &Path, place: &str) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    private_file(&mut options);
    options.open(path).map(drop).map_err(|error| cannot_write(place, &error))
}

/// Makes the names durable by which a new file is found: its own, and those of all folders above it. We may have made them
/// just now, or a process before us that was killed. SQLite syncs the file's folder only, so a loss of power could take
/// the folder away with everything in it that was acknowledged (R3.3).
pub(super) fn make_names_durable(path: &Path, place: &str) -> Result<(), Error> {
    sync_above(path, sync_folder).map_err(|error| cannot_write(place, &error))
}

/// Folders that we may not look into are not ours, and were there before us.
fn sync_above(path: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    for folder in path.ancestors().skip(1) {
        match sync(folder) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder)?.sync_all() {
        // Some file systems of other machines have no such thing, and need none.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        other => other,
    }
}

/// Elsewhere a folder cannot be opened as a file, and the system keeps its names by itself.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

pub(super) fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

pub(super) fn has_content(path: &Path) -> bool {
    size(path) > 0
}

fn cannot_write(place: &str, error: &IoError) -> Error {
    let place = place.to_owned();
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the list of kinds is the standard library's and grows"
    )]
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Error::ReadOnly { place },
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::Full { place },
        _ => Error::Open { place, reason: error.to_string() },
    }
}

fn cannot_open(place: &str, reason: String) -> Error {
    Error::Open { place: place.to_owned(), reason }
}

#[cfg(unix)]
fn private_file(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(unix)]
fn private_folder(builder: &mut DirBuilder) {
    use std::os::unix::fs::DirBuilderExt;
    builder.mode(0o700);
}

/// Elsewhere the folder of the user's profile is private by itself.
#[cfg(not(unix))]
fn private_file(_: &mut OpenOptions) {}

#[cfg(not(unix))]
fn private_folder(_: &mut DirBuilder) {}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn r3_3_the_names_of_all_folders_above_a_new_file_are_made_durable() {
        let synced = RefCell::new(vec![]);
        let note = |folder: &Path| {
            synced.borrow_mut().push(folder.display().to_string());
            // Nobody may list this one, but all may pass through.
            if folder == Path::new("/home") { Err(ErrorKind::PermissionDenied.into()) } else { Ok(()) }
        };
        sync_above(Path::new("/home/ann/state/taskgate.db"), note).unwrap();
        assert_eq!(synced.into_inner(), ["/home/ann/state", "/home/ann", "/home", "/"]);
    }

    #[test]
    fn r3_3_a_folder_whose_sync_fails_is_an_error_that_names_the_store() {
        let broken = sync_above(Path::new("/a/b/taskgate.db"), |folder| match folder.to_str() {
            Some("/a") => Err(io::Error::other("the disk is gone")),
            _ => Ok(()),
        });
        let error = cannot_write("/a/b/taskgate.db", &broken.unwrap_err());
        assert_eq!(error.to_string(), "could not open /a/b/taskgate.db: the disk is gone");
    }

    #[cfg(unix)]
    #[test]
    fn r3_3_the_names_of_real_folders_can_be_made_durable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("taskgate.db");
        make_names_durable(&path, "here").unwrap();
        let nowhere = make_names_durable(&folder.path().join("none/taskgate.db"), "here");
        assert!(matches!(nowhere, Err(Error::Open { .. })), "{nowhere:?}");
    }
}
