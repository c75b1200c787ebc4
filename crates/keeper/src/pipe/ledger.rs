//! What the pipe must remember so that its host notices nothing of a keeper's death.
//!
//! - Every request of the host, until its answer was written to the host's stdout: it is sent again to the next keeper
//!   under its old sequence, by which the store recognises it (design 4).
//! - How the session was opened, so that it can be opened again.
//! - Which questions of the keeper are open, so that the host can be told that the old ones are void (G-011).

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use bytes::Bytes;
use taskgate_wire::handshake::cancelled_params;
use taskgate_wire::id::RequestId;
use taskgate_wire::message::{self, Malformed, Message, Notification, Outcome, Request, Response};
use taskgate_wire::rpc_error::RpcError;
use tokio::time::Instant;

/// Requests that their client took back and that are still sent again, with the taking back, should the keeper die
/// before it heard of it. Older ones were heard long ago.
const CANCELLED_MAX: usize = 64;

/// A message of the host with its sequence.
#[derive(Clone, Debug)]
pub(crate) struct Numbered {
    pub(crate) sequence: u64,
    pub(crate) message: Bytes,
    /// When the host sent it; for a request, whose time runs from then.
    pub(crate) since: Option<Instant>,
}

impl Numbered {
    /// One whose age is nothing to anybody.
    pub(crate) fn new(sequence: u64, message: Bytes) -> Numbered {
        Numbered { sequence, message, since: None }
    }
}

/// What is kept.
#[derive(Debug)]
pub(crate) struct Ledger {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    by_id: HashMap<RequestId, u64>,
    cancelled: VecDeque<(Numbered, Numbered)>,
    opening: Opening,
    asked: HashSet<RequestId>,
    replays: Replays,
}

/// A frame of the host that is not wholly answered.
#[derive(Debug)]
struct Waiting {
    message: Bytes,
    since: Instant,
    /// Its requests without an answer: one, or those of a batch (D-005).
    open: Vec<RequestId>,
    is_batch: bool,
}

/// How the session was opened, in the host's words.
#[derive(Debug, Default)]
struct Opening {
    /// The `initialize` that was answered with a result.
    initialize: Option<Request>,
    /// `notifications/initialized`.
    initialized: Option<Bytes>,
    /// The last `logging/setLevel` that was taken.
    level: Option<Request>,
    /// Live `resources/subscribe`, by their `uri` as it was written.
    subscriptions: BTreeMap<String, Request>,
    /// Requests of these kinds that are under way.
    wanted: HashMap<RequestId, Request>,
}

/// Requests of our own, by which an opening is replayed.
#[derive(Debug)]
struct Replays {
    /// Tells them from the host's.
    prefix: String,
    count: u64,
    opening: Option<RequestId>,
    others: HashSet<RequestId>,
}

/// What becomes of a message of the keeper.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The host gets it. What it answers is settled once it was written: give it back to [`Ledger::written`].
    Pass(Vec<RequestId>),
    /// It answers something that the host never asked.
    Swallow,
    /// The replayed opening went well.
    Reopened,
    /// It did not; why, in words.
    NotReopened(String),
}

impl Ledger {
    /// An empty one. `prefix` is random, so that ids of ours are nobody else's.
    pub(crate) fn new(prefix: &str) -> Ledger {
        Ledger {
            last: 0,
            waiting: BTreeMap::new(),
            by_id: HashMap::new(),
            cancelled: VecDeque::new(),
            opening: Opening::default(),
            asked: HashSet::new(),
            replays: Replays {
                prefix: format!("taskgate-{prefix}"),
                count: 0,
                opening: None,
                others: HashSet::new(),
            },
        }
    }

