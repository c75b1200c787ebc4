//! Starting a keeper that outlives who started it.
//!
//! Three processes take part. `run` starts the *first* one and waits for it; that one leaves the session and the open
//! files of the host behind, starts the *second* and ends; so the second, the keeper, is nobody's child but init's and
//! can never have a terminal. It holds the writing end of a pipe on its stderr until it is ready: what it says there is
//! why it is not.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::SigSet;
use serde::{Deserialize, Serialize};

use crate::place::Place;

/// The hidden command by which a keeper is started.
pub const COMMAND: &str = "__keeper";
/// Its flag for the keeper's folder.
pub const FOLDER: &str = "--folder";
/// Its flag for the second process.
pub const DETACHED: &str = "--detached";
/// Its flag for a folder that is not the usual one.
pub const FALLBACK: &str = "--fallback";

/// What the keeper keeps of the environment it is started in. The rest is the first host's and may be secret: it must
/// not stand in the keeper's environment for its whole life, nor reach other hosts' servers. Names beginning with
/// `TASKGATE_` are kept too.
const KEPT: [&str; 13] = [
    "HOME",
    "PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    // Where backtraces go when a developer of ours looks for one.
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
];

/// How long a keeper has to be ready: a large database is checked and recovered in this time.
const READY: Duration = Duration::from_secs(10);

/// Longest complaint that is read.
const WORDS_MAX: u64 = 64 << 10;

/// Why a keeper did not become one, as it tells it on its stderr.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Complaint {
    /// Whether another place may do: this one cannot be written.
    pub elsewhere: bool,
    /// What is wrong and what to do.
    pub message: String,
}

/// Why no keeper was started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It said so itself.
    #[error("{}", .0.message)]
    Said(Complaint),
    /// It could not even be begun.
    #[error("could not start the keeper: {0}")]
    Io(#[from] io::Error),
    /// It did not get ready.
    #[error("the keeper was not ready within {} s; its log may say why: {}", READY.as_secs(), log.display())]
    Late {
        /// Its log.
        log: PathBuf,
    },
}

/// Starts a keeper in `place` and waits until it is ready, or until it is clear that another one is.
///
/// # Errors
/// [`StartError`]
pub fn start(place: &Place, environment: &[(OsString, OsString)]) -> Result<(), StartError> {
    let mut first = command(place)
        .env_clear()
        .envs(environment.iter().filter(|(name, _)| is_kept(name)).map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let words = first.stderr.take();
    // It ends as soon as it has started the second one. Not to wait for it would leave a zombie.
    first.wait()?;
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("start".into()).spawn(move || {
        let mut text = Vec::new();
        let read = words.map_or(Ok(0), |words| words.take(WORDS_MAX).read_to_end(&mut text));
        // Whoever waited may have given up.
        let _ = sender.send(read.map(|_| text));
    })?;
    match receiver.recv_timeout(READY) {
        Ok(Ok(text)) if text.iter().all(u8::is_ascii_whitespace) => Ok(()),
        Ok(Ok(text)) => Err(StartError::Said(read_complaint(&text))),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(StartError::Late { log: place.log() }),
    }
}

/// What the first process does: leaves the host's session and files, and starts the second.
///
/// # Errors
/// The system's.
pub fn detach(place: &Place) -> io::Result<()> {
    close_inherited_files();
    // Signals that wait in who started us would wait in the keeper and in all servers.
    SigSet::empty().thread_set_mask()?;
    // Fails only for the leader of a group, whom nobody can be born as.
    nix::unistd::setsid()?;
    command(place).arg(DETACHED).spawn().map(drop)
}

/// What the keeper calls when it is ready: nobody listens on its stderr from here on.
///
/// # Errors
/// The system's.
pub fn ready() -> io::Result<()> {
    let nowhere = fs::OpenOptions::new().write(true).open("/dev/null")?;
    Ok(nix::unistd::dup2_stderr(nowhere)?)
}

/// The line in which a keeper complains.
#[must_use]
pub fn complaint(complaint: &Complaint) -> String {
    serde_json::to_string(complaint).unwrap_or_else(|_| complaint.message.clone())
}

fn read_complaint(text: &[u8]) -> Complaint {
    // What is no complaint of ours, such as the linker's or a panic's, is told as it is.
    serde_json::from_slice(text).unwrap_or_else(|_| Complaint {
        elsewhere: false,
        message: format!("the keeper did not start: {}", String::from_utf8_lossy(text).trim()),
    })
}

fn command(place: &Place) -> Command {
    let mut command = Command::new(this_program());
    command.arg(COMMAND).arg(FOLDER).arg(place.folder());
    if place.is_fallback() {
        command.arg(FALLBACK);
    }
    command
}

/// This program's file. Linux says ` (deleted)` behind the path of one that was replaced while it ran: the new one
/// stands at the plain path then.
#[must_use]
pub fn this_program() -> PathBuf {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("taskgate"));
    undeleted(path, Path::exists)
}

fn undeleted(path: PathBuf, exists: impl Fn(&Path) -> bool) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(plain) if !exists(&path) => {
            let plain = PathBuf::from(OsString::from_vec(plain.to_vec()));
            if exists(&plain) { plain } else { path }
        }
        Some(_) | None => path,
    }
}

fn is_kept(name: &OsStr) -> bool {
    KEPT.iter().any(|kept| name == *kept) || name.as_bytes().starts_with(b"TASKGATE_")
}

/// A host may have left files of its own open for its children: the end of another server's pipe, for instance, which
/// would never close while the keeper lives.
fn close_inherited_files() {
    let Ok(open) = fs::read_dir("/dev/fd") else { return };
    let numbers: Vec<i32> = open
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|number| *number > 2)
        .collect();
    for number in numbers {
        // The listing's own file is among them, and closed already.
        let _ = nix::unistd::close(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_program_is_started_from_its_plain_path() {
        let replaced = PathBuf::from("/bin/taskgate (deleted)");
        let plain = Path::new("/bin/taskgate");
        assert_eq!(undeleted(replaced.clone(), |path| path == plain), plain);
        assert_eq!(undeleted(replaced.clone(), |_| false), replaced);
        assert_eq!(undeleted(replaced.clone(), |_| true), replaced);
    }

    #[test]
    fn the_hosts_secrets_do_not_reach_the_keeper() {
        assert!(is_kept(OsStr::new("HOME")));
        assert!(is_kept(OsStr::new("TASKGATE_LOG")));
        assert!(!is_kept(OsStr::new("OPENAI_API_KEY")));
        assert!(!is_kept(OsStr::new("HOMEBREW_TOKEN")));
    }

    #[test]
    fn words_that_are_no_complaint_are_told_as_they_are() {
        let said = Complaint { elsewhere: true, message: "no space".into() };
        assert_eq!(read_complaint(complaint(&said).as_bytes()), said);
        let odd = read_complaint(b"error while loading shared libraries\n");
        assert!(odd.message.contains("shared libraries") && !odd.elsewhere, "{odd:?}");
    }
}
