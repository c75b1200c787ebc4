//! The server behind the gateway, and the line to it. Both outlive every life of the gateway, and keep their own books: what came,
//! what was done, and what people answered. They know nothing of our ledger.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::recovery::Survival;
use taskgate_core::task::{Question, QuestionKind};
use taskgate_engine::back::{Answer, BackEvent, Reply};
use taskgate_sim::{Random, Tally};
use taskgate_wire::json;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// What the books say of one call, by the name that its client gave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// Requests that left the gateway, whether they came or not.
    pub(crate) sent: u32,
    /// Requests that came.
    pub(crate) requests: u32,
    /// Effects that were made.
    pub(crate) effects: u32,
    /// The results that were made, by their texts.
    pub(crate) results: BTreeSet<String>,
}

/// Where a call stands.
pub(crate) enum Next {
    /// It comes.
    Arrive,
    /// It is done, and the answer goes back.
    Finish,
    /// It waits for a person.
    Asking,
}

/// The way back of a call; it closes when nobody waits any more.
pub(crate) struct Way {
    pub(crate) answer: oneshot::Sender<Answer>,
    pub(crate) events: mpsc::UnboundedSender<BackEvent>,
    pub(crate) stop: CancellationToken,
}

pub(crate) struct Job {
    pub(crate) due: u64,
    pub(crate) next: Next,
    pub(crate) call: String,
    pub(crate) key: Option<String>,
    /// Whether it changes something.
    pub(crate) acts: bool,
    pub(crate) can_ask: bool,
    /// Answers to what was asked before it.
    pub(crate) round: Vec<(String, Bytes)>,
    /// More than one where the same key came twice.
    pub(crate) ways: Vec<Way>,
}

/// A task of the server's own.
pub(crate) struct Own {
    pub(crate) call: String,
    /// When it ends, unless it waits for a person.
    pub(crate) due: u64,
    pub(crate) question: Option<(String, Question)>,
    pub(crate) ended: Option<Answer>,
    pub(crate) is_cancelled: bool,
    pub(crate) acts: bool,
}

pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) now: u64,
    pub(crate) books: BTreeMap<String, Entry>,
    /// What was done under a key: the answer, or by which of its own tasks; nothing while it is being done.
    pub(crate) keys: BTreeMap<String, Option<Answer>>,
    pub(crate) jobs: BTreeMap<u64, Job>,
    pub(crate) own: BTreeMap<String, Own>,
    pub(crate) count: u64,
    /// What was answered to each question.
    pub(crate) answers: BTreeMap<String, Vec<String>>,
}

/// The server.
pub(crate) struct Server {
    pub(crate) state: Mutex<State>,
    pub(crate) survival: Survival,
    pub(crate) tally: Arc<Tally>,
    pub(crate) changed: Notify,
}

/// The text between the marks of an answer or a question.
pub(crate) fn marked(text: &str, mark: char) -> Option<String> {
    let begin = text.find(&format!("{mark}#"))?;
    let rest = &text[begin..];
    let end = rest[2..].find(|c: char| !c.is_ascii_digit()).map_or(rest.len(), |end| end + 2);
    Some(rest[..end].to_owned())
}

pub(crate) fn result(text: &str, is_error: bool) -> Answer {
    // As no encoder would write it: it must come through byte for byte.
    let error = if is_error { ",\"isError\" : true" } else { "" };
    let result =
        format!("{{ \"content\":[{{\"text\":\"{text} \\u00e9\",\"type\":\"text\"}}]{error}, \"x\":1.0 }}");
    Answer::Returned { result: Bytes::from(result), is_error }
}

impl Server {
    pub(crate) fn new(seed: u64, survival: Survival, tally: Arc<Tally>) -> Arc<Server> {
        let state = State {
            random: Random::new(seed),
            now: 0,
            books: BTreeMap::new(),
            keys: BTreeMap::new(),
            jobs: BTreeMap::new(),
            own: BTreeMap::new(),
            count: 0,
            answers: BTreeMap::new(),
        };
        Arc::new(Server { state: Mutex::new(state), survival, tally, changed: Notify::new() })
    }

    pub(crate) fn entry(&self, call: &str) -> Entry {
        self.state.lock().books.get(call).cloned().unwrap_or_default()
    }

    /// What was answered to each question that was asked.
    pub(crate) fn answers(&self) -> BTreeMap<String, Vec<String>> {
        self.state.lock().answers.clone()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        let state = self.state.lock();
        state.jobs.is_empty() && state.own.values().all(|own| own.ended.is_some() || own.question.is_some())
    }

    /// Whether nothing of a call is on its way or at work.
    pub(crate) fn is_done_with(&self, call: &str) -> bool {
        let state = self.state.lock();
        let works = |own: &Own| own.call == call && own.ended.is_none();
        !state.jobs.values().any(|job| job.call == call) && !state.own.values().any(works)
    }

