//! The world that the machine lives in: one operation with its task, a gateway that dies, a line that loses and delays,
//! and a server that counts.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use taskgate_core::operation::{
    Attestation, Command, Doubt, Effect, Event, Finding, HandOff, Inquiry, Operation, Outcome, Probed,
    Receipt, Replay, Stage, Standing, Text, Upstream, Verdict, Word,
};
use taskgate_core::recovery::{Recovery, Survival, recover};
use taskgate_core::task::{self, CancelRule, Ending, Fault, Lifetime, State, Task};
use taskgate_core::time::{Millis, UnixMillis};

/// One unit of the model's time.
const TICK: u64 = 1_000;

/// So many units.
pub(crate) const fn ticks(count: u8) -> Millis {
    Millis(count as u64 * TICK)
}

/// Then.
pub(crate) fn at(tick: u8) -> UnixMillis {
    UnixMillis(0) + ticks(tick)
}

/// How long a request may still arrive after its connection was closed, and the server work on it. What the operator
/// declares as `settle` is no less.
pub(crate) const LATE: u8 = 2;

/// When the work must be over.
const DEADLINE: u8 = 2;

/// The server honours a key for so long after the first dispatch.
pub(crate) const HONOURED: u8 = 4;

/// What is played.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) effect: Effect,
    pub(crate) replay: Replay,
    /// Whether the server's own tasks outlive us; it has such tasks only then.
    pub(crate) survival: Survival,
    /// Whether the workflow can find out.
    pub(crate) has_probe: bool,
    /// Whether it can tell the server to take no more.
    pub(crate) has_fence: bool,
    /// Whether it lets a cleared operation be sent again.
    pub(crate) sends_again: bool,
    pub(crate) crashes: u8,
    /// Whether clients cancel.
    pub(crate) cancels: bool,
    /// The last tick.
    pub(crate) end: u8,
    pub(crate) habit: Habit,
    pub(crate) seen: Seen,
}

/// How the gateway behaves: as it is shipped, or as one might write it without thinking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Habit {
    Shipped,
    /// What was dispatched and not answered is sent again after a restart.
    RunsAgainOnRestart,
    /// A look-up that finds nothing is taken for "not applied".
    NotFoundIsNotApplied,
    /// The exchange is called over when we are tired of waiting, though the request may not even have left.
    ClosesWithoutProof,
    /// The request leaves before its dispatch is on disk.
    SendsFirst,
    /// A key is used until the server's last moment, though a request may be late.
    WindowToTheEnd,
    /// An answer to the first attempt is taken for one to the second.
    HearsAnyAttempt,
    /// A cancelled call is sent all the same.
    SendsCancelled,
}

/// The thread of work that holds an exchange.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Worker {
    Idle,
    /// The dispatch is on disk, or so it thinks, and nothing was sent yet.
    Holds(u8),
    Waits(u8),
    Observes(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Request {
    Unsent,
    UnderWay,
    Arrived,
    Lost,
}

/// What the server said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Reply {
    Accepted,
    Word(Word),
    /// A success with proof.
    Receipt,
}

/// One attempt's connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Line {
    pub(crate) request: Request,
    pub(crate) reply: Option<Reply>,
    /// When it was closed in truth.
    pub(crate) closed: Option<u8>,
    /// When its dispatch was committed, where a key's window counts.
    pub(crate) committed: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Server {
    /// How often the effect was made.
    pub(crate) effects: u8,
    /// By what attempt it has a task of its own that is not done.
    pub(crate) works: Option<u8>,
    /// It takes no attempt up to this one.
    pub(crate) fenced: u8,
}

/// A look-up under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LookUp {
    asked: u8,
    was_fenced: bool,
    /// What the server found, once it looked.
    found: Option<bool>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Now {
    pub(crate) tick: u8,
    pub(crate) is_up: bool,
    pub(crate) crashes: u8,
    pub(crate) operation: Operation,
    pub(crate) task: Task,
    pub(crate) workers: [Worker; 2],
    pub(crate) lines: [Line; 2],
    pub(crate) server: Server,
    pub(crate) look_up: Option<LookUp>,
    pub(crate) look_ups: u8,
    pub(crate) attested: bool,
    pub(crate) corrected: bool,
    /// The first that was confirmed, and the first ending: they must stay.
    pub(crate) confirmed: Option<Verdict>,
    pub(crate) ended: Option<Ending>,
    /// A person was told wrong things and acted on them, or sent again what was assumed: nothing is promised then.
    pub(crate) broken: Option<&'static str>,
}

