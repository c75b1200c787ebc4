//! The twin in memory, for tests and simulations. It keeps every promise but the one about power cuts.
//!
//! A test can make it misbehave: [`MemoryStore::inject`] queues a [`Fault`] for the next command of one kind.

mod fault;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use taskgate_core::id::{OperationId, Principal, TaskId};
use taskgate_core::operation;
use taskgate_core::time::UnixMillis;

pub use self::fault::{CommandKind, Fault};
use self::state::State;
use crate::breakdown::Breakdown;
use crate::codec::event::EventRow;
use crate::ledger::{After, Busy, Happening, Held, LedgerEntry, Which};
use crate::record::{Change, Record, Session};
use crate::summary::Summary;
use crate::{AppendError, CreateError, Created, Error, Join, Retired, Retirement, Store, Unfetched, Whose};

/// The name of it in errors.
const PLACE: &str = "memory";

/// A store in memory. Clones of one are handles to it, closed together; [`MemoryStore::reopen`] makes a new one.
#[derive(Clone)]
pub struct MemoryStore {
    kept: Arc<Kept>,
    closed: Arc<AtomicBool>,
    breakdown: Breakdown,
    /// Which owner this is, counted from the first.
    owner: u64,
}

struct Kept {
    secret: [u8; 32],
    /// The owner, as a file has one process that holds its lock.
    owner: AtomicU64,
    state: Mutex<State>,
    faults: Mutex<BTreeMap<CommandKind, VecDeque<Fault>>>,
}

