//! What fronts ask of the engine.

use std::sync::Arc;
use std::time::Duration;

use taskgate_core::id::{OperationId, Principal, ServerName, TaskId};
use taskgate_core::operation::{self, Doubt, Effect, Operation, Replay, Stage};
use taskgate_core::task::{CancelRule, Command, Ending, Lifetime, QuestionKey, Refusal, Task};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_seeded::Bug;
use taskgate_store::ledger::{Busy, LedgerEntry};
use taskgate_store::record::{Call, Front, Observed, Record};
use taskgate_store::summary::Summary;
use taskgate_store::{AppendError, CreateError, Created, Join, Store, Whose};
use tokio::sync::{SetOnce, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit;
use crate::back::{Back, BackEvent, Backs, InFlight, Reply};
use crate::clock::Clock;
use crate::draft::Draft;
use crate::drive::{self, Start};
use crate::fetched::Noting;
use crate::handle::{Handle, Live, Order};
use crate::ids::{self, Random};
use crate::ledger::{End, conclude};
use crate::limits::Limits;
use crate::objects::{self, Objects};
use crate::parked::Parked;
use crate::reconcile::Reconciler;
use crate::registry::Registry;
use crate::rules::Rules;
use crate::slots::{Place, Slots, Waiting};
use crate::web::Web;
use crate::written::{DOUBT_PATIENCE, Made, Unwritten};

/// What an engine is made of.
pub struct Parts {
    /// Where records live.
    pub store: Arc<dyn Store>,
    /// The side towards servers.
    pub backs: Arc<dyn Backs>,
    /// Wall-clock time.
    pub clock: Arc<dyn Clock>,
    /// Ids and jitter.
    pub random: Arc<dyn Random>,
    /// What operators say of tools: [`NoRules`](crate::rules::NoRules) where they say nothing.
    pub rules: Arc<dyn Rules>,
    /// Systems of record that are asked over HTTP, and webhooks: [`NoWeb`](crate::web::NoWeb) where there are none.
    pub web: Arc<dyn Web>,
    /// What it keeps to.
    pub limits: Limits,
}

/// The owner of every unfinished call.
pub struct Engine {
    pub(crate) parts: Parts,
    pub(crate) registry: Registry,
    pub(crate) slots: Slots,
    pub(crate) parked: Parked,
    pub(crate) objects: Objects,
    pub(crate) reconciler: Reconciler,
    pub(crate) noting: Noting,
    pub(crate) drivers: TaskTracker,
    /// Nothing new is taken.
    pub(crate) closing: CancellationToken,
    /// Nothing goes on.
    pub(crate) stopping: CancellationToken,
    /// Why the store is of no use to this process any more.
    pub(crate) lost: SetOnce<Arc<taskgate_store::Error>>,
}

/// A call to be carried out.
#[derive(Debug)]
pub struct NewCall {
    /// For whom.
    pub principal: Principal,
    /// By which front it came.
    pub front: Front,
    /// What is called.
    pub call: Call,
    /// What it does to the world.
    pub effect: Effect,
    /// Whether it may be sent again though its outcome is unknown.
    pub replay: Replay,
    /// The lifetime that the client asked for.
    pub ttl: Option<Millis>,
    /// Which earlier call it joins.
    pub join: Join,
}

/// What became of a submitted call.
#[derive(Debug)]
pub enum Submitted {
    /// It is recorded and on its way.
    Started(Handle),
    /// It is the same as this one, which goes on, or is over and its result was not fetched (R4.6, design 3).
    Joined(Handle),
    /// It is this very call: its frame was delivered before, and a pipe that lost its connection sent it again. The
    /// caller is told nothing of that (R3.3, design 4).
    Again(Handle),
    /// It is the same as one whose task is gone: this is what the ledger knows of it. It was not sent again (INV-30).
    Known(Box<LedgerEntry>),
}

/// Why a call was not taken. Nothing was sent, and nothing written but for [`SubmitError::InDoubt`].
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Too many calls wait for this server.
    #[error("server {server:?} has {queued} calls waiting already; try again later")]
    Busy {
        /// The server.
        server: ServerName,
        /// How many wait.
        queued: usize,
    },
    /// The caller has too many unfinished tasks.
    #[error("{max} tasks are unfinished already; wait for some to end, or cancel some")]
    TooManyTasks {
        /// How many there may be.
        max: usize,
    },
    /// The key stands for another request (R4.6).
    #[error("this idempotency key was used for another request; use a new key")]
    KeyReused,
    /// The key is a business key, and somebody else used it. Nothing of theirs is shown (design 7).
    #[error("this business key was used by somebody else; the same thing must not be done twice")]
    KeyElsewhere,
    /// Another operation on the same object is open (design 7).
    #[error("another operation on the same object is not settled yet")]
    ObjectBusy(Busy),
    /// The store failed, and cannot say whether the call was recorded. It was not sent, and is not by this process: if it
    /// turns out to be recorded, its task ends as never sent. One that waited for its turn is begun by the next process, if
    /// this one ends before that (INV-45).
    #[error(
        "the store could not say whether the call was recorded; it was not sent, but look at the tasks before you call again"
    )]
    InDoubt(#[source] taskgate_store::Error),
    /// The engine is shutting down.
    #[error("the gateway is shutting down; try again in a moment")]
    Stopping,
    /// The store could not.
    #[error(transparent)]
    Store(#[from] taskgate_store::Error),
}

/// Why a cancellation was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum CancelError {
    /// The task is final, and the dialect's rule refuses that.
    #[error("the task is already over")]
    AlreadyOver(Arc<Record>),
    /// The store could not.
    #[error(transparent)]
    Store(#[from] taskgate_store::Error),
}

/// What became of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answered {
    /// It was taken, and is with the back or on its way there.
    Taken,
    /// No such question is open; nothing changed (B-096).
    NotOutstanding,
}

