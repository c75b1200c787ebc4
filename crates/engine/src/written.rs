//! Writes that the store answers by an error, and what became of them (notes 2.7, INV-45).
//!
//! Whoever asked for a write learns whether it was done: the store is read again, and `core` decides by what is there. A
//! record of which the store cannot say that is in doubt, and whoever has its turn next finds it out first, so that
//! nothing is decided on a version that may not be the newest.

use std::sync::Arc;
use std::time::Duration;

use taskgate_core::operation::Command as Do;
use taskgate_core::task::Fault;
use taskgate_core::written::{Stored, Written, written};
use taskgate_seeded::Bug;
use taskgate_store::record::{Change, Phase, Record};
use taskgate_store::{AppendError, CreateError, Created, Error, Join};
use tokio::sync::MutexGuard;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::{Engine, NewCall, SubmitError, Submitted};
use crate::handle::Live;
use crate::ledger::twice;

/// How long a client's wish waits behind an append that the store does not take.
const TURN_PATIENCE: Duration = Duration::from_secs(5);

/// How long a caller waits for a store that cannot say what it did.
pub(crate) const DOUBT_PATIENCE: Duration = Duration::from_secs(3);

/// The pause before such a store is read again: at first, and at most.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The words of a task whose call was not sent because nobody knew in time whether it was recorded.
const NOT_SENT: &str = "the store could not say in time whether the call was recorded";

/// Why an append is not known to be done.
pub(crate) enum Unwritten {
    /// It was not done.
    Not(AppendError),
    /// Somebody else wrote.
    Overtaken(AppendError),
    /// The store cannot say.
    InDoubt(Error),
}

/// How a create came out that was not refused.
pub(crate) enum Made {
    /// The store's word, or what was found out.
    Known(Created),
    /// The store cannot say.
    InDoubt(Error),
}

/// What may be the newest version of a record.
#[derive(Debug)]
pub(crate) struct InDoubt(Arc<Record>);

impl Engine {
    /// Creates, and finds out whether it was done.
    ///
    /// # Errors
    /// Nothing was written.
    pub(crate) async fn create(&self, record: &Arc<Record>, join: Join) -> Result<Made, CreateError> {
        let error = match self.create_noted(record, join).await {
            Err(CreateError::Store(error)) => error,
            answered => return answered.map(Made::Known),
        };
        if taskgate_seeded::is(Bug::ErrorBelieved) {
            return Err(CreateError::Store(error));
        }
        match self.look_back(None, record, &error, DOUBT_PATIENCE).await {
            Written::Done => Ok(Made::Known(Created::New)),
            Written::NotDone | Written::Overtaken => Err(CreateError::Store(error)),
            Written::InDoubt => Ok(Made::InDoubt(error)),
        }
    }

    /// Appends to what was `before`, and finds out within `patience` whether it was done.
    ///
    /// It may overturn what the operation's key was given free for: then a person is told in the same commit, and `record`
    /// and `changes` say so from here on.
    pub(crate) async fn append(
        &self,
        before: &Record,
        record: &mut Arc<Record>,
        changes: &mut Vec<Change>,
        patience: Duration,
    ) -> Result<(), Unwritten> {
        let mut answered = self.parts.store.append(record.clone(), changes.clone()).await;
        if let Err(AppendError::KeyGiven { to }) = &answered {
            let mut told = Record::clone(record);
            let events = twice(&mut told.operation, told.updated, &told.operation_id, to);
            changes.extend(events.into_iter().map(Change::Operation));
            *record = Arc::new(told);
            answered = self.parts.store.append(record.clone(), changes.clone()).await;
        }
        let error = match answered {
            Ok(()) => return Ok(()),
            // It was told, so only a defect of ours can be answered so.
            Err(given @ AppendError::KeyGiven { .. }) => return Err(Unwritten::Not(given)),
            Err(AppendError::Store(error)) => error,
            Err(conflict @ AppendError::Conflict { .. }) => {
                // It may be by an earlier try of this very write.
                return match written(record.version, self.stored(Some(before), record).await) {
                    Written::Done => Ok(()),
                    Written::NotDone | Written::Overtaken => Err(Unwritten::Overtaken(conflict)),
                    Written::InDoubt => Err(Unwritten::InDoubt(waits())),
                };
            }
        };
        match self.look_back(Some(before), record, &error, patience).await {
            Written::Done => Ok(()),
            Written::NotDone => Err(Unwritten::Not(error.into())),
            Written::Overtaken => Err(Unwritten::Overtaken(error.into())),
            Written::InDoubt => Err(Unwritten::InDoubt(error)),
        }
    }

