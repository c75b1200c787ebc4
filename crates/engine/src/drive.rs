//! One attempt at a back, from the send to the end.
//!
//! A driver runs for as long as an exchange is open. It never shows anything that is not on disk: what the back
//! says is appended first and published then. Its timers are the runtime's one timer wheel; it wakes for an event,
//! an order or a deadline, and never to see whether there is one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use taskgate_core::budget::{Budget, Purpose};
use taskgate_core::operation::{Command as Do, Doubt, Stage, Word};
use taskgate_core::task::{CancelRule, Command, Ending, Fault, Question, QuestionKey, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_seeded::Bug;
use taskgate_store::record::{Front, Record};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use crate::back::{Accepted, Answer, Back, BackEvent, BackKey, InFlight, Outgoing, Reply, Round};
use crate::draft::Draft;
use crate::engine::Engine;
use crate::farewell::{Listening, Loose};
use crate::handle::{Live, Order, Signal};
use crate::ledger::{End, conclude};
use crate::reconcile::counts;
use crate::rules::{About, Receipted, RuleFailed};
use crate::visit::Visited;
use crate::written::Unwritten;

/// A call may be sent back and forth between questions and answers this often before we call it nonsense.
const ROUNDS_MAX: u32 = 32;

/// The code by which a client says that its user did not want to.
const USER_REJECTED: i64 = -1;

/// Why an attempt that was written down was not sent.
const TOO_LATE: &str = "the time in which it may be sent again was over before it could be";

/// Where a driver begins.
pub(crate) enum Start {
    /// Recorded as dispatched: send it.
    Call,
    /// Its turn has come: record the dispatch, then send.
    Turn,
    /// Sent already by somebody else, who perhaps took an event out.
    Held(InFlight, Option<BackEvent>),
    /// The back has a task for it: observe.
    Resume,
}

/// What a driver works with.
pub(crate) struct Driver {
    pub(crate) engine: Arc<Engine>,
    pub(crate) live: Arc<Live>,
    pub(crate) back: Option<Arc<dyn Back>>,
    pub(crate) orders: mpsc::UnboundedReceiver<Order>,
    /// Orders that came while something else was waited for.
    backlog: VecDeque<Order>,
    /// Requests parked in this exchange, and the keys they are shown under.
    pub(crate) asks: BTreeMap<u64, QuestionKey>,
    /// Those among them that asked to visit a URL, until the server says that it was done.
    visits: BTreeMap<u64, QuestionKey>,
    /// URLs that were agreed to in the round before, by the server's keys.
    agreed: Vec<(String, QuestionKey)>,
    /// How often the call was begun anew because a URL had to be visited first.
    pub(crate) repeats: u32,
    /// Whether the running place is still ours.
    pub(crate) holds_place: bool,
    pub(crate) give_up_at: Option<Instant>,
    /// What was let go without an answer, of this call and in this process.
    pub(crate) loose: Loose,
    /// What is still listened to though the task is over.
    pub(crate) listening: Option<Listening>,
}

/// How holding an exchange ended.
pub(crate) enum Held {
    /// The back answered.
    Answered(Answer),
    /// The deadline passed.
    DeadlinePassed,
    /// Cancelled, and nothing came within the grace period.
    Unanswered,
    /// The engine is shutting down.
    Stopping,
}

pub(crate) async fn run(
    engine: Arc<Engine>,
    live: Arc<Live>,
    back: Option<Arc<dyn Back>>,
    orders: mpsc::UnboundedReceiver<Order>,
    start: Start,
) {
    let mut driver = Driver {
        engine,
        live,
        back,
        orders,
        backlog: VecDeque::new(),
        asks: BTreeMap::new(),
        visits: BTreeMap::new(),
        agreed: Vec::new(),
        repeats: 0,
        holds_place: true,
        give_up_at: None,
        loose: Loose::default(),
        listening: None,
    };
    driver.begin(start).await;
    driver.release();
    driver.live.undriven();
    driver.leave();
    let (engine, live) = (&driver.engine, &driver.live);
    engine.end_if_found(live).await;
    if !counts(&live.record()) {
        engine.registry.retire(live);
    }
}

impl Driver {
    async fn begin(&mut self, start: Start) {
        match start {
            Start::Call => self.call(None).await,
            Start::Turn => {
                if self.take_turn().await {
                    self.call(None).await;
                }
            }
            Start::Held(in_flight, first) => {
                if let Some(event) = first {
                    self.event(event).await;
                }
                let held = self.hold(in_flight).await;
                if let Held::Answered(Answer::InputRequired { questions, state }) = held {
                    if let Some(round) = self.gather(questions, state).await {
                        self.call(Some(round)).await;
                    }
                } else {
                    self.settle(held).await;
                }
            }
            Start::Resume => {
                self.release();
                if let Stage::Observing { upstream, .. } = &self.live.record().operation.stage.clone() {
                    self.observe(upstream, None).await;
                }
            }
        }
    }

    /// Records the dispatch of a call whose turn has come; `false` if it must not be sent.
    async fn take_turn(&mut self) -> bool {
        let record = self.live.record();
        if let Stage::Dispatched { .. } = record.operation.stage
            && self.is_cancelled()
        {
            // It was sent before a crash, and nobody wants it sent again.
            self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
            return false;
        }
        if record.task.ending().is_some() {
            return false;
        }
        let waited = self.now().since(record.task.lifetime.created);
        if record.operation.stage == Stage::Prepared && waited > self.engine.parts.limits.start_by {
            let why = "it waited longer than calls may wait to be begun".to_owned();
            self.end(Do::NeverSent, Ending::Faulted(Fault::NeverSent(why))).await;
            return false;
        }
        if self.connect().await.is_none() {
            return false;
        }
        let mut fits = false;
        let written = self
            .write_down(|draft| {
                fits = draft.is_wanted() && draft.operation(Do::Dispatch);
            })
            .await;
        if written.is_some() && !fits {
            // Cancelled in this moment, or the window in which it could be sent again is over.
            self.ended(Answer::Lost("the call can no longer be sent again".to_owned())).await;
        }
        fits && (written.is_some() || taskgate_seeded::is(Bug::SendUndispatched))
    }

    /// Opens the session after a restart. A call that was never sent, or may be sent again, fails when it cannot be.
    pub(crate) async fn connect(&mut self) -> Option<Arc<dyn Back>> {
        if let Some(back) = &self.back {
            return Some(back.clone());
        }
        let mut budget =
            Budget::new(Purpose::Create, self.engine.parts.limits.create(&self.live.record().call));
        let key = self.key();
        loop {
            let why = match budget.spend(self.now()) {
                Err(spent) => spent.to_string(),
                Ok(()) => match self.engine.parts.backs.open(&key).await {
                    Ok(back) => {
                        self.back = Some(back.clone());
                        return Some(back);
                    }
                    Err(unreachable) => {
                        tracing::warn!(server = %key.server, error = %unreachable, "server cannot be reached");
                        if self.pause(budget.backoff(self.engine.parts.random.jitter())).await {
                            continue;
                        }
                        return None;
                    }
                },
            };
            let never_sent = self.live.record().operation.stage == Stage::Prepared;
            let (told, fault) = if never_sent {
                (Do::NeverSent, Fault::NeverSent(why))
            } else {
                (Do::Lose(Doubt::AnswerLost), Fault::OutcomeUnknown(why))
            };
            // What was sent before a crash is over: the process that sent it is gone.
            self.end(told, Ending::Faulted(fault)).await;
            return None;
        }
    }

    pub(crate) fn key(&self) -> BackKey {
        let record = self.live.record();
        BackKey {
            server: record.call.server.clone(),
            principal: record.principal.clone(),
            offers: record.call.offers.clone(),
        }
    }

    /// Sends the call, in as many rounds as it takes, and follows it to its end.
    pub(crate) async fn call(&mut self, mut round: Option<Round>) {
        let mut rounds = 0;
        let mut resends =
            Budget::new(Purpose::Create, self.engine.parts.limits.create(&self.live.record().call));
        let _ = resends.spend(self.now());
        loop {
            let Some(back) = self.connect().await else { return };
            let held = if round.is_none() && self.is_too_late() {
                Held::Answered(Answer::NeverSent(TOO_LATE.to_owned()))
            } else {
                let in_flight = back.call(self.outgoing(round.take()));
                self.hold(in_flight).await
            };
            let held = self.unless_sent_before(held);
            self.visited_in_round(&held);
            if let Held::Answered(Answer::InputRequired { questions, state }) = held {
                rounds += 1;
                if rounds > ROUNDS_MAX {
                    let why = format!("the server asked for input {ROUNDS_MAX} times over");
                    return self.ended(Answer::Nonsense(why)).await;
                }
                match self.gather(questions, state).await {
                    Some(next) => round = Some(next),
                    None => return,
                }
            } else if let Held::Answered(Answer::Lost(why)) = held {
                if let Err(why) = self.send_again(why, &mut resends).await {
                    return self.ended(Answer::Lost(why)).await;
                }
            } else {
                return self.settle(held).await;
            }
        }
    }

    /// Whether the time has passed in which it may be sent again: since that was written down, the process may have been
    /// suspended, or the server took long to open. An attempt with none before it repeats nothing.
    fn is_too_late(&self) -> bool {
        let operation = &self.live.record().operation;
        operation.attempts > operation.cleared + 1
            && !operation.may_resend(self.now())
            && !taskgate_seeded::is(Bug::ClockAskedOnce)
    }

    /// An attempt that never left says nothing about those before it: what is lost then is their answer.
    fn unless_sent_before(&self, held: Held) -> Held {
        let record = self.live.record();
        match held {
            Held::Answered(Answer::NeverSent(why))
                if record.operation.attempts > record.operation.cleared + 1 =>
            {
                Held::Answered(Answer::Lost(why))
            }
            Held::Answered(_) | Held::DeadlinePassed | Held::Unanswered | Held::Stopping => held,
        }
    }

    /// A URL that was agreed to and is not asked for again has been visited.
    fn visited_in_round(&mut self, held: &Held) {
        let again = match held {
            Held::Answered(Answer::InputRequired { questions, .. }) => questions.as_slice(),
            Held::Answered(_) => &[],
            Held::DeadlinePassed | Held::Unanswered | Held::Stopping => return,
        };
        for (back_key, key) in std::mem::take(&mut self.agreed) {
            if !again.iter().any(|(asked, _)| *asked == back_key) {
                self.live.signal(Signal::Visited(key));
            }
        }
    }

    /// Records another dispatch of a call whose answer was lost for the reason `why`; why not, if it must not be sent again.
    async fn send_again(&mut self, why: String, resends: &mut Budget) -> Result<(), String> {
        if !self.may_resend() {
            return Err(why);
        }
        if let Err(spent) = resends.spend(self.now()) {
            return Err(format!("{spent}; the last time: {why}"));
        }
        tracing::info!(task = ?self.live.record().id, why, "answer lost, sending again");
        let pause = resends.backoff(self.engine.parts.random.jitter());
        let mut fits = false;
        if self.pause(pause).await {
            // The session may be what broke; where it is sound, it is handed out again.
            self.back = None;
            // It may have been cancelled meanwhile.
            let written =
                self.write_down(|draft| fits = draft.is_wanted() && draft.operation(Do::Dispatch)).await;
            fits &= written.is_some();
        }
        if fits { Ok(()) } else { Err(why) }
    }

    fn may_resend(&self) -> bool {
        let record = self.live.record();
        record.task.ending().is_none()
            && record.task.cancel_wished_at.is_none()
            && record.operation.may_resend(self.now())
    }

    fn outgoing(&self, round: Option<Round>) -> Outgoing {
        let record = self.live.record();
        let keyed = matches!(record.operation.replay, taskgate_core::operation::Replay::Keyed { .. });
        Outgoing {
            tool: record.call.tool.clone(),
            params: record.call.params.clone(),
            asking: record.call.asking,
            ttl: record.deadline.since(self.now()) + Millis::hours(1),
            offers: record.call.offers.clone(),
            key: keyed.then(|| match &record.call.key {
                Some(key) => key.text.clone(),
                None => record.operation_id.0.clone(),
            }),
            round,
        }
    }

    /// Holds an exchange until it ends, serving its events and the clients' orders meanwhile.
    async fn hold(&mut self, in_flight: InFlight) -> Held {
        let InFlight { mut answer, mut events, stop, closed } = in_flight;
        let deadline = self.until(self.live.record().deadline);
        let stopping = self.engine.stopping.clone();
        let mut open = true;
        if self.is_cancelled() {
            stop.cancel();
            self.give_up_at.get_or_insert(Instant::now() + self.grace());
        }
        let held = loop {
            let give_up_at = self.give_up_at;
            tokio::select! {
                biased;
                answer = &mut answer => break Held::Answered(answer),
                order = self.next_order() => match order {
                    Order::Cancel(_) => {
                        stop.cancel();
                        self.give_up_at.get_or_insert(Instant::now() + self.grace());
                    }
                    Order::Forward { key, reply, settled } => self.forward_parked(key, reply, settled).await,
                },
                () = sleep_until(deadline) => {
                    self.give_up_asking();
                    stop.cancel();
                    // What has not left yet is taken back, and then it is certain that nothing was done.
                    match std::future::poll_fn(|context| Poll::Ready(answer.as_mut().poll(context))).await {
                        Poll::Ready(unsent @ Answer::NeverSent(_)) => break Held::Answered(unsent),
                        Poll::Ready(late) => self.listen(Box::pin(std::future::ready(late)), closed),
                        // The server is told before the exchange is let go.
                        Poll::Pending => self.listen(answer, closed),
                    }
                    self.asks.clear();
                    return Held::DeadlinePassed;
                }
                () = sleep_until(give_up_at.unwrap_or(deadline)), if give_up_at.is_some() => break Held::Unanswered,
                () = stopping.cancelled() => break Held::Stopping,
                // Last: a server may say more than there is time for, and neither deadline nor cancellation waits for it.
                event = events.recv(), if open => match event {
                    Some(event) => self.event(event).await,
                    None => open = false,
                },
            }
        };
        self.rest(&mut events);
        self.asks.clear();
        match held {
            Held::Answered(Answer::Lost(_)) | Held::Unanswered => {
                drop(answer);
                self.loose.add(closed);
            }
            // The server is done with it, or it never left.
            Held::Answered(_) | Held::DeadlinePassed | Held::Stopping => {}
        }
        held
    }

    /// What came just before the end: it is shown before that. Nobody is asked what its server has given up waiting for.
    pub(crate) fn rest(&mut self, events: &mut mpsc::UnboundedReceiver<BackEvent>) {
        // A server may go on saying more.
        for _ in 0..events.len() {
            match events.try_recv() {
                Ok(BackEvent::Progress(params)) => self.live.signal(Signal::Progress(params)),
                Ok(BackEvent::Log(params)) => self.live.signal(Signal::Log(params)),
                Ok(BackEvent::Visited { ask }) => self.visited(ask),
                Ok(BackEvent::Asked { .. } | BackEvent::Unasked { .. } | BackEvent::Nudge) => {}
                Err(_) => return,
            }
        }
    }

    fn visited(&mut self, ask: u64) {
        if let Some(key) = self.visits.remove(&ask) {
            self.live.signal(Signal::Visited(key));
        }
    }

    /// What the back says before the end.
    pub(crate) async fn event(&mut self, event: BackEvent) {
        match event {
            BackEvent::Progress(params) => self.live.signal(Signal::Progress(params)),
            BackEvent::Log(params) => self.live.signal(Signal::Log(params)),
            BackEvent::Asked { ask, question, reply } => {
                if let Some(refused) = self.refuses(&question) {
                    // Whoever asked may have gone.
                    let _ = reply.send(refused);
                    return;
                }
                let is_url = question.kind == QuestionKind::Url;
                if let Some(key) = self.ask_all(vec![question]).await.pop() {
                    if is_url {
                        self.visits.insert(ask, key.clone());
                    }
                    self.live.parked.lock().insert(key.clone(), reply);
                    self.asks.insert(ask, key);
                }
            }
            BackEvent::Unasked { ask } => {
                if let Some(key) = self.asks.remove(&ask) {
                    self.live.parked.lock().remove(&key);
                    self.write(|draft| {
                        let _ = draft.task(Command::Withdraw(key));
                    })
                    .await;
                }
            }
            BackEvent::Visited { ask } => self.visited(ask),
            BackEvent::Nudge => {}
        }
    }

    /// What the server is told if this call's client knows tasks and did not declare that it can be asked this: it is
    /// never shown to it (B-099, Q-021). A client without tasks gets it with its handle.
    pub(crate) fn refuses(&self, question: &Question) -> Option<Reply> {
        let record = self.live.record();
        match record.front {
            Front::A | Front::B => self.engine.parts.backs.refuses(&record.call.offers, question),
            Front::Plain => None,
        }
    }

    /// Nobody has answered in time: the server hears so where it waits for an answer on a connection.
    pub(crate) fn give_up_asking(&self) {
        let record = self.live.record();
        let mut parked = self.live.parked.lock();
        for (key, question) in record.task.outstanding().into_iter().flat_map(|asked| asked.questions()) {
            if let Some(reply) = parked.remove(key) {
                // Whoever asked may have gone.
                let _ = reply.send(gave_up(question.kind));
            }
        }
    }

    /// Puts questions into the record; their keys, none if the task is over.
    ///
    /// The reply's way is opened by the caller before anybody can answer: the driver handles one thing at a time.
    pub(crate) async fn ask_all(&mut self, questions: Vec<Question>) -> Vec<QuestionKey> {
        let before = self.live.record().task.keys_issued;
        let record = self
            .write(|draft| {
                for question in questions {
                    let _ = draft.task(Command::Ask(question));
                }
            })
            .await;
        record.task.keys_since(before).collect()
    }

    /// Hands an answer to the request that waits for it.
    pub(crate) async fn forward_parked(
        &mut self,
        key: QuestionKey,
        reply: Reply,
        settled: oneshot::Sender<()>,
    ) {
        let waiting = self.live.parked.lock().remove(&key);
        self.asks.retain(|_, parked| *parked != key);
        let delivered = waiting.is_some_and(|waiting| waiting.send(reply).is_ok());
        let command = if delivered { Command::SettleAnswer(key) } else { Command::Withdraw(key) };
        self.write(|draft| {
            let _ = draft.task(command);
        })
        .await;
        let _ = settled.send(());
    }

    /// Gathers the answers to a round of questions (B-128). `None` if the task ended instead.
    async fn gather(&mut self, questions: Vec<(String, Question)>, state: Option<Bytes>) -> Option<Round> {
        if let Some((_, undeclared)) = questions.iter().find(|(_, question)| self.refuses(question).is_some())
        {
            self.ended(Answer::Nonsense(asked_undeclared(undeclared.kind))).await;
            return None;
        }
        let (back_keys, questions): (Vec<_>, Vec<_>) = questions.into_iter().unzip();
        let kinds: Vec<_> = questions.iter().map(|question| question.kind).collect();
        let keys = self.ask_all(questions).await;
        let mut open: BTreeMap<_, _> = keys.into_iter().zip(back_keys.into_iter().zip(kinds)).collect();
        let mut responses = Vec::new();
        let deadline = self.until(self.live.record().deadline);
        let stopping = self.engine.stopping.clone();
        while !open.is_empty() {
            if self.is_cancelled() {
                // The server answered by its questions, and waits for nothing.
                self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await;
                return None;
            }
            tokio::select! {
                biased;
                order = self.next_order() => match order {
                    Order::Cancel(_) => {}
                    Order::Forward { key, reply, settled } => {
                        self.write(|draft| { let _ = draft.task(Command::SettleAnswer(key.clone())); }).await;
                        let _ = settled.send(());
                        let Some((back_key, kind)) = open.remove(&key) else { continue };
                        match refusal(kind, &reply) {
                            Ok(result) => {
                                if kind == QuestionKind::Url {
                                    self.agreed.push((back_key.clone(), key));
                                }
                                responses.push((back_key, result));
                            }
                            Err(why) => {
                                let ending = Ending::Faulted(Fault::NoAnswer(why));
                                self.end(Do::Lose(Doubt::Cancelled), ending).await;
                                return None;
                            }
                        }
                    }
                },
                () = sleep_until(deadline) => {
                    self.settle(Held::DeadlinePassed).await;
                    return None;
                }
                () = stopping.cancelled() => return None,
            }
        }
        if self.is_cancelled() {
            self.conclude(End::of(Do::Lose(Doubt::Cancelled), Ending::Cancelled, true)).await;
            return None;
        }
        Some(Round { responses, state })
    }

    /// Writes down how an exchange ended, and goes on observing if the back made a task.
    async fn settle(&mut self, held: Held) {
        match held {
            Held::Answered(Answer::Task(accepted)) => self.accepted(accepted).await,
            Held::Answered(answer) => self.ended(answer).await,
            Held::DeadlinePassed => {
                self.end(Do::Lose(Doubt::DeadlinePassed), Ending::Faulted(Fault::DeadlinePassed)).await;
            }
            Held::Unanswered => self.end(Do::Lose(Doubt::Cancelled), Ending::Cancelled).await,
            Held::Stopping => {}
        }
    }

    async fn accepted(&mut self, accepted: Accepted) {
        let upstream = accepted.upstream.clone();
        self.write(|draft| {
            draft.operation(Do::Accept(upstream.clone()));
        })
        .await;
        // What runs from here on is the back's own task; our place goes to the next call.
        self.release();
        self.observe(&upstream, Some(accepted.look)).await;
    }

    /// Writes down the end of the work.
    pub(crate) async fn ended(&mut self, answer: Answer) {
        if self.engine.stopping.is_cancelled() && matches!(answer, Answer::Lost(_) | Answer::NeverSent(_)) {
            // Our own going away cut the exchange; the next start decides by the crash table.
            return;
        }
        if let Answer::Raised { error, .. } = &answer
            && let Some(visits) = self.visits_first(error)
        {
            match self.visit(visits).await {
                Visited::All => return self.call_anew().await,
                Visited::Ended => return,
                // Then the error is the end.
                Visited::Declined => {}
            }
        }
        // The back is done with it: the next call need not wait until the end is on disk.
        self.release();
        let cancelled = self.is_cancelled();
        let (told, ending) = match answer {
            Answer::Returned { result, is_error } => (
                Do::Hear(if is_error { Word::ToolError } else { Word::Success }),
                Ending::Returned { result, is_error },
            ),
            Answer::Raised { code, error } => (
                Do::Hear(if matches!(code, -32601 | -32602) {
                    Word::NotUnderstood
                } else {
                    Word::OtherError
                }),
                // Peers answer a cancelled call by an error of their own choosing: that is the cancellation.
                if cancelled { Ending::Cancelled } else { Ending::Raised { error } },
            ),
            Answer::NeverSent(why) => (Do::NeverSent, Ending::Faulted(Fault::NeverSent(why))),
            // A stateless server is told to stop by closing the stream, and then there is no answer (B-037).
            Answer::Lost(_) if cancelled => (Do::Lose(Doubt::Cancelled), Ending::Cancelled),
            Answer::Lost(why) => (Do::Lose(Doubt::AnswerLost), Ending::Faulted(self.lost(why))),
            Answer::Nonsense(why) => (Do::Lose(Doubt::PeerError), Ending::Faulted(Fault::UpstreamFault(why))),
            Answer::Task(_) | Answer::InputRequired { .. } => (
                Do::Lose(Doubt::PeerError),
                Ending::Faulted(Fault::UpstreamFault("the server goes round in circles".to_owned())),
            ),
        };
        let is_closed = self.are_over().await;
        let receipt = self.receipt(&ending);
        self.conclude(End { told, ending, is_closed, receipt }).await;
    }

    /// What the workflow's rule makes of a result.
    fn receipt(&self, ending: &Ending) -> Result<Option<Receipted>, RuleFailed> {
        let record = self.live.record();
        let Some(about) = About::record(&record) else { return Ok(None) };
        match ending {
            Ending::Returned { result, is_error } => {
                self.engine.parts.rules.receipt(&about, result, *is_error)
            }
            Ending::Cancelled | Ending::Raised { .. } | Ending::Faulted(_) => Ok(None),
        }
    }

    /// Of a read-only call nothing is unknown but its answer.
    pub(crate) fn lost(&self, why: String) -> Fault {
        match self.live.record().operation.effect {
            taskgate_core::operation::Effect::ReadOnly => Fault::UpstreamFault(why),
            taskgate_core::operation::Effect::Reversible
            | taskgate_core::operation::Effect::Consequential => Fault::OutcomeUnknown(why),
        }
    }

    /// Whether all exchanges of this call are proved over: answered, or closed. Those of before a crash are, since the
    /// process that held them is gone. What is still listened to is not.
    async fn are_over(&mut self) -> bool {
        self.listening.is_none() && self.loose.are_over().await
    }

    /// Ends the task, unless a promise ended it before, and tells the operation in the same commit.
    pub(crate) async fn end(&mut self, told: Do, ending: Ending) {
        let is_closed = self.are_over().await;
        self.conclude(End::of(told, ending, is_closed)).await;
    }

    /// Writes down how the exchange ended: see [`conclude`].
    async fn conclude(&mut self, end: End) {
        let rules = self.engine.parts.rules.clone();
        self.write(|draft| {
            // Refused only after a promised cancellation; the operation hears the news all the same (A-090, R4.4).
            let _ = conclude(draft, &*rules, end);
        })
        .await;
    }

    /// Appends what was decided, however long it takes: what the back said must not be lost to a full disk. The newest
    /// record; what was decided is not in it if the engine stopped before it was on disk.
    pub(crate) async fn write(&self, decide: impl FnOnce(&mut Draft)) -> Arc<Record> {
        self.write_down(decide).await.unwrap_or_else(|| self.live.record())
    }

    /// As [`Driver::write`]; `None` unless it is on disk. What may be done only then asks this.
    pub(crate) async fn write_down(&self, decide: impl FnOnce(&mut Draft)) -> Option<Arc<Record>> {
        let mut decided = Some(decide);
        let mut kept: Option<(Arc<Record>, Vec<taskgate_store::record::Change>)> = None;
        let mut pause = Duration::from_millis(50);
        // Kept through all tries: nothing else may be decided on a state that is still on its way to disk.
        let mut turn = self.live.turn.lock().await;
        loop {
            let error = match self.engine.resolve(&self.live, &mut turn).await {
                Ok(()) => {
                    let current = self.live.record();
                    if let Some(decide) = decided.take() {
                        let mut draft = Draft::of(&current, self.now());
                        decide(&mut draft);
                        kept = draft.finish().map(|(record, changes)| (Arc::new(record), changes));
                    }
                    let Some((record, changes)) = &mut kept else { return Some(current) };
                    match self.engine.append(&current, record, changes, Duration::ZERO).await {
                        Ok(()) => {
                            self.live.publish(record.clone());
                            self.engine.published(&current, record);
                            return Some(record.clone());
                        }
                        Err(Unwritten::Overtaken(error)) => {
                            tracing::error!(task = ?current.id, %error, "record changed behind our back");
                            return None;
                        }
                        // Asked for once more, it finds itself done, if it was.
                        Err(Unwritten::Not(error)) => error.to_string(),
                        Err(Unwritten::InDoubt(error)) => error.to_string(),
                    }
                }
                Err(error) => error.to_string(),
            };
            tracing::warn!(task = ?self.live.record().id, error, "could not append, trying again");
            tokio::select! {
                biased;
                () = sleep(pause) => pause = (pause * 2).min(Duration::from_secs(5)),
                () = self.engine.stopping.cancelled() => return None,
            }
        }
    }

    /// Waits, unless the task ends or the engine stops meanwhile. Whether to go on.
    pub(crate) async fn pause(&mut self, span: Millis) -> bool {
        let until = Instant::now() + span.duration();
        let stopping = self.engine.stopping.clone();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(until) => return self.live.record().task.ending().is_none(),
                Some(order) = self.orders.recv() => {
                    let promised = matches!(order, Order::Cancel(CancelRule::Promise));
                    self.backlog.push_back(order);
                    if promised {
                        return false;
                    }
                }
                () = stopping.cancelled() => return false,
            }
        }
    }

    /// The next thing that a client wants; pends when there is none.
    pub(crate) async fn next_order(&mut self) -> Order {
        if let Some(order) = self.backlog.pop_front() {
            return order;
        }
        match self.orders.recv().await {
            Some(order) => order,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        let record = self.live.record();
        record.task.cancel_wished_at.is_some() || record.task.ending().is_some()
    }

    pub(crate) fn now(&self) -> UnixMillis {
        self.engine.parts.clock.now()
    }

    pub(crate) fn until(&self, at: UnixMillis) -> Instant {
        Instant::now() + at.since(self.now()).duration()
    }

    pub(crate) fn grace(&self) -> Duration {
        self.engine.parts.limits.cancel_grace.duration()
    }

    /// Gives the running place away, once.
    pub(crate) fn release(&mut self) {
        if std::mem::take(&mut self.holds_place) {
            let record = self.live.record();
            self.engine.release(&record.call);
        }
    }
}

