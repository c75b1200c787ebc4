//! Where the keeper lives: its folder, who may enter it, and what stands there.
//!
//! The folder is in the user's state folder and not in `$XDG_RUNTIME_DIR`: hosts start servers with environments that
//! differ (the TypeScript SDK passes only HOME, LOGNAME, PATH, SHELL, TERM and USER), and one user must not get two
//! keepers. Only where nothing can be written there does it go elsewhere.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use nix::unistd::{Uid, User, geteuid};
use sha2::{Digest, Sha256};

/// Longest path of a socket: the smallest limit of the systems we run on, with the closing zero.
const SOCKET_PATH_MAX: usize = 104;

/// One place where a keeper may live.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    folder: PathBuf,
    is_fallback: bool,
}

/// Why a place cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Nothing can be written there; another place may do.
    #[error("could not write in {}: {source}", folder.display())]
    CannotWrite {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else could read or change what is kept there.
    #[error("{} cannot be trusted: {what}; {help}", folder.display())]
    Unsafe {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        what: String,
        /// What to do.
        help: String,
    },
}

impl Place {
    /// The place in this folder.
    #[must_use]
    pub fn at(folder: PathBuf, is_fallback: bool) -> Place {
        Place { folder, is_fallback }
    }

    /// The place beside a store of its own, where whoever owns that store listens: `taskgate.db.control`. It is the same
    /// for every way to write the path of a file that exists.
    #[must_use]
    pub fn of_store(store: &Path) -> Place {
        let whole = fs::canonicalize(store).unwrap_or_else(|_| store.to_owned());
        let mut name = whole.into_os_string();
        name.push(".control");
        Place::at(PathBuf::from(name), false)
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it is not the one in the state folder. Records in it survive every process, but perhaps no reboot.
    #[must_use]
    pub fn is_fallback(&self) -> bool {
        self.is_fallback
    }

    /// The file whose lock the keeper holds as long as it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.folder.join("lock")
    }

    /// The database.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.join("tasks.db")
    }

    /// What is remembered of workflows whose hosts are not here.
    #[must_use]
    pub fn workflows(&self) -> PathBuf {
        self.folder.join("workflows.json")
    }

    /// The keeper's log. Older ones have a number behind it.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("log").join("keeper.log")
    }

    /// The folder of the servers' logs.
    #[must_use]
    pub fn server_logs(&self) -> PathBuf {
        self.folder.join("log").join("servers")
    }

    /// The log of one server: its stderr, its starts and ends.
    #[must_use]
    pub fn server_log(&self, server: &str) -> PathBuf {
        // Names that we make fit as they are; one from elsewhere must not lead out of the folder.
        let plain: String = server.chars().map(|c| if matches!(c, '/' | '\0') { '-' } else { c }).collect();
        self.server_logs().join(format!("{plain}.log"))
    }

    /// The socket. Where the folder's own path is too long, it has a folder of its own in `/tmp`.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        let own = self.folder.join("sock");
        match self.socket_folder() {
            None => own,
            Some(folder) => folder.join("sock"),
        }
    }

    fn socket_folder(&self) -> Option<PathBuf> {
        let own = self.folder.join("sock");
        if own.as_os_str().len() < SOCKET_PATH_MAX {
            return None;
        }
        let hash = HEXLOWER.encode(&Sha256::digest(self.folder.as_os_str().as_bytes()));
        Some(PathBuf::from(format!("/tmp/taskgate-{}-{}", geteuid(), hash.get(..8).unwrap_or_default())))
    }

    /// Makes the folders that are missing, and checks those that are there.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn prepare(&self) -> Result<(), Trouble> {
        make(&self.folder)?;
        for folder in [self.folder.join("log"), self.server_logs()] {
            make(&folder)?;
        }
        self.prepare_socket()
    }

    /// Makes only what the socket needs.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn prepare_socket(&self) -> Result<(), Trouble> {
        make(&self.folder)?;
        match self.socket_folder() {
            Some(folder) => make(&folder),
            None => Ok(()),
        }
    }

    /// Whether the folder is there and fit to be talked into. A caller checks it before it connects: a socket in a
    /// folder of somebody else would be theirs.
    ///
    /// # Errors
    /// [`Trouble::Unsafe`]
    pub fn check(&self) -> Result<bool, Trouble> {
        let folders = [Some(self.folder.clone()), self.socket_folder()];
        for folder in folders.into_iter().flatten() {
            match check(&folder) {
                Ok(()) => {}
                Err(Trouble::CannotWrite { .. }) => return Ok(false),
                Err(unfit @ Trouble::Unsafe { .. }) => return Err(unfit),
            }
        }
        Ok(true)
    }
}

/// All places of this user, in the order in which they are tried.
///
/// `state` is the user's state folder for taskgate, `runtime` is `$XDG_RUNTIME_DIR`.
#[must_use]
pub fn candidates(state: Option<&Path>, runtime: Option<&Path>) -> Vec<Place> {
    let uid = geteuid();
    // Hosts that pass no XDG_RUNTIME_DIR must find what others started there.
    let usual = PathBuf::from(format!("/run/user/{uid}"));
    let runtime = runtime.map(Path::to_owned).or_else(|| usual.is_dir().then_some(usual));
    let mut places: Vec<Place> = Vec::new();
    places.extend(state.map(|state| Place::at(state.join("keeper"), false)));
    places.extend(runtime.map(|runtime| Place::at(runtime.join("taskgate"), true)));
    places.push(Place::at(PathBuf::from(format!("/tmp/taskgate-{uid}")), true));
    places
}

