//! One client on a pipe, both eras side by side, a message at a time (D-010 to D-013, A-121, B-049 to B-053).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_store::record::Frame;
use taskgate_wire::handshake::cancelled_params;
use taskgate_wire::id::RequestId;
use taskgate_wire::message::{self, Malformed, Message, Notification, Request};
use taskgate_wire::place::{Placement, place_stdio};
use taskgate_wire::rpc_error::RpcError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::batch::{BATCH_MAX, gathered, no_initialize, too_long};
use crate::config::ServerPolicy;
use crate::dispatch::{self, Exchange, Via};
use crate::gateway::Gateway;
use crate::incoming::Unfit;
use crate::modern::Modern;
use crate::outlet::Outlet;
use crate::reply::{End, Reply};
use crate::requests::{Requests, Running};
use crate::session::Session;
use crate::{incoming, initialize};

/// Who is at the other end of a pipe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The server that the client is to see.
    pub server: ServerName,
    /// Whose tasks it makes and finds.
    pub principal: Principal,
}

/// One message from a client.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// The message, without its line end.
    pub message: Bytes,
    /// By which it is known again, should it be sent once more after our end: a call that was recorded by it is not
    /// made twice (R3.3, design 4).
    pub frame: Option<Frame>,
    /// When the client sent it first. A call that is sent once more is answered within the time that its client
    /// began to count then.
    pub since: Instant,
    /// Whether it may have been sent before: then a call is looked for under its frame, whatever it does.
    pub is_again: bool,
}

/// What is known of a request besides its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) frame: Option<Frame>,
    pub(crate) since: Instant,
    pub(crate) is_again: bool,
}

impl Sent {
    /// By nobody who would send it again.
    pub(crate) fn now() -> Sent {
        Sent { frame: None, since: Instant::now(), is_again: false }
    }
}

/// One message to a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// The message, with no line end in it or behind it.
    pub message: Bytes,
    /// The task whose final result is in it. Once the message has reached the client, tell it by
    /// [`Gateway::fetched`].
    pub delivers: Option<TaskId>,
}

impl Gateway {
    /// Serves one client on a pipe, until `incoming` ends, nobody reads `outgoing`, or `shutdown`. What is under way
    /// then has a moment to end; tasks go on without their client.
    ///
    /// News that `outgoing` has no room for are dropped, answers wait for room. It should hold some hundred messages
    /// (G-024).
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] for a server that is not configured.
    ///
    /// # Source
    /// Design 3 and 4.
    pub async fn serve_pipe(
        self: &Arc<Self>,
        attached: Attached,
        incoming: mpsc::Receiver<Incoming>,
        outgoing: mpsc::Sender<Outgoing>,
        shutdown: CancellationToken,
    ) -> io::Result<()> {
        let Attached { server, principal } = attached;
        let policy = self.server(&server).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("server {:?} is not configured", server.0))
        })?;
        let mut pipe = Pipe {
            gateway: self.clone(),
            policy,
            principal,
            outlet: Outlet::Pipe(outgoing),
            requests: Requests::new(self.config.limits.requests_max),
            session: None,
            ended: CancellationToken::new(),
            stopping: self.stopping.child_token(),
            running: JoinSet::new(),
        };
        pipe.serve(incoming, &shutdown).await;
        if shutdown.is_cancelled() {
            // What is held open ends in good order (G-021).
            pipe.stopping.cancel();
        } else {
            pipe.ended.cancel();
        }
        let drain = self.config.limits.drain.duration();
        let _ =
            tokio::time::timeout(drain, async { while pipe.running.join_next().await.is_some() {} }).await;
        if let Some(session) = pipe.session.take() {
            let _ = self.sessions.end(&session).await;
        }
        Ok(())
    }
}

struct Pipe {
    gateway: Arc<Gateway>,
    policy: Arc<ServerPolicy>,
    principal: Principal,
    outlet: Outlet,
    /// Stateless requests under way; those of the session are its own.
    requests: Arc<Requests>,
    session: Option<Arc<Session>>,
    /// The client is gone.
    ended: CancellationToken,
    /// We are going down, or done with this client.
    stopping: CancellationToken,
    running: JoinSet<()>,
}

