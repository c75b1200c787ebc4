//! The news of one task for one legacy session: questions, progress, log messages, status.
//!
//! A follow runs from the moment the task's id is given to the session until the task is over. Everything it sends
//! goes out on exactly one stream: an open `tasks/result` of the task first, else the standing stream.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select_all;
use parking_lot::Mutex;
use taskgate_core::id::TaskId;
use taskgate_core::task::QuestionKey;
use taskgate_engine::{Handle, Signal};
use taskgate_store::record::Record;
use taskgate_wire::dialect::{Status, a};
use taskgate_wire::json;
use taskgate_wire::message;
use taskgate_wire::meta::PROGRESS_TOKEN;
use taskgate_wire::question;
use taskgate_wire::splice::{Edit, splice};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Notify, broadcast, watch};

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
    /// Whether the client was given the task's id. Until then it cannot know what a question is about.
    told: watch::Sender<bool>,
}

/// Held by the answer that gives a client its task's id: what there is to say of the task waits until the answer was
/// handed to the client's stream, or is lost with it.
#[derive(Debug)]
pub(crate) struct Telling(Arc<Follow>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.told.send_replace(true);
    }
}

/// How long a client may take to note a task that it was told of. Its streams are read in whichever order it likes, and
/// the ext-tasks client 0.2.2 refuses a question about a task that it has not noted.
const NOTING: Duration = Duration::from_millis(50);

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
            told: watch::Sender::new(known == Known::AsHandle),
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

    /// Holds back what there is to say of the task until its client was told that it is one.
    pub(crate) fn telling(self: &Arc<Self>) -> Telling {
        Telling(self.clone())
    }

    /// Adds a stream that waits for the task: questions go there first. Who waits for it knows it.
    pub(crate) fn wait_on(self: &Arc<Self>, outlet: &Outlet) -> Waits {
        self.told.send_replace(true);
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

    /// Waits until its client has had time to note the task.
    async fn is_noted(&self, session: &Session) {
        if *self.told.borrow() {
            return;
        }
        let mut told = self.told.subscribe();
        let noted = async {
            // It lives as long as we do.
            let _ = told.wait_for(|told| *told).await;
            tokio::select! {
                biased;
                () = tokio::time::sleep(NOTING) => {}
                // It waits for the task on a stream, so it has noted it.
                () = self.kick.notified() => self.kick.notify_one(),
            }
        };
        tokio::select! {
            biased;
            () = noted => {}
            () = session.ended.cancelled() => {}
        }
    }

    /// Waits until a stream closes that carries an open question.
    async fn way_lost(&self) {
        let ways: Vec<Outlet> = self.state.lock().asked.values().cloned().collect();
        let closing: Vec<_> =
            ways.iter().filter(|way| way.is_open()).map(|way| Box::pin(way.closed())).collect();
        if closing.is_empty() {
            return std::future::pending().await;
        }
        select_all(closing).await;
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
        session.take_back(record);
        self.state.lock().asked.retain(|key, _| is_open(key));
        let Some(open) = open else { return };
        for (key, question) in open {
            if !session.negotiated.offers.takes(question) {
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
            if let Some((_, way)) = session.put(question, to, task, &way) {
                self.state.lock().asked.insert(key.clone(), way);
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
    // A new task is told as working, an older one as it is.
    let mut last = if *follow.told.borrow() { a::status(&handle.record().task) } else { Status::Working };
    follow.is_noted(&session).await;
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
            biased;
            _ = handle.changed() => {}
            () = follow.kick.notified() => {}
            // What was asked there may be asked elsewhere now: a stream's end is often noticed only after the
            // next one was opened.
            () = follow.way_lost() => {}
            () = session.ended.cancelled() => break,
            signal = signals.recv() => match signal {
                Ok(signal @ Signal::Visited(_)) => follow.signal(&session, &signal),
                // none once the task is over.
                Ok(signal) if handle.record().task.ending().is_none() => follow.signal(&session, &signal),
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => { handle.changed().await; }
            },
        }
    }
    session.follows.lock().remove(&follow.task);
}

/// Tells of the visits that ended just before their task did, as long as there is a stream for it.
pub(crate) fn last_visits(
    session: &Session,
    task: &TaskId,
    signals: &mut broadcast::Receiver<Signal>,
    way: &Outlet,
) {
    loop {
        match signals.try_recv() {
            Ok(Signal::Visited(key)) => tell_visited(session, task, &key, way),
            Ok(Signal::Progress(_) | Signal::Log(_)) | Err(TryRecvError::Lagged(_)) => {}
            Err(TryRecvError::Empty | TryRecvError::Closed) => return,
        }
    }
}

/// Tells on `way`, or else on a standing stream.
pub(crate) fn tell_visited(session: &Session, task: &TaskId, key: &QuestionKey, way: &Outlet) {
    if let Some(message) = visited(session, task, key)
        && !way.send(message.clone())
    {
        session.send(message);
    }
}

/// `notifications/elicitation/complete`, if this client agreed to visit the URL of a question that is done with.
fn visited(session: &Session, task: &TaskId, key: &QuestionKey) -> Option<Bytes> {
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