/// What happened on the way, in any state, to know that it can.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeSet<String>>>);

impl Seen {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().insert(what.into());
    }

    pub(crate) fn all(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().clone()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Tick,
    Dispatch(usize),
    Send(usize),
    CannotSend(usize),
    /// The request arrives, and the server says so or so.
    Arrive(usize, Reply, bool),
    LoseRequest(usize),
    /// The server's own task is done.
    Work(bool),
    /// It forgets its task.
    Forget,
    Hear(usize),
    /// It comes twice.
    HearTwice(usize),
    Break(usize),
    /// Whether the connection is closed with it.
    GiveUp(usize, bool),
    Close,
    CloseLate(usize),
    Crash,
    Restart,
    /// What was reported is looked up too.
    Verify,
    AskAfter,
    LookUp,
    Found,
    LookUpFails,
    Fence,
    HandOff,
    Attest(Verdict),
    Correct(Verdict),
    Cancel(CancelRule),
    CancelGrace(usize),
}

fn text() -> Text {
    Text::new("")
}

impl World {
    pub(crate) fn start(&self) -> Now {
        let lifetime = Lifetime { created: UnixMillis(0), ttl: ticks(1), linger: ticks(1), max: ticks(100) };
        let line = Line { request: Request::Unsent, reply: None, closed: None, committed: 0 };
        Now {
            tick: 0,
            is_up: true,
            crashes: 0,
            operation: Operation::new(self.effect, self.replay),
            task: Task::new(lifetime),
            workers: [Worker::Idle; 2],
            lines: [line; 2],
            server: Server::default(),
            look_up: None,
            look_ups: 0,
            attested: false,
            corrected: false,
            confirmed: None,
            ended: None,
            broken: None,
        }
    }

    /// Everything that may happen next.
    pub(crate) fn steps(&self, now: &Now, steps: &mut Vec<Step>) {
        if now.broken.is_some() {
            return;
        }
        if now.tick < self.end {
            steps.push(Step::Tick);
        }
        self.of_the_line(now, steps);
        self.of_the_server(now, steps);
        if now.is_up {
            if now.crashes < self.crashes {
                steps.push(Step::Crash);
            }
            self.of_the_gateway(now, steps);
        } else {
            steps.push(Step::Restart);
        }
    }

    fn of_the_line(&self, now: &Now, steps: &mut Vec<Step>) {
        for (attempt, line) in now.lines.iter().enumerate() {
            if line.request == Request::UnderWay {
                steps.push(Step::LoseRequest(attempt));
                // A key's window has room for a request that is late by so much after its commit, and not for a process
                // that was suspended between the two for longer.
                let is_in_time = !self.is_keyed() || now.tick - line.committed < LATE;
                if is_in_time && line.closed.is_none_or(|closed| now.tick - closed < LATE) {
                    let is_refused = now.server.fenced > attempt as u8;
                    steps.push(Step::Arrive(attempt, Reply::Word(Word::NotUnderstood), false));
                    if !is_refused {
                        steps.push(Step::Arrive(attempt, Reply::Word(Word::Success), true));
                        steps.push(Step::Arrive(attempt, Reply::Word(Word::ToolError), true));
                        steps.push(Step::Arrive(attempt, Reply::Word(Word::OtherError), false));
                        if self.has_probe {
                            steps.push(Step::Arrive(attempt, Reply::Receipt, true));
                            // Its word is no more than that.
                            steps.push(Step::Arrive(attempt, Reply::Word(Word::Success), false));
                        }
                        if self.survival == Survival::Survives && now.server.works.is_none() {
                            steps.push(Step::Arrive(attempt, Reply::Accepted, false));
                        }
                    }
                }
            }
        }
    }

