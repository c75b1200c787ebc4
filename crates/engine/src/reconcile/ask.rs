//! One question to a system of record.
//!
//! Whatever it is asked, it is asked apart from callers: over a session of the gateway's own, which offers to answer
//! nothing, so that a look-up neither waits behind a person's question nor asks one.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::time::Millis;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::back::{Answer, Back, BackEvent, BackKey, InFlight, Outgoing};
use crate::engine::Engine;
use crate::rules::{Request, Said};

/// The longest answer that is read; rules look into no more.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The systems that are being asked, by name.
#[derive(Debug)]
pub(super) struct Systems {
    asked: Mutex<HashMap<String, Arc<Semaphore>>>,
    system_max: usize,
}

impl Systems {
    /// None yet; each may be asked so many questions at once.
    pub(super) fn new(system_max: usize) -> Systems {
        Systems { asked: Mutex::default(), system_max }
    }

    fn places(&self, name: String) -> Arc<Semaphore> {
        let mut systems = self.asked.lock();
        // Those that nobody asks are forgotten.
        systems.retain(|_, places| Arc::strong_count(places) > 1);
        systems.entry(name).or_insert_with(|| Arc::new(Semaphore::new(self.system_max))).clone()
    }
}

/// What a system of record answered.
pub(super) enum Heard {
    Tool { result: Bytes, is_error: bool },
    Http { status: u16, body: Bytes },
}

impl Heard {
    /// As rules see it.
    pub(super) fn said(&self) -> Said<'_> {
        match self {
            Heard::Tool { result, is_error } => Said::Tool { result, is_error: *is_error },
            Heard::Http { status, body } => Said::Http { status: *status, body },
        }
    }
}

impl Engine {
    /// Asks, once.
    ///
    /// # Errors
    /// In words for a person: there was no answer, or one that says nothing of an effect, whatever a rule makes of it
    /// (R5.6).
    pub(super) async fn ask(&self, request: &Request) -> Result<Heard, String> {
        let places = self.reconciler.systems.places(system(request));
        let _place = places.acquire().await.map_err(|closed| closed.to_string())?;
        let limit = self.parts.limits.lookups.answer;
        match request {
            Request::Tool { server, tool, params } => {
                let calling = self.call(server, tool, params, limit);
                timeout(limit.duration(), calling).await.unwrap_or_else(|_| {
                    let seconds = limit.duration().as_secs_f32();
                    Err(format!("server {:?}: no answer within {seconds} s", server.0))
                })
            }
            Request::Get { url, headers } => {
                let answer = self.parts.web.get(url, headers, limit.duration(), ANSWER_BYTES_MAX).await?;
                match answer.status {
                    300..=399 => {
                        Err(format!("it answered HTTP {}; redirects are not followed", answer.status))
                    }
                    // That it cannot say, or does not tell us, says nothing of the effect.
                    401 | 403 | 407 | 408 | 429 | 500..=599 | 0..=199 => {
                        Err(format!("it answered HTTP {}", answer.status))
                    }
                    status => Ok(Heard::Http { status, body: answer.body }),
                }
            }
        }
    }

    async fn call(
        &self,
        server: &ServerName,
        tool: &str,
        params: &Bytes,
        limit: Millis,
    ) -> Result<Heard, String> {
        let key = BackKey { server: server.clone(), principal: Principal::gateway(), offers: String::new() };
        let back = self.parts.backs.open(&key).await.map_err(|unreachable| unreachable.to_string())?;
        let outgoing = Outgoing {
            tool: tool.to_owned(),
            params: params.clone(),
            asking: Asking::Held,
            ttl: limit,
            key: None,
            round: None,
            offers: String::new(),
        };
        let InFlight { answer, mut events, stop, closed: _ } = back.call(outgoing);
        // Whatever ends this tells the server that nobody waits any more.
        let _stops = stop.drop_guard();
        tokio::pin!(answer);
        let mut is_open = true;
        loop {
            let event = tokio::select! {
                biased;
                answer = &mut answer => return heard(&*back, server, answer).await,
                event = events.recv(), if is_open => event,
            };
            match event {
                Some(BackEvent::Asked { .. }) => return Err(asked_back(server)),
                Some(
                    BackEvent::Progress(_)
                    | BackEvent::Log(_)
                    | BackEvent::Unasked { .. }
                    | BackEvent::Visited { .. }
                    | BackEvent::Nudge,
                ) => {}
                None => is_open = false,
            }
        }
    }
}

fn asked_back(server: &ServerName) -> String {
    format!("server {:?}: it asked a question in answer to a look-up", server.0)
}

async fn heard(back: &dyn Back, server: &ServerName, answer: Answer) -> Result<Heard, String> {
    match answer {
        Answer::Returned { result, .. } if result.len() > ANSWER_BYTES_MAX => {
            Err(format!("server {:?}: its answer is longer than {ANSWER_BYTES_MAX} bytes", server.0))
        }
        Answer::Returned { result, is_error } => Ok(Heard::Tool { result, is_error }),
        Answer::Raised { code, .. } => Err(format!("server {:?}: it answered with error {code}", server.0)),
        Answer::Task(accepted) => {
            // Nobody is going to wait for it.
            let _ = back.cancel(&accepted.upstream).await;
            Err(format!("server {:?}: it answered a look-up by a task", server.0))
        }
        Answer::InputRequired { .. } => Err(asked_back(server)),
        Answer::NeverSent(why) | Answer::Lost(why) | Answer::Nonsense(why) => Err(why),
    }
}

/// What names the system that a request goes to.
fn system(request: &Request) -> String {
    match request {
        Request::Tool { server, .. } => format!("server {}", server.0),
        // Scheme and authority: what comes before the third slash.
        Request::Get { url, .. } => url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_a_server_or_an_origin() {
        let get = |url: &str| system(&Request::Get { url: url.to_owned(), headers: vec![] });
        assert_eq!(get("https://bank.example:8443/effects/1?a=/b"), "https://bank.example:8443");
        assert_eq!(get("https://bank.example"), "https://bank.example");
        let tool = Request::Tool { server: ServerName("s".into()), tool: "t".into(), params: Bytes::new() };
        assert_eq!(system(&tool), "server s");
    }
}