impl Engine {
    /// An engine over these parts. Call [`Engine::recover`] before anything else.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Engine> {
        let registry = Registry::new(parts.limits.finished_cached);
        let reconciler = Reconciler::new(&parts.limits, parts.clock.now());
        Arc::new(Engine {
            parts,
            registry,
            slots: Slots::default(),
            parked: Parked::default(),
            objects: Objects::default(),
            reconciler,
            noting: Noting::default(),
            drivers: TaskTracker::new(),
            closing: CancellationToken::new(),
            stopping: CancellationToken::new(),
            lost: SetOnce::new(),
        })
    }

    /// The store, for what is not the engine's: sessions and the sealing secret.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.parts.store
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.parts.clock
    }

    /// The source of ids and jitter.
    #[must_use]
    pub fn random(&self) -> &Arc<dyn Random> {
        &self.parts.random
    }

    /// The limits.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.parts.limits
    }

    /// Records a call and sets it going. When this returns [`Submitted::Started`], the record is on disk, so its id
    /// may leave (R3.3); only then is the call sent (R4.2). Dropping the future stops nothing once it was polled.
    ///
    /// # Errors
    /// [`SubmitError`]: nothing was sent.
    pub async fn submit(
        self: &Arc<Self>,
        new: NewCall,
        back: Arc<dyn Back>,
    ) -> Result<Submitted, SubmitError> {
        self.detached(self.clone().submit_or_find(new, back)).await
    }

    /// What is refused without a look at what was recorded may have been made before, and sent: whoever comes again must
    /// not hear that nothing was (R4.6).
    async fn submit_or_find(
        self: Arc<Self>,
        new: NewCall,
        back: Arc<dyn Back>,
    ) -> Result<Submitted, SubmitError> {
        let error = match self.clone().submit_now(&new, back).await {
            Ok(submitted) => return Ok(submitted),
            Err(error) => error,
        };
        let may_be_known = new.join != Join::Never || new.call.frame.is_some();
        match &error {
            SubmitError::Busy { .. } | SubmitError::TooManyTasks { .. } | SubmitError::Stopping => {}
            // The next process finds it.
            SubmitError::Store(
                taskgate_store::Error::InUse { .. }
                | taskgate_store::Error::Broken { .. }
                | taskgate_store::Error::Closed,
            ) => return Err(error),
            SubmitError::Store(_) => {}
            SubmitError::KeyReused
            | SubmitError::KeyElsewhere
            | SubmitError::ObjectBusy(_)
            | SubmitError::InDoubt(_) => return Err(error),
        }
        if !may_be_known {
            return Err(error);
        }
        match self.earlier_in_time(&new).await {
            // A result that nobody fetched answers the same call, which may also be meant as another one: it comes again.
            Ok(Some(Submitted::Joined(handle)))
                if new.join == Join::SameCall && handle.record().is_unfetched() =>
            {
                Err(error)
            }
            Ok(Some(known)) => Ok(known),
            Ok(None) => Err(error),
            Err(SubmitError::Store(unreadable)) => Err(SubmitError::InDoubt(unreadable)),
            Err(refused) => Err(refused),
        }
    }

    async fn submit_now(
        self: Arc<Self>,
        new: &NewCall,
        back: Arc<dyn Back>,
    ) -> Result<Submitted, SubmitError> {
        if self.closing.is_cancelled() {
            return Err(self.not_taken());
        }
        let limits = &self.parts.limits;
        self.admit(&new.principal)?;
        let server = new.call.server.clone();
        let (lane, running_max) = limits.lane(&new.call);
        let Some(place) = self.slots.take(&lane, running_max, limits.queue_max) else {
            self.registry.discharge(&new.principal);
            return Err(SubmitError::Busy { server, queued: limits.queue_max });
        };
        let leave = |engine: &Arc<Engine>, place| match place {
            Some(Place::Running) => engine.release(&new.call),
            Some(Place::Queued) => engine.slots.give_back(&lane),
            None => {}
        };
        let mut place = Some(place);
        let mut record = self.record(new);
        let prepared = record.operation.clone();
        if place == Some(Place::Running) {
            record.operation.apply(&operation::Event::Dispatched { at: record.updated });
        }
        let mut record = Arc::new(record);
        let seeded = (place == Some(Place::Running) && taskgate_seeded::is(Bug::SendBeforeRecord))
            .then(|| Arc::new(Live::new(record.clone())));
        if let Some(live) = &seeded {
            self.start(live.clone(), Some(back.clone()), Start::Call);
        }
        let mut created = self.create(&record, new.join).await;
        if let Err(CreateError::ObjectBusy(_)) = created
            && record.operation != prepared
            && objects::queues(&record)
        {
            // It is to wait for the other operation, and others need not wait behind it.
            leave(&self, place.take());
            record = Arc::new(Record { operation: prepared, ..Record::clone(&record) });
            created = self.create(&record, new.join).await;
        }
        match created {
            Ok(Made::Known(Created::New)) => {}
            Ok(Made::Known(Created::Joined(earlier))) => {
                self.registry.discharge(&new.principal);
                leave(&self, place);
                return self.joined(&new.call, *earlier).await;
            }
            Ok(Made::Known(Created::Known(known))) => {
                self.registry.discharge(&new.principal);
                leave(&self, place);
                return Ok(Submitted::Known(known));
            }
            Ok(Made::InDoubt(error)) => {
                self.registry.discharge(&new.principal);
                leave(&self, place);
                self.disown(record);
                return Err(SubmitError::InDoubt(error));
            }
            Err(error) => {
                self.registry.discharge(&new.principal);
                leave(&self, place);
                return Err(refused(error));
            }
        }
        audit::made(&record);
        let is_seeded = seeded.is_some();
        let live = seeded.unwrap_or_else(|| Arc::new(Live::new(record)));
        self.registry.insert(&live);
        let handle = Handle::new(live.clone());
        match place {
            Some(Place::Running) if is_seeded => {}
            Some(Place::Running) => self.start(live, Some(back), Start::Call),
            Some(Place::Queued) if !objects::queues(&live.record()) => {
                let waiting = Waiting { live, back: Some(back) };
                self.turns(self.slots.queue(&lane, waiting, true, running_max));
            }
            Some(Place::Queued) | None => {
                leave(&self, place);
                self.wait_for_object(Waiting { live, back: Some(back) });
            }
        }
        Ok(Submitted::Started(handle))
    }

    /// What a [`Engine::submit`] of this call would join or be refused for, if that is a call that was made before; `None` if
    /// it would be sent. It needs no server, and writes nothing.
    ///
    /// # Errors
    /// [`SubmitError`]: its key stands for another request, or the store could not.
    pub async fn earlier(&self, new: &NewCall) -> Result<Option<Submitted>, SubmitError> {
        let record = Arc::new(self.record(new));
        match self.parts.store.earlier(record, new.join).await.map_err(refused)? {
            None | Some(Created::New) => Ok(None),
            Some(Created::Joined(earlier)) => self.joined(&new.call, *earlier).await.map(Some),
            Some(Created::Known(known)) => Ok(Some(Submitted::Known(known))),
        }
    }

    /// A call is one that was made before.
    async fn joined(&self, call: &Call, earlier: Record) -> Result<Submitted, SubmitError> {
        let is_again = earlier.call.frame.is_some() && earlier.call.frame == call.frame;
        let id = earlier.operation_id.clone();
        match self.watch(earlier).await? {
            Some(handle) if is_again => Ok(Submitted::Again(handle)),
            Some(handle) => Ok(Submitted::Joined(handle)),
            None => self.known_only(&id).await,
        }
    }

    /// What the ledger knows of an operation whose task went in this moment.
    async fn known_only(&self, id: &OperationId) -> Result<Submitted, SubmitError> {
        match self.parts.store.operation(id).await? {
            Some(known) => Ok(Submitted::Known(Box::new(known))),
            None => {
                let source = Box::from("an operation went with its task");
                Err(taskgate_store::Error::Backend { doing: "read an operation", source }.into())
            }
        }
    }

    /// Records a read-only exchange that is under way, and takes it over. `first` is an event that was taken out of
    /// it already.
    ///
    /// # Errors
    /// [`SubmitError`]: the exchange is dropped.
    pub async fn adopt(
        self: &Arc<Self>,
        new: NewCall,
        back: Arc<dyn Back>,
        in_flight: InFlight,
        first: Option<BackEvent>,
    ) -> Result<Handle, SubmitError> {
        self.detached(self.clone().adopt_now(new, back, in_flight, first)).await
    }

    async fn adopt_now(
        self: Arc<Self>,
        new: NewCall,
        back: Arc<dyn Back>,
        in_flight: InFlight,
        first: Option<BackEvent>,
    ) -> Result<Handle, SubmitError> {
        if self.closing.is_cancelled() {
            return Err(self.not_taken());
        }
        self.admit(&new.principal)?;
        let mut record = self.record(&new);
        record.operation.apply(&operation::Event::Dispatched { at: record.updated });
        let record = Arc::new(record);
        match self.create(&record, Join::Never).await {
            Ok(Made::Known(Created::New)) => {}
            // Its frame was stored before: that call goes on, and this exchange, which is read-only, is dropped.
            Ok(Made::Known(Created::Joined(earlier))) => {
                self.registry.discharge(&new.principal);
                return self.watch(*earlier).await?.ok_or(SubmitError::KeyReused);
            }
            Ok(Made::Known(Created::Known(_))) => {
                self.registry.discharge(&new.principal);
                return Err(SubmitError::KeyReused);
            }
            Ok(Made::InDoubt(error)) => {
                self.registry.discharge(&new.principal);
                self.disown(record);
                return Err(SubmitError::InDoubt(error));
            }
            Err(error) => {
                self.registry.discharge(&new.principal);
                return Err(refused(error));
            }
        }
        audit::made(&record);
        let live = Arc::new(Live::new(record));
        self.registry.insert(&live);
        let handle = Handle::new(live.clone());
        self.slots.force(&self.parts.limits.lane(&new.call).0);
        self.start(live, Some(back), Start::Held(in_flight, first));
        Ok(handle)
    }

    /// Looks a task up. `None` alike for an id that is unknown, expired or another principal's (R6.1, G-015).
    ///
    /// # Errors
    /// The store's.
    pub async fn find(
        &self,
        principal: &Principal,
        id: &TaskId,
    ) -> Result<Option<Handle>, taskgate_store::Error> {
        let found = self.look_up(principal, id).await?;
        audit::asked(principal, id, found.is_some());
        Ok(found)
    }

    async fn look_up(
        &self,
        principal: &Principal,
        id: &TaskId,
    ) -> Result<Option<Handle>, taskgate_store::Error> {
        if let Some(live) = self.registry.get(id) {
            let record = live.record();
            let is_theirs = record.principal == *principal || taskgate_seeded::is(Bug::FoundByAnyone);
            return Ok((is_theirs && !self.is_expired(&record)).then(|| Handle::new(live)));
        }
        match self.parts.store.load(principal, id).await? {
            Some(record) if !self.is_expired(&record) => self.watch(record).await,
            Some(_) | None => Ok(None),
        }
    }

    /// Cancels by the rule of the dialect. `None` for a task that [`Engine::find`] would not find.
    ///
    /// # Errors
    /// [`CancelError::AlreadyOver`] only under [`CancelRule::Promise`].
    ///
    /// # Source
    /// B-100 to B-105, X-038
    pub async fn cancel(
        self: &Arc<Self>,
        principal: &Principal,
        id: &TaskId,
        rule: CancelRule,
    ) -> Result<Option<Arc<Record>>, CancelError> {
        let Some(live) = self.known(principal, id) else {
            let Some(handle) = self.find(principal, id).await? else { return Ok(None) };
            return match rule {
                CancelRule::Promise => Err(CancelError::AlreadyOver(handle.record())),
                CancelRule::Wish => Ok(Some(handle.record())),
            };
        };
        self.detached(self.clone().cancel_now(live, rule)).await.map(Some)
    }

    async fn cancel_now(
        self: Arc<Self>,
        live: Arc<Live>,
        rule: CancelRule,
    ) -> Result<Arc<Record>, CancelError> {
        let is_parked = self.parked.holds(&live);
        let mut is_stopped = false;
        let rules = &*self.parts.rules;
        let changed = self
            .change(&live, |draft| {
                let record = draft.record();
                let told = match &record.operation.stage {
                    _ if record.task.ending().is_some() => None,
                    // It never left us, so it can be stopped for certain, under either rule.
                    Stage::Prepared => Some(operation::Command::NeverSent),
                    // What was sent before a crash goes nowhere while it is parked.
                    Stage::Dispatched { .. } if is_parked => Some(operation::Command::Lose(Doubt::Cancelled)),
                    // The work is over; only what became of it is still looked up, which goes on (R4.4).
                    Stage::Settled(_) | Stage::Unknown(_) if record.operation.is_active() => {
                        return draft.task(Command::End(Ending::Cancelled));
                    }
                    Stage::Dispatched { .. }
                    | Stage::Observing { .. }
                    | Stage::Settled(_)
                    | Stage::Unknown(_) => None,
                };
                let Some(told) = told else { return draft.task(Command::Cancel(rule)) };
                is_stopped = true;
                // Whoever sent it is gone: it was before a crash.
                let is_closed = is_parked;
                conclude(draft, rules, End::of(told, Ending::Cancelled, is_closed))
            })
            .await;
        if changed.is_err() {
            self.once_known(&live, async move |engine, live| {
                let record = live.record();
                let is_stopped = record.task.ending().is_some();
                if is_stopped || record.task.cancel_wished_at.is_some() {
                    engine.cancelled(&live, rule, is_stopped);
                }
            });
        }
        match changed? {
            Ok(record) => {
                self.cancelled(&live, rule, is_stopped);
                Ok(record)
            }
            Err(Refusal::AlreadyOver | Refusal::NotOutstanding) => {
                Err(CancelError::AlreadyOver(live.record()))
            }
        }
    }

    /// A cancellation is on disk: whoever drives the task is told. `is_stopped`: it is over by it.
    fn cancelled(&self, live: &Arc<Live>, rule: CancelRule, is_stopped: bool) {
        let is_driven = live.order(Order::Cancel(rule));
        if is_stopped {
            self.parked.forget(live);
            if !is_driven {
                self.keep(live);
            }
        }
    }

    /// Answers a question. The first answer wins (G-011); it reaches the back, never the disk (R6.5).
    ///
    /// `None` for a task that [`Engine::find`] would not find.
    ///
    /// # Errors
    /// The store's.
    pub async fn answer(
        self: &Arc<Self>,
        principal: &Principal,
        id: &TaskId,
        key: &QuestionKey,
        reply: Reply,
    ) -> Result<Option<Answered>, taskgate_store::Error> {
        let Some(live) = self.known(principal, id) else {
            return Ok(self.find(principal, id).await?.map(|_| Answered::NotOutstanding));
        };
        self.detached(self.clone().answer_now(live, key.clone(), reply)).await.map(Some)
    }

    async fn answer_now(
        self: Arc<Self>,
        live: Arc<Live>,
        key: QuestionKey,
        reply: Reply,
    ) -> Result<Answered, taskgate_store::Error> {
        let taken = match self.change(&live, |draft| draft.task(Command::TakeAnswer(key.clone()))).await {
            Ok(taken) => taken,
            Err(error) => {
                // If it was taken, nobody can give it again.
                self.once_known(&live, async move |_, live| {
                    if live.record().task.answering.contains_key(&key) {
                        let (settled, _) = oneshot::channel();
                        live.order(Order::Forward { key, reply, settled });
                    }
                });
                return Err(error);
            }
        };
        if taken.is_err() {
            return Ok(Answered::NotOutstanding);
        }
        let (settled, heard) = oneshot::channel();
        if live.order(Order::Forward { key, reply, settled }) {
            // The acknowledgement may precede the visible change (B-095), but not by our hurry: wait until the back
            // has the answer, or its driver is gone.
            let _ = tokio::time::timeout(ANSWER_PATIENCE, heard).await;
        }
        Ok(Answered::Taken)
    }

    /// Tasks, newest first, without their payloads (A-080 to A-085, R5.5).
    ///
    /// # Errors
    /// The store's.
    pub async fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Result<Vec<Summary>, taskgate_store::Error> {
        let now = self.parts.clock.now();
        let mut tasks = self.parts.store.list(whose, after, limit).await?;
        tasks.retain(|summary| summary.task().expires().is_none_or(|expires| expires > now));
        Ok(tasks)
    }

    /// Runs a step to its end even if the client that asked for it goes away: a row must never be left without
    /// the one that acts on it.
    pub(crate) async fn detached<T: Send + 'static>(
        &self,
        step: impl Future<Output = T> + Send + 'static,
    ) -> T {
        match self.drivers.spawn(step).await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is going away, and whoever waits here with it.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    fn admit(&self, principal: &Principal) -> Result<(), SubmitError> {
        let limits = &self.parts.limits;
        let max = if principal.is_shared() { limits.live_max_shared } else { limits.live_max };
        if self.registry.admit(principal, max) { Ok(()) } else { Err(SubmitError::TooManyTasks { max }) }
    }

    fn record(&self, new: &NewCall) -> Record {
        let limits = &self.parts.limits;
        let now = self.parts.clock.now();
        let random = &*self.parts.random;
        let shared = new.principal.is_shared();
        let (deadline, ttl_max) = limits.spans(&new.call, shared);
        // A lifetime of 0 is the smallest there is, not none.
        let ttl = new.ttl.unwrap_or(limits.ttl).clamp(Millis::secs(1), ttl_max);
        let lifetime = Lifetime { created: now, ttl, linger: limits.linger, max: ttl_max };
        Record {
            id: ids::task_id(random, now),
            principal: new.principal.clone(),
            version: 1,
            front: new.front,
            call: new.call.clone(),
            task: Task::new(lifetime),
            operation_id: ids::operation_id(random, now),
            operation: Operation::new(new.effect, new.replay),
            deadline: now + deadline.min(ttl_max),
            updated: now,
            observed: Observed::default(),
            fetched: None,
        }
    }

    fn is_expired(&self, record: &Record) -> bool {
        record.task.expires().is_some_and(|expires| expires <= self.parts.clock.now())
    }

    pub(crate) fn known(&self, principal: &Principal, id: &TaskId) -> Option<Arc<Live>> {
        self.registry.get(id).filter(|live| live.record().principal == *principal)
    }

    /// A handle of what was read from the store. `None` if the task was purged meanwhile.
    ///
    /// Whoever recorded a call shows it in memory a moment after it is on disk. A handle made in that moment would never
    /// hear of the end, so it is waited for.
    async fn watch(&self, mut record: Record) -> Result<Option<Handle>, taskgate_store::Error> {
        let patience = tokio::time::Instant::now() + INSERT_PATIENCE;
        loop {
            let inserted = self.registry.inserted.notified();
            tokio::pin!(inserted);
            inserted.as_mut().enable();
            if let Some(live) = self.registry.get(&record.id) {
                return Ok(Some(Handle::new(live)));
            }
            if record.task.ending().is_none() {
                // It may have come, ended and gone since it was read.
                match self.parts.store.load(&record.principal, &record.id).await? {
                    Some(newest) => record = newest,
                    None => return Ok(None),
                }
            }
            let is_over = record.task.ending().is_some();
            if is_over || tokio::time::timeout_at(patience, inserted).await.is_err() {
                return Ok(Some(Handle::new(Arc::new(Live::new(Arc::new(record))))));
            }
        }
    }

    /// Decides, appends and publishes: the one way by which a record changes.
    ///
    /// The inner result is the decision's refusal; the newest record comes back also when nothing changed. After an error
    /// nothing was changed, unless [`Live::is_in_doubt`]: then see [`Engine::once_known`].
    pub(crate) async fn change<R>(
        self: &Arc<Self>,
        live: &Live,
        decide: impl FnOnce(&mut Draft) -> Result<(), R>,
    ) -> Result<Result<Arc<Record>, R>, taskgate_store::Error> {
        match self.attempt(live, decide).await {
            Ok(decided) => Ok(decided),
            Err(AppendError::Store(error)) => Err(error),
            Err(conflict @ AppendError::Conflict { .. }) => {
                // One process owns the file and takes turns per record, so nobody else can have written.
                tracing::error!(task = ?live.record().id, error = %conflict, "record changed behind our back");
                Err(behind_our_back(conflict))
            }
            Err(given @ AppendError::KeyGiven { .. }) => Err(behind_our_back(given)),
        }
    }

    /// As [`Engine::change`], for a record that others may have in memory too: whoever is second is told so.
    pub(crate) async fn attempt<R>(
        self: &Arc<Self>,
        live: &Live,
        decide: impl FnOnce(&mut Draft) -> Result<(), R>,
    ) -> Result<Result<Arc<Record>, R>, AppendError> {
        let mut turn = self.turn(live).await?;
        let current = live.record();
        let mut draft = Draft::of(&current, self.parts.clock.now());
        if let Err(refusal) = decide(&mut draft) {
            return Ok(Err(refusal));
        }
        let Some((record, mut changes)) = draft.finish() else { return Ok(Ok(current)) };
        if taskgate_seeded::is(Bug::ShowBeforeAppend) {
            live.publish(Arc::new(record.clone()));
        }
        let mut record = Arc::new(record);
        match self.append(&current, &mut record, &mut changes, DOUBT_PATIENCE).await {
            Ok(()) => {}
            Err(Unwritten::Not(error) | Unwritten::Overtaken(error)) => return Err(error),
            Err(Unwritten::InDoubt(error)) => {
                self.doubt(live, &mut turn, record);
                return Err(error.into());
            }
        }
        live.publish(record.clone());
        self.published(&current, &record);
        Ok(Ok(record))
    }

    /// Runs a driver for a task that holds a running place.
    pub(crate) fn start(self: &Arc<Self>, live: Arc<Live>, back: Option<Arc<dyn Back>>, start: Start) {
        let orders = live.drive();
        self.drivers.spawn(drive::run(self.clone(), live, back, orders, start));
    }

    /// Runs those whose turn it is.
    pub(crate) fn turns(self: &Arc<Self>, turns: Vec<Waiting>) {
        for Waiting { live, back } in turns {
            self.start(live, back, Start::Turn);
        }
    }

    /// Gives a running place to the next.
    pub(crate) fn release(self: &Arc<Self>, call: &Call) {
        let (lane, running_max) = self.parts.limits.lane(call);
        self.turns(self.slots.done(&lane, running_max));
    }
}

/// How long a client waits for its answer to reach the back before it is acknowledged all the same.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for a task that is on disk to be shown in memory.
const INSERT_PATIENCE: Duration = Duration::from_secs(5);

fn behind_our_back(error: AppendError) -> taskgate_store::Error {
    taskgate_store::Error::Backend { doing: "append to a record", source: Box::new(error) }
}

fn refused(error: CreateError) -> SubmitError {
    match error {
        CreateError::KeyReused => SubmitError::KeyReused,
        CreateError::KeyElsewhere => SubmitError::KeyElsewhere,
        CreateError::ObjectBusy(busy) => SubmitError::ObjectBusy(busy),
        CreateError::Store(error) => SubmitError::Store(error),
    }
}
