//! The line to a server, of either transport.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_wire::handshake::cancelled_params;
use taskgate_wire::message;
use taskgate_wire::{RequestId, Version};
use tokio::task::AbortHandle;

use crate::heard::Heard;
use crate::http::{
    Care, Endpoint, Got, Job, Mirrored, Outgoing, SendError, Trace, exchange, listen, mirrored,
};
use crate::stdio::Process;
use crate::traffic::Traffic;

/// The line.
#[derive(Debug)]
pub(crate) enum Link {
    Pipe(Process),
    Http(HttpLink),
}

/// A session over HTTP.
#[derive(Debug)]
pub(crate) struct HttpLink {
    pub(crate) endpoint: Arc<Endpoint>,
    session: Mutex<Option<Arc<str>>>,
    listener: Mutex<Option<Listener>>,
}

/// The stream that hangs on no request; ends when dropped.
#[derive(Debug)]
struct Listener(AbortHandle);

impl Drop for Listener {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl HttpLink {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> HttpLink {
        HttpLink { endpoint, session: Mutex::new(None), listener: Mutex::new(None) }
    }

    pub(crate) fn session(&self) -> Option<Arc<str>> {
        self.session.lock().clone()
    }

    /// A session was opened: its id goes with every request from now on, and its stream is listened to.
    pub(crate) fn opened(&self, traffic: &Arc<Traffic>, session: Option<Arc<str>>, version: Version) {
        *self.session.lock() = session.clone();
        let mirrored = mirrored(version, "", None);
        let listening = tokio::spawn(listen(self.endpoint.clone(), traffic.clone(), session, mirrored));
        *self.listener.lock() = Some(Listener(listening.abort_handle()));
    }

    /// Says goodbye to the session, if it has an id. That the server does not care is no error.
    pub(crate) async fn close(&self, version: Version) {
        *self.listener.lock() = None;
        let Some(session) = self.session.lock().take() else { return };
        let outgoing = Outgoing {
            method: http::Method::DELETE,
            mirrored: mirrored(version, "", None),
            session: Some(session),
            patience: Some(self.endpoint.read_timeout),
            ..Outgoing::post(Bytes::new(), Care::Again)
        };
        let _ = self.endpoint.send(outgoing).await;
    }

    /// Sends one request to its end.
    pub(crate) async fn exchange(
        &self,
        traffic: &Arc<Traffic>,
        id: u64,
        body: Bytes,
        how: Posting,
    ) -> (Heard, Option<Arc<str>>) {
        let outgoing = Outgoing {
            mirrored: how.mirrored,
            key: how.key,
            session: how.session,
            patience: how.patience,
            trace: how.trace,
            ..Outgoing::post(body, how.care)
        };
        exchange(&self.endpoint, traffic, Job { id, outgoing, is_resumable: how.is_resumable }).await
    }

    /// Sends a notification.
    pub(crate) async fn tell(
        &self,
        body: Bytes,
        mirrored: Mirrored,
        session: Option<Arc<str>>,
    ) -> Result<(), String> {
        tell(&self.endpoint, body, mirrored, session).await
    }

    /// Sends a notification that nobody waits for.
    pub(crate) fn tell_by_the_way(&self, body: Bytes, mirrored: Mirrored, session: Option<Arc<str>>) {
        let endpoint = self.endpoint.clone();
        tokio::spawn(async move {
            if let Err(why) = tell(&endpoint, body, mirrored, session).await {
                tracing::debug!(why, "a server could not be told");
            }
        });
    }
}

async fn tell(
    endpoint: &Endpoint,
    body: Bytes,
    mirrored: Mirrored,
    session: Option<Arc<str>>,
) -> Result<(), String> {
    let outgoing = Outgoing {
        mirrored,
        session,
        patience: Some(endpoint.read_timeout),
        ..Outgoing::post(body, Care::Once)
    };
    match endpoint.send(outgoing).await {
        Ok(Got::Whole { status, .. }) if status < 400 => Ok(()),
        Ok(Got::Whole { status, .. }) => Err(format!("it answered HTTP {status} to a notification")),
        Ok(Got::Stream { stream, .. }) => {
            stream.finish();
            Ok(())
        }
        Ok(Got::Elsewhere) => Err(String::from("it redirects to another address, which is not followed")),
        Ok(Got::TooLarge) => Err(String::from("its answer is longer than the limit")),
        Err(SendError::NeverSent(why) | SendError::Lost(why)) => Err(why),
    }
}

/// How a request is posted.
#[derive(Clone, Debug)]
pub(crate) struct Posting {
    pub(crate) mirrored: Mirrored,
    /// A header that belongs to this one request.
    pub(crate) key: Option<(String, String)>,
    pub(crate) session: Option<Arc<str>>,
    pub(crate) care: Care,
    pub(crate) patience: Option<std::time::Duration>,
    pub(crate) is_resumable: bool,
    pub(crate) trace: Option<Arc<Trace>>,
}

/// `notifications/cancelled` for a request of ours (A-092, B-052).
pub(crate) fn cancelled(id: u64) -> Bytes {
    let params = cancelled_params(&RequestId::from_u64(id), "Nobody waits any more");
    message::notification("notifications/cancelled", Some(&params))
}
