//! An event stream of a server's, event by event.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use taskgate_wire::sse::{Decoder, Event};

use super::pool::Lease;

/// How long the end of a stream is waited for that has said all it had to, so that its connection can be used
/// again.
const TAIL: Duration = Duration::from_millis(200);

/// The stream. Dropped, its connection is closed.
pub(crate) struct EventStream {
    body: Incoming,
    lease: Option<Lease>,
    decoder: Decoder,
    events: VecDeque<Event>,
    batch: Vec<Event>,
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// In good order, or the connection broke: it cannot be told apart, nor needs to be.
    Closed,
    /// An event was larger than the limit.
    TooLarge,
}

impl EventStream {
    pub(crate) fn new(body: Incoming, lease: Lease, event_bytes_max: usize) -> EventStream {
        EventStream {
            body,
            lease: Some(lease),
            decoder: Decoder::new(event_bytes_max),
            events: VecDeque::new(),
            batch: Vec::new(),
        }
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Event, Ended> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            let frame = match self.body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => {
                    self.lease = None;
                    return Err(Ended::Closed);
                }
                None => {
                    if let Some(lease) = self.lease.take() {
                        lease.give_back();
                    }
                    return Err(Ended::Closed);
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            let fed = self.decoder.feed(&data, &mut self.batch);
            self.events.extend(self.batch.drain(..));
            if fed.is_err() && self.events.is_empty() {
                self.lease = None;
                return Err(Ended::TooLarge);
            }
        }
    }

    /// All that matters was read. The server should end the stream now (A-127, B-035): if it does so soon, the
    /// connection is kept.
    pub(crate) fn finish(mut self: Box<Self>) {
        if hyper::body::Body::is_end_stream(&self.body) {
            if let Some(lease) = self.lease.take() {
                lease.give_back();
            }
            return;
        }
        tokio::spawn(async move {
            let _ = tokio::time::timeout(TAIL, async { while self.next().await.is_ok() {} }).await;
        });
    }
}
