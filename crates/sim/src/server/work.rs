//! What the server does with a request, and with its own tasks.

use bytes::Bytes;
use taskgate_core::operation::Upstream;
use taskgate_core::recovery::Survival;
use taskgate_engine::back::{Accepted, Answer, BackEvent, Look, Reply, Stand};
use tokio::sync::oneshot;

use super::line::words;
use super::{FENCE, LOOK, PAY, Request, STEP, Server, State, WORK_MAX, done, form};

/// A task of the server's own.
pub(super) struct Work {
    pub(super) left: u64,
    pub(super) call: String,
    /// The question that it waits for an answer to; until then its time stands still.
    pub(super) asks: Option<String>,
    pub(super) is_cancelled: bool,
    /// It says in the end that it did what it does not do.
    boasts: bool,
    pub(super) receipt: Option<String>,
}

/// A call that was asked something, and waits for the reply on its connection.
pub(super) struct Asking {
    request: Request,
    key: String,
    replied: oneshot::Receiver<Reply>,
}

impl Asking {
    pub(super) fn is_about(&self, call: &str) -> bool {
        self.request.call == call
    }
}

fn accepted(task_id: String) -> Answer {
    let upstream = Upstream { task_id, session: None };
    let look =
        Look { stand: Stand::Working, message: None, last_updated_at: None, poll: None, questions: vec![] };
    Answer::Task(Accepted { upstream, look })
}

fn raised(code: i64) -> Answer {
    let error = format!("{{\"code\":{code},\"message\":\"no\"}}");
    Answer::Raised { code, error: Bytes::from(error.into_bytes()) }
}

fn said(words: &'static str) -> Answer {
    Answer::Returned { result: Bytes::from_static(words.as_bytes()), is_error: false }
}

impl Server {
    pub(super) fn arrive(&self, state: &mut State, request: Request) {
        match request.tool.as_str() {
            LOOK => self.looked_up(state, request),
            FENCE => self.fenced(state, request),
            _ => self.called(state, request),
        }
    }

    /// The system of record is asked: mostly it tells the truth, and it never says a falsehood.
    fn looked_up(&self, state: &mut State, request: Request) {
        let has_it = state.books.of(&request.call).effects > 0;
        let answer = match state.random.below(12) {
            0 => {
                self.tally.count("a look-up that was lost");
                Answer::Lost("the line broke".to_owned())
            }
            1 => raised(-32_000),
            2 => {
                self.tally.count("a look-up that says neither");
                said("huh")
            }
            3 => {
                self.tally.count("a look-up that makes no sense");
                said("???")
            }
            _ => {
                self.tally.count(if has_it {
                    "a look-up that found it"
                } else {
                    "a look-up that found nothing"
                });
                said(if has_it { "yes" } else { "no" })
            }
        };
        let _ = request.answer.send(answer);
    }

    /// From now on no request for this call is carried out, and none that is being carried out goes on.
    fn fenced(&self, state: &mut State, request: Request) {
        let answer = match state.random.below(6) {
            0 => said("no"),
            fate => {
                state.fenced.insert(request.call.clone());
                for work in state.tasks.values_mut().filter(|work| work.call == request.call && work.left > 0)
                {
                    work.is_cancelled = true;
                    work.asks = None;
                }
                for asking in state.asking.extract_if(.., |asking| asking.request.call == request.call) {
                    let _ = asking.request.answer.send(raised(-32_000));
                }
                self.tally.count("a fence");
                if fate == 1 { Answer::Lost("the line broke".to_owned()) } else { said("fenced") }
            }
        };
        let _ = request.answer.send(answer);
    }

    fn called(&self, state: &mut State, request: Request) {
        if request.answer.is_closed() {
            self.tally.count("a late request");
        }
        state.books.entry(&request.call).requests += 1;
        if state.fenced.contains(&request.call) {
            self.tally.count("a request behind a fence");
            let _ = request.answer.send(raised(-32_000));
            return;
        }
        if let Some(known) = request.key.as_ref().and_then(|key| state.keys.get(key)) {
            self.tally.count("a key that the server knew");
            let _ = request.answer.send(known.clone().map_or_else(|| done(None), accepted));
            return;
        }
        if self.survival == Survival::DiedWithUs && request.key.is_none() && state.random.one_in(8) {
            self.ask(state, request);
            return;
        }
        let answer = self.carry_out(state, &request);
        if let Some(key) = request.key {
            match &answer {
                Answer::Task(task) => state.keys.insert(key, Some(task.upstream.task_id.clone())),
                Answer::Returned { .. } | Answer::Lost(_) => state.keys.insert(key, None),
                Answer::Raised { .. }
                | Answer::InputRequired { .. }
                | Answer::NeverSent(_)
                | Answer::Nonsense(_) => None,
            };
        }
        let _ = request.answer.send(answer);
    }

