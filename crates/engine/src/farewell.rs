//! Exchanges that their task does not wait for any more: what is still heard of them goes to the operation, and so does
//! that they are proved over (R4.3, R4.4; notes 2.3, 3.4).
//!
//! Over is over for a task. But a result that comes a second after the deadline is the server's word all the same, a
//! receipt in it is proof, and a look-up that finds nothing proves something only from when nothing of the exchange can
//! still be sent.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use taskgate_core::operation::{Command as Do, Effect, Inquiry, Outcome, Stage, Text, Upstream, Word};
use taskgate_core::recovery::Survival;
use taskgate_store::AppendError;
use taskgate_store::codec::event::EventKind;
use taskgate_store::ledger::LedgerEntry;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::back::{Answer, Back, Ended, Stand};
use crate::draft::Draft;
use crate::drive::Driver;
use crate::engine::Engine;
use crate::handle::Live;
use crate::ledger::{ResolveError, inquire, receive};
use crate::rules::{About, Receipted, RuleFailed, Rules};

/// How long the end of a connection is waited for before it is written down that an exchange ended: that it is closed is
/// then part of the same commit.
const LET_GO: Duration = Duration::from_millis(100);

/// How often a server's task is looked at that was asked to stop.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// How long to wait before the store is tried again.
const STORE_PAUSE: Duration = Duration::from_secs(2);

/// What was let go without an answer, until it is proved over.
#[derive(Default)]
pub(crate) struct Loose {
    open: Vec<Ended>,
    /// Whether there is something among it whose end nobody here can see.
    is_endless: bool,
}

impl Loose {
    /// An exchange without an answer: see [`InFlight::closed`](crate::back::InFlight::closed).
    pub(crate) fn add(&mut self, closed: Ended) {
        self.open.push(closed);
    }

    /// Work that the server may still do: see [`Back::ended`].
    pub(crate) fn add_work(&mut self, ended: Option<Ended>) {
        match ended {
            Some(ended) => self.open.push(ended),
            None => self.is_endless = true,
        }
    }

    /// Whether all of it is proved over; what is about to be is waited for.
    pub(crate) async fn are_over(&mut self) -> bool {
        !self.is_endless && timeout(LET_GO, self.over()).await.is_ok()
    }

    async fn over(&mut self) {
        while let Some(closed) = self.open.last_mut() {
            closed.await;
            self.open.pop();
        }
    }
}

/// The last that is heard of what a task no longer waits for.
pub(crate) enum LastWord {
    /// An answer.
    Answer(Answer),
    /// That it is over, and no more.
    Over,
    /// Nothing.
    Nothing,
}

/// An exchange that is listened to after its task has ended.
pub(crate) struct Listening {
    word: JoinHandle<LastWord>,
    /// Resolves when it is over, if nothing is heard of it; `None` if nobody can see its end.
    closed: Option<Ended>,
}

/// What came late, for the operation.
#[derive(Clone)]
struct Late {
    note: Option<Text>,
    word: Option<Word>,
    receipt: Result<Option<Receipted>, RuleFailed>,
}

impl Driver {
    /// Goes on listening to a call whose deadline has passed, for as long as a cancellation may take: the server was told.
    pub(crate) fn listen(&mut self, answer: BoxFuture<'static, Answer>, closed: Ended) {
        let grace = self.grace();
        let listening = async move {
            match timeout(grace, answer).await {
                Ok(answer) => LastWord::Answer(answer),
                Err(_) => LastWord::Nothing,
            }
        };
        self.listen_to(listening, Some(closed));
    }

    /// Asks the server to cancel its task, and goes on looking at it for as long as that may take.
    pub(crate) fn listen_upstream(&mut self, back: Arc<dyn Back>, upstream: Upstream) {
        let (grace, closed) = (self.grace(), back.ended());
        let listening = async move {
            let until = Instant::now() + grace;
            if let Err(error) = back.cancel(&upstream).await {
                tracing::info!(%error, "could not pass a cancellation on");
            }
            timeout_at(until, stopped(&*back, &upstream)).await.unwrap_or(LastWord::Nothing)
        };
        self.listen_to(listening, closed);
    }

    fn listen_to(
        &mut self,
        listening: impl Future<Output = LastWord> + Send + 'static,
        closed: Option<Ended>,
    ) {
        let closing = self.engine.closing.clone();
        let word = self.engine.drivers.spawn(async move {
            tokio::select! {
                biased;
                () = closing.cancelled() => LastWord::Nothing,
                word = listening => word,
            }
        });
        self.listening = Some(Listening { word, closed });
    }

    /// Leaves what may still be heard, or proved over, to somebody else: the driver is done.
    pub(crate) fn leave(&mut self) {
        let loose = std::mem::take(&mut self.loose);
        let listening = self.listening.take();
        let record = self.live.record();
        let is_watched = listening.is_some() || (!loose.open.is_empty() && !loose.is_endless);
        match record.operation.effect {
            Effect::ReadOnly => {}
            Effect::Reversible | Effect::Consequential if is_watched => {
                let (engine, live) = (self.engine.clone(), self.live.clone());
                self.engine.drivers.spawn(async move {
                    let closing = engine.closing.clone();
                    tokio::select! {
                        biased;
                        // The next start finds all exchanges over.
                        () = closing.cancelled() => {}
                        () = engine.part(live, listening, loose) => {}
                    }
                });
            }
            Effect::Reversible | Effect::Consequential => {}
        }
    }
}

