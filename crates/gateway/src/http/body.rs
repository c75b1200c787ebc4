//! The body of a response: one message, or a stream that carries a request to its end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::http_body::{Frame as BodyFrame, SizeHint};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use taskgate_core::id::{Principal, TaskId};
use taskgate_seeded::Bug;
use taskgate_wire::sse;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::Caller;
use crate::event_id::EventId;
use crate::follow::Telling;
use crate::gateway::Gateway;
use crate::outlet::Piece;
use crate::reply::{End, Reply};

/// A response's body.
pub(crate) enum Body {
    /// All of it is there.
    Full(Full),
    /// It comes as it happens.
    Stream(Box<Stream>),
}

/// A body that is there as a whole.
#[derive(Default)]
pub(crate) struct Full {
    bytes: Option<Bytes>,
    /// What its reader learns of by it. It waits until the body was handed over, and this is dropped.
    telling: Option<Telling>,
    /// The results that are in it.
    handing: Option<Handing>,
}

impl Body {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
        let bytes = bytes.into();
        Body::Full(Full { bytes: (!bytes.is_empty()).then_some(bytes), ..Full::default() })
    }

    pub(crate) fn empty() -> Body {
        Body::Full(Full::default())
    }

    /// The same body, which tells its reader of a task.
    pub(crate) fn telling(self, telling: Option<Telling>) -> Body {
        match self {
            Body::Full(full) => Body::Full(Full { telling, ..full }),
            Body::Stream(stream) => Body::Stream(stream),
        }
    }

    /// The same body, which holds results.
    pub(crate) fn handing(self, handing: Option<Handing>) -> Body {
        match self {
            Body::Full(full) => Body::Full(Full { handing, ..full }),
            Body::Stream(stream) => Body::Stream(stream),
        }
    }
}

/// Whose results a request is answered with.
#[derive(Clone)]
pub(crate) struct Hands {
    gateway: Arc<Gateway>,
    principal: Principal,
}

impl Hands {
    pub(super) fn of(caller: &Caller) -> Hands {
        Hands { gateway: caller.gateway.clone(), principal: caller.principal.clone() }
    }

    /// These results, if there are any.
    pub(super) fn handing(&self, tasks: Vec<TaskId>) -> Option<Handing> {
        (!tasks.is_empty()).then(|| Handing { hands: self.clone(), tasks })
    }
}

/// Results on their way to a client. Once the connection takes the last of the body, they count as given: whether it
/// arrives nobody can tell. What is never taken, since the client is gone, is kept for the same call.
pub(crate) struct Handing {
    hands: Hands,
    tasks: Vec<TaskId>,
}

