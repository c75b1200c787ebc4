//! Reading a file and writing it again, so that nothing is lost: with a backup, in one step, and only if nobody changed it in
//! between.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// No configuration is larger.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Backups of one file.
const BACKUPS_MAX: usize = 99;
/// What the name of a backup ends with.
const BACKUP: &str = ".taskgate-backup";

/// A file as it was read.
#[derive(Debug)]
pub(crate) struct Original {
    /// The file itself, where the path given leads over symbolic links.
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    metadata: Metadata,
}

/// Why a file was not written. It is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it changed since it was read")]
    Changed,
    #[error("it has {0} names (hard links), and writing it would leave the others behind")]
    Linked(u64),
    #[error("there are {BACKUPS_MAX} backups of it already")]
    Backups,
    #[error("{what} failed: {error}")]
    Io {
        what: &'static str,
        #[source]
        error: io::Error,
    },
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Refusal {
    move |error| Refusal::Io { what, error }
}

impl Original {
    pub(crate) fn read(path: &Path) -> io::Result<Original> {
        let path = fs::canonicalize(path)?;
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(io::Error::other(format!("it is larger than {} MiB", FILE_BYTES_MAX / 1024 / 1024)));
        }
        Ok(Original { path, bytes, metadata })
    }

    /// Puts `new` in the place of the file and gives the path of the backup, or of one from before that is the same.
    pub(crate) fn replace(&self, new: &[u8]) -> Result<PathBuf, Refusal> {
        self.check()?;
        let backup = match self.backups().into_iter().find(|path| self.is_as(path)) {
            Some(same) => same,
            None => self.back_up()?,
        };
        // The old words are safe before the new ones take their place.
        self.sync_folder();
        let fresh = self.beside(new)?;
        // As late as can be; what remains is the time of a rename.
        self.check()?;
        fresh.persist(&self.path).map_err(|error| failed("renaming the new file")(error.error))?;
        self.sync_folder();
        Ok(backup)
    }

    /// Removes the backups that are the same as `bytes`, which now stand in the file.
    pub(crate) fn drop_backups(&self, bytes: &[u8]) -> Vec<PathBuf> {
        let mut gone = Vec::new();
        for backup in self.backups() {
            if fs::read(&backup).is_ok_and(|kept| kept == bytes) && fs::remove_file(&backup).is_ok() {
                gone.push(backup);
            }
        }
        gone
    }

    fn check(&self) -> Result<(), Refusal> {
        if self.metadata.nlink() > 1 {
            return Err(Refusal::Linked(self.metadata.nlink()));
        }
        let now = Original::read(&self.path).map_err(failed("reading it again"))?;
        let is_same = now.bytes == self.bytes
            && (now.metadata.dev(), now.metadata.ino()) == (self.metadata.dev(), self.metadata.ino());
        if is_same { Ok(()) } else { Err(Refusal::Changed) }
    }

    /// `FILE.taskgate-backup`, `FILE.taskgate-backup-2` and so on.
    fn backup_path(&self, number: usize) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(BACKUP);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        self.path.with_file_name(name)
    }

    fn backups(&self) -> Vec<PathBuf> {
        (1..=BACKUPS_MAX).map(|number| self.backup_path(number)).filter(|path| path.is_file()).collect()
    }

    fn is_as(&self, backup: &Path) -> bool {
        fs::read(backup).is_ok_and(|bytes| bytes == self.bytes)
    }

    fn back_up(&self) -> Result<PathBuf, Refusal> {
        let mut copy = self.beside(&self.bytes)?;
        for number in 1..=BACKUPS_MAX {
            let path = self.backup_path(number);
            match copy.persist_noclobber(&path) {
                Ok(_) => return Ok(path),
                Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => copy = error.file,
                Err(error) => return Err(failed("keeping a backup")(error.error)),
            }
        }
        Err(Refusal::Backups)
    }

    /// A file in the same folder, with this content and the rights and owner of the original, safe on disk.
    fn beside(&self, bytes: &[u8]) -> Result<NamedTempFile, Refusal> {
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        let mut file = Builder::new()
            .prefix(".taskgate-")
            .tempfile_in(folder)
            .map_err(failed("making a file in its folder"))?;
        file.write_all(bytes).map_err(failed("writing"))?;
        let own = file.as_file().metadata().map_err(failed("writing"))?;
        let (uid, gid) = (self.metadata.uid(), self.metadata.gid());
        if (own.uid(), own.gid()) != (uid, gid) {
            fchown(file.as_file(), Some(uid), Some(gid)).map_err(failed("keeping its owner"))?;
        }
        file.as_file().set_permissions(self.metadata.permissions()).map_err(failed("keeping its rights"))?;
        file.as_file().sync_all().map_err(failed("writing"))?;
        Ok(file)
    }

    fn sync_folder(&self) {
        // The file is there either way; this only makes it last through a loss of power.
        if let Some(Ok(folder)) = self.path.parent().map(File::open) {
            let _ = folder.sync_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_behind_its_link_with_its_rights_and_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        let backup = Original::read(&link).unwrap().replace(b"new").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&backup).unwrap(), b"old");
        for file in [&real, &backup] {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o640);
        }
        assert_eq!(names(folder.path()), ["link.json", "real.json", "real.json.taskgate-backup"]);
    }

    #[test]
    fn a_backup_is_never_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "1").unwrap();
        Original::read(&file).unwrap().replace(b"2").unwrap();
        let second = Original::read(&file).unwrap().replace(b"1").unwrap();
        assert_eq!(second.file_name().unwrap(), "a.taskgate-backup-2");
        // A backup with these bytes is there already.
        let same = Original::read(&file).unwrap().replace(b"3").unwrap();
        assert_eq!(same.file_name().unwrap(), "a.taskgate-backup");
        let original = Original::read(&file).unwrap();
        assert_eq!(original.drop_backups(b"2").len(), 1);
        assert_eq!(names(folder.path()), ["a", "a.taskgate-backup"]);
    }

    #[test]
    fn a_file_that_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "1").unwrap();
        let original = Original::read(&file).unwrap();
        fs::write(&file, "other").unwrap();
        assert!(matches!(original.replace(b"2"), Err(Refusal::Changed)));
        assert_eq!(fs::read(&file).unwrap(), b"other");
        assert_eq!(names(folder.path()), ["a"]);
    }

    #[test]
    fn a_file_with_several_names_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs::write(&file, "1").unwrap();
        fs::hard_link(&file, folder.path().join("b")).unwrap();
        assert!(matches!(Original::read(&file).unwrap().replace(b"2"), Err(Refusal::Linked(2))));
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Original::read(folder.path()).is_err());
    }
}
