//! A user of their own: a state folder, a keeper, a scripted server with its journal, and hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::host::Host;

/// How long anything may take on a machine that has other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Looks until there is something to be seen.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// One user. What is left of them is ended with the test.
pub(crate) struct Scene {
    folder: TempDir,
    /// Set for every process of theirs.
    pub(crate) environment: Vec<(String, String)>,
}

impl Scene {
    /// A user whose keeper stays long enough not to end by itself.
    pub(crate) fn new() -> Scene {
        Scene::with_idle("10m")
    }

    pub(crate) fn with_idle(idle: &str) -> Scene {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let environment = [
            ("HOME", path("home")),
            ("XDG_STATE_HOME", path("state")),
            ("XDG_RUNTIME_DIR", path("run")),
            ("PATH", std::env::var("PATH").unwrap_or_default()),
            ("NO_COLOR", "1".to_owned()),
            ("TASKGATE_KEEPER_IDLE", idle.to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value)).to_vec();
        fs::create_dir(folder.path().join("home")).unwrap();
        Scene { folder, environment }
    }

    /// A file of the scene's.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The keeper's folder.
    pub(crate) fn keeper_folder(&self) -> PathBuf {
        self.path("state/taskgate/keeper")
    }

    /// The binary, as this user starts it.
    pub(crate) fn taskgate(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(args).env_clear().envs(self.environment.iter().cloned()).current_dir(self.folder.path());
        command
    }

    /// Runs it to its end.
    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.taskgate(args).stdin(Stdio::null()).output().unwrap()
    }

    /// What it prints as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.output(args);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{args:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    pub(crate) fn status(&self) -> Value {
        self.json(&["keeper", "status", "--json"])
    }

    pub(crate) fn keeper_pid(&self) -> i32 {
        until("a keeper runs", || self.status()["pid"].as_i64()).try_into().unwrap()
    }

    /// The scripted server's command in a mode.
    pub(crate) fn server(&self, mode: &str) -> Vec<String> {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keeper/server.py");
        ["python3".to_owned(), script.to_owned(), self.path("journal").display().to_string(), mode.to_owned()]
            .to_vec()
    }

    /// A host that starts the server through `run`.
    pub(crate) fn host(&self, flags: &[&str]) -> Host {
        self.host_of("good", flags)
    }

    pub(crate) fn host_of(&self, mode: &str, flags: &[&str]) -> Host {
        let server = self.server(mode);
        self.host_running(&server.iter().map(String::as_str).collect::<Vec<_>>(), flags)
    }

    pub(crate) fn host_running(&self, server: &[&str], flags: &[&str]) -> Host {
        let args = [&["run"], flags, &["--"], server].concat();
        Host::start(self.taskgate(&args))
    }

    /// The lines of the server's journal that begin so.
    pub(crate) fn journal(&self, start: &str) -> Vec<String> {
        let text = fs::read_to_string(self.path("journal")).unwrap_or_default();
        text.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
    }

    pub(crate) fn wait_for_journal(&self, start: &str, count: usize) {
        until(start, || (self.journal(start).len() >= count).then_some(()));
    }

    /// Lets calls go on that wait for this gate.
    pub(crate) fn open_gate(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    /// All processes that carry this user's environment.
    pub(crate) fn processes(&self) -> Vec<Process> {
        let mark = format!("XDG_STATE_HOME={}", self.path("state").display());
        processes(|process| {
            fs::read(format!("/proc/{}/environ", process.pid))
                .is_ok_and(|environ| environ.split(|&byte| byte == 0).any(|entry| entry == mark.as_bytes()))
        })
    }

    /// How many of them are such, pipes left aside: their command line ends in the server's.
    pub(crate) fn count(&self, what: &str) -> usize {
        let is_such =
            |process: &&Process| process.command.contains(what) && !process.command.contains("taskgate run ");
        self.processes().iter().filter(is_such).count()
    }

    /// There is one keeper, once those have ended that came second: whoever starts one when another starts one too finds the
    /// lock taken, and goes. For a moment a process that it starts looks like it, too.
    pub(crate) fn has_one_keeper(&self) {
        until("one keeper is left", || (self.count("__keeper") == 1).then_some(()));
    }

    /// Everything below the state folder, and everything else that a scene keeps, as bytes by path.
    pub(crate) fn files(&self, below: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.path(below)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                match kind {
                    kind if kind.is_dir() => folders.push(entry.path()),
                    // What SQLite keeps beside a database comes and goes.
                    kind if kind.is_file() => match fs::read(entry.path()) {
                        Ok(bytes) => files.push((entry.path(), bytes)),
                        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{entry:?}"),
                    },
                    _ => {}
                }
            }
        }
        files
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.keeper_folder().join("log/keeper.log")).unwrap_or_default()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in self.processes() {
            let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
        }
        if thread::panicking() {
            println!("--- the keeper's log\n{}", self.log());
            println!("--- the journal\n{}", self.journal("").join("\n"));
        }
    }
}

/// A process as `/proc` shows it.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// `Z` for a zombie.
    pub(crate) state: char,
    pub(crate) command: String,
}

/// All processes that are such.
pub(crate) fn processes(is_such: impl Fn(&Process) -> bool) -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(process).filter(|process| is_such(process)).collect()
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let (state, parent) = (rest.next()?.chars().next()?, rest.next()?.parse().ok()?);
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    Some(Process { pid, parent, state, command })
}

pub(crate) fn is_alive(pid: i32) -> bool {
    process(pid).is_some_and(|process| process.state != 'Z')
}

pub(crate) fn kill_9(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

/// Whether `text` stands anywhere in `bytes`.
pub(crate) fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
