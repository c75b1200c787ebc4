//! Following a task of the back to its end: one observer, however many readers a front has (G-010).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use taskgate_core::budget::{Budget, Purpose};
use taskgate_core::operation::{Command as Do, Doubt, Upstream};
use taskgate_core::task::{CancelRule, Command, Ending, Fault, QuestionKey, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::record::Observed;
use tokio::time::{Instant, sleep_until};

use crate::back::{Answer, Back, BackEvent, InFlight, Look, LookError, Reply, Stand};
use crate::drive::{Driver, asked_undeclared, refusal};
use crate::handle::{Order, Signal};

/// Messages and timestamps that change faster than this are not each worth a write.
const WRITE_GAP: Millis = Millis::secs(1);

/// How long a result may take to come by the stream that waits for it, once the task is known to be over.
const STREAM_PATIENCE: Duration = Duration::from_secs(2);

/// A stream that lasted less than this is not opened again unless there is something to be had on it.
const STREAM_TOO_SHORT: Duration = Duration::from_secs(2);

/// What an observer knows beyond the record.
struct Observer {
    back: Arc<dyn Back>,
    upstream: Upstream,
    /// Every question key of the back that was ever seen, and ours for it (B-091, B-092).
    known: BTreeMap<String, (QuestionKey, QuestionKind)>,
    /// URLs that were answered and are still listed, for all that is known.
    visiting: BTreeMap<String, QuestionKey>,
    reads: Budget,
    started: UnixMillis,
    written: UnixMillis,
    attended_at: Instant,
}

/// What woke the observer.
enum Woken {
    Looked(Result<Look, LookError>),
    Attended(Answer),
    Event(BackEvent),
    Order(Order),
    Due,
    DeadlinePassed,
    GraceOver,
    Stopping,
}

impl Driver {
    /// Observes until the task is over. `first` is what was said at its creation; without it, this is a task taken
    /// up again after a restart.
    pub(crate) async fn observe(&mut self, upstream: &Upstream, first: Option<Look>) {
        let Some(back) = self.reconnect().await else { return };
        let limits = &self.engine.parts.limits;
        let now = self.now();
        let mut observer = Observer {
            back,
            upstream: upstream.clone(),
            known: BTreeMap::new(),
            visiting: BTreeMap::new(),
            reads: Budget::new(Purpose::StatusRead, limits.status_read(&self.live.record().call)),
            started: self.live.record().task.lifetime.created,
            written: UnixMillis::default(),
            attended_at: Instant::now(),
        };
        let mut due = Instant::now();
        if let Some(look) = first {
            due = self.next_look(&observer, now, look.poll).unwrap_or(due);
            if self.seen(&mut observer, look, None).await {
                return;
            }
        }
        if self.is_cancelled() {
            if self.live.record().task.ending().is_some() {
                // It was promised that it is over; after a restart too, its work is listened to for so long and no longer.
                self.give_up_at.get_or_insert(Instant::now() + self.grace());
            }
            self.cancel_upstream(&observer).await;
        }
        let mut attending = observer.back.attend(upstream);
        let mut looking: Option<BoxFuture<'static, Result<Look, LookError>>> = None;
        let deadline = self.until(self.live.record().deadline);
        loop {
            let give_up_at = self.give_up_at;
            let stopping = self.engine.stopping.clone();
            let woken = tokio::select! {
                biased;
                order = self.next_order() => Woken::Order(order),
                () = sleep_until(deadline) => Woken::DeadlinePassed,
                () = sleep_until(give_up_at.unwrap_or(deadline)), if give_up_at.is_some() => Woken::GraceOver,
                looked = maybe(&mut looking) => Woken::Looked(looked),
                () = sleep_until(due), if looking.is_none() => Woken::Due,
                // After those: a server may say more than there is time for.
                woken = attended(&mut attending) => woken,
                () = stopping.cancelled() => Woken::Stopping,
            };
            match woken {
                Woken::Attended(answer @ (Answer::Returned { .. } | Answer::Raised { .. })) => {
                    if let Some(InFlight { events, .. }) = &mut attending {
                        self.rest(events);
                    }
                    // What tasks/result says of a cancelled task is left to each server: Python 1.30 answers
                    // with an empty result. Its status tells.
                    if self.live.record().task.cancel_wished_at.is_some()
                        && let Ok(Look { stand: Stand::Cancelled, .. }) = observer.look().await
                    {
                        return self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
                    }
                    return self.ended(answer).await;
                }
                Woken::Attended(_) => {
                    attending = None;
                    self.withdraw_parked().await;
                }
                Woken::Event(BackEvent::Nudge) => due = Instant::now(),
                Woken::Event(event) => self.event(event).await,
                Woken::Due => looking = Some(observer.look()),
                Woken::Looked(Ok(look)) => {
                    looking = None;
                    observer.reads.refill();
                    let poll = look.poll;
                    let waits_for_input = matches!(look.stand, Stand::InputRequired);
                    if self.seen(&mut observer, look, attending.as_mut()).await {
                        return;
                    }
                    let lasted = observer.attended_at.elapsed() > STREAM_TOO_SHORT;
                    if attending.is_none() && (waits_for_input || lasted) {
                        attending = observer.back.attend(upstream);
                        observer.attended_at = Instant::now();
                    }
                    match self.next_look(&observer, self.now(), poll) {
                        Some(at) => due = at,
                        None => due = deadline,
                    }
                }
                Woken::Looked(Err(error)) => {
                    looking = None;
                    match self.read_failed(&mut observer, error).await {
                        Some(pause) => due = Instant::now() + pause.duration(),
                        None => return,
                    }
                }
                Woken::Order(Order::Cancel(rule)) => {
                    if rule == CancelRule::Promise {
                        self.give_up_at.get_or_insert(Instant::now() + self.grace());
                    }
                    self.cancel_upstream(&observer).await;
                    due = Instant::now();
                }
                Woken::Order(Order::Forward { key, reply, settled }) => {
                    if self.live.parked.lock().contains_key(&key) {
                        self.forward_parked(key, reply, settled).await;
                    } else {
                        if !self.forward(&mut observer, &key, reply).await {
                            return;
                        }
                        let _ = settled.send(());
                        due = Instant::now();
                    }
                }
                Woken::DeadlinePassed => {
                    self.give_up_asking();
                    self.listen_upstream(observer.back.clone(), observer.upstream.clone());
                    let ending = Ending::Faulted(Fault::DeadlinePassed);
                    return self.end(Do::Lose(Doubt::DeadlinePassed), ending).await;
                }
                Woken::GraceOver => {
                    self.loose.add_work(observer.back.ended());
                    return self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
                }
                Woken::Stopping => return,
            }
        }
    }

    /// Opens the session again, for as long as status reads may be tried.
    async fn reconnect(&mut self) -> Option<Arc<dyn Back>> {
        if let Some(back) = &self.back {
            return Some(back.clone());
        }
        let mut budget =
            Budget::new(Purpose::StatusRead, self.engine.parts.limits.status_read(&self.live.record().call));
        let key = self.key();
        loop {
            if let Err(spent) = budget.spend(self.now()) {
                let fault = Fault::BudgetSpent(spent.to_string());
                // Its task may go on where nobody sees it.
                self.loose.add_work(None);
                self.end(Do::Lose(Doubt::AnswerLost), Ending::Faulted(fault)).await;
                return None;
            }
            match self.engine.parts.backs.open(&key).await {
                Ok(back) => {
                    self.back = Some(back.clone());
                    return Some(back);
                }
                Err(error) => tracing::warn!(server = %key.server, %error, "server cannot be reached"),
            }
            let pause = budget.backoff(self.engine.parts.random.jitter());
            if !self.pause(pause).await && self.engine.stopping.is_cancelled() {
                return None;
            }
        }
    }

    fn next_look(&self, observer: &Observer, now: UnixMillis, poll: Option<Millis>) -> Option<Instant> {
        let jitter = self.engine.parts.random.jitter();
        let rhythm = &self.engine.parts.limits.rhythm;
        let at = rhythm.next_look(now, observer.started, poll, self.live.record().deadline, jitter)?;
        Some(self.until(at))
    }

    /// Takes in what a look showed; whether the task is over.
    async fn seen(&mut self, observer: &mut Observer, look: Look, attending: Option<&mut InFlight>) -> bool {
        let is_listed = |back_key: &String| look.questions.iter().any(|(listed, _)| listed == back_key);
        for (_, key) in observer.visiting.extract_if(.., |back_key, _| !is_listed(back_key)) {
            self.live.signal(Signal::Visited(key));
        }
        match look.stand {
            Stand::Working | Stand::InputRequired => {
                let is_fresh = |back_key: &String| !observer.known.contains_key(back_key);
                let mut fresh = look.questions.iter().filter(|(back_key, _)| is_fresh(back_key));
                if let Some((_, undeclared)) = fresh.find(|(_, question)| self.refuses(question).is_some()) {
                    let why = asked_undeclared(undeclared.kind);
                    self.listen_upstream(observer.back.clone(), observer.upstream.clone());
                    self.ended(Answer::Nonsense(why)).await;
                    return true;
                }
                self.note(observer, look).await;
                false
            }
            Stand::Ended(answer) => {
                self.ended(*answer).await;
                true
            }
            Stand::Cancelled => {
                // The server says that it is done with it.
                self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
                true
            }
            Stand::Over => {
                if let Some(attending) = attending
                    && let Ok(answer @ (Answer::Returned { .. } | Answer::Raised { .. })) =
                        tokio::time::timeout(STREAM_PATIENCE, &mut attending.answer).await
                {
                    self.ended(answer).await;
                } else {
                    self.fetch(observer).await;
                }
                true
            }
        }
    }

    /// Fetches the result of a task that is over, by the result's own budget (R5.4). Whatever comes of that, the server
    /// has said that it is done with it.
    async fn fetch(&mut self, observer: &Observer) {
        let mut budget =
            Budget::new(Purpose::Result, self.engine.parts.limits.result(&self.live.record().call));
        loop {
            if let Err(spent) = budget.spend(self.now()) {
                let fault = Fault::BudgetSpent(spent.to_string());
                return self.end(Do::Lose(Doubt::AnswerLost), Ending::Faulted(fault)).await;
            }
            match observer.back.result(&observer.upstream).await {
                Ok(answer @ (Answer::Returned { .. } | Answer::Raised { .. } | Answer::Nonsense(_))) => {
                    return self.ended(answer).await;
                }
                Ok(Answer::Task(_) | Answer::InputRequired { .. }) => {
                    let why = "tasks/result was not answered by a result".to_owned();
                    return self.ended(Answer::Nonsense(why)).await;
                }
                Err(LookError::UnknownTask) => return self.lost_upstream(None).await,
                Err(LookError::Nonsense(why)) => return self.ended(Answer::Nonsense(why)).await,
                Ok(Answer::NeverSent(_) | Answer::Lost(_)) | Err(LookError::Transient(_)) => {}
            }
            let pause = budget.backoff(self.engine.parts.random.jitter());
            if !self.pause(pause).await && self.engine.stopping.is_cancelled() {
                return;
            }
        }
    }

    /// The back does not know its task. One that was to be cancelled may be deleted at any moment.
    ///
    /// `observer`: unless it was known to be over before.
    async fn lost_upstream(&mut self, observer: Option<&Observer>) {
        if let Some(observer) = observer {
            self.loose.add_work(observer.back.ended());
        }
        if self.live.record().task.cancel_wished_at.is_some() {
            return self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
        }
        self.end(Do::Lose(Doubt::UpstreamLost), Ending::Faulted(Fault::UpstreamLost)).await;
    }

    /// Writes down what a look at unfinished work showed: questions at once, the rest when it is worth a write.
    async fn note(&mut self, observer: &mut Observer, look: Look) {
        let now = self.now();
        let record = self.live.record();
        let outstanding = record.task.outstanding();
        let is_open =
            |key: &QuestionKey| outstanding.is_some_and(|asked| asked.questions().contains_key(key));
        // A key that was seen before is the same question (B-092); one that was answered may linger (B-095).
        let (fresh, listed): (Vec<_>, Vec<_>) =
            look.questions.into_iter().partition(|(back_key, _)| !observer.known.contains_key(back_key));
        let gone: Vec<QuestionKey> = observer
            .known
            .iter()
            .filter(|(back_key, (key, _))| {
                is_open(key) && !listed.iter().any(|(listed, _)| listed == *back_key)
            })
            .map(|(_, (key, _))| key.clone())
            .collect();
        let observed = Observed {
            status: Some(look.stand.word().to_owned()),
            last_updated_at: look.last_updated_at,
            next_look: Some(now + look.poll.unwrap_or_default()),
        };
        let pressing = !fresh.is_empty() || !gone.is_empty() || record.observed.status != observed.status;
        if !pressing && now.since(observer.written) < WRITE_GAP {
            return;
        }
        observer.written = now;
        let before = record.task.keys_issued;
        let (back_keys, questions): (Vec<_>, Vec<_>) = fresh.into_iter().unzip();
        let kinds: Vec<_> = questions.iter().map(|question| question.kind).collect();
        let written = self
            .write(|draft| {
                for key in gone {
                    let _ = draft.task(Command::Withdraw(key));
                }
                for question in questions {
                    let _ = draft.task(Command::Ask(question));
                }
                if let Some(message) = look.message {
                    let _ = draft.task(Command::Say(message));
                }
                if draft.record().task.ending().is_none() {
                    draft.observe(observed);
                }
            })
            .await;
        for ((back_key, kind), key) in back_keys.into_iter().zip(kinds).zip(written.task.keys_since(before)) {
            observer.known.insert(back_key, (key, kind));
        }
    }

    /// What to do about a failed read; how long to wait, or `None` if the task is over by it (R5.6).
    async fn read_failed(&mut self, observer: &mut Observer, error: LookError) -> Option<Millis> {
        match error {
            LookError::UnknownTask => {
                self.lost_upstream(Some(observer)).await;
                None
            }
            LookError::Nonsense(why) => {
                self.loose.add_work(observer.back.ended());
                self.ended(Answer::Nonsense(why)).await;
                None
            }
            LookError::Transient(why) => {
                tracing::debug!(task = ?self.live.record().id, why, "status read failed");
                match observer.reads.spend(self.now()) {
                    Ok(()) => Some(observer.reads.backoff(self.engine.parts.random.jitter())),
                    Err(spent) => {
                        let fault = Fault::BudgetSpent(spent.to_string());
                        self.loose.add_work(observer.back.ended());
                        self.end(Do::Lose(Doubt::AnswerLost), Ending::Faulted(fault)).await;
                        None
                    }
                }
            }
        }
    }

    /// Sends an answer to a question that a look had listed; `false` if the task ended instead.
    async fn forward(&mut self, observer: &mut Observer, key: &QuestionKey, reply: Reply) -> bool {
        let found = observer.known.iter().find(|(_, (known, _))| known == key);
        let Some((back_key, kind)) = found.map(|(back_key, (_, kind))| (back_key.clone(), *kind)) else {
            self.write(|draft| {
                let _ = draft.task(Command::Withdraw(key.clone()));
            })
            .await;
            return true;
        };
        let reply = match refusal(kind, &reply) {
            Ok(result) => Reply::Result(result),
            Err(why) => {
                self.listen_upstream(observer.back.clone(), observer.upstream.clone());
                self.end(Do::Lose(Doubt::Cancelled), Ending::Faulted(Fault::NoAnswer(why))).await;
                return false;
            }
        };
        let mut budget =
            Budget::new(Purpose::StatusRead, self.engine.parts.limits.status_read(&self.live.record().call));
        while budget.spend(self.now()).is_ok() {
            match observer.back.answer(&observer.upstream, &back_key, &reply).await {
                Ok(()) => {
                    if kind == QuestionKind::Url {
                        observer.visiting.insert(back_key, key.clone());
                    }
                    self.write(|draft| {
                        let _ = draft.task(Command::SettleAnswer(key.clone()));
                    })
                    .await;
                    return true;
                }
                Err(LookError::UnknownTask) => {
                    self.lost_upstream(Some(observer)).await;
                    return false;
                }
                Err(error @ (LookError::Transient(_) | LookError::Nonsense(_))) => {
                    tracing::warn!(task = ?self.live.record().id, %error, "could not pass an answer on");
                    let pause = budget.backoff(self.engine.parts.random.jitter());
                    if !self.pause(pause).await {
                        return true;
                    }
                }
            }
        }
        true
    }

    /// Passes a cancellation on. That it fails changes nothing here: what became of the work is observed.
    async fn cancel_upstream(&self, observer: &Observer) {
        if let Err(error) = observer.back.cancel(&observer.upstream).await {
            tracing::info!(task = ?self.live.record().id, %error, "could not pass a cancellation on");
        }
    }

    /// The stream on which requests were parked is gone, and they with it.
    async fn withdraw_parked(&mut self) {
        let keys: Vec<_> = std::mem::take(&mut self.asks).into_values().collect();
        self.live.parked.lock().retain(|key, _| !keys.contains(key));
        self.withdraw(keys).await;
    }

    async fn withdraw(&mut self, keys: Vec<QuestionKey>) {
        if keys.is_empty() {
            return;
        }
        self.write(|draft| {
            for key in keys {
                let _ = draft.task(Command::Withdraw(key));
            }
        })
        .await;
    }
}

impl Observer {
    fn look(&self) -> BoxFuture<'static, Result<Look, LookError>> {
        let back = self.back.clone();
        let upstream = self.upstream.clone();
        Box::pin(async move { back.look(&upstream).await })
    }
}

/// What comes on the stream that attends to the task; pends when there is none.
async fn attended(attending: &mut Option<InFlight>) -> Woken {
    let Some(InFlight { answer, events, .. }) = attending else { return std::future::pending().await };
    tokio::select! {
        biased;
        answer = answer => Woken::Attended(answer),
        Some(event) = events.recv() => Woken::Event(event),
    }
}

async fn maybe<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}