    /// Notes a message of the host; its sequence, and whether it waits for an answer.
    pub(crate) fn host(&mut self, message: Bytes) -> Noted {
        self.last += 1;
        let sequence = self.last;
        let waits = match message::parse(message.clone()) {
            Ok(Message::Request(request)) => {
                let id = request.id().clone();
                self.opening.want(request);
                self.wait(sequence, message.clone(), vec![id], false);
                true
            }
            Ok(Message::Notification(notification)) => {
                self.notified(sequence, &notification);
                false
            }
            Ok(Message::Response(response)) => {
                if let Some(id) = response.id() {
                    self.asked.remove(id);
                }
                false
            }
            Err(Malformed::Batch) => {
                let messages = message::parse_batch(&message).unwrap_or_default();
                let ids: Vec<RequestId> = messages
                    .into_iter()
                    .flatten()
                    .filter_map(|message| match message {
                        Message::Request(request) => Some(request.id().clone()),
                        Message::Notification(_) | Message::Response(_) => None,
                    })
                    .collect();
                let waits = !ids.is_empty();
                if waits {
                    self.wait(sequence, message.clone(), ids, true);
                }
                waits
            }
            // The keeper says what is wrong with it.
            Err(_) => false,
        };
        Noted { numbered: Numbered::new(sequence, message), waits }
    }

    fn wait(&mut self, sequence: u64, message: Bytes, open: Vec<RequestId>, is_batch: bool) {
        for id in &open {
            self.by_id.insert(id.clone(), sequence);
        }
        self.waiting.insert(sequence, Waiting { message, since: Instant::now(), open, is_batch });
    }

    fn notified(&mut self, sequence: u64, notification: &Notification) {
        match notification.method() {
            "notifications/initialized" => self.opening.initialized = Some(notification.raw().clone()),
            "notifications/cancelled" => {
                let Some(id) = notification.param("requestId").and_then(RequestId::from_text) else { return };
                let Some(wanted) = self.by_id.get(&id).copied() else { return };
                let Some(waiting) = self.settle(&id, wanted) else { return };
                if self.cancelled.len() == CANCELLED_MAX {
                    self.cancelled.pop_front();
                }
                let request = Numbered::new(wanted, waiting);
                let taken_back = Numbered::new(sequence, notification.raw().clone());
                self.cancelled.push_back((request, taken_back));
            }
            _ => {}
        }
    }

    /// Notes a message of the keeper before it is written to the host.
    pub(crate) fn keeper(&mut self, message: &Bytes) -> Heard {
        match message::parse(message.clone()) {
            Ok(Message::Response(response)) => self.answered(&response),
            Ok(Message::Request(request)) => {
                self.asked.insert(request.id().clone());
                Heard::Pass(Vec::new())
            }
            Ok(Message::Notification(notification)) => {
                if notification.method() == "notifications/cancelled"
                    && let Some(id) = notification.param("requestId").and_then(RequestId::from_text)
                {
                    self.asked.remove(&id);
                }
                Heard::Pass(Vec::new())
            }
            Err(Malformed::Batch) => {
                let mut ids = Vec::new();
                for answer in message::parse_batch(message).unwrap_or_default().into_iter().flatten() {
                    if let Message::Response(response) = answer
                        && let Heard::Pass(answered) = self.answered(&response)
                    {
                        ids.extend(answered);
                    }
                }
                Heard::Pass(ids)
            }
            // The keeper writes nothing else; it is the host's to judge.
            Err(_) => Heard::Pass(Vec::new()),
        }
    }

    fn answered(&mut self, response: &Response) -> Heard {
        let Some(id) = response.id() else { return Heard::Pass(Vec::new()) };
        if self.replays.opening.as_ref() == Some(id) {
            self.replays.opening = None;
            return match response.outcome() {
                Outcome::Result(_) => Heard::Reopened,
                Outcome::Error(error) => Heard::NotReopened(RpcError::read(error).message),
            };
        }
        if self.replays.others.remove(id) {
            return Heard::Swallow;
        }
        self.opening.settle(id, matches!(response.outcome(), Outcome::Result(_)));
        Heard::Pass(vec![id.clone()])
    }

    /// These answers are with the host now.
    pub(crate) fn written(&mut self, ids: &[RequestId]) {
        for id in ids {
            if let Some(sequence) = self.by_id.get(id).copied() {
                self.settle(id, sequence);
            }
        }
    }

