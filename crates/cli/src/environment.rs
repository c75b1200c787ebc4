//! The process environment, read once, here and nowhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the environment said when we started.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

// Values may be secrets.
impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Environment({} variables)", self.variables.len())
    }
}

impl Environment {
    /// Reads it.
    pub(crate) fn read() -> Environment {
        Environment { variables: std::env::vars_os().collect() }
    }

    /// One made up of these variables.
    #[cfg(test)]
    pub(crate) fn of<const N: usize>(variables: [(&str, &str); N]) -> Environment {
        Environment {
            variables: variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        }
    }

    /// All of it, for a server that is to be started with just this.
    pub(crate) fn all(&self) -> Vec<(OsString, OsString)> {
        self.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// `$XDG_RUNTIME_DIR`.
    pub(crate) fn runtime_dir(&self) -> Option<PathBuf> {
        self.filled("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// A variable; `None` if it is not set, or not text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.variables.get(std::ffi::OsStr::new(name))?.to_str()
    }

    /// A variable that counts only if it is not empty.
    fn filled(&self, name: &str) -> Option<&std::ffi::OsStr> {
        self.variables
            .get(std::ffi::OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|value| !value.is_empty())
    }

    /// The person's home.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.filled("HOME").map(PathBuf::from)
    }

    /// Where programs keep this user's configurations: `$XDG_CONFIG_HOME`, or `~/.config`.
    pub(crate) fn config_home(&self) -> Option<PathBuf> {
        let given = self.filled("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        given.or_else(|| self.home().map(|home| home.join(".config")))
    }

    /// Where goose keeps everything, if it was told to.
    pub(crate) fn goose_root(&self) -> Option<PathBuf> {
        self.filled("GOOSE_PATH_ROOT").map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// The file that a shell would start by this name.
    pub(crate) fn find_program(&self, name: &str) -> Option<PathBuf> {
        let folders = std::env::split_paths(self.filled("PATH")?).filter(|folder| folder.is_absolute());
        folders
            .map(|folder| folder.join(name))
            .find(|file| nix::unistd::access(file, nix::unistd::AccessFlags::X_OK).is_ok() && file.is_file())
    }

    /// Where this user's state is kept: `$XDG_STATE_HOME/taskgate`, or `~/.local/state/taskgate`.
    pub(crate) fn state_dir(&self) -> Option<PathBuf> {
        // The base directory specification has relative paths ignored.
        let given = self.filled("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = given.or_else(|| self.home().map(|home| home.join(".local/state")))?;
        Some(base.join("taskgate"))
    }

    /// Whether colours are unwelcome (no-color.org), or the terminal cannot show them.
    pub(crate) fn is_plain(&self) -> bool {
        self.filled("NO_COLOR").is_some() || self.text("TERM") == Some("dumb")
    }

    /// The filter of what is logged.
    pub(crate) fn log_filter(&self) -> Option<&str> {
        self.text("TASKGATE_LOG").filter(|filter| !filter.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_dir_follows_the_base_directory_specification() {
        let given = Environment::of([("XDG_STATE_HOME", "/s"), ("HOME", "/h")]);
        assert_eq!(given.state_dir(), Some(PathBuf::from("/s/taskgate")));
        let relative = Environment::of([("XDG_STATE_HOME", "s"), ("HOME", "/h")]);
        assert_eq!(relative.state_dir(), Some(PathBuf::from("/h/.local/state/taskgate")));
        assert_eq!(Environment::default().state_dir(), None);
    }

    #[test]
    fn debug_shows_no_values() {
        assert_eq!(format!("{:?}", Environment::of([("KEY", "hunter2")])), "Environment(1 variables)");
    }
}