    fn of_the_server(&self, now: &Now, steps: &mut Vec<Step>) {
        if let Some(attempt) = now.server.works {
            let line = now.lines[attempt as usize];
            // Its own time is bounded like that of a request.
            if line.closed.is_none_or(|closed| now.tick - closed < LATE) {
                steps.push(Step::Work(true));
                steps.push(Step::Work(false));
            }
            steps.push(Step::Forget);
        }
        if now.look_up.is_some_and(|look_up| look_up.found.is_none()) {
            steps.push(Step::LookUp);
        }
    }

    fn of_the_gateway(&self, now: &Now, steps: &mut Vec<Step>) {
        let operation = &now.operation;
        let is_free = now.workers.contains(&Worker::Idle);
        for (index, worker) in now.workers.iter().enumerate() {
            match *worker {
                Worker::Idle => {
                    if operation.stage == Stage::Prepared && operation.attempts < 2 {
                        steps.push(Step::Dispatch(index));
                    }
                }
                Worker::Holds(attempt) => {
                    steps.push(Step::Send(index));
                    steps.push(Step::CannotSend(index));
                    if self.habit == Habit::ClosesWithoutProof && now.lines[attempt as usize].closed.is_none()
                    {
                        steps.push(Step::GiveUp(index, false));
                    }
                }
                Worker::Waits(attempt) | Worker::Observes(attempt) => {
                    if now.lines[attempt as usize].reply.is_some() {
                        steps.push(Step::Hear(index));
                        steps.push(Step::HearTwice(index));
                    }
                    steps.push(Step::Break(index));
                    if now.tick >= DEADLINE {
                        steps.extend([Step::GiveUp(index, true), Step::GiveUp(index, false)]);
                    }
                    if now.task.cancel_wished_at.is_some() || now.ended == Some(Ending::Cancelled) {
                        steps.push(Step::CancelGrace(index));
                    }
                }
            }
        }
        for (attempt, line) in now.lines.iter().enumerate() {
            // What comes on a connection that nobody waits at any more.
            if line.closed.is_none() && line.request != Request::Unsent && !now.has_worker(attempt as u8) {
                steps.push(Step::CloseLate(attempt));
                if line.reply.is_some() {
                    steps.push(Step::Hear(2 + attempt));
                }
            }
        }
        let all_closed =
            now.lines.iter().all(|line| line.request == Request::Unsent || line.closed.is_some());
        if operation.closed_at.is_none() && operation.attempts > 0 && all_closed && is_free {
            steps.push(Step::Close);
        }
        match operation.inquiry {
            Inquiry::Reconciling { .. } => {
                match now.look_up {
                    None if now.look_ups < 2 => steps.push(Step::AskAfter),
                    None => {}
                    Some(look_up) => {
                        if look_up.found.is_some() {
                            steps.push(Step::Found);
                        }
                        steps.push(Step::LookUpFails);
                    }
                }
                if self.has_fence && now.server.fenced < operation.attempts as u8 {
                    steps.push(Step::Fence);
                }
                steps.push(Step::HandOff);
            }
            Inquiry::Person { .. } if !now.attested => {
                steps.push(Step::Attest(Verdict::Applied));
                steps.push(Step::Attest(Verdict::NotApplied));
            }
            Inquiry::Idle => {
                if let Stage::Settled(Outcome::Attested(held)) = operation.stage
                    && !now.corrected
                {
                    steps.push(Step::Correct(match held {
                        Verdict::Applied => Verdict::NotApplied,
                        Verdict::NotApplied => Verdict::Applied,
                    }));
                }
                let is_reported =
                    matches!(operation.stage, Stage::Settled(Outcome::Reported(_) | Outcome::Assumed));
                if self.has_probe && is_reported && now.look_ups < 2 {
                    steps.push(Step::Verify);
                }
            }
            Inquiry::Person { .. } => {}
        }
        if now.ended.is_none() && self.cancels {
            steps.push(Step::Cancel(CancelRule::Promise));
            if now.task.cancel_wished_at.is_none() {
                steps.push(Step::Cancel(CancelRule::Wish));
            }
        }
    }

