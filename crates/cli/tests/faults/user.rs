//! What a user reads and says: the commands `ops`, `op show`, `ops export`, `resolve` and `reconcile` of the whole binary, which
//! ask the gateway that runs.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Child;
use tokio::time::Instant;

use crate::ledger::{Entry, Event, REST};
use crate::world::World;

/// An operation as a user reads it, with its history where that was asked for.
pub(crate) type Shown = (Entry, Vec<Event>);

/// What a command came to.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Starts a command of a person.
pub(crate) fn start(world: &World, words: &[&str]) -> Child {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_taskgate"));
    command.args(words).arg("--store").arg(world.path("store/tasks.db")).env("NO_COLOR", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// Waits for its end.
pub(crate) async fn end(command: Child) -> Said {
    let came = tokio::time::timeout(REST, command.wait_with_output()).await;
    let came = came.expect("a command ends").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: came.status.code(), out: text(came.stdout), err: text(came.stderr) }
}

pub(crate) async fn run(world: &World, words: &[&str]) -> Said {
    end(start(world, words)).await
}

async fn read(world: &World, words: &[&str]) -> String {
    let said = run(world, words).await;
    assert_eq!(said.code, Some(0), "{words:?}: {}", said.err);
    said.out
}

/// All operations, with their history, as the gateway that runs prints them.
pub(crate) async fn export(world: &World) -> Vec<Shown> {
    let text = read(world, &["ops", "export"]).await;
    text.lines().map(|line| Entry::shown(&serde_json::from_str(line).unwrap())).collect()
}

/// The list of those that wait for a person, and whether there is somebody who could be asked.
pub(crate) async fn waiting(world: &World) -> Vec<(Entry, bool)> {
    let text = read(world, &["ops", "--waiting", "--all", "--json"]).await;
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    list.iter().map(|shown| (Entry::shown(shown).0, shown["can_be_asked"] == true)).collect()
}

/// One operation.
pub(crate) async fn show(world: &World, id: &str) -> Shown {
    Entry::shown(&serde_json::from_str(&read(world, &["op", "show", id, "--json"]).await).unwrap())
}

/// Waits until nothing goes on about any operation, and reads them all. What does not come to rest is handed out too.
pub(crate) async fn until_rest(world: &World) -> Vec<Shown> {
    let by = Instant::now() + REST;
    loop {
        let shown = export(world).await;
        if shown.iter().all(|(entry, _)| entry.is_quiet()) || Instant::now() > by {
            return shown;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
