//! What is put in front of a server's command.
//!
//! A window that a desktop starts (Claude Desktop, Cursor, VS Code, Zed, goose) may have a shorter `PATH` than the shell in
//! which `taskgate` is found, so its own files get the whole path. A host that runs in a terminal has the shell's `PATH`,
//! and a file that belongs to a project is read on other machines too: there it is the name alone, as long as a shell
//! would find this very program by it.
//!
//! No `--name` is put in front. Without one, a server process belongs to its command, arguments, folder and environment:
//! two entries that have all of them alike may well share it, and two that differ in one do not collide.

use std::path::{Path, PathBuf};

use super::host::Host;
use super::places::Scope;
use crate::environment::Environment;

/// This taskgate, as hosts can name it.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Where it stands. If `PATH` leads to it, the way over `PATH`: that one lasts when a package manager replaces it.
    pub(crate) path: PathBuf,
    /// Whether `PATH` leads to it.
    is_on_path: bool,
}

impl Program {
    /// `current` is the path of the running program.
    pub(crate) fn find(current: PathBuf, environment: &Environment) -> Program {
        let real = std::fs::canonicalize(&current).unwrap_or_else(|_| current.clone());
        match environment.find_program("taskgate") {
            Some(found) if std::fs::canonicalize(&found).is_ok_and(|found| found == real) => {
                Program { path: found, is_on_path: true }
            }
            Some(_) | None => Program { path: current, is_on_path: false },
        }
    }

    /// How this host is told to start it; `None` if the path is no text.
    pub(crate) fn for_host(&self, host: Option<Host>, scope: Scope) -> Option<String> {
        let has_short_path = host.is_none_or(Host::is_window);
        if self.is_on_path && (scope == Scope::Project || !has_short_path) {
            return Some("taskgate".to_owned());
        }
        self.path.to_str().map(str::to_owned)
    }

    /// Whether a file that others read would name a path of this machine.
    pub(crate) fn is_of_this_machine(&self, scope: Scope) -> bool {
        scope == Scope::Project && !self.is_on_path
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
