//! The standing stream of a session: what belongs to no request.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use taskgate_client::Notice;
use taskgate_wire::json;
use taskgate_wire::message;
use taskgate_wire::version::Version;
use tokio::sync::broadcast::error::RecvError;

use crate::dispatch::{Via, text};
use crate::gateway::Gateway;
use crate::outlet::Outlet;
use crate::reply::Reply;
use crate::session::Session;

/// How long to wait before a server session that ended is looked for again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How often a session in use is noted as such, and a pump without a stream is found.
const TICK: Duration = Duration::from_secs(20);

/// Holds a standing stream open. Questions that could not be asked before are asked on it now.
pub(crate) async fn hold(gateway: Arc<Gateway>, session: Arc<Session>, outlet: Outlet) -> Reply {
    opened(&gateway, &session);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            _ = tick.tick() => gateway.sessions.touch(&session),
            () = session.ended.cancelled() => return Reply::severed(),
            () = gateway.stopping.cancelled() => return Reply::severed(),
            () = outlet.closed() => return Reply::severed(),
        }
    }
}

/// A way to the client has been opened.
pub(crate) fn opened(gateway: &Arc<Gateway>, session: &Arc<Session>) {
    for follow in session.follows.lock().values() {
        follow.kick();
    }
    if session.begin_pump() {
        tokio::spawn(pump(Arc::downgrade(gateway), session.clone()));
    }
}

/// Passes on what the server announces, as long as the session has a standing stream.
async fn pump(gateway: Weak<Gateway>, session: Arc<Session>) {
    while session.stream().is_some() && !session.ended.is_cancelled() {
        let Some(strong) = gateway.upgrade() else { break };
        let stopping = strong.stopping.clone();
        let Ok(upstream) = strong.upstreams.session(&session.back_key).await else {
            drop(strong);
            tokio::select! {
                () = tokio::time::sleep(AGAIN_AFTER) => continue,
                () = session.ended.cancelled() => break,
                () = stopping.cancelled() => break,
            }
        };
        let mut notices = upstream.notices();
        drop(upstream);
        drop(strong);
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                notice = notices.recv() => match notice {
                    Ok(notice) => announce(&session, notice),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => {
                        tokio::time::sleep(AGAIN_AFTER).await;
                        break;
                    }
                },
                _ = tick.tick() => if session.stream().is_none() { break },
                () = session.ended.cancelled() => break,
                () = stopping.cancelled() => break,
            }
        }
        if stopping.is_cancelled() {
            break;
        }
    }
    session.end_pump();
    // A stream that was opened in this very moment found the pump still running.
    if session.stream().is_some()
        && !session.ended.is_cancelled()
        && let Some(gateway) = gateway.upgrade().filter(|gateway| !gateway.stopping.is_cancelled())
        && session.begin_pump()
    {
        tokio::spawn(boxed(Arc::downgrade(&gateway), session));
    }
}

fn boxed(gateway: Weak<Gateway>, session: Arc<Session>) -> futures_util::future::BoxFuture<'static, ()> {
    Box::pin(pump(gateway, session))
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