/// Looks at a task that was asked to stop until it has.
async fn stopped(back: &dyn Back, upstream: &Upstream) -> LastWord {
    loop {
        match back.look(upstream).await.map(|look| look.stand) {
            Ok(Stand::Ended(answer)) => return LastWord::Answer(*answer),
            Ok(Stand::Cancelled) => return LastWord::Over,
            Ok(Stand::Over) => {
                return match back.result(upstream).await {
                    Ok(answer @ (Answer::Returned { .. } | Answer::Raised { .. })) => {
                        LastWord::Answer(answer)
                    }
                    // The server says that it is done with it, whatever the result is.
                    Ok(
                        Answer::Task(_)
                        | Answer::InputRequired { .. }
                        | Answer::NeverSent(_)
                        | Answer::Lost(_)
                        | Answer::Nonsense(_),
                    )
                    | Err(_) => LastWord::Over,
                };
            }
            Ok(Stand::Working | Stand::InputRequired) | Err(_) => sleep(LOOK_AGAIN).await,
        }
    }
}

impl Engine {
    /// Tells the operation what is still heard of an exchange, and when it is proved over.
    async fn part(self: &Arc<Self>, live: Arc<Live>, listening: Option<Listening>, mut loose: Loose) {
        let attempts = live.record().operation.attempts;
        let mut late = Late { note: None, word: None, receipt: Ok(None) };
        if let Some(Listening { word, closed }) = listening {
            match word.await.unwrap_or(LastWord::Nothing) {
                LastWord::Answer(Answer::Lost(_)) | LastWord::Nothing => loose.add_work(closed),
                LastWord::Answer(Answer::Task(_)) => {
                    late.note =
                        Some(Text::new("the server made a task of it too late, and was asked to cancel it"));
                    // Of that one nothing more is seen.
                    loose.add_work(None);
                }
                LastWord::Answer(answer) => late = self.late(&live, answer),
                LastWord::Over => {}
            }
        }
        let is_over = loose.are_over().await;
        if is_over || late.note.is_some() || late.word.is_some() {
            self.tell_late(&live, attempts, late.clone(), is_over).await;
        }
        if !is_over && !loose.is_endless {
            loose.over().await;
            let nothing = Late { note: None, word: None, receipt: Ok(None) };
            self.tell_late(&live, attempts, nothing, true).await;
        }
    }

    /// What an answer says after its task has ended. Only what says something of the effect is the server's word: nobody
    /// is given an error that comes now, so it takes no doubt away.
    fn late(&self, live: &Live, answer: Answer) -> Late {
        let record = live.record();
        let error =
            |what: String| (Some(Text::new(&format!("the server answered too late, with {what}"))), None);
        let mut receipt = Ok(None);
        let (note, word) = match answer {
            Answer::Returned { result, is_error } => {
                if let Some(about) = About::record(&record) {
                    receipt = self.parts.rules.receipt(&about, &result, is_error);
                }
                if is_error {
                    error("an error of its tool".to_owned())
                } else {
                    (Some(Text::new("the server answered too late for the task")), Some(Word::Success))
                }
            }
            Answer::Raised { code: code @ (-32601 | -32602), .. } => {
                (error(format!("error {code}")).0, Some(Word::NotUnderstood))
            }
            Answer::Raised { code, .. } => error(format!("error {code}")),
            Answer::InputRequired { .. } => error("a question".to_owned()),
            Answer::Nonsense(_) => error("what makes no sense".to_owned()),
            Answer::NeverSent(_) | Answer::Lost(_) | Answer::Task(_) => (None, None),
        };
        Late { note, word, receipt }
    }

