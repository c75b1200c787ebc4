//! What can be opened, by whom, and what is said of the rest.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use taskgate_store::conformance::sample::{CREATED, assert_kept, dispatch, put, record, succeed, tell};
use taskgate_store::{Error, Store};
use taskgate_store_sqlite::SqliteStore;

use crate::child::{Actor, order, say};

fn refusal(path: &Path) -> Error {
    SqliteStore::open(path).expect_err("it cannot be opened")
}

#[cfg(unix)]
#[test]
fn r6_3_new_files_and_folders_are_the_owner_s_alone() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/folders/taskgate.db");
    let store = SqliteStore::open(&path).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(put(&store, &record("one")));
    let mode = |name: &str| {
        let found = fs::metadata(folder.path().join("new").join(name)).unwrap();
        found.permissions().mode() & 0o777
    };
    assert_eq!(mode(""), 0o700);
    assert_eq!(mode("folders"), 0o700);
    for name in ["taskgate.db", "taskgate.db-wal", "taskgate.db-shm", "taskgate.db.lock"] {
        assert_eq!(mode(&format!("folders/{name}")), 0o600, "{name}");
    }
}

#[test]
fn one_process_has_a_file_and_another_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let mut actor = Actor::play("opening::holds_the_file", &path.display().to_string());
    assert_eq!(actor.hear().as_deref(), Some("open"));
    let error = refusal(&path);
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains("in use by another taskgate process"));
    actor.kill();
    actor.wait();
    SqliteStore::open(&path).unwrap();
}

#[test]
#[ignore = "plays the child"]
fn holds_the_file() {
    let path = order();
    if path.is_empty() {
        return;
    }
    let _store = SqliteStore::open(Path::new(&path)).unwrap();
    say("open");
    // Until it is killed: nobody writes to its input any more.
    order();
    std::thread::park();
}

#[cfg(unix)]
#[test]
fn two_names_of_one_file_share_one_lock() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let store = SqliteStore::open(&path).unwrap();
    let name = folder.path().join("other-name.db");
    std::os::unix::fs::symlink(&path, &name).unwrap();
    assert!(matches!(refusal(&name), Error::InUse { .. }));
    assert!(matches!(refusal(&path), Error::InUse { .. }));
    drop(store);
    SqliteStore::open(&name).unwrap();
}

#[tokio::test]
async fn a_dropped_store_has_written_everything_and_lets_go_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    for round in 0..20 {
        let store = SqliteStore::open(&path).unwrap();
        put(&store, &record(&format!("task-{round}"))).await;
        // A reader's connection does not keep it either.
        assert_kept(&store, &record(&format!("task-{round}"))).await;
    }
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the log is in the file: {left:?}");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    drop(SqliteStore::open(&path).unwrap());
    let database = Connection::open(&path).unwrap();
    database.pragma_update(None, "user_version", 99).unwrap();
    drop(database);
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, Error::Newer { found: 99, known: 8, .. }), "{error:?}");
    assert!(error.to_string().contains("use a newer taskgate"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn another_program_s_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let database = Connection::open(&path).unwrap();
    database.execute_batch("CREATE TABLE theirs (a)").unwrap();
    drop(database);
    let before = fs::read(&path).unwrap();
    let error = refusal(&path);
    assert!(matches!(error, Error::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("another program"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn what_is_not_a_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let text = "dear diary, ".repeat(1000);
    fs::write(&path, &text).unwrap();
    let error = refusal(&path);
    assert!(matches!(&error, Error::Damaged { detail, .. } if detail == "it is not a database"), "{error:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(matches!(refusal(folder.path()), Error::Open { .. }));
    assert!(matches!(refusal(Path::new("/")), Error::Open { .. }));
}

#[tokio::test]
async fn a_damaged_file_is_told_apart_from_a_sound_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let store = SqliteStore::open(&path).unwrap();
    for number in 0..200 {
        let new = record(&format!("task-{number:03}"));
        put(&store, &new).await;
        let sent = tell(&store, &new, CREATED, vec![dispatch()]).await;
        tell(&store, &sent, CREATED, succeed()).await;
    }
    store.close().await;
    drop(store);
    let sound = fs::read(&path).unwrap();
    assert!(sound.len() > 40 * 4096);

    // A page of noise, a page of nothing, and an end cut off.
    let page = 20 * 4096..21 * 4096;
    let mut noise = sound.clone();
    noise[page.clone()].fill(0xa5);
    let mut blank = sound.clone();
    blank[page].fill(0);
    let cut = sound[..sound.len() / 2].to_vec();
    for (name, damaged) in [("noise", noise), ("blank", blank), ("cut", cut)] {
        fs::write(&path, damaged).unwrap();
        let error = refusal(&path);
        assert!(matches!(error, Error::Damaged { .. }), "{name}: {error:?}");
        assert!(error.to_string().contains("restore it from a backup"), "{name}: {error}");
    }
    fs::write(&path, sound).unwrap();
    SqliteStore::open(&path).unwrap();
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    fs::write(&path, "").unwrap();
    let secret = SqliteStore::open(&path).unwrap().secret();
    assert_eq!(SqliteStore::open(&path).unwrap().secret(), secret);
    let other = SqliteStore::open(&folder.path().join("other.db")).unwrap();
    assert_ne!(other.secret(), secret);
}