    /// One request of a frame is done with. The frame's message, if it was the last.
    fn settle(&mut self, id: &RequestId, sequence: u64) -> Option<Bytes> {
        self.by_id.remove(id);
        let waiting = self.waiting.get_mut(&sequence)?;
        waiting.open.retain(|open| open != id);
        if !waiting.open.is_empty() {
            return None;
        }
        self.waiting.remove(&sequence).map(|waiting| waiting.message)
    }

    /// Whether the host waits for an answer.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The connection broke: what was asked over it can no longer be answered. The notifications that say so to the
    /// host; it is asked anew by the next keeper (G-011).
    pub(crate) fn void_questions(&mut self) -> Vec<Bytes> {
        self.replays.opening = None;
        self.replays.others.clear();
        let mut asked: Vec<RequestId> = self.asked.drain().collect();
        asked.sort();
        asked
            .iter()
            .map(|id| {
                let params =
                    cancelled_params(id, "the question is void: taskgate's keeper ended; it is asked anew");
                message::notification("notifications/cancelled", Some(&params))
            })
            .collect()
    }

    /// The `initialize` by which the session is opened again; `None` if there is nothing to replay: the session is not
    /// open yet, or its client is modern and has none.
    pub(crate) fn reopen(&mut self) -> Option<Bytes> {
        // An `initialize` under way is sent again like every request, and its own answer is the host's.
        let begins_anew = self.opening.wanted.values().any(|wanted| wanted.method() == "initialize");
        if begins_anew {
            return None;
        }
        let request = self.opening.initialize.clone()?;
        let id = self.replays.id();
        self.replays.opening = Some(id.clone());
        Some(message::request(&id, request.method(), request.params()))
    }

    /// What follows a replayed `initialize`: the rest of the opening. None of it has a sequence of the host's.
    pub(crate) fn rest_of_opening(&mut self) -> Vec<Bytes> {
        let mut rest = Vec::new();
        rest.extend(self.opening.initialized.clone());
        let requests = self.opening.level.iter().chain(self.opening.subscriptions.values());
        for request in requests.cloned().collect::<Vec<_>>() {
            let id = self.replays.id();
            rest.push(message::request(&id, request.method(), request.params()));
            self.replays.others.insert(id);
        }
        rest
    }

    /// What is sent again, in the host's order: everything without an answer, and what was taken back lately.
    pub(crate) fn again(&self) -> Vec<Numbered> {
        let mut again: Vec<Numbered> = self
            .waiting
            .iter()
            .map(|(sequence, waiting)| Numbered {
                sequence: *sequence,
                message: waiting.message.clone(),
                since: Some(waiting.since),
            })
            .chain(self.cancelled.iter().flat_map(|(request, back)| [request.clone(), back.clone()]))
            .collect();
        again.sort_by_key(|numbered| numbered.sequence);
        again
    }

    /// Gives every request up: the errors that the host gets.
    pub(crate) fn give_up(&mut self, words: &str) -> Vec<Bytes> {
        self.by_id.clear();
        self.cancelled.clear();
        self.opening.wanted.clear();
        let error = RpcError::internal(words);
        std::mem::take(&mut self.waiting)
            .into_values()
            .map(|waiting| {
                let mut errors: Vec<Bytes> =
                    waiting.open.iter().map(|id| message::error(Some(id), &error)).collect();
                match (waiting.is_batch, errors.pop()) {
                    (false, Some(only)) => only,
                    (_, last) => {
                        errors.extend(last);
                        let texts: Vec<_> =
                            errors.iter().map(|error| String::from_utf8_lossy(error)).collect();
                        Bytes::from(format!("[{}]", texts.join(",")))
                    }
                }
            })
            .collect()
    }

    /// The next sequence, for a frame that is no message of the host's.
    pub(crate) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// What was noted of a message of the host.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) numbered: Numbered,
    /// Whether the host waits for an answer.
    pub(crate) waits: bool,
}

impl Opening {
    fn want(&mut self, request: Request) {
        if matches!(
            request.method(),
            "initialize" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
        ) {
            self.wanted.insert(request.id().clone(), request);
        }
    }