impl fmt::Debug for MemoryStore {
    /// Neither the secret nor anybody's payloads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty store whose secret is no secret.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::with_secret([0x5a; 32])
    }

    /// An empty store.
    #[must_use]
    pub fn with_secret(secret: [u8; 32]) -> MemoryStore {
        let kept =
            Kept { secret, owner: AtomicU64::new(0), state: Mutex::default(), faults: Mutex::default() };
        MemoryStore {
            kept: Arc::new(kept),
            closed: Arc::default(),
            breakdown: Breakdown::of(PLACE),
            owner: 0,
        }
    }

    /// What a restart finds: everything kept, and open again. Whoever had it before can read, and writes nothing any more
    /// (INV-15).
    #[must_use]
    pub fn reopen(&self) -> MemoryStore {
        // No command is half done while the owner changes.
        let _state = self.kept.state.lock();
        let owner = self.kept.owner.fetch_add(1, Ordering::AcqRel) + 1;
        let kept = Arc::clone(&self.kept);
        MemoryStore { kept, closed: Arc::default(), breakdown: Breakdown::of(PLACE), owner }
    }

    /// Breaks for good, as a store whose disk failed. What it was told so far is kept, and [`MemoryStore::reopen`] finds it.
    pub fn break_down(&self, reason: &str) {
        self.breakdown.happen(reason);
    }

    /// Makes the next `command` that has no fault yet suffer `fault`.
    pub fn inject(&self, command: CommandKind, fault: Fault) {
        self.kept.faults.lock().entry(command).or_default().push_back(fault);
    }

    /// How many injected faults have not come to pass, so that a test can tell that it tested something.
    #[must_use]
    pub fn pending_faults(&self) -> usize {
        self.kept.faults.lock().values().map(VecDeque::len).sum()
    }

    /// The log of one task, purged or not.
    #[must_use]
    pub fn events(&self, principal: &Principal, id: &TaskId) -> Vec<EventRow> {
        self.kept.state.lock().events(principal, id)
    }

    async fn run<T, E: From<Error>>(
        &self,
        command: CommandKind,
        apply: impl FnOnce(&mut State) -> Result<T, E> + Send,
    ) -> Result<T, E> {
        if let Some(error) = self.breakdown.error() {
            return Err(error.into());
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Closed.into());
        }
        let fault = self.kept.faults.lock().get_mut(&command).and_then(VecDeque::pop_front);
        let (mut ambiguous, mut late) = (None, None);
        match fault {
            None => {}
            Some(Fault::Fail(error)) => return Err(error.into()),
            Some(Fault::Ambiguous(error)) => ambiguous = Some(error),
            Some(Fault::Wait(wait)) => wait.await,
            Some(Fault::Late(wait)) => late = Some(wait),
        }
        let outcome = {
            let mut state = self.kept.state.lock();
            let is_owner = self.owner == self.kept.owner.load(Ordering::Acquire);
            if !is_owner && command != CommandKind::Read {
                return Err(Error::InUse { place: PLACE.to_owned() }.into());
            }
            apply(&mut state)
        };
        if let Some(late) = late {
            late.await;
        }
        // It broke in the middle of this one: nobody can say whether it was done.
        if let Some(error) = self.breakdown.error() {
            return Err(error.into());
        }
        match ambiguous {
            Some(error) => Err(error.into()),
            None => outcome,
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn create(&self, record: Arc<Record>, join: Join) -> Result<Created, CreateError> {
        self.run(CommandKind::Create, |state| state.create(&record, join)).await
    }

    async fn earlier(&self, record: Arc<Record>, join: Join) -> Result<Option<Created>, CreateError> {
        self.run(CommandKind::Read, |state| state.earlier(&record, join)).await
    }

    async fn append(&self, record: Arc<Record>, changes: Vec<Change>) -> Result<(), AppendError> {
        self.run(CommandKind::Append, |state| state.append(&record, &changes)).await
    }

    async fn load(&self, principal: &Principal, id: &TaskId) -> Result<Option<Record>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.load(principal, id))).await
    }

    async fn fetched(&self, principal: &Principal, id: &TaskId, at: UnixMillis) -> Result<(), Error> {
        self.run(CommandKind::Fetched, |state| {
            state.fetched(principal, id, at);
            Ok(())
        })
        .await
    }

    async fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Result<Unfetched, Error> {
        self.run(CommandKind::Read, |state| Ok(state.unfetched(principal, now))).await
    }

    async fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Summary>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.list(whose, after, limit))).await
    }

    async fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Result<Vec<Summary>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.unfinished(after, limit))).await
    }

    async fn purge(&self, now: UnixMillis, limit: usize) -> Result<usize, Error> {
        self.run(CommandKind::Purge, |state| Ok(state.purge(now, limit))).await
    }

    async fn operation(&self, id: &OperationId) -> Result<Option<LedgerEntry>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.operation(id))).await
    }

    async fn operations(
        &self,
        which: Which,
        after: Option<After>,
        limit: usize,
    ) -> Result<Vec<LedgerEntry>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.operations(which, after.as_ref(), limit))).await
    }

    async fn key_given_to(&self, entry: &LedgerEntry) -> Result<Option<OperationId>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.key_given_to(entry))).await
    }

    async fn history(&self, id: &OperationId) -> Result<Vec<Happening>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.history(id))).await
    }

    async fn ahead_of(&self, record: &Record) -> Result<Option<Busy>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.ahead_of(record))).await
    }

    async fn held(&self) -> Result<Vec<Held>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.held())).await
    }

    async fn settle(&self, entry: LedgerEntry, changes: Vec<operation::Event>) -> Result<(), AppendError> {
        self.run(CommandKind::Settle, |state| state.settle(&entry, &changes)).await
    }

    async fn retire(
        &self,
        before: UnixMillis,
        below: &OperationId,
        after: Option<&Retired>,
        limit: usize,
    ) -> Result<Retirement, Error> {
        self.run(CommandKind::Purge, |state| Ok(state.retire(before, below, after, limit))).await
    }

    async fn put_session(&self, session: Session) -> Result<(), Error> {
        self.run(CommandKind::Session, |state| {
            state.put_session(session);
            Ok(())
        })
        .await
    }

    async fn session(&self, key: &str) -> Result<Option<Session>, Error> {
        self.run(CommandKind::Read, |state| Ok(state.session(key))).await
    }

    async fn end_session(&self, key: &str) -> Result<bool, Error> {
        self.run(CommandKind::Session, |state| Ok(state.end_session(key))).await
    }

    async fn expire_sessions(&self, before: UnixMillis, keep: usize) -> Result<Vec<String>, Error> {
        self.run(CommandKind::Session, |state| Ok(state.expire_sessions(before, keep))).await
    }

    fn secret(&self) -> [u8; 32] {
        self.kept.secret
    }

    fn breakdown(&self) -> &Breakdown {
        &self.breakdown
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
