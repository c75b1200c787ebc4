//! The stdio listener: one client on one pipe, both eras side by side (D-010 to D-013, A-121, B-049 to B-053).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::id::{Principal, ServerName};
use taskgate_wire::handshake::cancelled_params;
use taskgate_wire::id::RequestId;
use taskgate_wire::message::{self, Malformed, Message, Notification, Request};
use taskgate_wire::place::{Placement, place_stdio};
use taskgate_wire::rpc_error::RpcError;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::{Limits, ServerPolicy};
use crate::dispatch::{self, Exchange, Via};
use crate::gateway::Gateway;
use crate::modern::Modern;
use crate::outlet::{Frame, Outlet};
use crate::reply::{End, Reply};
use crate::requests::{Requests, Running};
use crate::session::Session;
use crate::{incoming, initialize, standing};

/// Messages in one batch; 2025-03-26 sets no bound, so we do.
const BATCH_MAX: usize = 100;

impl Gateway {
    /// Serves one client on a pipe, until its end or `shutdown`. What is under way then has a moment to end; tasks go
    /// on without their client.
    ///
    /// # Errors
    /// The pipe's, or [`io::ErrorKind::NotFound`] for a server that is not configured.
    pub async fn serve_stdio<R, W>(
        self: &Arc<Self>,
        stdin: R,
        stdout: W,
        server: &ServerName,
        shutdown: CancellationToken,
    ) -> io::Result<()>
    where
        R: AsyncRead + Unpin + Send,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let policy = self.server(server).cloned().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("server {:?} is not configured", server.0))
        })?;
        let (outlet, frames) = Outlet::new();
        let writer = tokio::spawn(write(stdout, frames));
        let mut pipe = Pipe {
            gateway: self.clone(),
            policy,
            outlet,
            requests: Requests::new(self.config.limits.requests_max),
            session: None,
            ended: CancellationToken::new(),
            running: JoinSet::new(),
        };
        let read = pipe.serve(BufReader::new(stdin), &shutdown).await;
        if shutdown.is_cancelled() {
            // What is held open ends in good order (G-021).
            self.stopping.cancel();
        } else {
            pipe.ended.cancel();
        }
        let drain = Limits::span(self.config.limits.drain);
        let _ =
            tokio::time::timeout(drain, async { while pipe.running.join_next().await.is_some() {} }).await;
        if let Some(session) = pipe.session.take() {
            let _ = self.sessions.end(&session).await;
        }
        // The last way to the writer goes with the pipe; it ends when everything is written.
        drop(pipe);
        match tokio::time::timeout(drain, writer).await {
            Ok(Ok(written)) => read.and(written),
            Ok(Err(_)) | Err(_) => read,
        }
    }
}

struct Pipe {
    gateway: Arc<Gateway>,
    policy: Arc<ServerPolicy>,
    outlet: Outlet,
    /// Stateless requests under way; those of the session are its own.
    requests: Arc<Requests>,
    session: Option<Arc<Session>>,
    ended: CancellationToken,
    running: JoinSet<()>,
}