    /// What becomes of it.
    pub(crate) fn take(&self, before: &Now, step: Step) -> Now {
        let mut now = before.clone();
        match step {
            Step::Tick => now.tick += 1,
            Step::Dispatch(worker) => self.dispatch(&mut now, worker),
            Step::Send(worker) => {
                if let Worker::Holds(attempt) = now.workers[worker] {
                    now.lines[attempt as usize].request = Request::UnderWay;
                    now.workers[worker] = Worker::Waits(attempt);
                }
            }
            Step::CannotSend(worker) => {
                if let Worker::Holds(attempt) = now.workers[worker] {
                    now.workers[worker] = Worker::Idle;
                    now.lines[attempt as usize].closed.get_or_insert(now.tick);
                    now.tell(Command::NeverSent);
                    self.follow_up(&mut now, Fault::NeverSent(String::new()));
                }
            }
            Step::Arrive(attempt, reply, applies) => {
                if now.operation.stage != before_stage(&now, attempt) {
                    self.seen.note("a late request");
                }
                now.lines[attempt].request = Request::Arrived;
                if applies {
                    self.apply(&mut now);
                }
                if reply == Reply::Accepted {
                    now.server.works = Some(attempt as u8);
                }
                // A closed connection carries nothing back.
                if now.lines[attempt].closed.is_none() {
                    now.lines[attempt].reply = Some(reply);
                }
            }
            Step::LoseRequest(attempt) => now.lines[attempt].request = Request::Lost,
            Step::Work(succeeds) => {
                if let Some(attempt) = now.server.works.take() {
                    if succeeds {
                        self.apply(&mut now);
                    }
                    let word = if succeeds { Word::Success } else { Word::OtherError };
                    now.lines[attempt as usize].reply = Some(Reply::Word(word));
                }
            }
            Step::Forget => {
                now.server.works = None;
            }
            Step::Hear(worker) => self.hear(&mut now, worker, false),
            Step::HearTwice(worker) => self.hear(&mut now, worker, true),
            Step::Break(worker) => {
                let doubt = match now.workers[worker] {
                    Worker::Observes(_) => Doubt::UpstreamLost,
                    Worker::Idle | Worker::Holds(_) | Worker::Waits(_) => Doubt::AnswerLost,
                };
                self.lose(&mut now, worker, doubt, true);
            }
            Step::GiveUp(worker, closes) => self.lose(&mut now, worker, Doubt::DeadlinePassed, closes),
            Step::CancelGrace(worker) => self.lose(&mut now, worker, Doubt::Cancelled, true),
            Step::Close => now.tell(Command::Close),
            Step::CloseLate(attempt) => {
                now.lines[attempt].closed = Some(now.tick);
            }
            Step::Crash => {
                now.is_up = false;
                now.crashes += 1;
                now.workers = [Worker::Idle; 2];
                now.look_up = None;
                for line in now.lines.iter_mut().filter(|line| line.request != Request::Unsent) {
                    line.closed.get_or_insert(now.tick);
                    if now.server.works.is_none() {
                        line.reply = None;
                    }
                }
                if self.survival == Survival::DiedWithUs {
                    now.server.works = None;
                }
            }
            Step::Restart => self.restart(&mut now),
            Step::Verify => now.tell(Command::Reconcile { first: Millis(0) }),
            Step::AskAfter => {
                now.look_ups += 1;
                let was_fenced = now.server.fenced >= now.operation.attempts as u8;
                now.look_up = Some(LookUp { asked: now.tick, was_fenced, found: None });
            }
            Step::LookUp => {
                if let Some(look_up) = &mut now.look_up {
                    look_up.found = Some(now.server.effects > 0);
                }
            }
            Step::Found => self.found(&mut now),
            Step::LookUpFails => {
                now.look_up = None;
                self.seen.note("found: Failed");
                now.tell(Command::Probed(Probed {
                    finding: Finding::Failed,
                    what: text(),
                    again: Millis(0),
                }));
            }
            Step::Fence => now.server.fenced = now.operation.attempts as u8,
            Step::HandOff => {
                now.tell(Command::HandOff { why: HandOff::BudgetSpent, note: None });
                now.end(Ending::Faulted(Fault::OutcomeUnknown(String::new())));
            }
            Step::Attest(verdict) => {
                now.attested = true;
                now.tell(Command::Attest(Attestation { verdict, name: text(), reason: text() }));
            }
            Step::Correct(verdict) => {
                now.corrected = true;
                self.seen.note("corrected");
                now.tell(Command::Correct(Attestation { verdict, name: text(), reason: text() }));
            }
            Step::Cancel(rule) => {
                if now.operation.stage == Stage::Prepared && self.habit != Habit::SendsCancelled {
                    now.tell(Command::NeverSent);
                    now.end(Ending::Cancelled);
                } else {
                    now.tell_task(task::Command::Cancel(rule));
                }
            }
        }
        now.remember();
        self.simplify(&mut now);
        self.look(&now);
        now
    }