    /// The time of the line and the server, while a gateway lives.
    pub(crate) async fn run(self: Arc<Self>) {
        let (start, before) = (tokio::time::Instant::now(), self.state.lock().now);
        loop {
            let changed = self.changed.notified();
            let due = {
                let state = self.state.lock();
                let jobs = state.jobs.values().map(|job| job.due);
                let own = state.own.values().filter(|own| own.ended.is_none() && own.question.is_none());
                jobs.chain(own.map(|own| own.due)).min().unwrap_or(u64::MAX / 4)
            };
            let wait = Duration::from_millis(due.saturating_sub(before));
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep_until(start + wait.min(Duration::from_secs(86_400))) => {}
            }
            let now = before + start.elapsed().as_millis() as u64;
            self.advance(now);
        }
    }

    /// So many milliseconds, when no gateway lives. Who waited for an answer on a connection waits no longer.
    pub(crate) fn pass(self: &Arc<Self>, millis: u64) {
        let until = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            let until = state.now + millis;
            for job in state.jobs.values_mut() {
                job.ways.clear();
                if matches!(job.next, Next::Asking) {
                    // It gives up, or does what it was asked to do all the same.
                    job.next = Next::Finish;
                    job.due = state.now + 1 + state.random.below(2_000) as u64;
                }
            }
            until
        };
        self.advance(until);
    }

    pub(crate) fn advance(self: &Arc<Self>, now: u64) {
        loop {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            let job = state
                .jobs
                .iter()
                .filter(|(_, job)| job.due <= now && !matches!(job.next, Next::Asking))
                .min_by_key(|(id, job)| (job.due, **id))
                .map(|(id, _)| *id);
            let Some(id) = job else {
                state.now = now.max(state.now);
                let due: Vec<String> = state
                    .own
                    .iter()
                    .filter(|(_, own)| own.ended.is_none() && own.question.is_none() && own.due <= now)
                    .map(|(id, _)| id.clone())
                    .collect();
                for id in due {
                    self.finish_own(state, &id);
                }
                return;
            };
            let Some(job) = state.jobs.remove(&id) else { return };
            state.now = state.now.max(job.due);
            match job.next {
                Next::Arrive => self.arrive(state, id, job),
                Next::Finish | Next::Asking => self.finish(state, job),
            }
        }
    }

    /// A request leaves the gateway.
    pub(crate) fn send(&self, call: &str, outline: Outline) -> Sent {
        let Outline { key, acts, can_ask, round } = outline;
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.books.entry(call.to_owned()).or_default().sent += 1;
        if state.random.one_in(25) {
            self.tally.count("a connection refused");
            return Sent::Refused;
        }
        let (answer, answered) = oneshot::channel();
        let (events, heard) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        if state.random.one_in(25) {
            self.tally.count("a request lost");
            drop(answer);
        } else {
            state.count += 1;
            let ways = vec![Way { answer, events, stop: stop.clone() }];
            let due = state.now + 1 + state.random.below(400) as u64;
            let job = Job { due, next: Next::Arrive, call: call.to_owned(), key, acts, can_ask, round, ways };
            state.jobs.insert(state.count, job);
            self.changed.notify_one();
        }
        // The connection may break before anything comes, with the request still on its way.
        let breaks =
            state.random.one_in(12).then(|| Duration::from_millis(20 + state.random.below(3_000) as u64));
        Sent::Away { answered, heard, stop, breaks }
    }

    pub(crate) fn arrive(self: &Arc<Self>, state: &mut State, id: u64, mut job: Job) {
        let is_late = job.is_alone();
        if is_late {
            self.tally.count("a late request");
        }
        state.books.entry(job.call.clone()).or_default().requests += 1;
        if let Some(known) = job.key.as_ref().and_then(|key| state.keys.get(key)).cloned() {
            self.tally.count("a key that the server knew");
            match (known, state.jobs.values_mut().find(|other| other.key == job.key)) {
                (Some(known), _) => job.reply(known),
                (None, Some(other)) => other.ways.append(&mut job.ways),
                (None, None) => job.reply(Answer::Lost("the line broke".to_owned())),
            }
            return;
        }
        if let Some(key) = &job.key {
            state.keys.insert(key.clone(), None);
        }
        for (name, answer) in std::mem::take(&mut job.round) {
            self.tally.count("a round answered");
            state.answered(&name, &answer);
            job.can_ask = false;
        }
        match state.random.below(20) {
            0 => {
                self.tally.count("refused by the server");
                let error = Bytes::from_static(b"{\"code\":-32602,\"message\":\"no\"}");
                state.forget(&job.key);
                job.reply(Answer::Raised { code: -32_602, error });
            }
            1 | 2 => {
                let text = state.done(&job.call, job.acts);
                self.tally.count("an answer lost");
                state.note(&job.key, &result(&text, false));
                job.reply(Answer::Lost("the line broke".to_owned()));
            }
            3..=6 if self.survival == Survival::Survives => self.begin_own(state, id, job),
            7 | 8 if job.can_ask && !job.ways.is_empty() => self.ask(state, id, job),
            9 | 10 if job.can_ask => {
                // It asks, and forgets the call until the answers come (B-124).
                let (name, question) = self.question(state);
                state.forget(&job.key);
                let question = Question { back_key: Some(name.clone()), ..question };
                let forgotten = Some(Bytes::from_static(b"\"where it was\""));
                job.reply(Answer::InputRequired { questions: vec![(name, question)], state: forgotten });
            }
            11..=14 => {
                // It takes its time, and says so.
                job.progress(1);
                job.due = state.now + 500 + state.random.below(70_000) as u64;
                job.next = Next::Finish;
                state.jobs.insert(id, job);
            }
            _ => {
                job.due = state.now + state.random.below(300) as u64;
                job.next = Next::Finish;
                state.jobs.insert(id, job);
            }
        }
    }

    pub(crate) fn finish(&self, state: &mut State, job: Job) {
        if !job.ways.is_empty()
            && job.ways.iter().all(|way| way.stop.is_cancelled())
            && state.random.one_in(2)
        {
            self.tally.count("stopped when asked to");
            state.forget(&job.key);
            let error = Bytes::from_static(b"{\"code\":-32000,\"message\":\"stopped\"}");
            job.reply(Answer::Raised { code: -32_000, error });
            return;
        }
        if job.is_alone() {
            self.tally.count("an effect that nobody waited for");
        }
        let text = state.done(&job.call, job.acts);
        let answer = result(&text, state.random.one_in(12));
        state.note(&job.key, &answer);
        job.progress(2);
        job.reply(answer);
    }

    pub(crate) fn question(&self, state: &mut State) -> (String, Question) {
        state.count += 1;
        let name = format!("q#{}", state.count);
        state.answers.insert(name.clone(), vec![]);
        self.tally.count("a question");
        let params = format!(
            "{{\"message\":\"Token for {name} ?\",\"requestedSchema\":{{\"type\":\"object\",\"properties\":{{\"token\":{{\"type\":\"string\"}}}}}}}}"
        );
        let question = Question { kind: QuestionKind::Form, params: Bytes::from(params), back_key: None };
        (name, question)
    }

    /// Asks on the call's own connection.
    pub(crate) fn ask(self: &Arc<Self>, state: &mut State, id: u64, mut job: Job) {
        let (name, question) = self.question(state);
        let (reply, replied) = oneshot::channel();
        if let Some(way) = job.ways.first() {
            let _ = way.events.send(BackEvent::Asked { ask: id, question, reply });
        }
        job.next = Next::Asking;
        job.due = u64::MAX;
        state.jobs.insert(id, job);
        let server = self.clone();
        tokio::spawn(async move {
            let reply = replied.await;
            let mut state = server.state.lock();
            if let Ok(Reply::Result(answer)) = &reply {
                state.answered(&name, answer);
            }
            let due = state.now + 10 + state.random.below(2_000) as u64;
            if let Some(job) = state.jobs.get_mut(&id)
                && matches!(job.next, Next::Asking)
            {
                job.next = Next::Finish;
                job.due = due;
            }
            server.changed.notify_one();
        });
    }
}

