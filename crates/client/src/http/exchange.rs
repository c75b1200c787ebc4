//! One request over HTTP, from its sending to its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use taskgate_wire::json;
use taskgate_wire::message::{self, Malformed, Message, Outcome, Response};
use taskgate_wire::rpc_error::{RpcError, code};
use taskgate_wire::sse::Event;
use tokio::time::sleep;

use super::endpoint::{Endpoint, Got, Mirrored, Outgoing};
use super::pool::{Care, SendError};
use super::stream::{Ended, EventStream};
use crate::gather::Gathering;
use crate::heard::Heard;
use crate::traffic::{Origin, Traffic};

/// How long before a broken stream is taken up again, if the server does not say.
const RETRY: Duration = Duration::from_millis(500);
/// At most, however often it broke.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Vain attempts in a row after which a stream is given up.
const ATTEMPTS_MAX: u32 = 10;

/// A request and how it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) outgoing: Outgoing,
    /// Whether a broken stream may be taken up again: in the legacy era, never in the modern (B-038).
    pub(crate) is_resumable: bool,
}

/// Sends `job` and waits for its answer. What the server says before goes to `traffic`. Beside the answer it gives
/// the session id that came with it.
pub(crate) async fn exchange(
    endpoint: &Arc<Endpoint>,
    traffic: &Arc<Traffic>,
    job: Job,
) -> (Heard, Option<Arc<str>>) {
    let id = job.id;
    let resume = job.is_resumable.then(|| Outgoing {
        method: Method::GET,
        body: Bytes::new(),
        key: None,
        care: Care::Again,
        patience: Some(endpoint.read_timeout),
        ..job.outgoing.clone()
    });
    let session_sent = job.outgoing.session.clone();
    match endpoint.send(job.outgoing).await {
        Ok(Got::Whole { status, session, body }) => {
            let respond = Back { endpoint, traffic, session: session_sent.clone(), resume: resume.as_ref() };
            let heard = respond.judge(id, status, body);
            (heard, session)
        }
        Ok(Got::Stream { session, stream }) => {
            let back = Back { endpoint, traffic, session: session_sent, resume: resume.as_ref() };
            (back.follow(id, stream).await, session)
        }
        Ok(Got::Elsewhere) => {
            let words = "it redirects to another address, which is not followed";
            (Heard::Nonsense(String::from(words)), None)
        }
        Ok(Got::TooLarge) => (Heard::Nonsense(String::from("its answer is longer than the limit")), None),
        Err(SendError::NeverSent(why)) => (Heard::NeverSent(why), None),
        Err(SendError::Lost(why)) => (Heard::Lost(why), None),
    }
}

/// What is needed while an answer is awaited.
struct Back<'a> {
    endpoint: &'a Arc<Endpoint>,
    traffic: &'a Arc<Traffic>,
    session: Option<Arc<str>>,
    resume: Option<&'a Outgoing>,
}

