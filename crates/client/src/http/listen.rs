//! The stream of a legacy session that hangs on no request: announcements, and requests of servers that
//! choose it.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use taskgate_wire::message::{self, Malformed, Message};
use tokio::time::{Instant, sleep};

use super::endpoint::{Endpoint, Got, Mirrored, Outgoing};
use super::exchange::{Place, respond};
use super::pool::{Care, SendError};
use crate::gather::Gathering;
use crate::traffic::{Origin, Traffic};

/// Keeps the stream open as long as the server offers it; ends when it does not.
pub(crate) async fn listen(
    endpoint: Arc<Endpoint>,
    traffic: Arc<Traffic>,
    session: Option<Arc<str>>,
    mirrored: Mirrored,
) {
    let mut place = Place::start();
    let mut attempts = 0;
    loop {
        let outgoing = Outgoing {
            key: None,
            method: Method::GET,
            body: Bytes::new(),
            mirrored: mirrored.clone(),
            session: session.clone(),
            last_event_id: place.last_id.clone(),
            care: Care::Again,
            trace: None,
            patience: None,
        };
        match endpoint.send(outgoing).await {
            Ok(Got::Stream { mut stream, .. }) => {
                let opened = Instant::now();
                while let Ok(event) = stream.next().await {
                    place.note(&event);
                    let responder = || {
                        let (endpoint, session, mirrored) =
                            (endpoint.clone(), session.clone(), mirrored.clone());
                        move |reply| respond(endpoint, session, mirrored, reply)
                    };
                    match message::parse(event.data.clone()) {
                        Ok(message) => hear(&traffic, message, responder()),
                        // D-005: replies go back together.
                        Err(Malformed::Batch) => {
                            let replies = Gathering::new(responder());
                            let messages = message::parse_batch(&event.data).unwrap_or_default();
                            for message in messages.into_iter().flatten() {
                                hear(&traffic, message, replies.slot());
                            }
                        }
                        Err(_) => {}
                    }
                }
                if opened.elapsed().as_secs() > 5 {
                    attempts = 0;
                }
            }
            Ok(Got::Whole { status, .. }) if status >= 500 || status == 429 => {}
            Ok(Got::Whole { .. } | Got::Elsewhere | Got::TooLarge) => return,
            Err(SendError::NeverSent(_) | SendError::Lost(_)) => {}
        }
        attempts += 1;
        sleep(place.wait(attempts)).await;
    }
}

fn hear(traffic: &Arc<Traffic>, message: Message, respond: impl FnOnce(Bytes) + Send + 'static) {
    match message {
        Message::Notification(notification) => traffic.notified(&Origin::Pipe, &notification),
        Message::Request(request) => traffic.asked(&Origin::Pipe, &request, respond),
        // there are none.
        Message::Response(_) => {}
    }
}