    fn carry_out(&self, state: &mut State, request: &Request) -> Answer {
        let pays = request.tool == PAY;
        let fate = state.random.below(if pays { 24 } else { 20 });
        let entry = state.books.entry(&request.call);
        match fate {
            0 => {
                self.tally.count("refused by the server");
                raised(-32_602)
            }
            1 => {
                entry.effects += 1;
                Answer::Returned { result: Bytes::from_static(b"{\"isError\":true}"), is_error: true }
            }
            2 | 3 => {
                entry.effects += 1;
                self.tally.count("an answer lost");
                Answer::Lost("the line broke".to_owned())
            }
            20 => {
                self.tally.count("a server that denies what it did");
                entry.effects += 1;
                entry.denied = true;
                raised(-32_602)
            }
            21 => {
                self.tally.count("a server that loses what it did not do");
                Answer::Lost("the line broke".to_owned())
            }
            fate => {
                let boasts = fate == 22;
                entry.boasted |= boasts;
                if boasts {
                    self.tally.count("a server that says what it did not do");
                }
                let receipt = (pays && !boasts).then(|| format!("r-{}", request.call));
                if self.survival == Survival::Survives {
                    let task_id = format!("up-{}-{}", request.call, entry.requests);
                    let left = STEP + STEP * state.random.below(WORK_MAX) as u64;
                    let asks = state.random.one_in(6).then(|| format!("{task_id}-q"));
                    if let Some(key) = &asks {
                        self.tally.count("a question in a task of the server's");
                        state.books.entry(&request.call).questions.entry(key.clone()).or_default();
                    }
                    let call = request.call.clone();
                    let work = Work { left, call, asks, is_cancelled: false, boasts, receipt };
                    state.tasks.insert(task_id.clone(), work);
                    return accepted(task_id);
                }
                entry.effects += u32::from(!boasts);
                done(receipt.as_deref())
            }
        }
    }

    fn ask(&self, state: &mut State, request: Request) {
        self.tally.count("a question on a connection");
        let (reply, replied) = oneshot::channel();
        let entry = state.books.entry(&request.call);
        let key = format!("q-{}-{}", request.call, entry.requests);
        entry.questions.entry(key.clone()).or_default();
        // Whoever should hear of it may be gone.
        let _ = request.says.send(BackEvent::Asked { ask: 1, question: form(), reply });
        state.asking.push(Asking { request, key, replied });
    }

    /// Goes on with the calls whose question was answered, and lets go of those whose connection is gone.
    pub(super) fn heed_replies(&self, state: &mut State) {
        let mut waiting = vec![];
        for mut asking in std::mem::take(&mut state.asking) {
            match asking.replied.try_recv() {
                Ok(reply) => {
                    let entry = state.books.entry(&asking.request.call);
                    entry.questions.entry(asking.key).or_default().insert(words(&reply));
                    let answer = self.carry_out(state, &asking.request);
                    let _ = asking.request.answer.send(answer);
                }
                Err(oneshot::error::TryRecvError::Empty) if !asking.request.answer.is_closed() => {
                    waiting.push(asking);
                }
                Err(_) => {
                    self.tally.count("a question that nobody answers any more");
                    let _ = asking.request.answer.send(raised(-32_000));
                }
            }
        }
        state.asking = waiting;
    }

    /// Time passes for the server's own tasks.
    pub(super) fn work_on(&self, state: &mut State) {
        let State { tasks, books, .. } = state;
        for work in tasks.values_mut() {
            if work.left == 0 || work.asks.is_some() || work.is_cancelled {
                continue;
            }
            work.left = work.left.saturating_sub(STEP);
            if work.left == 0 && !work.boasts {
                books.entry(&work.call).effects += 1;
            }
        }
    }
}