/// The user's home by the system's word, for hosts that pass no HOME.
#[must_use]
pub fn home() -> Option<PathBuf> {
    User::from_uid(geteuid()).ok().flatten().map(|user| user.dir)
}

fn make(folder: &Path) -> Result<(), Trouble> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    match made {
        Ok(()) => check(folder),
        // A file, or a link to nowhere, stands in its place: the check says so.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => check(folder),
        Err(source) => Err(Trouble::CannotWrite { folder: folder.to_owned(), source }),
    }
}

fn check(folder: &Path) -> Result<(), Trouble> {
    let found = fs::symlink_metadata(folder)
        .map_err(|source| Trouble::CannotWrite { folder: folder.to_owned(), source })?;
    let refuse = |what: String, help: String| Err(Trouble::Unsafe { folder: folder.to_owned(), what, help });
    if found.is_symlink() {
        return refuse("it is a symbolic link".to_owned(), "remove the link".to_owned());
    }
    if !found.is_dir() {
        return refuse("it is no folder".to_owned(), "move it away".to_owned());
    }
    if found.uid() != geteuid().as_raw() {
        let owner = User::from_uid(Uid::from_raw(found.uid())).ok().flatten();
        let owner = owner.map_or_else(|| format!("user {}", found.uid()), |user| user.name);
        return refuse(format!("it belongs to {owner}"), "move it away, or have its owner do so".to_owned());
    }
    if found.mode() & 0o077 != 0 {
        return refuse(
            format!("others than you may enter it (its mode is {:o})", found.mode() & 0o777),
            format!("run `chmod 700 {}`", folder.display()),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn place(folder: &Path) -> Place {
        Place::at(folder.join("state/keeper"), false)
    }

    #[test]
    fn folders_are_made_for_their_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        assert!(!place.check().unwrap());
        place.prepare().unwrap();
        assert!(place.check().unwrap());
        for made in [folder.path().join("state"), place.folder().to_owned(), place.server_logs()] {
            assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o700, "{}", made.display());
        }
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        place.prepare().unwrap();
        fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o750)).unwrap();
        let said = place.prepare().unwrap_err().to_string();
        assert!(said.contains("chmod 700"), "{said}");
        assert!(place.check().is_err());
    }

    #[test]
    fn a_link_and_a_file_in_its_place_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path());
        fs::create_dir(folder.path().join("state")).unwrap();
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        symlink(folder.path().join("elsewhere"), place.folder()).unwrap();
        assert!(matches!(place.prepare(), Err(Trouble::Unsafe { .. })));
        fs::remove_file(place.folder()).unwrap();
        symlink(folder.path().join("nowhere"), place.folder()).unwrap();
        assert!(matches!(place.prepare(), Err(Trouble::Unsafe { .. })));
        fs::remove_file(place.folder()).unwrap();
        fs::write(place.folder(), "").unwrap();
        assert!(matches!(place.prepare(), Err(Trouble::Unsafe { .. })));
    }

    #[test]
    fn a_socket_path_that_is_too_long_goes_to_a_folder_of_its_own() {
        let long = Place::at(PathBuf::from("/").join("x".repeat(120)), false);
        let socket = long.socket();
        assert!(socket.starts_with("/tmp"), "{}", socket.display());
        assert!(socket.as_os_str().len() < SOCKET_PATH_MAX);
        let other = Place::at(PathBuf::from("/").join("y".repeat(120)), false);
        assert_ne!(socket, other.socket());
        assert_eq!(Place::at("/a".into(), false).socket(), Path::new("/a/sock"));
    }

    #[test]
    fn r4_9_the_place_of_a_store_is_the_same_by_every_path_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("tasks.db");
        fs::write(&store, "").unwrap();
        symlink(&store, folder.path().join("link.db")).unwrap();
        let place = Place::of_store(&store);
        assert!(place.folder().ends_with("tasks.db.control"));
        assert_eq!(place, Place::of_store(&folder.path().join("link.db")));
        place.prepare_socket().unwrap();
        assert_eq!(fs::metadata(place.folder()).unwrap().mode() & 0o777, 0o700);
        assert!(!place.server_logs().exists());
    }

    #[test]
    fn a_servers_name_does_not_lead_out_of_the_log_folder() {
        let place = Place::at("/a".into(), false);
        assert_eq!(place.server_log("../x"), Path::new("/a/log/servers/..-x.log"));
    }

    #[test]
    fn the_state_folder_comes_first_and_tmp_last() {
        let places = candidates(Some(Path::new("/s/taskgate")), Some(Path::new("/r")));
        let folders: Vec<_> = places.iter().map(|place| place.folder().to_owned()).collect();
        assert_eq!(folders[0], Path::new("/s/taskgate/keeper"));
        assert_eq!(folders[1], Path::new("/r/taskgate"));
        assert!(folders[2].starts_with("/tmp"));
        assert_eq!(places.iter().map(Place::is_fallback).collect::<Vec<_>>(), [false, true, true]);
    }
}