    /// What became of a write of `record` that was answered by `error`.
    async fn look_back(
        &self,
        before: Option<&Record>,
        record: &Record,
        error: &Error,
        patience: Duration,
    ) -> Written {
        match error {
            // Another process has the store: this one would only ask for what is refused, and must send nothing more (INV-15).
            Error::InUse { .. } => {
                self.give_way(error);
                return Written::NotDone;
            }
            // It may be on disk, and only the next process can tell.
            Error::Broken { .. } => {
                self.give_way(error);
                return Written::InDoubt;
            }
            Error::Full { .. }
            | Error::ReadOnly { .. }
            | Error::Open { .. }
            | Error::Newer { .. }
            | Error::Damaged { .. }
            | Error::Corrupt { .. }
            | Error::Closed
            | Error::Backend { .. } => {}
        }
        let until = Instant::now() + patience;
        let mut pause = PAUSE;
        loop {
            let found = written(record.version, self.stored(before, record).await);
            if found != Written::InDoubt || Instant::now() >= until || self.stopping.is_cancelled() {
                if found == Written::Done {
                    tracing::info!(task = ?record.id, %error, "a write was done though the store said otherwise");
                }
                return found;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// [`Engine::earlier`] of a store that may not be readable in this moment.
    pub(crate) async fn earlier_in_time(&self, new: &NewCall) -> Result<Option<Submitted>, SubmitError> {
        let until = Instant::now() + DOUBT_PATIENCE;
        let mut pause = PAUSE;
        loop {
            match self.earlier(new).await {
                Err(SubmitError::Store(_)) if Instant::now() < until && !self.stopping.is_cancelled() => {}
                found => return found,
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn stored(&self, before: Option<&Record>, record: &Record) -> Stored {
        match self.parts.store.load(&record.principal, &record.id).await {
            Ok(None) if before.is_some_and(|before| before.phase() == Phase::Unfinished) => Stored::Gone,
            Ok(None) => Stored::Nothing,
            Ok(Some(found)) => {
                let version = found.version;
                // That a result was fetched is none of the record's versions.
                let is_ours = Record { fetched: record.fetched, ..found } == *record;
                Stored::Version { version, is_ours }
            }
            Err(_) => Stored::Unreadable,
        }
    }

    /// The turn to decide on a record, whose newest version is known then. A driver keeps its turn while the disk takes
    /// nothing; a client must hear so instead of hanging.
    pub(crate) async fn turn<'a>(
        self: &Arc<Self>,
        live: &'a Live,
    ) -> Result<MutexGuard<'a, Option<InDoubt>>, Error> {
        let mut turn = timeout(TURN_PATIENCE, live.turn.lock()).await.map_err(|_| waits())?;
        self.resolve(live, &mut turn).await?;
        Ok(turn)
    }

    /// Finds out what is in doubt about a record.
    pub(crate) async fn resolve(
        self: &Arc<Self>,
        live: &Live,
        turn: &mut Option<InDoubt>,
    ) -> Result<(), Error> {
        let Some(InDoubt(record)) = turn else { return Ok(()) };
        let before = live.record();
        match written(record.version, self.stored(Some(&before), record).await) {
            Written::Done => {
                live.publish(record.clone());
                self.published(&before, record);
            }
            Written::NotDone => {}
            Written::Overtaken => {
                tracing::error!(task = ?record.id, "record changed behind our back");
            }
            Written::InDoubt => return Err(waits()),
        }
        *turn = None;
        live.set_in_doubt(false);
        Ok(())
    }

    /// From here on nobody knows whether `record` is the newest version.
    pub(crate) fn doubt(&self, live: &Live, turn: &mut Option<InDoubt>, record: Arc<Record>) {
        tracing::warn!(task = ?record.id, "the store cannot say whether a change was recorded");
        *turn = Some(InDoubt(record));
        live.set_in_doubt(true);
    }

    /// Does `then` once it is known what became of a change, if that is in doubt. Whoever asked for the change has heard an
    /// error, and does not come back for what belongs to it.
    pub(crate) fn once_known<F>(
        self: &Arc<Self>,
        live: &Arc<Live>,
        then: impl FnOnce(Arc<Engine>, Arc<Live>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        if !live.is_in_doubt() {
            return;
        }
        let (engine, live) = (self.clone(), live.clone());
        self.drivers.spawn(async move {
            while engine.turn(&live).await.is_err() {
                tokio::select! {
                    biased;
                    () = sleep(PAUSE_MAX) => {}
                    () = engine.stopping.cancelled() => return,
                }
            }
            then(engine, live).await;
        });
    }

    /// A call was not sent, and its caller has heard an error: if it turns out to be recorded, it ends as never sent.
    pub(crate) fn disown(self: &Arc<Self>, record: Arc<Record>) {
        let engine = self.clone();
        self.drivers.spawn(async move {
            let mut pause = PAUSE;
            while !engine.stopping.is_cancelled() {
                match engine.parts.store.load(&record.principal, &record.id).await {
                    Ok(None) => return,
                    Ok(Some(found)) => {
                        let live = Arc::new(Live::new(Arc::new(found)));
                        engine.registry.admit(&record.principal, usize::MAX);
                        engine.registry.insert(&live);
                        let fault = Fault::NeverSent(NOT_SENT.to_owned());
                        while engine.close(&live, Do::NeverSent, fault.clone(), true).await.is_err() {
                            if engine.stopping.is_cancelled() {
                                return;
                            }
                            sleep(PAUSE_MAX).await;
                        }
                        engine.keep(&live);
                        return;
                    }
                    Err(_) => {}
                }
                tokio::select! {
                    biased;
                    () = sleep(pause) => pause = (pause * 2).min(PAUSE_MAX),
                    () = engine.stopping.cancelled() => return,
                }
            }
        });
    }
}

fn waits() -> Error {
    let source = Box::from("an earlier change of this task still waits for the disk");
    Error::Backend { doing: "write to the store", source }
}