impl Back<'_> {
    /// Reads a whole body. A JSON-RPC message in it counts on any status.
    ///
    /// Leniency: error-on-any-status
    fn judge(&self, id: u64, status: u16, body: Bytes) -> Heard {
        let mut answer = None;
        match message::parse(body.clone()) {
            Ok(Message::Response(response)) => answer = Some(response),
            // A server may put what it says before into the same body, as a batch of 2025-03-26.
            Err(Malformed::Batch) => answer = self.hear_batch(id, &body),
            Ok(Message::Request(_) | Message::Notification(_)) | Err(_) => {}
        }
        let is_success = (200..300).contains(&status);
        match answer {
            Some(response) if self.says_session_gone(id, status, &response) => Heard::SessionGone,
            Some(response) if is_for(id, &response) => Heard::response(&response),
            Some(response) => match response.outcome() {
                // Refused before the request was read: its id is null or made up.
                Outcome::Error(_) => Heard::response(&response),
                Outcome::Result(_) => Heard::Nonsense(String::from("it answered another request than ours")),
            },
            None if status == 404 && self.session.is_some() => Heard::SessionGone,
            None if is_success => {
                Heard::Nonsense(format!("it answered HTTP {status} with what is no MCP message"))
            }
            None if status >= 500 => Heard::Lost(format!("it answered HTTP {status}")),
            None => Heard::Refused(status),
        }
    }

    /// A-134 asks for 404; server-everything answers 400 to a session that it does not know.
    ///
    /// Leniency: session-gone-in-words
    fn says_session_gone(&self, id: u64, status: u16, response: &Response) -> bool {
        if self.session.is_none() || !matches!(status, 400 | 404) {
            return false;
        }
        let Outcome::Error(error) = response.outcome() else { return false };
        let error = RpcError::read(error);
        let is_about_session = error.message.to_ascii_lowercase().contains("session");
        let is_ours = is_for(id, response);
        let is_of_http = (-32099..=-32000).contains(&error.code) || error.code == code::INVALID_REQUEST;
        (status == 404 && !is_ours) || (is_of_http && is_about_session)
    }

    /// Follows a stream to the answer, across breaks of the connection where that is allowed.
    async fn follow(&self, id: u64, stream: Box<EventStream>) -> Heard {
        let mut place = Place { last_id: None, retry: None };
        let mut stream = Some(stream);
        let mut attempts = 0;
        loop {
            if let Some(mut open) = stream.take() {
                let ended = loop {
                    let event = match open.next().await {
                        Ok(event) => event,
                        Err(ended) => break ended,
                    };
                    attempts = 0;
                    place.note(&event);
                    if let Some(heard) = self.event(id, event) {
                        open.finish();
                        return heard;
                    }
                };
                if ended == Ended::TooLarge {
                    return Heard::Nonsense(String::from("its answer is longer than the limit"));
                }
            }
            let (Some(resume), Some(last_id)) = (self.resume, place.last_id.clone()) else {
                return Heard::Lost(String::from("its answer broke off"));
            };
            attempts += 1;
            if attempts > ATTEMPTS_MAX {
                return Heard::Lost(String::from("its answer broke off, and could not be taken up again"));
            }
            sleep(place.wait(attempts)).await;
            let outgoing = Outgoing { last_event_id: Some(last_id), ..resume.clone() };
            match self.endpoint.send(outgoing).await {
                Ok(Got::Stream { stream: again, .. }) => stream = Some(again),
                Ok(Got::Whole { status, .. }) if status >= 500 || status == 429 => {}
                Ok(Got::Whole { status, .. }) => {
                    return Heard::Lost(format!(
                        "its answer broke off, and taking it up again was answered with HTTP {status}"
                    ));
                }
                Ok(Got::Elsewhere | Got::TooLarge) => {
                    return Heard::Lost(String::from(
                        "its answer broke off, and could not be taken up again",
                    ));
                }
                Err(SendError::NeverSent(_) | SendError::Lost(_)) => {}
            }
        }
    }

    fn event(&self, id: u64, event: Event) -> Option<Heard> {
        // A priming event has no data.
        if event.data.is_empty() {
            return None;
        }
        let response = match message::parse(event.data.clone()) {
            Ok(message) => self.hear(id, message, None)?,
            Err(Malformed::Batch) => self.hear_batch(id, &event.data)?,
            Err(malformed) => {
                tracing::warn!(server = self.endpoint.server, %malformed, "an event of a server's is no MCP message");
                return None;
            }
        };
        let is_unnamed_error = response.id().is_none() && matches!(response.outcome(), Outcome::Error(_));
        (is_for(id, &response) || is_unnamed_error).then(|| Heard::response(&response))
    }

    /// Passes on what is no response. `batch` is what it came in, if not alone.
    fn hear(&self, id: u64, message: Message, batch: Option<&Arc<Gathering>>) -> Option<Response> {
        let origin = Origin::Stream(id);
        match message {
            Message::Response(response) => return Some(response),
            Message::Notification(notification) => self.traffic.notified(&origin, &notification),
            Message::Request(request) => match batch {
                Some(batch) => self.traffic.asked(&origin, &request, batch.slot()),
                None => self.traffic.asked(&origin, &request, self.responder()),
            },
        }
        None
    }

    /// Reads a batch of 2025-03-26 (D-005); replies go back together. Gives the response that is meant for this
    /// request, or else the last one.
    fn hear_batch(&self, id: u64, batch: &Bytes) -> Option<Response> {
        let replies = Gathering::new(self.responder());
        let mut answer: Option<Response> = None;
        for message in message::parse_batch(batch).unwrap_or_default().into_iter().flatten() {
            if let Some(response) = self.hear(id, message, Some(&replies))
                && !answer.as_ref().is_some_and(|answer| is_for(id, answer))
            {
                answer = Some(response);
            }
        }
        answer
    }

    fn responder(&self) -> impl FnOnce(Bytes) + Send + 'static {
        let (endpoint, session) = (self.endpoint.clone(), self.session.clone());
        let mirrored = self.resume.map(|resume| resume.mirrored.clone()).unwrap_or_default();
        move |reply| respond(endpoint, session, mirrored, reply)
    }
}

/// Posts the response to a server's request.
pub(crate) fn respond(endpoint: Arc<Endpoint>, session: Option<Arc<str>>, mirrored: Mirrored, reply: Bytes) {
    // The last of a batch may be given up while the runtime ends; then nobody can be told.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    runtime.spawn(async move {
        let patience = Some(endpoint.read_timeout);
        let post = Outgoing { mirrored, session, patience, ..Outgoing::post(reply, Care::Once) };
        let problem = match endpoint.send(post).await {
            Ok(Got::Whole { status, .. }) if status < 400 => return,
            Ok(Got::Whole { status, .. }) => format!("HTTP {status}"),
            Ok(Got::Stream { stream, .. }) => return stream.finish(),
            Ok(Got::Elsewhere | Got::TooLarge) => String::from("no sensible answer"),
            Err(SendError::NeverSent(why) | SendError::Lost(why)) => why,
        };
        tracing::warn!(server = endpoint.server, problem, "a reply to a server's request was not taken");
    });
}

fn is_for(id: u64, response: &Response) -> bool {
    response.id().is_some_and(|answered| {
        answered.as_u64() == Some(id)
            // Servers that make strings of ids. Leniency: id-as-text
            || json::string(answered.as_json()).is_some_and(|text| text.parse() == Ok(id))
    })
}

/// How far a stream was read.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) last_id: Option<String>,
    retry: Option<Duration>,
}

impl Place {
    pub(crate) fn start() -> Place {
        Place { last_id: None, retry: None }
    }

    pub(crate) fn note(&mut self, event: &Event) {
        if let Some(id) = event.id.as_ref().filter(|id| !id.is_empty()) {
            self.last_id = Some(id.clone());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }

    /// What the server asked for, longer with each vain attempt.
    pub(crate) fn wait(&self, attempts: u32) -> Duration {
        let least = self.retry.unwrap_or(RETRY);
        let doubled = least.max(RETRY).saturating_mul(1 << (attempts - 1).min(6)).min(RETRY_MAX);
        if attempts <= 1 { least } else { doubled.max(least) }
    }
}