impl Pipe {
    async fn serve<R: AsyncBufRead + Unpin>(
        &mut self,
        mut stdin: R,
        shutdown: &CancellationToken,
    ) -> io::Result<()> {
        let max = self.gateway.config.limits.message_bytes_max;
        loop {
            let line = tokio::select! {
                line = read_line(&mut stdin, max) => line?,
                () = shutdown.cancelled() => return Ok(()),
                () = self.outlet.closed() => return Ok(()),
            };
            while self.running.try_join_next().is_some() {}
            match line {
                Line::End => return Ok(()),
                Line::TooLong => {
                    let reply = message::error(None, &RpcError::too_large(max));
                    self.outlet.deliver(reply).await;
                }
                Line::Message(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Line::Message(line) => tokio::select! {
                    () = self.message(line) => {}
                    () = shutdown.cancelled() => return Ok(()),
                },
            }
        }
    }

    async fn message(&mut self, line: Bytes) {
        let parsed = message::parse(line.clone());
        let initialized = self.session.as_ref().map(|session| session.version());
        match place_stdio(parsed.as_ref(), initialized) {
            Placement::Modern(meta) => {
                let modern = Modern::of(&meta);
                if let Ok(Message::Request(request)) = parsed {
                    self.spawn(request, Via::Modern(modern)).await;
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
            Placement::Legacy(_) => self.legacy(parsed).await,
            Placement::Batch => self.batch(&line).await,
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
        match initialize::open(gateway, &self.policy, &Principal::local(), request).await {
            Ok(opened) => {
                if let Some(before) = self.session.take() {
                    let _ = gateway.sessions.end(&before).await;
                }
                let session = gateway.sessions.on_pipe(opened.negotiated);
                self.outlet.deliver(message::success(request.id(), &opened.result)).await;
                session.add_stream(&self.outlet, 1);
                standing::opened(gateway, &session);
                self.session = Some(session);
            }
            Err(error) => self.outlet.deliver(message::error(Some(request.id()), &error)).await,
        }
    }

    async fn legacy(&mut self, parsed: Result<Message, Malformed>) {
        match (parsed, self.session.clone()) {
            (Ok(Message::Request(request)), Some(session)) => self.spawn(request, Via::Legacy(session)).await,
            // D-013: a ping may be answered before anything else.
            (Ok(Message::Request(request)), None) => {
                self.outlet.deliver(message::success(request.id(), "{}")).await;
            }
            (Ok(Message::Notification(notification)), Some(session)) => {
                self.cancelled(&notification);
                incoming::notification(&self.gateway, &session, &notification).await;
            }
            (Ok(Message::Response(response)), Some(session)) => {
                // A pipe has no status by which a wrong answer could be refused: the question stays open.
                if let Err(error) = incoming::response(&self.gateway, &session, &response).await {
                    tracing::debug!(%error, "an answer could not be used");
                }
            }
            (Ok(Message::Notification(_) | Message::Response(_)), None) | (Err(_), _) => {}
        }
    }

    /// Runs a request beside the others.
    async fn spawn(&mut self, request: Request, via: Via) {
        let Some(running) = self.begin(&request, &via) else {
            self.outlet.deliver(message::error(Some(request.id()), &too_many())).await;
            return;
        };
        let (outlet, ended) = (self.outlet.clone(), self.ended.clone());
        let id = request.id().clone();
        // What is only held open ends with its client; the rest may finish.
        let is_held = matches!(request.method(), "tasks/result" | "subscriptions/listen");
        let is_listen = request.method() == "subscriptions/listen";
        let exchange = self.exchange(request, running);
        self.running.spawn(async move {
            let reply = tokio::select! {
                reply = dispatch::request(exchange, via) => reply,
                () = ended.cancelled(), if is_held => return,
            };
            let Reply { end: End::Message(message), .. } = reply else { return };
            outlet.deliver(message).await;
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

    fn exchange(&self, request: Request, running: Running) -> Exchange {
        Exchange {
            gateway: self.gateway.clone(),
            policy: self.policy.clone(),
            principal: Principal::local(),
            request,
            outlet: self.outlet.clone(),
            running: Some(running),
        }
    }

    /// A batch of 2025-03-26 (D-005): its answers come together.
    async fn batch(&mut self, line: &Bytes) {
        let messages = match message::parse_batch(line) {
            Ok(messages) if messages.len() <= BATCH_MAX => messages,
            Ok(_) => {
                let error = RpcError::invalid_request(format!("A batch has at most {BATCH_MAX} messages"));
                return self.outlet.deliver(message::error(None, &error)).await;
            }
            Err(malformed) => return self.outlet.deliver(message::error(None, &malformed.to_rpc())).await,
        };
        let Some(session) = self.session.clone() else { return };
        let mut answers = Vec::new();
        let mut working = Vec::new();
        for message in messages {
            match message {
                Ok(Message::Request(request)) => match session.requests.begin(request.id()) {
                    Some(running) => {
                        let exchange = self.exchange(request, running);
                        working.push(dispatch::request(exchange, Via::Legacy(session.clone())));
                    }
                    None => answers.push(message::error(Some(request.id()), &too_many())),
                },
                Ok(other @ (Message::Notification(_) | Message::Response(_))) => self.legacy(Ok(other)).await,
                Err(malformed) => answers.push(message::error(malformed.id(), &malformed.to_rpc())),
            }
        }
        let outlet = self.outlet.clone();
        self.running.spawn(async move {
            for reply in futures_util::future::join_all(working).await {
                if let End::Message(message) = reply.end {
                    answers.push(message);
                }
            }
            if !answers.is_empty() {
                let texts: Vec<&str> = answers.iter().map(|answer| dispatch::text(answer)).collect();
                outlet.deliver(Bytes::from(format!("[{}]", texts.join(",")))).await;
            }
        });
    }
}

fn too_many() -> RpcError {
    RpcError::invalid_request("A request with this id is under way already, or too many are under way")
}

enum Line {
    Message(Bytes),
    TooLong,
    End,
}

/// Reads up to the next line feed. A line over the limit is skipped to its end.
async fn read_line<R: AsyncBufRead + Unpin>(stdin: &mut R, max: usize) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut is_long = false;
    loop {
        let chunk = stdin.fill_buf().await?;
        if chunk.is_empty() {
            // What comes without a line feed before the end is a message all the same.
            return Ok(match (is_long, line.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Message(Bytes::from(line)),
            });
        }
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        if line.len() + part.len() > max {
            is_long = true;
            line.clear();
        } else if !is_long {
            line.extend_from_slice(part);
        }
        let used = end.map_or(chunk.len(), |end| end + 1);
        stdin.consume(used);
        if end.is_some() {
            return Ok(if is_long { Line::TooLong } else { Line::Message(Bytes::from(line)) });
        }
    }
}

/// Writes one message a line.
async fn write<W: AsyncWrite + Unpin>(mut stdout: W, mut frames: mpsc::Receiver<Frame>) -> io::Result<()> {
    while let Some(frame) = frames.recv().await {
        let Frame::Message(message) = frame else { continue };
        stdout.write_all(&on_one_line(message)).await?;
        stdout.write_all(b"\n").await?;
        if frames.is_empty() {
            stdout.flush().await?;
        }
    }
    stdout.flush().await
}

/// Line ends in JSON stand between values only, where a space does as well.
fn on_one_line(message: Bytes) -> Bytes {
    if !message.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
        return message;
    }
    message.iter().map(|&byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_121_lines_are_read_and_overlong_ones_skipped() {
        let mut stdin: &[u8] = b"one\nmuch too long a line\nthree";
        let mut read = Vec::new();
        loop {
            match read_line(&mut stdin, 8).await.unwrap() {
                Line::Message(line) => read.push(String::from_utf8(line.to_vec()).unwrap()),
                Line::TooLong => read.push("-".to_owned()),
                Line::End => break,
            }
        }
        assert_eq!(read, ["one", "-", "three"]);
    }

    #[test]
    fn a_121_a_message_has_no_line_end_inside() {
        assert_eq!(
            on_one_line(Bytes::from_static(b"{\r\n\"a\":\"\\n\"}")),
            Bytes::from_static(b"{  \"a\":\"\\n\"}")
        );
    }
}
