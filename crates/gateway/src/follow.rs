//! The news of one task for one legacy session: questions, progress, log messages, status.
//!
//! A follow runs from the moment the task's id is given to the session until the task is over. Everything it sends
//! goes out on exactly one stream: an open `tasks/result` of the task first, else the standing stream.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::id::TaskId;
use taskgate_core::task::QuestionKey;
use taskgate_engine::{Handle, Signal};
use taskgate_store::record::Record;
use taskgate_wire::dialect::a;
use taskgate_wire::json;
use taskgate_wire::message;
use taskgate_wire::meta::PROGRESS_TOKEN;
use taskgate_wire::question;
use taskgate_wire::splice::{Edit, splice};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};

use crate::asks::AskedFor;
use crate::dispatch::text;
use crate::gateway::Gateway;
use crate::level::Level;
use crate::outlet::Outlet;
use crate::session::Session;
use crate::view::view;

/// One task's news for one session.
#[derive(Debug)]
pub(crate) struct Follow {
    task: TaskId,
    /// The token of the call that made the task; it stays valid for the task's whole life.
    token: Option<String>,
    /// Whether the session knows it as a task, so that messages may name it.
    is_task: bool,
    state: Mutex<State>,
    /// Something can be delivered now that could not before.
    kick: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Open streams that wait for the task, newest last.
    waiting: Vec<Outlet>,
    /// Where each open question was last sent.
    asked: HashMap<QuestionKey, Outlet>,
    /// Open questions that the client was asked before, on a stream that ended in good order: it still has them.
    has: HashSet<QuestionKey>,
}

/// What a session knows of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// That it is one.
    AsTask,
    /// Only that a call goes on under a handle.
    AsHandle,
}

/// A stream that waits for the task, until dropped.
pub(crate) struct Waits {
    follow: Arc<Follow>,
    outlet: Outlet,
}

impl Follow {
    /// The follow of a task in a session, begun if there is none.
    pub(crate) fn start(
        gateway: &Arc<Gateway>,
        session: &Arc<Session>,
        handle: &Handle,
        token: Option<String>,
        known: Known,
    ) -> Arc<Follow> {
        let record = handle.record();
        let mut follows = session.follows.lock();
        if let Some(follow) = follows.get(&record.id) {
            return follow.clone();
        }
        let follow = Arc::new(Follow {
            task: record.id.clone(),
            token,
            is_task: known == Known::AsTask && session.version().has_tasks_a(),
            state: Mutex::default(),
            kick: Notify::new(),
        });
        if record.task.ending().is_none() {
            follows.insert(record.id.clone(), follow.clone());
            // Listened to from now on, not from the first turn of the task below.
            let signals = handle.signals();
            tokio::spawn(run(
                Arc::downgrade(gateway),
                session.clone(),
                follow.clone(),
                handle.clone(),
                signals,
            ));
        }
        follow
    }

    /// Adds a stream that waits for the task: questions go there first.
    pub(crate) fn wait_on(self: &Arc<Self>, outlet: &Outlet) -> Waits {
        self.state.lock().waiting.push(outlet.clone());
        self.kick.notify_one();
        Waits { follow: self.clone(), outlet: outlet.clone() }
    }

    /// Notes questions that the client has already (G-011).
    pub(crate) fn has(&self, keys: HashSet<QuestionKey>) {
        self.state.lock().has.extend(keys);
    }

    /// Looks again at what can be delivered: a stream has been opened.
    pub(crate) fn kick(&self) {
        self.kick.notify_one();
    }

    fn way(&self, session: &Session) -> Option<Outlet> {
        let mut state = self.state.lock();
        state.waiting.retain(Outlet::is_open);
        state.waiting.last().cloned().or_else(|| session.stream())
    }

