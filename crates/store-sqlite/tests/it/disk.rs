//! Disks that are full, read-only or broken.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use taskgate_core::time::Millis;
use taskgate_store::conformance::sample::{
    CREATED, EXPIRES, advance, assert_kept, dispatch, id, put, record, somebody, succeed, tell,
};
use taskgate_store::record::Record;
use taskgate_store::{AppendError, CreateError, Error, Join, Store};
use taskgate_store_sqlite::{Options, SqliteStore};

use crate::child::{Actor, order, say};

fn large(text: &str) -> Record {
    let mut record = record(text);
    record.call.params = Bytes::from(vec![b'x'; 20_000]);
    record
}

/// Fills the store with finished tasks until it will not take another; the ones it took.
async fn fill(store: &SqliteStore) -> (Vec<Record>, Error) {
    let mut taken = vec![];
    loop {
        let new = large(&format!("task-{:05}", taken.len()));
        match store.create(Arc::new(new.clone()), Join::Never).await {
            Ok(_) => {}
            Err(CreateError::Store(error)) => return (taken, error),
            Err(
                error @ (CreateError::KeyReused | CreateError::KeyElsewhere | CreateError::ObjectBusy(_)),
            ) => {
                panic!("there are neither keys nor objects: {error}")
            }
        }
        let sent = tell_or(store, &new, vec![dispatch()]).await;
        let over = match sent {
            Ok(sent) => tell_or(store, &sent, succeed()).await,
            Err(error) => Err(error),
        };
        match over {
            Ok(over) => taken.push(over),
            Err(error) => return (taken, error),
        }
    }
}

async fn tell_or(
    store: &SqliteStore,
    record: &Record,
    told: Vec<taskgate_store::conformance::sample::Told>,
) -> Result<Record, Error> {
    let (next, changes) = advance(record, CREATED, told);
    match store.append(Arc::new(next.clone()), changes).await {
        Ok(()) => Ok(next),
        Err(AppendError::Store(error)) => Err(error),
        Err(AppendError::Conflict { .. } | AppendError::KeyGiven { .. }) => panic!("nobody else writes"),
    }
}

#[tokio::test]
async fn a_full_store_says_so_loses_nothing_and_goes_on_after_a_purge() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let options = Options { bytes_max: Some(2 << 20) };
    let store = SqliteStore::open_with(&path, options).unwrap();
    let (taken, error) = fill(&store).await;
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    assert!(taken.len() > 50, "only {} fitted", taken.len());
    for record in &taken {
        assert_kept(&store, record).await;
    }
    let more = store.create(Arc::new(large("more")), Join::Never).await;
    assert!(matches!(more, Err(CreateError::Store(Error::Full { .. }))), "{more:?}");

    assert!(store.purge(EXPIRES + Millis(1), 20).await.unwrap() > 0);
    put(&store, &large("more")).await;
    let store = {
        store.close().await;
        SqliteStore::open_with(&path, options).unwrap()
    };
    assert_kept(&store, &large("more")).await;
}

#[tokio::test]
async fn inv_40_of_many_commands_at_once_only_those_that_do_not_fit_fail() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { bytes_max: Some(1 << 20) };
    let store = Arc::new(SqliteStore::open_with(&folder.path().join("taskgate.db"), options).unwrap());
    let tasks: Vec<_> = (0..100)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let new = if number == 50 {
                    let mut huge = record("huge");
                    huge.call.params = Bytes::from(vec![b'x'; 2 << 20]);
                    huge
                } else {
                    record(&format!("task-{number:02}"))
                };
                (new.clone(), store.create(Arc::new(new), Join::Never).await)
            })
        })
        .collect();
    for task in tasks {
        let (new, created) = task.await.unwrap();
        let is_huge = new.id == id("huge");
        assert_eq!(created.is_err(), is_huge, "{:?}", new.id);
        let kept = store.load(&somebody(), &new.id).await.unwrap();
        assert_eq!(kept.is_some(), !is_huge);
    }
}

/// A small disk of its own. `None` where this user may not have one.
struct Disk(PathBuf, #[expect(dead_code, reason = "it is kept, not used")] tempfile::TempDir);

impl Disk {
    fn new(size: &str) -> Option<Disk> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let disk = Disk(path, folder);
        disk.mount(&format!("size={size}")).then_some(disk)
    }

    fn mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&self.0);
        mount.output().is_ok_and(|done| done.status.success())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[tokio::test]
