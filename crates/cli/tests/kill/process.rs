//! Processes that end with this one, however it ends.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tokio::time::Instant;

/// How long anything may take on a machine that has other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

type Order = (Command, Sender<io::Result<Child>>);

/// Starts a process that the kernel kills when we end.
///
/// The kernel watches the thread that started it, and a test's thread ends with the test. So one thread starts them
/// all, and stays. What it says on stderr goes to the end of `log`.
pub(crate) fn spawn(command: &Command, log: &Path) -> Child {
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, incoming) = channel::<Order>();
        thread::spawn(move || {
            for (mut command, started) in incoming {
                let _ = started.send(command.spawn());
            }
        });
        orders
    });
    let (started, outcome) = channel();
    spawner.send((guarded(command, log), started)).unwrap();
    outcome.recv().unwrap().unwrap()
}

fn guarded(command: &Command, log: &Path) -> Command {
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    let log = File::options().create(true).append(true).open(log).unwrap();
    guarded.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    guarded
}

/// Looks until there is something to be seen.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
