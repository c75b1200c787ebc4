//! Where a play is set: a person's home folder, in which hosts start servers.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::crowd::Crowd;
use crate::host::{Client, Host};
use crate::pace::pace;

/// How long anything may take on a machine that has other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// After so much idleness the keeper leaves. Long enough for Inspector, which comes anew for each turn.
const IDLE: &str = "5s";

/// How people start their servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Launch {
    Node,
    Python,
    /// An npm package, by npx.
    Npx,
    /// In an environment that uvx makes.
    Uvx,
    /// The child of a shell.
    Script,
    /// As `docker run -i` would.
    Container,
}

pub(crate) struct Home {
    folder: TempDir,
    /// Put before a host's command; see `room`.
    pub(crate) around: Vec<String>,
}

pub(crate) fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers").canonicalize().unwrap()
}

/// Where the peers are installed.
fn installed() -> PathBuf {
    #[expect(
        clippy::disallowed_methods,
        reason = "where tests/peers/install put them, as in its own scripts"
    )]
    let given = std::env::var_os("TASKGATE_PEERS").map(PathBuf::from);
    let installed = given.unwrap_or_else(|| peers().join("../../target/peers"));
    installed.canonicalize().unwrap_or_else(|_| panic!("no peers are installed: run tests/peers/install"))
}

impl Home {
    pub(crate) fn new() -> Home {
        // Not in /tmp, where the keeper may go when a home is no good.
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for name in ["home", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Home { folder, around: Vec::new() }
    }

    /// `HOME`.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// The folder in which servers are started.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The server's command, as a person would write it.
    pub(crate) fn server(&self, launch: Launch) -> Vec<String> {
        let at = |name: &str| peers().join(name).to_str().unwrap().to_owned();
        let installed = installed();
        let in_peers = |name: &str| installed.join(name).to_str().unwrap().to_owned();
        let words: Vec<String> = match launch {
            Launch::Node => vec![at("serve"), "node_plain".into()],
            Launch::Python => vec![at("serve"), "python_plain".into()],
            Launch::Npx => vec!["npx".into(), "-y".into(), format!("file:{}", at("servers/npm"))],
            Launch::Uvx => ["uvx", "--quiet", "--offline", "--no-index", "--python"]
                .map(String::from)
                .into_iter()
                .chain([in_peers("venv-plain/bin/python"), "--find-links".into(), in_peers("wheels")])
                .chain(["--with-requirements".into(), at("requirements-plain.txt")])
                .chain(["--from", "mcp", "python"].map(String::from))
                .chain([at("servers/python_plain.py")])
                .collect(),
            Launch::Script => vec![at("servers/script.sh"), "node_plain".into()],
            Launch::Container => {
                vec![
                    in_peers("venv-plain/bin/python"),
                    at("servers/container.py"),
                    at("serve"),
                    "python_plain".into(),
                ]
            }
        };
        words
    }

    /// The same with taskgate before it.
    pub(crate) fn run(&self, flags: &[&str], launch: Launch) -> Vec<String> {
        let own = [env!("CARGO_BIN_EXE_taskgate"), "run"];
        let words = own.iter().chain(pace().flags()).chain(flags).chain(&["--"]);
        words.map(|word| (*word).to_owned()).chain(self.server(launch)).collect()
    }

    /// What stands in `env` of the server's entry in mcp.json.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let installed = installed();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        [
            ("TASKGATE_PEERS", text(&installed)),
            ("TASKGATE_KEEPER_IDLE", IDLE.into()),
            ("PEER_JOURNAL", text(&self.journal_file())),
            ("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", text(&installed.join("bin")))),
            ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// A program as a host of this person would be started.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut words = self.around.iter().map(String::as_str).chain([program]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear().current_dir(self.work());
        for name in ["USER", "LOGNAME"] {
            command.env(name, "player");
        }
        command
            .env("HOME", self.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("SHELL", "/bin/sh")
            .env("TERM", "dumb")
            .env("TASKGATE_PEERS", installed());
        command
    }

    /// A host that starts `server`, once it has seen the tools.
    pub(crate) fn host(&self, client: Client, options: &[&str], server: &[String]) -> Host {
        Host::start(self, client, options, server)
    }

    fn journal_file(&self) -> PathBuf {
        self.file("journal")
    }

    /// How often the servers of this home began, ended or gave up (`phase`) what has this mark in its arguments.
    pub(crate) fn times(&self, mark: &str, phase: &str) -> usize {
        let journal = fs::read_to_string(self.journal_file()).unwrap_or_default();
        let lines = journal.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["phase"] == phase && line["args"].to_string().contains(mark)).count()
    }

    /// Waits until a call has arrived at the server, or ended there, for the `times`th time.
    pub(crate) fn until(&self, mark: &str, phase: &str, times: usize) {
        until(&format!("the call {mark} has its {phase} number {times}"), pace().tool() + PATIENCE, || {
            (self.times(mark, phase) >= times).then_some(())
        });
    }

    pub(crate) fn crowd(&self) -> Crowd {
        Crowd::of(&self.path())
    }

    /// Exactly one keeper and one server, and no dead child left lying: once those have gone that came second, and those that
    /// have ended are waited for. How often a server was started is in the journal.
    pub(crate) fn has_one_of_each(&self) -> Crowd {
        let begun = Instant::now();
        loop {
            let crowd = self.crowd();
            let counts = (crowd.keepers().len(), crowd.servers().len(), crowd.zombies);
            if counts == (1, 1, 0) {
                return crowd;
            }
            assert!(begun.elapsed() < PATIENCE, "keepers, servers, zombies: {counts:?}, {crowd}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Once every host has left, all that belongs to this home goes away by itself.
    pub(crate) fn empties(&self) -> String {
        let begun = Instant::now();
        let left = || self.crowd();
        while !left().is_empty() {
            assert!(begun.elapsed() < PATIENCE, "somebody stays: {}", left());
            thread::sleep(Duration::from_millis(100));
        }
        format!("nobody left after {:.1} s", begun.elapsed().as_secs_f64())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if thread::panicking() {
            // Past the harness, which would keep it for the test that happened to start all plays, and drop it with that one.
            let say = |words: String| drop(std::io::stderr().write_all(words.as_bytes()));
            let tell = |path: &Path| {
                if let Ok(text) = fs::read_to_string(path) {
                    say(format!("--- {}\n{text}", path.display()));
                }
            };
            say(format!("--- {}", self.crowd()));
            tell(&self.journal_file());
            tell(&self.file("stderr"));
            tell(&self.path().join(".local/state/taskgate/keeper/log/keeper.log"));
        }
        // Those that start others must not do so between two looks.
        for _ in 0..50 {
            let crowd = self.crowd();
            if crowd.is_empty() {
                break;
            }
            crowd.kill();
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Looks until there is something to be seen.
pub(crate) fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < within, "{what}: not within {within:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A word that tells one call from all others.
pub(crate) fn mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static MARKS: AtomicU32 = AtomicU32::new(0);
    format!("m{}x", MARKS.fetch_add(1, Ordering::SeqCst))
}
