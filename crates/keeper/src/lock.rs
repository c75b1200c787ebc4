//! That there is one keeper.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use crate::place::{Place, Trouble};

/// The right to be the keeper of a place. The system gives it back when the process ends, however it does. The file
/// stays: removing it would let two processes lock two files of one name.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "it is held, not used")] File);

impl Lock {
    /// Takes the lock; `None` if another process has it.
    ///
    /// # Errors
    /// [`Trouble::CannotWrite`]
    pub fn take(place: &Place) -> Result<Option<Lock>, Trouble> {
        let trouble = |source: io::Error| Trouble::CannotWrite { folder: place.folder().to_owned(), source };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(place.lock())
            .map_err(trouble)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(trouble(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_4_only_one_has_it_and_its_end_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::at(folder.path().join("keeper"), false);
        place.prepare().unwrap();
        let held = Lock::take(&place).unwrap();
        assert!(held.is_some());
        assert!(Lock::take(&place).unwrap().is_none());
        drop(held);
        assert!(Lock::take(&place).unwrap().is_some());
    }
}
