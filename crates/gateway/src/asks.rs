//! Questions that a legacy client was asked, until it answers.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Question, QuestionKey, QuestionKind};
use taskgate_engine::back::Reply;
use taskgate_wire::handshake::cancelled_params;
use taskgate_wire::id::RequestId;
use taskgate_wire::message;
use taskgate_wire::question::{self, ToLegacy};
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::version::Version;
use tokio::sync::oneshot;

use crate::outlet::Outlet;

/// Questions that may be open at once; above it the oldest is forgotten, so that an answer to it goes nowhere.
const OPEN_MAX: usize = 1_024;

/// All questions of one session.
#[derive(Debug)]
pub(crate) struct Asks {
    /// Tells our ids apart from those before a restart.
    prefix: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    count: u64,
    open: HashMap<u64, Ask>,
    /// URL flows that this client was sent to, so that it hears of their end.
    flows: HashSet<String>,
    /// The flows of tasks' questions, by these, and whether the client agreed to go there.
    visits: HashMap<(TaskId, QuestionKey), Visit>,
}

#[derive(Debug)]
struct Visit {
    elicitation_id: String,
    is_agreed: bool,
}

/// One question.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) kind: QuestionKind,
    pub(crate) to: AskedFor,
    /// On which way it went to the client, and how.
    way: Option<Outlet>,
    message: Bytes,
    /// It was asked once more already, since the first answer did not fit.
    is_again: bool,
}

/// What became of a question whose answer did not fit.
pub(crate) enum Again {
    /// It was asked once more.
    Asked,
    /// It is not asked any more: here it is.
    Enough(Ask),
}

/// A question that the client need not answer any more.
#[derive(Debug)]
pub(crate) struct TakenBack {
    /// `notifications/cancelled`.
    pub(crate) message: Bytes,
    /// Where the question went.
    pub(crate) way: Outlet,
}

/// Where the answer goes.
#[derive(Debug)]
pub(crate) enum AskedFor {
    /// To a question of a task.
    Task { task: TaskId, key: QuestionKey },
    /// To somebody who waits for it.
    Waiting(oneshot::Sender<Reply>),
}

impl Asks {
    pub(crate) fn new(prefix: u32) -> Asks {
        Asks { prefix, state: Mutex::default() }
    }

    /// Writes a question as a request with a fresh id, and notes where its answer goes. `task` is named to
    /// clients that know tasks.
    pub(crate) fn open(
        &self,
        question: &Question,
        to: AskedFor,
        task: Option<&TaskId>,
        version: Version,
    ) -> (u64, Bytes) {
        let mut state = self.state.lock();
        state.count += 1;
        let count = state.count;
        if state.open.len() >= OPEN_MAX
            && let Some(oldest) = state.open.keys().min().copied()
        {
            state.open.remove(&oldest);
        }
        let name = self.name(count);
        if question.kind == QuestionKind::Url && state.flows.len() < OPEN_MAX {
            let elicitation_id = question::elicitation_id(question).unwrap_or_else(|| name.clone());
            state.flows.insert(elicitation_id.clone());
            if let AskedFor::Task { task, key } = &to
                && state.visits.len() < OPEN_MAX
            {
                let visit = Visit { elicitation_id, is_agreed: false };
                state.visits.insert((task.clone(), key.clone()), visit);
            }
        }
        let id = RequestId::from_name(&name);
        let message = question::to_a(question, &ToLegacy { id: &id, task, version, elicitation_id: &name });
        let ask = Ask { kind: question.kind, to, way: None, message: message.clone(), is_again: false };
        state.open.insert(count, ask);
        (count, message)
    }

    /// Asks a question once more, under a fresh id: its answer did not fit, and its client has no way to hear that.
    /// Not a third time.
    pub(crate) fn again(&self, ask: Ask) -> Again {
        let Some(way) = ask.way.clone().filter(|_| !ask.is_again) else { return Again::Enough(ask) };
        let mut state = self.state.lock();
        state.count += 1;
        let count = state.count;
        let id = format!("\"{}\"", self.name(count));
        let written = std::str::from_utf8(&ask.message).ok();
        let message = written.and_then(|text| splice(text, &[Edit::set(&["id"], id)]).ok());
        let Some(message) = message.filter(|message| way.send(message.clone())) else {
            return Again::Enough(ask);
        };
        state.open.insert(count, Ask { message, is_again: true, ..ask });
        Again::Asked
    }

    /// Notes on which way a question went to the client.
    pub(crate) fn went(&self, count: u64, way: &Outlet) {
        if let Some(ask) = self.state.lock().open.get_mut(&count) {
            ask.way = Some(way.clone());
        }
    }