    /// Makes states alike that differ in nothing that matters: times that decide nothing, and which worker is which.
    fn simplify(&self, now: &mut Now) {
        let operation = &mut now.operation;
        match &mut operation.stage {
            Stage::Dispatched { at } | Stage::Observing { at, .. } => *at = UnixMillis(0),
            Stage::Prepared | Stage::Settled(_) | Stage::Unknown(_) => {}
        }
        match &mut operation.inquiry {
            Inquiry::Reconciling { since, next, .. } => (*since, *next) = (UnixMillis(0), UnixMillis(0)),
            Inquiry::Person { since, .. } => *since = UnixMillis(0),
            Inquiry::Idle => {}
        }
        if !self.is_keyed() {
            operation.first_dispatched_at = operation.first_dispatched_at.map(|_| UnixMillis(0));
        }
        if !self.has_probe {
            operation.closed_at = operation.closed_at.map(|_| UnixMillis(0));
        }
        for (attempt, line) in now.lines.iter_mut().enumerate() {
            if line.request != Request::UnderWay && now.server.works != Some(attempt as u8) {
                line.closed = line.closed.map(|_| 0);
            }
        }
        now.workers.sort_unstable();
    }

    /// Notes what a state has that is looked for.
    fn look(&self, now: &Now) {
        let operation = &now.operation;
        match &operation.stage {
            Stage::Prepared if operation.cleared > 0 => self.seen.note("prepared again"),
            Stage::Prepared => {}
            Stage::Dispatched { .. } => self.seen.note("dispatched"),
            Stage::Observing { .. } => self.seen.note("observing"),
            Stage::Settled(outcome) => {
                let is_wrong = match outcome.verdict() {
                    Some(Verdict::Applied) => now.server.effects == 0,
                    Some(Verdict::NotApplied) => now.server.effects > 0,
                    None => false,
                };
                self.seen.note(format!("{outcome:?}{}", if is_wrong { ", and wrong" } else { "" }));
                if operation.attempts == 2 {
                    self.seen.note(format!("{outcome:?} at the second attempt"));
                }
                if now.ended == Some(Ending::Cancelled) && now.server.effects > 0 {
                    self.seen.note("cancelled and applied");
                }
            }
            Stage::Unknown(doubt) => self.seen.note(format!("unknown: {doubt:?}")),
        }
        match operation.inquiry {
            Inquiry::Idle => {}
            Inquiry::Reconciling { .. } => self.seen.note("reconciling"),
            Inquiry::Person { why, .. } => self.seen.note(format!("a person: {why:?}")),
        }
        if now.crashes > 0 {
            self.seen.note(format!("{} crashes", now.crashes));
        }
    }

    fn is_keyed(&self) -> bool {
        matches!(self.replay, Replay::Keyed { .. })
    }

    fn dispatch(&self, now: &mut Now, worker: usize) {
        let is_wanted = now.ended.is_none() && now.task.cancel_wished_at.is_none();
        if !is_wanted && self.habit != Habit::SendsCancelled {
            now.tell(Command::NeverSent);
            now.end(Ending::Cancelled);
            return;
        }
        if self.habit == Habit::SendsFirst {
            let attempt = now.operation.attempts as u8;
            now.lines[attempt as usize].request = Request::UnderWay;
            now.broken = now.broken.or(Some("INV-10: a request left before its dispatch was on disk"));
            now.workers[worker] = Worker::Waits(attempt);
            return;
        }
        self.send(now, worker, false);
    }

