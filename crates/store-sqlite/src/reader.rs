//! Reads on the calling thread (notes 2.11): a hop to another thread costs ten times what the read does.
//!
//! Each thread keeps a connection for each store it reads. The store owns them all, so that closing it closes
//! them; a thread only remembers where its own is.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags};
use taskgate_store::Error;

use crate::fault::Problem;
use crate::health::Health;

type Shared = Arc<Mutex<Connection>>;

static STORES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// By the number of the store.
    static MINE: RefCell<Vec<(u64, Weak<Mutex<Connection>>)>> = const { RefCell::new(Vec::new()) };
}

#[derive(Debug)]
pub(crate) struct Readers {
    store: u64,
    path: PathBuf,
    health: Arc<Health>,
    open: Mutex<Vec<Shared>>,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, health: Arc<Health>) -> Readers {
        let store = STORES.fetch_add(1, Ordering::Relaxed);
        Readers { store, path, health, open: Mutex::default() }
    }

    /// Runs `read` on one state of the database.
    pub(crate) fn read<T>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, Problem>,
    ) -> Result<T, Error> {
        self.health.check()?;
        let connection = self.mine().map_err(|error| self.error(doing, error.into()))?;
        // Nobody else locks it, but for a moment at the end of the store.
        let database = connection.lock();
        self.snapshot(&database, read).map_err(|problem| self.error(doing, problem))
    }

    pub(crate) fn close(&self) {
        self.open.lock().clear();
    }

    fn error(&self, doing: &'static str, problem: Problem) -> Error {
        problem.into_error(self.health.place(), doing)
    }

    fn snapshot<T>(
        &self,
        database: &Connection,
        read: impl FnOnce(&Connection) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let execute = |sql| database.prepare_cached(sql)?.execute([]).map(drop);
        execute("BEGIN")?;
        let found = read(database);
        if !database.is_autocommit() {
            execute("COMMIT")?;
        }
        found
    }

    fn mine(&self) -> rusqlite::Result<Shared> {
        MINE.with_borrow_mut(|mine| {
            let known = mine.iter().find(|(store, _)| *store == self.store);
            if let Some(connection) = known.and_then(|(_, connection)| connection.upgrade()) {
                return Ok(connection);
            }
            let connection = Arc::new(Mutex::new(self.connect()?));
            mine.retain(|(_, connection)| connection.strong_count() > 0);
            mine.push((self.store, Arc::downgrade(&connection)));
            let mut open = self.open.lock();
            // A thread that ended remembers nothing.
            open.retain(|connection| Arc::weak_count(connection) > 0);
            open.push(Arc::clone(&connection));
            Ok(connection)
        })
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(&self.path, flags)?;
        database.busy_timeout(Duration::from_secs(5))?;
        database.pragma_update(None, "trusted_schema", false)?;
        database.set_prepared_statement_cache_capacity(32);
        Ok(database)
    }
}