async fn a_full_disk_says_so_loses_nothing_and_is_used_again_when_there_is_space() {
    let Some(disk) = Disk::new("6m") else { return };
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![0; 2 << 20]).unwrap();
    let path = disk.0.join("taskgate.db");
    let store = SqliteStore::open(&path).unwrap();
    let (taken, error) = fill(&store).await;
    assert!(matches!(error, Error::Full { .. }), "{error:?}");
    assert!(store.breakdown().error().is_none(), "it heals");
    assert!(!taken.is_empty());
    for record in &taken {
        assert_kept(&store, record).await;
    }
    std::fs::remove_file(&ballast).unwrap();
    put(&store, &large("more")).await;
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_kept(&store, &large("more")).await;
    for record in &taken {
        assert_kept(&store, record).await;
    }
}

#[tokio::test]
async fn a_read_only_disk_is_named() {
    let Some(disk) = Disk::new("6m") else { return };
    let path = disk.0.join("taskgate.db");
    drop(SqliteStore::open(&path).unwrap());
    assert!(disk.mount("remount,ro,size=6m"));
    let refused = SqliteStore::open(&path);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
}

/// A limit on the size of files makes the write fail as a broken disk does, with an error that is not *full*.
#[cfg(unix)]
#[test]
fn notes_2_7_after_a_failed_write_the_store_refuses_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    drop(SqliteStore::open(&path).unwrap());
    let preparation = "trap '' XFSZ; ulimit -f 8192";
    let part = "disk::writes_until_the_disk_breaks";
    let mut actor = Actor::play_after(preparation, part, &path.display().to_string());
    let mut said = vec![];
    while let Some(line) = actor.hear() {
        said.push(line);
    }
    assert!(actor.wait(), "{said:?}");
    let [taken, create, append, load, purge, told, log] = said.as_slice() else { panic!("{said:?}") };
    for refusal in [create, append, load, purge, told] {
        assert!(refusal.contains("it is not certain what is on disk; restart taskgate"), "{refusal}");
    }

    // Nothing was moved into the file by a process that could not know what is on disk.
    let left = std::fs::metadata(folder.path().join("taskgate.db-wal")).unwrap().len();
    assert!(left > 0 && left.to_string() == *log, "{left} of {log}");

    // The restart tells what was kept: all that was acknowledged.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&path).unwrap();
        let taken: usize = taken.parse().unwrap();
        assert!(taken > 10);
        for number in 0..taken {
            let found = store.load(&somebody(), &id(&format!("task-{number:05}"))).await.unwrap();
            assert_eq!(found.unwrap().version, 3);
        }
        put(&store, &record("more")).await;
    });
}

#[test]
#[ignore = "plays the child"]
fn writes_until_the_disk_breaks() {
    let path = order();
    if path.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(Path::new(&path)).unwrap();
        let (taken, error) = fill(&store).await;
        say(&taken.len().to_string());
        say(&error.to_string());
        let last = taken.last().unwrap();
        let (mut next, _) = advance(last, CREATED, vec![]);
        next.updated = next.updated + Millis(1);
        say(&store.append(Arc::new(next), vec![]).await.unwrap_err().to_string());
        say(&store.load(&somebody(), &last.id).await.unwrap_err().to_string());
        say(&store.purge(CREATED, 1).await.unwrap_err().to_string());
        // Whoever waits for that is told.
        let told = tokio::time::timeout(Duration::from_secs(60), store.breakdown().happened()).await;
        say(&told.unwrap().to_string());
        say(&std::fs::metadata(format!("{path}-wal")).unwrap().len().to_string());
        store.close().await;
    });
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_this_user_may_not_write_is_named() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    let store = SqliteStore::open(&path).unwrap();
    put(&store, &record("one")).await;
    tell(&store, &record("one"), CREATED, vec![dispatch()]).await;
    drop(store);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    if std::fs::OpenOptions::new().write(true).open(&path).is_ok() {
        // Permissions do not bind this user.
        return;
    }
    let refused = SqliteStore::open(&path);
    assert!(matches!(refused, Err(Error::ReadOnly { .. })), "{refused:?}");
}