impl Pipe {
    async fn serve(&mut self, mut incoming: mpsc::Receiver<Incoming>, shutdown: &CancellationToken) {
        let max = self.gateway.config.limits.message_bytes_max;
        loop {
            let Incoming { message, frame, since, is_again } = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.outlet.closed() => return,
                incoming = incoming.recv() => match incoming {
                    Some(incoming) => incoming,
                    None => return,
                },
            };
            while self.running.try_join_next().is_some() {}
            if message.len() > max {
                self.outlet.deliver(message::error(None, &RpcError::too_large(max))).await;
            } else if !message.iter().all(u8::is_ascii_whitespace) {
                tokio::select! {
                    biased;
                    () = self.message(message, Sent { frame, since, is_again }) => {}
                    () = shutdown.cancelled() => return,
                }
            }
        }
    }

    async fn message(&mut self, line: Bytes, sent: Sent) {
        let parsed = message::parse(line.clone());
        let initialized = self.session.as_ref().map(|session| session.version());
        match place_stdio(parsed.as_ref(), initialized) {
            Placement::Modern(meta) => {
                let modern = Modern::of(&meta);
                if let Ok(Message::Request(request)) = parsed {
                    self.spawn(request, Via::Modern(modern), sent).await;
                }
            }
            Placement::ModernNotification => {
                if let Ok(Message::Notification(notification)) = parsed {
                    self.cancelled(&notification);
                }
            }
            Placement::Initialize => {
                if let Ok(Message::Request(request)) = parsed {
                    self.initialize(&request).await;
                }
            }
            Placement::Legacy(_) => self.legacy(parsed, sent).await,
            Placement::Batch => self.batch(&line, sent).await,
            Placement::Refuse { error, .. } => {
                let id = match &parsed {
                    Ok(Message::Request(request)) => Some(request.id()),
                    // what is no request is not answered.
                    Ok(Message::Notification(_) | Message::Response(_)) => return,
                    Err(malformed) => malformed.id(),
                };
                self.outlet.deliver(message::error(id, &error)).await;
            }
            Placement::Ignore | Placement::Stream | Placement::EndSession => {}
        }
    }

    /// A client that takes a request back names it by its id, in whichever era it was (A-092, B-052).
    fn cancelled(&self, notification: &Notification) {
        if notification.method() == "notifications/cancelled"
            && let Some(id) = notification.param("requestId").and_then(RequestId::from_text)
        {
            self.requests.cancel(&id);
        }
    }

    /// D-011: opens the pipe's one session; a second `initialize` begins anew.
    async fn initialize(&mut self, request: &Request) {
        let gateway = &self.gateway;
        match initialize::open(gateway, &self.policy, &self.principal, request).await {
            Ok(opened) => {
                if let Some(before) = self.session.take() {
                    let _ = gateway.sessions.end(&before).await;
                }
                let session = gateway.sessions.on_pipe(opened.negotiated);
                self.outlet.deliver(message::success(request.id(), &opened.result)).await;
                session.add_stream(&self.outlet, 1);
                gateway.sessions.opened.notify_waiters();
                self.session = Some(session);
            }
            Err(error) => self.outlet.deliver(message::error(Some(request.id()), &error)).await,
        }
    }

    async fn legacy(&mut self, parsed: Result<Message, Malformed>, sent: Sent) {
        match (parsed, self.session.clone()) {
            (Ok(Message::Request(request)), Some(session)) => {
                self.spawn(request, Via::Legacy(session), sent).await;
            }
            // D-013: a ping may be answered before anything else.
            (Ok(Message::Request(request)), None) => {
                self.outlet.deliver(message::success(request.id(), "{}")).await;
            }
            (Ok(Message::Notification(notification)), Some(session)) => {
                self.cancelled(&notification);
                incoming::notification(&self.gateway, &session, &notification).await;
            }
            (Ok(Message::Response(response)), Some(session)) => {
                // A pipe has no status by which a wrong answer could be refused: the question is asked again.
                let unfit = Unfit::AskAgain;
                if let Err(error) = incoming::response(&self.gateway, &session, &response, unfit).await {
                    tracing::debug!(%error, "an answer could not be used");
                }
            }
            (Ok(Message::Notification(_) | Message::Response(_)), None) | (Err(_), _) => {}
        }
    }

    /// Runs a request beside the others.
    async fn spawn(&mut self, request: Request, via: Via, sent: Sent) {
        let Some(running) = self.begin(&request, &via) else {
            self.outlet.deliver(message::error(Some(request.id()), &too_many())).await;
            return;
        };
        let (outlet, ended) = (self.outlet.clone(), self.ended.clone());
        let id = request.id().clone();
        // What is only held open ends with its client; the rest may finish.
        let is_held = matches!(request.method(), "tasks/result" | "subscriptions/listen");
        let is_listen = request.method() == "subscriptions/listen";
        let exchange = self.exchange(request, running, sent);
        self.running.spawn(async move {
            let reply = tokio::select! {
                biased;
                reply = dispatch::request(exchange, via) => reply,
                () = ended.cancelled(), if is_held => return,
            };
            let Reply { end: End::Message(message), delivers, telling, .. } = reply else { return };
            // One request, one result.
            outlet.deliver_with(message, delivers.into_iter().next()).await;
            drop(telling);
            if is_listen {
                // over stdio the end of a subscription is said in both ways.
                let params = cancelled_params(&id, "The subscription has ended");
                outlet.deliver(message::notification("notifications/cancelled", Some(&params))).await;
            }
        });
    }

    fn begin(&self, request: &Request, via: &Via) -> Option<Running> {
        match via {
            Via::Modern(_) => self.requests.begin(request.id()),
            Via::Legacy(session) => session.requests.begin(request.id()),
        }
    }

    fn exchange(&self, request: Request, running: Running, sent: Sent) -> Exchange {
        Exchange {
            gateway: self.gateway.clone(),
            policy: self.policy.clone(),
            principal: self.principal.clone(),
            request,
            sent,
            outlet: self.outlet.clone(),
            running: Some(running),
            stopping: self.stopping.clone(),
            headers: None,
        }
    }

    /// A batch of 2025-03-26 (D-005): its answers come together.
    async fn batch(&mut self, line: &Bytes, sent: Sent) {
        let messages = match message::parse_batch(line) {
            Ok(messages) if messages.len() <= usize::from(BATCH_MAX) => messages,
            Ok(_) => return self.outlet.deliver(message::error(None, &too_long())).await,
            Err(malformed) => return self.outlet.deliver(message::error(None, &malformed.to_rpc())).await,
        };
        let Some(session) = self.session.clone() else { return };
        let mut answers = Vec::new();
        let mut working = Vec::new();
        for (place, message) in (0..BATCH_MAX).zip(messages) {
            match message {
                Ok(Message::Request(request)) if request.method() == "initialize" => {
                    answers.push(message::error(Some(request.id()), &no_initialize()));
                }
                Ok(Message::Request(request)) => match session.requests.begin(request.id()) {
                    Some(running) => {
                        let exchange = self.exchange(request, running, within(sent, place));
                        working.push(dispatch::request(exchange, Via::Legacy(session.clone())));
                    }
                    None => answers.push(message::error(Some(request.id()), &too_many())),
                },
                Ok(other @ (Message::Notification(_) | Message::Response(_))) => {
                    self.legacy(Ok(other), sent).await;
                }
                Err(malformed) => answers.push(message::error(malformed.id(), &malformed.to_rpc())),
            }
        }
        let (outlet, gateway, principal) =
            (self.outlet.clone(), self.gateway.clone(), self.principal.clone());
        self.running.spawn(async move {
            let mut delivered = Vec::new();
            for reply in futures_util::future::join_all(working).await {
                if let End::Message(message) = reply.end {
                    answers.push(message);
                    delivered.extend(reply.delivers);
                }
            }
            if let Some(array) = gathered(&answers) {
                outlet.deliver(array).await;
                // A message speaks of one task only, and this one holds the results of several.
                for task in delivered {
                    gateway.fetched(&principal, &task).await;
                }
            }
        });
    }
}

/// The frame of one message of a batch, which the frame of the whole cannot tell from the others. A pipe never comes
/// to 2^56 messages.
fn within(sent: Sent, place: u8) -> Sent {
    let of = |frame: Frame| Frame { sequence: frame.sequence | (u64::from(place) << 56), ..frame };
    Sent { frame: sent.frame.map(of), ..sent }
}

fn too_many() -> RpcError {
    RpcError::invalid_request("A request with this id is under way already, or too many are under way")
}

/// Line ends in JSON stand between values only, where a space does as well.
pub(crate) fn on_one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    message.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_121_b_049_a_message_has_no_line_end_inside() {
        assert_eq!(
            on_one_line(Bytes::from_static(b"{\r\n\"a\":\"\\n\"}")),
            Bytes::from_static(b"{  \"a\":\"\\n\"}")
        );
    }
}