    /// Commits a dispatch, by the machine's leave or without it.
    fn send(&self, now: &mut Now, worker: usize, by_force: bool) {
        let attempt = now.operation.attempts;
        if attempt >= 2 {
            return;
        }
        let at = now.at();
        if by_force {
            now.operation.apply(&Event::Dispatched { at });
        } else if now.try_tell(Command::Dispatch).is_none() {
            return;
        }
        if now.ended == Some(Ending::Cancelled) {
            now.broken = Some("INV-17: a dispatch was committed after a cancel");
        }
        now.workers[worker] = Worker::Holds(attempt as u8);
        if self.is_keyed() {
            now.lines[attempt as usize].committed = now.tick;
        }
        now.server.works = None;
    }

    fn apply(&self, now: &mut Now) {
        if self.effect == Effect::ReadOnly {
            return;
        }
        let honoured =
            now.operation.first_dispatched_at.is_none_or(|first| now.at().since(first) < ticks(HONOURED));
        let is_once = match self.replay {
            Replay::Natural => true,
            Replay::Keyed { .. } => honoured,
            Replay::Never => false,
        };
        now.server.effects = if is_once { 1 } else { now.server.effects + 1 };
    }

    fn hear(&self, now: &mut Now, worker: usize, is_twice: bool) {
        // Beyond the workers there are the connections that nobody waits at.
        let attempt = match now.workers.get(worker) {
            Some(Worker::Waits(attempt) | Worker::Observes(attempt)) => usize::from(*attempt),
            Some(Worker::Idle | Worker::Holds(_)) => return,
            None => worker - 2,
        };
        let Some(reply) = now.lines[attempt].reply else { return };
        let is_of_the_last = attempt + 1 == now.operation.attempts as usize;
        if !is_of_the_last && self.habit != Habit::HearsAnyAttempt {
            // Who makes another attempt lets go of the exchange before it: the machine is told of one at a time.
            now.lines[attempt].reply = None;
            now.lines[attempt].closed.get_or_insert(now.tick);
            if let Some(worker) = now.workers.get_mut(worker) {
                *worker = Worker::Idle;
            }
            return;
        }
        if matches!(now.operation.stage, Stage::Unknown(_)) {
            self.seen.note("a late answer");
        }
        let is_observed = reply == Reply::Accepted;
        match reply {
            Reply::Accepted => {
                let upstream = Upstream { task_id: String::new(), session: None };
                if now.try_tell(Command::Accept(upstream)).is_some() {
                    now.lines[attempt].reply = None;
                    if let Some(worker) = now.workers.get_mut(worker) {
                        *worker = Worker::Observes(attempt as u8);
                    }
                    return;
                }
            }
            Reply::Word(word) => {
                now.tell(Command::Hear(word));
            }
            Reply::Receipt => {
                now.tell(Command::Receive(Receipt { reference: text(), verdict: Verdict::Applied }));
            }
        }
        if is_twice {
            match reply {
                Reply::Word(word) => now.tell(Command::Hear(word)),
                Reply::Receipt => {
                    now.tell(Command::Receive(Receipt { reference: text(), verdict: Verdict::Applied }));
                }
                Reply::Accepted => {}
            }
        }
        now.lines[attempt].reply = None;
        now.lines[attempt].closed.get_or_insert(now.tick);
        if let Some(worker) = now.workers.get_mut(worker) {
            *worker = Worker::Idle;
        }
        let is_error = !matches!(reply, Reply::Receipt | Reply::Word(Word::Success));
        if !is_observed {
            now.end(Ending::Returned { result: bytes::Bytes::new(), is_error });
        }
        self.doubt_is_followed(now);
    }