    /// Takes the question that a response answers. `None` if there is none: it was answered, or never asked.
    pub(crate) fn take(&self, id: &RequestId) -> Option<(u64, Ask)> {
        let name = id.as_name()?;
        let (prefix, count) = name.strip_prefix("tg-")?.split_once('-')?;
        let count = count.parse().ok()?;
        if prefix != format!("{:08x}", self.prefix) {
            return None;
        }
        Some((count, self.state.lock().open.remove(&count)?))
    }

    /// Puts one back whose answer could not be used.
    pub(crate) fn put_back(&self, count: u64, ask: Ask) {
        self.state.lock().open.insert(count, ask);
    }

    /// Nobody waits for an answer to it any more. What the client is to be told, if it was asked.
    pub(crate) fn forget(&self, count: u64) -> Option<TakenBack> {
        let ask = self.state.lock().open.remove(&count)?;
        self.taken_back(count, ask)
    }

    /// Forgets the questions of a task, but for those whose key is still open. What the client is to be told of them.
    pub(crate) fn prune(&self, of: &TaskId, is_open: impl Fn(&QuestionKey) -> bool) -> Vec<TakenBack> {
        let void = |ask: &Ask| match &ask.to {
            AskedFor::Task { task, key } => task == of && !is_open(key),
            AskedFor::Waiting(_) => false,
        };
        let mut gone: Vec<_> = self.state.lock().open.extract_if(|_, ask| void(ask)).collect();
        gone.sort_unstable_by_key(|(count, _)| *count);
        gone.into_iter().filter_map(|(count, ask)| self.taken_back(count, ask)).collect()
    }

    fn taken_back(&self, count: u64, ask: Ask) -> Option<TakenBack> {
        let id = RequestId::from_name(&self.name(count));
        let params = cancelled_params(&id, "The answer is not needed any more");
        let message = message::notification("notifications/cancelled", Some(&params));
        Some(TakenBack { message, way: ask.way? })
    }

    fn name(&self, count: u64) -> String {
        format!("tg-{:08x}-{count}", self.prefix)
    }

    /// The client agreed to visit the URL of a task's question.
    pub(crate) fn agreed(&self, task: &TaskId, key: &QuestionKey) {
        if let Some(visit) = self.state.lock().visits.get_mut(&(task.clone(), key.clone())) {
            visit.is_agreed = true;
        }
    }

    /// The URL of a task's question has been visited: the flow that this client is to hear the end of, if it agreed to
    /// go there and has not heard of it.
    pub(crate) fn visited(&self, task: &TaskId, key: &QuestionKey) -> Option<String> {
        let mut state = self.state.lock();
        let visit = state.visits.remove(&(task.clone(), key.clone()))?;
        let is_open = state.flows.remove(&visit.elicitation_id);
        (visit.is_agreed && is_open).then_some(visit.elicitation_id)
    }

    /// Whether this client was sent to a URL flow; asked once, when it is over.
    pub(crate) fn end_flow(&self, elicitation_id: &str) -> bool {
        self.state.lock().flows.remove(elicitation_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> Question {
        Question { kind: QuestionKind::Roots, params: Bytes::from_static(b"{}"), back_key: None }
    }

    fn id_of(message: &Bytes) -> RequestId {
        let message = taskgate_wire::message::parse(message.clone()).unwrap();
        message.id().expect("a request").clone()
    }

    #[test]
    fn x_031_a_question_is_answered_once_and_by_its_own_session() {
        let asks = Asks::new(7);
        let (sender, _receiver) = oneshot::channel();
        let (_, message) = asks.open(&question(), AskedFor::Waiting(sender), None, Version::NEWEST_LEGACY);
        let id = id_of(&message);
        assert!(Asks::new(8).take(&id).is_none(), "another session's");
        assert!(asks.take(&RequestId::from_u64(1)).is_none());
        let (count, ask) = asks.take(&id).unwrap();
        assert!(asks.take(&id).is_none());
        asks.put_back(count, ask);
        assert!(asks.take(&id).is_some());
    }

    #[test]
    fn g_011_only_open_questions_of_a_task_stay() {
        let asks = Asks::new(0);
        let task = TaskId::parse("t1").unwrap();
        let ids: Vec<_> = ["in-1", "in-2"]
            .into_iter()
            .map(|key| {
                let to = AskedFor::Task { task: task.clone(), key: QuestionKey(key.to_owned()) };
                id_of(&asks.open(&question(), to, Some(&task), Version::NEWEST_LEGACY).1)
            })
            .collect();
        asks.prune(&task, |key| key.0 == "in-2");
        assert!(asks.take(&ids[0]).is_none());
        assert!(asks.take(&ids[1]).is_some());
    }
}
