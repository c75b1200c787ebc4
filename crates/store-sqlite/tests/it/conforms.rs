//! The twin does what all twins do.

use std::sync::Mutex;

use async_trait::async_trait;
use taskgate_store::Store;
use taskgate_store::conformance::Factory;
use taskgate_store_sqlite::SqliteStore;
use tempfile::TempDir;

#[derive(Default)]
struct OnDisk(Mutex<Vec<TempDir>>);

#[async_trait]
impl Factory for OnDisk {
    type Store = SqliteStore;

    async fn fresh(&self) -> SqliteStore {
        let folder = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("taskgate.db")).unwrap();
        self.0.lock().unwrap().push(folder);
        store
    }

    async fn reopen(&self, store: SqliteStore) -> SqliteStore {
        let path = store.path().to_owned();
        store.close().await;
        SqliteStore::open(&path).unwrap()
    }

    async fn rival(&self, store: &SqliteStore) -> Result<SqliteStore, taskgate_store::Error> {
        SqliteStore::open(store.path())
    }
}

taskgate_store::conformance!(OnDisk::default());