    /// Nobody waits for an answer any more. If the connection stays open, one may come all the same.
    fn lose(&self, now: &mut Now, worker: usize, doubt: Doubt, closes: bool) {
        let attempt = match now.workers[worker] {
            Worker::Holds(attempt) | Worker::Waits(attempt) | Worker::Observes(attempt) => attempt as usize,
            Worker::Idle => return,
        };
        if closes {
            now.lines[attempt].closed.get_or_insert(now.tick);
        }
        let is_paused = matches!(now.workers[worker], Worker::Holds(_));
        if !is_paused {
            now.workers[worker] = Worker::Idle;
        }
        let is_current = attempt + 1 == now.operation.attempts as usize;
        if !is_current || now.try_tell(Command::Lose(doubt)).is_none() {
            return;
        }
        if closes || self.habit == Habit::ClosesWithoutProof {
            now.tell(Command::Close);
        }
        let may_resend = doubt == Doubt::AnswerLost
            && now.ended.is_none()
            && now.task.cancel_wished_at.is_none()
            && now.operation.may_resend(now.at());
        if may_resend && now.operation.attempts < 2 {
            return self.send(now, worker, false);
        }
        self.follow_up(now, Fault::OutcomeUnknown(String::new()));
    }

    /// The task after its operation: it ends, or waits for what is found out.
    fn follow_up(&self, now: &mut Now, fault: Fault) {
        match now.operation.stage {
            Stage::Unknown(_) if self.has_probe => now.tell(Command::Reconcile { first: Millis(0) }),
            Stage::Unknown(_) => {
                now.tell(Command::HandOff { why: HandOff::NoRule, note: None });
                now.end(Ending::Faulted(Fault::OutcomeUnknown(String::new())));
            }
            Stage::Settled(_) => now.end(Ending::Faulted(fault)),
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. } => {}
        }
    }

    /// An answer that leaves the effect in doubt is followed up as well.
    fn doubt_is_followed(&self, now: &mut Now) {
        if let Stage::Unknown(_) = now.operation.stage {
            if now.operation.closed_at.is_none()
                && now.lines.iter().all(|line| line.request == Request::Unsent || line.closed.is_some())
            {
                now.tell(Command::Close);
            }
            if now.operation.inquiry == Inquiry::Idle {
                self.follow_up(now, Fault::OutcomeUnknown(String::new()));
            }
        }
    }

    fn restart(&self, now: &mut Now) {
        now.is_up = true;
        let deadline = at(DEADLINE);
        let what = recover(&now.operation, self.survival, UnixMillis(0), ticks(2), deadline, now.at());
        self.seen.note(format!("recovery: {what:?}"));
        let is_wanted = now.ended.is_none() && now.task.cancel_wished_at.is_none();
        let attempt = now.operation.attempts.saturating_sub(1) as u8;
        match what {
            Recovery::Doubt if self.habit == Habit::RunsAgainOnRestart => self.send(now, 0, true),
            Recovery::Send | Recovery::SendAgain if !is_wanted && self.habit != Habit::SendsCancelled => {
                now.tell(if now.operation.attempts == 0 {
                    Command::NeverSent
                } else {
                    Command::Lose(Doubt::Cancelled)
                });
                now.end(Ending::Cancelled);
                self.doubt_is_followed(now);
            }
            Recovery::Send | Recovery::SendAgain => self.send(now, 0, false),
            Recovery::GiveUpUnsent => {
                now.tell(Command::NeverSent);
                now.end(Ending::Faulted(Fault::NeverSent(String::new())));
            }
            Recovery::Expire | Recovery::Doubt => {
                now.tell(Command::Lose(Doubt::AnswerLost));
                // The process that held it is gone.
                now.tell(Command::Close);
                self.follow_up(now, Fault::DeadlinePassed);
            }
            Recovery::Resume => now.workers[0] = Worker::Observes(attempt),
            Recovery::Reconcile | Recovery::Leave => {}
        }
    }

    fn found(&self, now: &mut Now) {
        let Some(LookUp { asked, was_fenced, found: Some(found) }) = now.look_up.take() else { return };
        let settle = ticks(LATE);
        let standing = match self.habit {
            Habit::NotFoundIsNotApplied => Standing::Settled,
            _ if was_fenced => Standing::Fenced,
            Habit::Shipped
            | Habit::RunsAgainOnRestart
            | Habit::ClosesWithoutProof
            | Habit::SendsFirst
            | Habit::WindowToTheEnd
            | Habit::HearsAnyAttempt
            | Habit::SendsCancelled => now.operation.standing(at(asked), Some(settle)),
        };
        let finding = if found { Finding::Applied } else { Finding::NotApplied(standing) };
        self.seen.note(format!("found: {finding:?}"));
        let is_unknown = matches!(now.operation.stage, Stage::Unknown(_));
        let clears =
            !found && is_unknown && self.sends_again && now.ended.is_none() && now.operation.attempts < 2;
        if clears && now.try_tell(Command::Clear { standing, what: text() }).is_some() {
            return;
        }
        now.tell(Command::Probed(Probed { finding, what: text(), again: Millis(0) }));
        if let Stage::Settled(_) = now.operation.stage {
            now.end(Ending::Faulted(Fault::OutcomeUnknown(String::new())));
        }
    }
}