    /// Sends every open question that no open stream carries (X-023, X-026, G-011).
    fn deliver(&self, session: &Session, record: &Record) {
        let open = record.task.outstanding().map(|asked| asked.questions());
        let is_open = |key: &QuestionKey| open.is_some_and(|open| open.contains_key(key));
        session.asks.prune(&self.task, is_open);
        self.state.lock().asked.retain(|key, _| is_open(key));
        let Some(open) = open else { return };
        for (key, question) in open {
            if !session.negotiated.offers.can_ask(question.kind) {
                continue;
            }
            let is_asked = {
                let state = self.state.lock();
                state.has.contains(key) || state.asked.get(key).is_some_and(Outlet::is_open)
            };
            if is_asked {
                continue;
            }
            let Some(way) = self.way(session) else { return };
            let to = AskedFor::Task { task: self.task.clone(), key: key.clone() };
            let task = self.is_task.then_some(&self.task);
            let (count, message) = session.asks.open(question, to, task, session.version());
            if way.send(message) {
                self.state.lock().asked.insert(key.clone(), way);
            } else {
                session.asks.forget(count);
            }
        }
    }

    fn signal(&self, session: &Session, signal: &Signal) {
        let message = match signal {
            Signal::Progress(params) => {
                let Some(token) = &self.token else { return };
                let related = self.is_task.then_some(&self.task);
                progress(params, token, related)
            }
            Signal::Log(params) => {
                if !wants_log(session, params) {
                    return;
                }
                log(params, self.is_task.then_some(&self.task))
            }
            Signal::Visited(key) => match visited(session, &self.task, key) {
                Some(message) => message,
                None => return,
            },
        };
        if let Some(way) = self.way(session) {
            way.send(message);
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let mut state = self.follow.state.lock();
        if let Some(at) = state.waiting.iter().position(|outlet| outlet.is(&self.outlet)) {
            state.waiting.remove(at);
        }
    }
}

async fn run(
    gateway: Weak<Gateway>,
    session: Arc<Session>,
    follow: Arc<Follow>,
    mut handle: Handle,
    mut signals: broadcast::Receiver<Signal>,
) {
    let mut last = a::status(&handle.record().task);
    loop {
        let record = handle.record();
        follow.deliver(&session, &record);
        let status = a::status(&record.task);
        if status != last {
            last = status;
            // only sessions that know the task hear of its status.
            if follow.is_task
                && let Some(gateway) = gateway.upgrade()
            {
                session.send(a::status_notification(&view(&gateway.engine, &record)));
            }
        }
        if status.is_final() {
            // A URL that was the last thing to be waited for.
            while let Ok(signal) = signals.try_recv() {
                if let Signal::Visited(_) = signal {
                    follow.signal(&session, &signal);
                }
            }
            break;
        }
        tokio::select! {
            _ = handle.changed() => {}
            signal = signals.recv() => match signal {
                // none once the task is over.
                Ok(signal) if handle.record().task.ending().is_none() => follow.signal(&session, &signal),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => { handle.changed().await; }
            },
            () = follow.kick.notified() => {}
            () = session.ended.cancelled() => break,
        }
    }
    session.follows.lock().remove(&follow.task);
}

/// `notifications/elicitation/complete`, if this client agreed to visit the URL of a question that is done with.
pub(crate) fn visited(session: &Session, task: &TaskId, key: &QuestionKey) -> Option<Bytes> {
    let elicitation_id = session.asks.visited(task, key)?;
    session.version().has_elicitation_id().then(|| question::elicitation_complete(&elicitation_id))
}

/// `notifications/progress` under the client's own token.
pub(crate) fn progress(params: &Bytes, token: &str, related: Option<&TaskId>) -> Bytes {
    let set = [Edit::set(&[PROGRESS_TOKEN], token)];
    let params = splice(text(params), &set).unwrap_or_else(|_| params.clone());
    notification("notifications/progress", params, related)
}

/// `notifications/message`.
pub(crate) fn log(params: &Bytes, related: Option<&TaskId>) -> Bytes {
    notification("notifications/message", params.clone(), related)
}

fn notification(method: &str, params: Bytes, related: Option<&TaskId>) -> Bytes {
    let params = match related {
        Some(task) => a::with_related(&params, task.expose()),
        None => params,
    };
    message::notification(method, Some(text(&params)))
}

fn wants_log(session: &Session, params: &[u8]) -> bool {
    let level = json::at(text(params), &["level"]).and_then(json::string);
    level.as_deref().and_then(Level::parse).is_some_and(|level| session.wants_log(level))
}
