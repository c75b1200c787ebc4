//! A client's requests over a pipe, which come back after a death under the numbers that they had.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use taskgate_gateway::{Incoming, Outgoing};
use taskgate_store::record::Frame;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::client::{Client, Told};
use crate::mind::{Pending, Why};

impl Client {
    pub(crate) async fn ask_pipe(self: &Arc<Self>, why: Why, id: &Value, message: Bytes) -> Told {
        let pending = Pending { why, message, id: id.to_string(), since: self.life.age() };
        let sequence = {
            let mut mind = self.mind.lock();
            mind.sequence += 1;
            let sequence = mind.sequence;
            if pending.why != Why::Open {
                mind.pending.insert(sequence, pending.clone());
            }
            sequence
        };
        self.push(sequence, pending, false).await
    }

    /// Sends again what has no answer, as its pipe does after the keeper's death.
    pub(crate) async fn resend(self: &Arc<Self>) {
        let pending: Vec<_> = self.mind.lock().pending.clone().into_iter().collect();
        let resent = pending.into_iter().map(|(sequence, pending)| async move {
            self.count("a message sent again");
            let since = self.stamp(&pending.why);
            let why = pending.why.clone();
            let told =
                tokio::time::timeout(Duration::from_secs(600), self.push(sequence, pending, true)).await;
            let told = told.unwrap_or_else(|_| {
                self.broke(format!("INV-35: {why:?}, sent again, was not answered"));
                Told::Lost
            });
            self.understand(&why, &since, told);
        });
        futures_util::future::join_all(resent).await;
    }

    pub(crate) async fn push(self: &Arc<Self>, sequence: u64, pending: Pending, is_again: bool) -> Told {
        let Some(pipe) = &self.pipe else { return Told::Lost };
        let (answer, answered) = oneshot::channel();
        let id = pending.id.clone();
        self.waiting.lock().insert(id.clone(), answer);
        self.trace(if is_again { ">>" } else { ">" }, &pending.message);
        let age = Duration::from_millis(u64::try_from(self.life.age() - pending.since).unwrap_or(0));
        let since = Instant::now().checked_sub(age).unwrap_or_else(Instant::now);
        let frame = Some(self.frame(sequence));
        if pipe.send(Incoming { message: pending.message, frame, since, is_again }).await.is_err() {
            // Its host waits: the pipe finds or starts the next keeper.
            return std::future::pending().await;
        }
        match answered.await {
            Ok(message) => {
                self.mind.lock().pending.remove(&sequence);
                let id: Value = serde_json::from_str(&id).unwrap_or_default();
                self.response(&id, message)
            }
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) fn frame(&self, sequence: u64) -> Frame {
        Frame { attachment: [self.mind.lock().number as u8; 16], sequence }
    }

    pub(crate) async fn hear(self: Arc<Self>, mut from: mpsc::Receiver<Outgoing>) {
        while let Some(Outgoing { message, delivers }) = from.recv().await {
            self.trace("<", &message);
            let value: Value = serde_json::from_slice(&message).unwrap_or_default();
            if value.get("method").is_some() {
                self.heard(&message, &value);
            } else {
                self.take(value["id"].to_string(), message);
            }
            if let Some(task) = delivers {
                self.count("a result that arrived by a pipe");
                let principal = self.mind.lock().principal.clone();
                self.life.gateway.fetched(&principal, &task).await;
            }
        }
    }

    /// One answer for each request.
    pub(crate) fn take(&self, id: String, message: Bytes) {
        let is_new = self.answered.lock().insert(id.clone());
        self.note_over(&id, &message);
        let waiting = self.waiting.lock().remove(&id);
        let given_up = self.given_up.lock().get(&id).cloned();
        match (waiting, given_up) {
            (Some(waiting), _) => drop(waiting.send(message)),
            (None, Some(why)) if is_new => self.late(&why, &message),
            (None, Some(_) | None) => {
                self.broke(format!("A-003: an answer to no request: {}", String::from_utf8_lossy(&message)))
            }
        }
    }

    /// a call that has its result has no progress any more. A task or a handle is no result.
    fn note_over(&self, id: &str, message: &Bytes) {
        let goes_on = ["\"taskId\"", "\"input_required\""];
        let text = String::from_utf8_lossy(message);
        if goes_on.iter().any(|word| text.contains(word)) {
            return;
        }
        let mind = self.mind.lock();
        let Some(pending) = mind.pending.values().find(|pending| pending.id == id) else { return };
        let request: Value = serde_json::from_slice(&pending.message).unwrap_or_default();
        if let Some(token) = request["params"]["_meta"]["progressToken"].as_str() {
            self.over.lock().insert(token.to_owned());
        }
    }
}