/// The stage in which the answer to an attempt is waited for.
fn before_stage(now: &Now, attempt: usize) -> Stage {
    match &now.operation.stage {
        stage @ (Stage::Dispatched { .. } | Stage::Observing { .. })
            if now.operation.attempts as usize == attempt + 1 =>
        {
            stage.clone()
        }
        Stage::Prepared
        | Stage::Dispatched { .. }
        | Stage::Observing { .. }
        | Stage::Settled(_)
        | Stage::Unknown(_) => Stage::Prepared,
    }
}

impl Now {
    pub(crate) fn at(&self) -> UnixMillis {
        at(self.tick)
    }

    fn has_worker(&self, of: u8) -> bool {
        self.workers.iter().any(|worker| match worker {
            Worker::Idle => false,
            Worker::Holds(attempt) | Worker::Waits(attempt) | Worker::Observes(attempt) => *attempt == of,
        })
    }

    /// One append: what the machine decides, folded in. `None` if it refuses.
    fn try_tell(&mut self, command: Command) -> Option<usize> {
        let is_dispatch = command == Command::Dispatch;
        let may_repeat = self.may_repeat();
        let before = self.operation.clone();
        let events = self.operation.decide(self.at(), command).ok()?;
        for event in &events {
            self.operation.apply(event);
        }
        if is_dispatch && before.attempts > 0 && !may_repeat {
            self.broken = Some("INV-12: a second attempt without leave");
        }
        Some(events.len())
    }

    fn tell(&mut self, command: Command) {
        let _ = self.try_tell(command);
    }

    /// INV-12 by another hand: what allows another attempt.
    fn may_repeat(&self) -> bool {
        let operation = &self.operation;
        let is_cleared = operation.stage == Stage::Prepared && operation.cleared == operation.attempts;
        let is_harmless = operation.effect == Effect::ReadOnly || operation.replay == Replay::Natural;
        let is_keyed = match (operation.replay, operation.first_dispatched_at) {
            (Replay::Keyed { window }, Some(first)) => {
                self.at().0 - first.0 < i64::try_from(window.0).unwrap()
            }
            (Replay::Keyed { .. } | Replay::Never | Replay::Natural, _) => false,
        };
        is_cleared || is_harmless || is_keyed
    }

    fn tell_task(&mut self, command: task::Command) {
        let Ok(events) = self.task.decide(UnixMillis(0), command) else { return };
        for event in events {
            if self.task.apply(&event).is_err() {
                self.broken = Some("INV-04: a decided event cannot be folded");
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        self.tell_task(task::Command::End(ending));
    }

    /// What must stay once it is there.
    fn remember(&mut self) {
        match (self.confirmed, &self.operation.stage) {
            (None, Stage::Settled(Outcome::Confirmed(verdict))) => self.confirmed = Some(*verdict),
            (Some(verdict), stage) if *stage != Stage::Settled(Outcome::Confirmed(verdict)) => {
                self.broken = Some("INV-13: what was confirmed changed");
            }
            (None | Some(_), _) => {}
        }
        match (&self.ended, &self.task.state) {
            (None, State::Over { ending, .. }) => self.ended = Some(ending.clone()),
            (Some(ended), State::Over { ending, .. }) if ended == ending => {}
            (None, State::Working | State::InputRequired(_)) => {}
            (Some(_), _) => self.broken = Some("INV-03: the ending of a task changed"),
        }
    }
}
