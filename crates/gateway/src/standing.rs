//! The standing stream of a session: what belongs to no request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use taskgate_client::{Notice, RawAnswer};
use taskgate_wire::json;
use taskgate_wire::message;
use taskgate_wire::version::Version;
use tokio::sync::broadcast::error::RecvError;

use crate::dispatch::{Via, text};
use crate::gateway::Gateway;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::session::Session;
use crate::upstream::Upstream;

/// How often a session in use is noted as such, and a pump without a stream is found.
const TICK: Duration = Duration::from_secs(20);

/// Holds a standing stream open. Questions that could not be asked before are asked on it now.
pub(crate) async fn hold(gateway: Arc<Gateway>, session: Arc<Session>, outlet: Outlet) -> Reply {
    // A client that listens has ended its handshake.
    session.get_ready();
    opened(&gateway, &session);
    gateway.sessions.opened.notify_waiters();
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            biased;
            () = session.ended.cancelled() => return Reply::severed(),
            () = gateway.stopping.cancelled() => return Reply::severed(),
            () = outlet.closed() => return Reply::severed(),
            _ = tick.tick() => gateway.sessions.touch(&session),
        }
    }
}

/// The client's handshake is over, as its notification says, or a request that may only come after it. What was
/// held back until then goes out.
pub(crate) fn ready(gateway: &Arc<Gateway>, session: &Arc<Session>) {
    if session.get_ready() {
        opened(gateway, session);
        gateway.sessions.opened.notify_waiters();
    }
}

/// A way to the client has been opened.
pub(crate) fn opened(gateway: &Arc<Gateway>, session: &Arc<Session>) {
    for follow in session.follows.lock().values() {
        follow.kick();
    }
    listen_again(gateway, session);
}

/// Has the server's announcements passed on, if the client has a stream for them and they are not yet.
pub(crate) fn listen_again(gateway: &Arc<Gateway>, session: &Arc<Session>) {
    if session.begin_pump() {
        tokio::spawn(pump(gateway.clone(), session.clone()));
    }
}

/// Passes on what the server announces, until the client's last standing stream or the server's session ends. A server
/// that was let go because nobody used it is not started again for this: the client's next request does that, and
/// then we listen again.
async fn pump(gateway: Arc<Gateway>, session: Arc<Session>) {
    if let Ok(upstream) = gateway.upstreams.session(&session.back_key).await {
        let mut notices = upstream.notices();
        subscribe_again(&session, &upstream).await;
        drop(upstream);
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                biased;
                () = session.ended.cancelled() => break,
                () = gateway.stopping.cancelled() => break,
                _ = tick.tick() => if session.stream().is_none() { break },
                notice = notices.recv() => match notice {
                    Ok(notice) => announce(&session, notice),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => break,
                },
            }
        }
    }
    session.end_pump();
}

/// A server that was started anew knows nothing of earlier subscriptions. To be subscribed twice does no harm.
async fn subscribe_again(session: &Session, upstream: &Arc<dyn Upstream>) {
    if upstream.says().back.version.is_modern() {
        return;
    }
    for uri in session.subscriptions() {
        let params = Bytes::from(format!("{{\"uri\":{}}}", json::string_literal(&uri)));
        if let RawAnswer::Error(_) = upstream.request("resources/subscribe", Some(params)).answer.await {
            tracing::debug!(server = %session.back_key.server, "a subscription could not be renewed");
        }
    }
}

fn announce(session: &Arc<Session>, notice: Notice) {
    let bare = |method: &str| Some(message::notification(method, None));
    let with = |method: &str, params: &Bytes| Some(message::notification(method, Some(text(params))));
    let message = match notice {
        Notice::ToolsChanged => bare("notifications/tools/list_changed"),
        Notice::PromptsChanged => bare("notifications/prompts/list_changed"),
        Notice::ResourcesChanged => bare("notifications/resources/list_changed"),
        Notice::ResourceUpdated(params) => {
            let uri = json::at(text(&params), &["uri"]).and_then(json::string).unwrap_or_default();
            if session.is_subscribed(&uri) { with("notifications/resources/updated", &params) } else { None }
        }
        Notice::Log(params) => {
            let wanted = Via::Legacy(session.clone()).wants_log(&params);
            if wanted { with("notifications/message", &params) } else { None }
        }
        Notice::ElicitationComplete(params) => {
            // only to the client that was sent there.
            let id = json::at(text(&params), &["elicitationId"]).and_then(json::string).unwrap_or_default();
            let is_ours = session.version() >= Version::V2025_11_25 && session.asks.end_flow(&id);
            if is_ours { with("notifications/elicitation/complete", &params) } else { None }
        }
    };
    if let Some(message) = message {
        session.send(message);
    }
}
