//! The server as the engine sees it: sessions, and what may happen on the way.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use taskgate_core::gate::BackTasks;
use taskgate_core::id::ServerName;
use taskgate_core::operation::Upstream;
use taskgate_core::recovery::Survival;
use taskgate_core::time::Millis;
use taskgate_engine::back::{
    Answer, Back, BackKey, Backs, InFlight, Look, LookError, Outgoing, Reply, Stand, Unreachable,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::work::Work;
use super::{Request, STEP, Server, WAY_MAX, done, form};

/// One session with the server, as the engine sees it.
pub struct Line(pub Arc<Server>);

#[async_trait]
impl Back for Line {
    fn tasks(&self) -> BackTasks {
        BackTasks::None
    }

    fn call(&self, call: Outgoing) -> InFlight {
        let name = String::from_utf8_lossy(&call.params).into_owned();
        let (answer, answered) = oneshot::channel();
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        if state.random.one_in(25) {
            self.0.tally.count("a connection refused");
            return InFlight::ready(Answer::NeverSent("refused".to_owned()));
        }
        let (says, events) = mpsc::unbounded_channel();
        if state.random.one_in(25) {
            self.0.tally.count("a request lost");
            drop(answer);
        } else {
            let left = STEP + STEP * state.random.below(WAY_MAX) as u64;
            let request = Request { tool: call.tool, call: name, key: call.key, answer, says };
            state.air.push((left, request));
            self.0.stirred.notify_waiters();
        }
        // The connection may break before anything comes, with the request still on its way.
        let breaks = state.random.one_in(10).then(|| 20 + state.random.below(1_000) as u64);
        let answer = async move {
            let answered =
                async { answered.await.unwrap_or_else(|_| Answer::Lost("the line broke".to_owned())) };
            match breaks {
                None => answered.await,
                Some(after) => tokio::select! {
                    biased;
                    answer = answered => answer,
                    () = tokio::time::sleep(Duration::from_millis(after)) => Answer::Lost("the line broke".to_owned()),
                },
            }
        };
        InFlight {
            answer: Box::pin(answer),
            events,
            stop: CancellationToken::new(),
            // A line is closed as soon as nobody holds it, though what went over it may still arrive.
            closed: Box::pin(std::future::ready(())),
        }
    }

    fn attend(&self, _: &Upstream) -> Option<InFlight> {
        None
    }

    async fn look(&self, upstream: &Upstream) -> Result<Look, LookError> {
        let mut state = self.0.state.lock();
        if state.random.one_in(20) {
            self.0.tally.count("a failed status read");
            return Err(LookError::Transient("no answer".to_owned()));
        }
        let mut questions = vec![];
        let stand = match state.tasks.get(&upstream.task_id) {
            Some(Work { asks: Some(key), .. }) => {
                questions.push((key.clone(), form()));
                Stand::InputRequired
            }
            Some(Work { is_cancelled: true, .. }) => Stand::Cancelled,
            Some(Work { left: 1.., .. }) => Stand::Working,
            Some(Work { receipt, .. }) => Stand::Ended(Box::new(done(receipt.as_deref()))),
            None => return Err(LookError::UnknownTask),
        };
        Ok(Look { stand, message: None, last_updated_at: None, poll: Some(Millis(500)), questions })
    }

    async fn result(&self, _: &Upstream) -> Result<Answer, LookError> {
        Ok(done(None))
    }

    async fn answer(&self, upstream: &Upstream, back_key: &str, reply: &Reply) -> Result<(), LookError> {
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        let Some(work) = state.tasks.get_mut(&upstream.task_id) else { return Err(LookError::UnknownTask) };
        let fate = state.random.below(10);
        if fate == 0 {
            return Err(LookError::Transient("the answer did not arrive".to_owned()));
        }
        // The first answer wins (B-096); a second one may come of a gateway that stood still while another one took over.
        if work.asks.take_if(|asked| asked == back_key).is_some() {
            let entry = state.books.entry(&work.call);
            entry.questions.entry(back_key.to_owned()).or_default().insert(words(reply));
        } else {
            self.0.tally.count("an answer to what is not asked any more");
        }
        self.0.stirred.notify_waiters();
        if fate == 1 {
            self.0.tally.count("an answer that arrived and was not acknowledged");
            return Err(LookError::Transient("the acknowledgement did not arrive".to_owned()));
        }
        Ok(())
    }

    async fn cancel(&self, upstream: &Upstream) -> Result<(), LookError> {
        let mut guard = self.0.state.lock();
        let state = &mut *guard;
        if state.random.one_in(2)
            && let Some(work) = state.tasks.get_mut(&upstream.task_id)
            && work.left > 0
        {
            self.0.tally.count("a task that the server cancelled");
            work.is_cancelled = true;
            work.asks = None;
        }
        Ok(())
    }
}

/// A reply as the books have it.
pub(super) fn words(reply: &Reply) -> String {
    match reply {
        Reply::Result(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Error { message, .. } => format!("error: {message}"),
    }
}

/// All servers, as the engine sees them: whatever the name, it is this one.
pub struct Servers(pub Arc<Server>);

#[async_trait]
impl Backs for Servers {
    async fn open(&self, _: &BackKey) -> Result<Arc<dyn Back>, Unreachable> {
        Ok(Arc::new(Line(self.0.clone())))
    }

    fn survival(&self, _: &ServerName) -> Survival {
        self.0.survival
    }

    fn is_known(&self, _: &ServerName) -> bool {
        true
    }
}

/// The `params` of a question to the system of record about a call.
pub(crate) fn about(call: &str) -> Bytes {
    Bytes::from(call.to_owned().into_bytes())
}