/// What a server did that asked, in a dialect that has no word for a refusal, what no client had declared.
pub(crate) fn asked_undeclared(kind: QuestionKind) -> String {
    format!("the server asks by {}, which its client had not declared", kind.method())
}

/// What a server is told whose question nobody has answered in time.
fn gave_up(kind: QuestionKind) -> Reply {
    match kind {
        QuestionKind::Form | QuestionKind::Url => {
            Reply::Result(Bytes::from_static(b"{\"action\":\"cancel\"}"))
        }
        QuestionKind::Sampling | QuestionKind::Roots => {
            Reply::Error { code: USER_REJECTED, message: "Nobody answered in time".to_owned() }
        }
    }
}

/// What stands for a refusal where the dialect has no form for one: the question's own way of saying no.
pub(crate) fn refusal(kind: QuestionKind, reply: &Reply) -> Result<Bytes, String> {
    match (reply, kind) {
        (Reply::Result(result), _) => Ok(result.clone()),
        (Reply::Error { .. }, QuestionKind::Form | QuestionKind::Url) => {
            Ok(Bytes::from_static(b"{\"action\":\"cancel\"}"))
        }
        (Reply::Error { message, .. }, QuestionKind::Sampling | QuestionKind::Roots) => Err(message.clone()),
    }
}