    fn settle(&mut self, id: &RequestId, went_well: bool) {
        let Some(request) = self.wanted.remove(id) else { return };
        if !went_well {
            return;
        }
        let uri = request.param("uri").map(str::to_owned);
        match (request.method(), uri) {
            // D-011: a second one begins anew.
            ("initialize", _) => {
                *self = Opening {
                    initialize: Some(request),
                    wanted: std::mem::take(&mut self.wanted),
                    ..Opening::default()
                };
            }
            ("logging/setLevel", _) => self.level = Some(request),
            ("resources/subscribe", Some(uri)) => {
                self.subscriptions.insert(uri, request);
            }
            ("resources/unsubscribe", Some(uri)) => {
                self.subscriptions.remove(&uri);
            }
            (_, _) => {}
        }
    }
}

impl Replays {
    fn id(&mut self) -> RequestId {
        self.count += 1;
        RequestId::from_name(&format!("{}-{}", self.prefix, self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        Ledger::new("abcd")
    }

    fn bytes(text: &str) -> Bytes {
        Bytes::copy_from_slice(text.as_bytes())
    }

    fn request(ledger: &mut Ledger, id: u64, method: &str, params: &str) -> Numbered {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let noted = ledger.host(bytes(&text));
        assert!(noted.waits);
        noted.numbered
    }

    fn answer(ledger: &mut Ledger, id: u64) {
        let text = bytes(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
        let Heard::Pass(ids) = ledger.keeper(&text) else { panic!("it is the host's") };
        ledger.written(&ids);
    }

    fn sequences(ledger: &Ledger) -> Vec<u64> {
        ledger.again().iter().map(|numbered| numbered.sequence).collect()
    }

    #[test]
    fn r2_6_what_is_sent_again_says_since_when_its_host_waits() {
        let mut ledger = Ledger::new("p");
        let before = Instant::now();
        let sent = request(&mut ledger, 1, "tools/call", "{}");
        let again = ledger.again();
        assert!(again[0].sequence == sent.sequence && again[0].since.is_some_and(|since| since >= before));
        assert_eq!(again[0].since, ledger.again()[0].since, "however often it is sent");
    }

    #[test]
    fn design_4_what_has_no_answer_is_sent_again_under_its_old_sequence() {
        let mut ledger = ledger();
        let one = request(&mut ledger, 1, "tools/call", "{}");
        let two = request(&mut ledger, 2, "tools/call", "{}");
        answer(&mut ledger, 1);
        assert_eq!(sequences(&ledger), [two.sequence]);
        assert!(one.sequence < two.sequence);
        answer(&mut ledger, 2);
        assert!(!ledger.is_waiting());
    }

    #[test]
    fn an_answer_counts_only_once_it_is_written() {
        let mut ledger = ledger();
        request(&mut ledger, 1, "tools/call", "{}");
        let Heard::Pass(ids) = ledger.keeper(&bytes(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#)) else {
            panic!("it is the host's")
        };
        assert!(ledger.is_waiting());
        ledger.written(&ids);
        assert!(!ledger.is_waiting());
    }

    #[test]
    fn a_092_what_was_taken_back_is_sent_again_with_its_taking_back() {
        let mut ledger = ledger();
        let call = request(&mut ledger, 1, "tools/call", "{}");
        let text = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        let back = ledger.host(bytes(text)).numbered;
        assert!(!ledger.is_waiting());
        assert_eq!(sequences(&ledger), [call.sequence, back.sequence]);
    }

    #[test]
    fn the_opening_is_replayed_with_ids_of_our_own_and_its_answers_are_swallowed() {
        let mut ledger = ledger();
        assert!(ledger.reopen().is_none());
        request(&mut ledger, 0, "initialize", r#"{"protocolVersion":"2025-11-25"}"#);
        // It is under way itself: nothing is replayed beside it.
        assert!(ledger.reopen().is_none());
        answer(&mut ledger, 0);
        ledger.host(bytes(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
        request(&mut ledger, 1, "logging/setLevel", r#"{"level":"debug"}"#);
        answer(&mut ledger, 1);
        request(&mut ledger, 2, "resources/subscribe", r#"{"uri":"a"}"#);
        answer(&mut ledger, 2);
        request(&mut ledger, 3, "resources/subscribe", r#"{"uri":"b"}"#);
        answer(&mut ledger, 3);
        request(&mut ledger, 4, "resources/unsubscribe", r#"{"uri":"a"}"#);
        answer(&mut ledger, 4);

        let opening = ledger.reopen().unwrap();
        let text = String::from_utf8(opening.to_vec()).unwrap();
        assert!(text.contains("2025-11-25") && text.contains("taskgate-abcd-1"), "{text}");
        let heard = ledger.keeper(&bytes(r#"{"jsonrpc":"2.0","id":"taskgate-abcd-1","result":{}}"#));
        assert!(matches!(heard, Heard::Reopened), "{heard:?}");
        let rest: Vec<String> =
            ledger.rest_of_opening().iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
        assert_eq!(rest.len(), 3, "{rest:?}");
        assert!(rest[0].contains("initialized") && rest[1].contains("debug"), "{rest:?}");
        assert!(rest[2].contains(r#""uri":"b""#), "{rest:?}");
        let heard = ledger.keeper(&bytes(r#"{"jsonrpc":"2.0","id":"taskgate-abcd-2","result":{}}"#));
        assert!(matches!(heard, Heard::Swallow), "{heard:?}");
    }

    #[test]
    fn an_opening_that_fails_says_why() {
        let mut ledger = ledger();
        request(&mut ledger, 0, "initialize", "{}");
        answer(&mut ledger, 0);
        ledger.reopen().unwrap();
        let failed = r#"{"jsonrpc":"2.0","id":"taskgate-abcd-1","error":{"code":-32603,"message":"x does not start"}}"#;
        match ledger.keeper(&bytes(failed)) {
            Heard::NotReopened(words) => assert!(words.contains("does not start"), "{words}"),
            heard @ (Heard::Pass(_) | Heard::Swallow | Heard::Reopened) => panic!("{heard:?}"),
        }
    }

    #[test]
    fn g_011_questions_of_a_dead_keeper_are_void() {
        let mut ledger = ledger();
        let ask =
            |id: &str| bytes(&format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"elicitation/create"}}"#));
        ledger.keeper(&ask("tg-1"));
        ledger.keeper(&ask("tg-2"));
        ledger.host(bytes(r#"{"jsonrpc":"2.0","id":"tg-1","result":{"action":"accept"}}"#));
        let void = ledger.void_questions();
        assert_eq!(void.len(), 1);
        assert!(String::from_utf8(void[0].to_vec()).unwrap().contains("tg-2"));
        assert!(ledger.void_questions().is_empty());
    }

    #[test]
    fn d_005_a_batch_waits_for_all_its_answers() {
        let mut ledger = ledger();
        let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
        assert!(ledger.host(bytes(batch)).waits);
        answer(&mut ledger, 1);
        assert_eq!(ledger.again().len(), 1);
        let Heard::Pass(ids) = ledger.keeper(&bytes(r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#)) else {
            panic!("it is the host's")
        };
        ledger.written(&ids);
        assert!(!ledger.is_waiting());
    }

    #[test]
    fn what_is_given_up_is_answered_in_words() {
        let mut ledger = ledger();
        request(&mut ledger, 1, "ping", "{}");
        ledger.host(bytes(r#"[{"jsonrpc":"2.0","id":2,"method":"ping"}]"#));
        let errors: Vec<String> = ledger
            .give_up("no keeper")
            .iter()
            .map(|text| String::from_utf8(text.to_vec()).unwrap())
            .collect();
        assert_eq!(errors.len(), 2);
        assert!(errors[0].starts_with('{') && errors[0].contains("no keeper"), "{errors:?}");
        assert!(errors[1].starts_with('['), "{errors:?}");
        assert!(!ledger.is_waiting() && ledger.again().is_empty());
    }

    #[test]
    fn what_is_no_message_is_numbered_and_not_waited_for() {
        let mut ledger = ledger();
        assert!(!ledger.host(bytes("rubbish")).waits);
        assert!(!ledger.is_waiting());
    }
}
