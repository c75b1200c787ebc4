//! SIGKILL at any moment: everything acknowledged is there, and everything that is there is whole.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use taskgate_store::conformance::sample::{self, CREATED, advance, dispatch, id, put, somebody, succeed};
use taskgate_store::record::Key;
use taskgate_store::{Join, Store};
use taskgate_store_sqlite::SqliteStore;

use crate::child::{Actor, order, say};
use crate::whole::assert_whole;

const ROUNDS: u64 = 24;
const CLIENTS: usize = 8;

/// A small generator, so that a failing round can be told by its number.
fn spread(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
}

#[test]
fn inv_01_whatever_was_acknowledged_survives_kill_9_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("taskgate.db");
    // The version that was acknowledged last, by id.
    let mut acknowledged = BTreeMap::<String, u64>::new();
    for round in 0..ROUNDS {
        let mut actor =
            Actor::play("crash::commits_until_it_is_killed", &format!("{} {round}", path.display()));
        // Every third time it falls while the store is being opened.
        let mut left = if round % 3 == 2 { 0 } else { spread(round) % 600 };
        assert_eq!(actor.hear().as_deref(), Some("opening"));
        while left > 0 {
            note(&mut acknowledged, &actor.hear().expect("it goes on until it is killed"));
            left -= 1;
        }
        actor.kill();
        // What it said before it died was acknowledged too.
        while let Some(said) = actor.hear() {
            note(&mut acknowledged, &said);
        }
        assert!(!actor.wait());
        check(&path, &acknowledged, round);
    }
    let most = acknowledged.values().filter(|version| **version == 2).count();
    assert!(most > 500, "only {most} tasks came to their end: that tests too little");
}

fn note(acknowledged: &mut BTreeMap<String, u64>, said: &str) {
    let (version, id) = said.split_once(' ').unwrap();
    acknowledged.insert(id.to_owned(), version.parse().unwrap());
}

fn check(path: &Path, acknowledged: &BTreeMap<String, u64>, round: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(path).unwrap();
        for (text, version) in acknowledged {
            let found = store.load(&somebody(), &id(text)).await.unwrap();
            let found = found.unwrap_or_else(|| panic!("round {round}: {text} was acknowledged and is gone"));
            assert!(found.version >= *version, "round {round}: {text} is at version {}", found.version);
        }
        store.close().await;
    });
    assert_whole(&Connection::open(path).unwrap());
}

#[test]
#[ignore = "plays the child"]
fn commits_until_it_is_killed() {
    let order = order();
    let Some((path, round)) = order.rsplit_once(' ') else { return };
    say("opening");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(SqliteStore::open(Path::new(path)).unwrap());
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (store, round) = (Arc::clone(&store), round.to_owned());
                tokio::spawn(async move {
                    for number in 0.. {
                        live(&store, &format!("r{round}-c{client}-{number}")).await;
                    }
                })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    });
}

async fn live(store: &SqliteStore, text: &str) {
    let mut record = advance(&sample::record(text), CREATED, vec![dispatch()]).0;
    record.version = 1;
    if text.ends_with('7') {
        record.call.key = Some(Key::of_caller(text));
        store.create(Arc::new(record.clone()), Join::SameKey).await.unwrap();
    } else {
        put(store, &record).await;
    }
    say(&format!("1 {text}"));
    let (next, changes) = advance(&record, CREATED, succeed());
    store.append(Arc::new(next), changes).await.unwrap();
    say(&format!("2 {text}"));
}