impl Handing {
    fn over(self) {
        if taskgate_seeded::is(Bug::HandedUnnoted) {
            return;
        }
        for task in &self.tasks {
            self.hands.gateway.engine.handed_over(&self.hands.principal, task);
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Body::Full(full) => {
                let bytes = full.bytes.take();
                match bytes {
                    // Before it leaves: the client's next call must find it noted.
                    Some(_) => full.handing.take().into_iter().for_each(Handing::over),
                    None => full.telling = None,
                }
                bytes
            }
            Body::Stream(stream) => std::task::ready!(stream.poll(cx)),
        };
        Poll::Ready(next.map(|bytes| Ok(BodyFrame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Full(Full { bytes: None, .. }))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Full(Full { bytes, .. }) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Body::Stream(_) => SizeHint::default(),
        }
    }
}

/// A request that is being answered, and what its handler sends meanwhile.
pub(crate) struct Work {
    pub(crate) answer: Answering,
    pub(crate) pieces: mpsc::Receiver<Piece>,
    /// Names the events, once the answer can be had again.
    pub(crate) ids: Option<EventId>,
    /// How ids are made when a task comes up; `None` where streams cannot be resumed.
    pub(crate) resume: Option<Resume>,
    /// Whose results come out of it.
    pub(crate) hands: Hands,
}

/// How a stream tells its client that it can be taken up again.
#[derive(Clone, Debug)]
pub(crate) struct Resume {
    /// An id that lacks its task.
    pub(crate) template: EventId,
    /// Whether the client knows events with an id and no data: from 2025-11-25 on.
    pub(crate) primes: bool,
}

/// The handler's future. For a legacy request it goes on when its stream is gone, since closing that cancels
/// nothing (A-129, G-020).
pub(crate) struct Answering {
    future: Option<BoxFuture<'static, Reply>>,
    outlives: bool,
}

impl Answering {
    pub(crate) fn new(future: BoxFuture<'static, Reply>, outlives: bool) -> Answering {
        Answering { future: Some(future), outlives }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(future) = &mut self.future else { return Poll::Pending };
        let reply = std::task::ready!(future.as_mut().poll(cx));
        self.future = None;
        Poll::Ready(reply)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(future) = self.future.take().filter(|_| self.outlives)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

/// How long a client waits before it takes a broken stream up again.
const RETRY_MS: u64 = 1_000;

/// A stream of events.
pub(crate) struct Stream {
    work: Work,
    ready: VecDeque<Bytes>,
    keep_alive: Interval,
    is_over: bool,
    /// Held until the stream is at its end.
    telling: Option<Telling>,
    /// The results that are in its last event.
    handing: Option<Handing>,
}

impl Stream {
    pub(crate) fn new(work: Work, keep_alive: Duration) -> Stream {
        let mut keep_alive = tokio::time::interval_at(tokio::time::Instant::now() + keep_alive, keep_alive);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ready = VecDeque::new();
        let mut stream = Stream { work, ready, keep_alive, is_over: false, telling: None, handing: None };
        if stream.work.ids.is_some() {
            stream.prime();
        }
        stream
    }

    /// Puts a piece on the stream.
    pub(crate) fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Message(message) => {
                let event = self.event(&message);
                self.ready.push_back(event);
            }
            Piece::Resumable(task) => {
                if self.work.note(&task) {
                    self.prime();
                }
            }
        }
    }

    /// Puts the last word on the stream.
    pub(crate) fn finish(&mut self, reply: Reply) {
        self.work.pieces.close();
        while let Ok(piece) = self.work.pieces.try_recv() {
            self.push(piece);
        }
        match reply.end {
            End::Message(message) => {
                let event = self.event(&message);
                self.ready.push_back(event);
            }
            End::Silence | End::Severed => {}
        }
        self.telling = reply.telling;
        self.handing = self.work.hands.handing(reply.delivers);
        self.is_over = true;
    }

    fn event(&mut self, message: &Bytes) -> Bytes {
        let id = self.work.ids.as_mut().map(EventId::next);
        sse::encode_message(id.as_deref(), message)
    }

    /// Opens with an event that has an id and no data.
    fn prime(&mut self) {
        if self.work.resume.as_ref().is_some_and(|resume| resume.primes)
            && let Some(ids) = &mut self.work.ids
        {
            let event = sse::Event { id: Some(ids.next()), retry: Some(RETRY_MS), ..sse::Event::default() };
            self.ready.push_back(sse::encode(&event));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                if self.is_over && self.ready.is_empty() {
                    // Before it leaves: the client's next call must find it noted.
                    self.handing.take().into_iter().for_each(Handing::over);
                }
                return Poll::Ready(Some(bytes));
            }
            if self.is_over {
                return Poll::Ready(None);
            }
            if let Poll::Ready(reply) = self.work.answer.poll(cx) {
                self.finish(reply);
                continue;
            }
            if let Poll::Ready(Some(piece)) = self.work.pieces.poll_recv(cx) {
                self.push(piece);
                continue;
            }
            std::task::ready!(self.keep_alive.poll_tick(cx));
            self.ready.push_back(Bytes::from_static(sse::KEEP_ALIVE));
        }
    }
}

impl Work {
    /// Notes by which task the answer can be had again; whether that is new.
    pub(crate) fn note(&mut self, task: &taskgate_core::id::TaskId) -> bool {
        match (&self.resume, &self.ids) {
            (Some(resume), None) => {
                self.ids = Some(resume.template.with_task(task));
                true
            }
            (Some(_) | None, _) => false,
        }
    }
}