/// A request.
pub(crate) struct Outline {
    /// For a server that honours it.
    pub(crate) key: Option<String>,
    /// Whether it changes something.
    pub(crate) acts: bool,
    pub(crate) can_ask: bool,
    /// Answers to what was asked before it.
    pub(crate) round: Vec<(String, Bytes)>,
}

/// What became of a request on its way out.
pub(crate) enum Sent {
    /// No byte left.
    Refused,
    /// It is under way.
    Away {
        answered: oneshot::Receiver<Answer>,
        heard: mpsc::UnboundedReceiver<BackEvent>,
        stop: CancellationToken,
        breaks: Option<Duration>,
    },
}

impl State {
    pub(crate) fn done(&mut self, call: &str, acts: bool) -> String {
        self.count += 1;
        let entry = self.books.entry(call.to_owned()).or_default();
        if acts {
            entry.effects += 1;
        }
        let text = format!("done {call} r#{}", self.count);
        entry.results.insert(format!("r#{}", self.count));
        text
    }

    pub(crate) fn note(&mut self, key: &Option<String>, answer: &Answer) {
        if let Some(key) = key {
            self.keys.insert(key.clone(), Some(answer.clone()));
        }
    }

    /// It was not done: the key is free.
    pub(crate) fn forget(&mut self, key: &Option<String>) {
        if let Some(key) = key {
            self.keys.remove(key);
        }
    }

    pub(crate) fn answered(&mut self, name: &str, answer: &Bytes) {
        let text = json::at(std::str::from_utf8(answer).unwrap_or("{}"), &["content", "token"]);
        let token = text.and_then(json::string).map_or_else(|| "none".to_owned(), String::from);
        self.answers.entry(name.to_owned()).or_default().push(token);
    }
}

impl Job {
    /// Nobody waits for it any more.
    pub(crate) fn is_alone(&self) -> bool {
        self.ways.iter().all(|way| way.answer.is_closed())
    }

    pub(crate) fn reply(self, answer: Answer) {
        for way in self.ways {
            let _ = way.answer.send(answer.clone());
        }
    }

    pub(crate) fn progress(&self, step: u32) {
        for way in &self.ways {
            let params = Bytes::from(format!("{{\"progress\":{step},\"message\":\"{}\"}}", self.call));
            let _ = way.events.send(BackEvent::Progress(params));
        }
    }
}