    /// Writes down what came late, however long it takes, unless the operation was sent again meanwhile.
    async fn tell_late(self: &Arc<Self>, live: &Arc<Live>, attempts: u32, late: Late, is_over: bool) {
        loop {
            match self.try_late(live, attempts, &late, is_over).await {
                Ok(true) => return,
                // Its task went, or somebody else was first.
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(task = ?live.record().id, %error, "could not write down what came late");
                    sleep(STORE_PAUSE).await;
                }
            }
        }
    }

    /// `false` if it must be tried again.
    async fn try_late(
        self: &Arc<Self>,
        live: &Arc<Live>,
        attempts: u32,
        late: &Late,
        is_over: bool,
    ) -> Result<bool, taskgate_store::Error> {
        let id = live.record().operation_id.clone();
        let Some(entry) = self.parts.store.operation(&id).await? else { return Ok(true) };
        if entry.operation.attempts != attempts {
            return Ok(true);
        }
        let Some(live) = self.kept(&entry).await? else {
            return if entry.kept.is_some() {
                Ok(false)
            } else {
                self.tell_late_alone(&entry.id, late, is_over).await.map(|()| true)
            };
        };
        let (engine, late) = (self.clone(), late.clone());
        self.detached(async move {
            let told = engine
                .attempt(&live, |draft| {
                    if draft.record().operation.attempts == attempts {
                        fold_late(draft, &*engine.parts.rules, late, is_over);
                    }
                    Ok::<(), ()>(())
                })
                .await;
            match told {
                Ok(_) => {
                    engine.keep(&live);
                    Ok(true)
                }
                Err(AppendError::Conflict { .. } | AppendError::KeyGiven { .. }) => Ok(false),
                Err(AppendError::Store(error)) => {
                    engine.once_known(&live, async move |engine, live| engine.keep(&live));
                    Err(error)
                }
            }
        })
        .await
    }

    /// Writes down that an exchange of a process before this one is over, as far as that is proved: what it held is closed.
    /// A task of a server's own goes on where that does not end with us.
    pub(crate) async fn close_of_before(
        self: &Arc<Self>,
        entry: &LedgerEntry,
    ) -> Result<(), taskgate_store::Error> {
        let operation = &entry.operation;
        let matters = match operation.stage {
            Stage::Unknown(_) | Stage::Settled(Outcome::Assumed | Outcome::Reported(_)) => true,
            Stage::Settled(Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_))
            | Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. } => false,
        };
        if !matters || operation.attempts == 0 || operation.closed_at.is_some() {
            return Ok(());
        }
        let backs = &self.parts.backs;
        let ends_with_us =
            backs.is_known(&entry.server) && backs.survival(&entry.server) == Survival::DiedWithUs;
        let history = self.parts.store.history(&entry.id).await?;
        let had_a_task = history.iter().any(|happening| happening.kind == EventKind::Accepted);
        if had_a_task && !ends_with_us {
            return Ok(());
        }
        match self.tell(&entry.id, Do::Close).await {
            Ok(_) | Err(ResolveError::OutOfStage(_) | ResolveError::Unknown) => Ok(()),
            Err(error @ (ResolveError::NoReason | ResolveError::NoRule)) => {
                tracing::error!(operation = %entry.id, %error, "an operation could not be told that it is over");
                Ok(())
            }
            Err(ResolveError::Store(error)) => Err(error),
        }
    }

    /// The same as [`Engine::try_late`] for an operation whose task is gone by now.
    async fn tell_late_alone(
        self: &Arc<Self>,
        id: &taskgate_core::id::OperationId,
        late: &Late,
        is_over: bool,
    ) -> Result<(), taskgate_store::Error> {
        let receipt = match &late.receipt {
            Ok(Some(Receipted::Proof { reference, verdict })) => {
                let reference = Text::new(reference);
                Some(Do::Receive(taskgate_core::operation::Receipt { reference, verdict: *verdict }))
            }
            Ok(Some(Receipted::Unproved { .. }) | None) | Err(_) => None,
        };
        let commands =
            [late.note.clone().map(Do::Note), late.word.map(Do::Hear), is_over.then_some(Do::Close), receipt];
        for command in commands.into_iter().flatten() {
            match self.tell(id, command).await {
                Ok(_)
                | Err(
                    ResolveError::OutOfStage(_)
                    | ResolveError::Unknown
                    | ResolveError::NoReason
                    | ResolveError::NoRule,
                ) => {}
                Err(ResolveError::Store(error)) => return Err(error),
            }
        }
        Ok(())
    }
}

fn fold_late(draft: &mut Draft, rules: &dyn Rules, late: Late, is_over: bool) {
    let Late { note, word, receipt } = late;
    if let Some(note) = note {
        draft.operation(Do::Note(note));
    }
    let is_heard = word.is_some_and(|word| draft.operation(Do::Hear(word)));
    if is_over {
        close(draft, rules);
    }
    let failed = receive(draft, receipt);
    if is_heard || failed.is_some() {
        inquire(draft, rules, failed);
    }
}

/// Writes down that the exchange is proved over, if that can still matter, and has the look-up that proves something by it
/// made in time.
pub(crate) fn close(draft: &mut Draft, rules: &dyn Rules) {
    let intent = draft.record().call.intent.clone();
    let matters = match draft.record().operation.stage {
        Stage::Unknown(_) | Stage::Settled(Outcome::Assumed) => true,
        Stage::Settled(Outcome::Reported(_)) => intent.is_some(),
        Stage::Settled(Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_))
        | Stage::Prepared
        | Stage::Dispatched { .. }
        | Stage::Observing { .. } => false,
    };
    if !matters || !draft.operation(Do::Close) {
        return;
    }
    let settle = intent.and_then(|intent| rules.asks(&intent.workflow)).and_then(|asks| asks.settle);
    if let (Some(settle), Inquiry::Reconciling { next, .. }) = (settle, draft.record().operation.inquiry)
        && next > draft.now() + settle
    {
        draft.operation(Do::Reconcile { first: settle });
    }
}
