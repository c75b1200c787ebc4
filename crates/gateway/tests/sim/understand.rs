//! What a client makes of an answer, and what it may expect of it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use taskgate_wire::json as raw;

use crate::book::Stamp;
use crate::client::{Client, Told};
use crate::mind::{Done, Front, Why, Wish};
use crate::server::marked;

/// An answer, taken apart.
pub(crate) struct Answer<'a> {
    pub(crate) result: Option<&'a Value>,
    pub(crate) error: Option<&'a Value>,
    /// The bytes of one of them.
    pub(crate) bytes: &'a str,
}

/// A store that fails is no answer to the question.
fn is_trouble(error: &Value) -> bool {
    let words = error["message"].as_str().unwrap_or_default();
    let troubles = ["gateway's disk", "gateway's store", "is shutting down"];
    error["code"] == -32603 && troubles.iter().any(|trouble| words.contains(trouble))
}

pub(crate) fn is_unknown(error: &Value) -> bool {
    error["code"] == -32602 && error["message"] == "Unknown task"
}

impl Client {
    /// Every answer is one, and is the one to its request.
    pub(crate) fn response(self: &Arc<Self>, id: &Value, message: Bytes) -> Told {
        if !self.is_piped {
            self.trace("<", &message);
        }
        let Ok(value) = serde_json::from_slice::<Value>(&message) else {
            self.broke(format!("no JSON: {}", String::from_utf8_lossy(&message)));
            return Told::Lost;
        };
        let members = value.as_object().map(|object| object.len()).unwrap_or_default();
        let is_one = value.get("result").is_some() != value.get("error").is_some() && members == 3;
        if value["jsonrpc"] != "2.0" || !is_one {
            self.broke(format!("A-002: no response: {value}"));
        }
        if value["id"] != *id {
            self.broke(format!("A-003: an answer to {id}: {value}"));
        }
        if let Some(error) = value.get("error")
            && !(error["code"].is_i64() && error["message"].is_string())
        {
            self.broke(format!("A-005: no error: {value}"));
        }
        if let Some(result) = value.get("result") {
            match self.front {
                Front::B if !result["resultType"].is_string() => self.broke(format!("B-011: {value}")),
                Front::A | Front::Plain if result.get("resultType").is_some() => {
                    self.broke(format!("X-005: {value}"));
                }
                Front::A | Front::B | Front::Plain => {}
            }
        }
        Told::Said(message)
    }

    /// An answer to a request that was given up: it came all the same, so that the same call is a new one from now on.
    pub(crate) fn late(&self, why: &Why, message: &Bytes) {
        self.count("an answer that came too late");
        if let Why::Call(at) = why
            && !String::from_utf8_lossy(message).contains("\"structuredContent\"")
        {
            self.mind.lock().wishes[*at].licence += 1;
        }
    }

    pub(crate) fn understand(self: &Arc<Self>, why: &Why, since: &Stamp, told: Told) {
        if let Why::Call(at) = why {
            self.mind.lock().wishes[*at].is_asking = false;
        }
        let Told::Said(message) = told else {
            self.lost(why);
            return;
        };
        let Ok(value) = serde_json::from_slice::<Value>(&message) else { return };
        let text = std::str::from_utf8(&message).unwrap_or_default();
        let bytes = raw::at(text, &["result"]).or_else(|| raw::at(text, &["error"])).unwrap_or_default();
        let answer = Answer { result: value.get("result"), error: value.get("error"), bytes };
        if answer.error.is_some_and(is_trouble) {
            self.count("a request that the store failed");
            return;
        }
        match why {
            Why::Open => {}
            Why::Call(at) => self.called(*at, since, &answer),
            Why::Anew(at) => self.called_anew(*at, since, &answer),
            Why::Misuse(at) => self.misused(*at, &answer),
            Why::Late(at) => self.came_late(*at, since, &answer),
            Why::Get(id) => self.got(id, since, &answer),
            Why::Result(id) => self.resulted(id, since, &answer),
            Why::Cancel(id) => self.cancelled(id, since, &answer),
            Why::Answer(id, key, _) => self.answered(id, key, &answer),
            Why::Listen(_) => self.listened(&answer),
            Why::List => self.listed(&answer),
            Why::Spy(id) => self.spied(id, &answer),
        }
    }

    pub(crate) fn lost(&self, why: &Why) {
        let Why::Call(at) = why else { return };
        let mut mind = self.mind.lock();
        mind.has_lost = true;
        mind.wishes[*at].is_asking = false;
        let (front, is_piped) = (mind.front, mind.is_piped);
        let takes_risk = mind.random.one_in(3);
        let wish = &mut mind.wishes[*at];
        if wish.id.is_some() || wish.done.is_some() {
            return;
        }
        // Under its key, or by a plain host on a pipe, the call can be repeated: it joins the first (R4.6, design 3).
        if wish.key.is_some() || wish.is_free() || (is_piped && front == Front::Plain) {
            return;
        }
        if front == Front::Plain {
            // Where nothing was done, no result can have been on its way: the same call is sent in the place of the first, or
            // joins it (design 3).
            if self.life.world.server.entry(&wish.name).results.is_empty() {
                self.life.world.tally.count("a call made again that must join");
            } else {
                wish.licence += 1;
            }
        } else if takes_risk {
            wish.licence += 1;
        } else {
            wish.done = Some(Done::GivenUp);
        }
    }

    /// The wish of a task, and how it came out.
    pub(crate) fn is_done(&self, id: &str, done: Done) {
        let mut mind = self.mind.lock();
        let Some(at) = mind.wishes.iter().position(|wish| wish.id.as_deref() == Some(id)) else { return };
        if let Done::Returned(_) = done {
            self.has.lock().insert(at);
        }
        mind.wishes[at].done.get_or_insert(done);
    }

    /// A task's id reaches its client.
    pub(crate) fn given(&self, at: usize, since: &Stamp, dialect: &'static str, task: &Value) {
        let Some(id) = task["taskId"].as_str() else {
            self.broke(format!("no id in {task}"));
            return;
        };
        let wish: Wish = self.mind.lock().wishes[at].clone();
        {
            let mut book = self.life.world.book.lock();
            let given = book.given(id, &self.principal, &wish.name, wish.key.as_deref());
            let saw = given.and_then(|()| book.saw(dialect, task, since));
            self.check(saw);
        }
        let mut mind = self.mind.lock();
        mind.wishes[at].id = Some(id.to_owned());
    }

    pub(crate) fn called(self: &Arc<Self>, at: usize, since: &Stamp, answer: &Answer<'_>) {
        if let Some(error) = answer.error {
            self.refused(at, error);
            return;
        }
        let Some(result) = answer.result else { return };
        match (self.front, result["resultType"].as_str()) {
            (Front::B, Some("task")) => {
                self.count("a task of dialect B");
                self.given(at, since, "B", result);
            }
            (Front::B, Some("input_required")) => self.round(at, result),
            (Front::A, _) => {
                self.count("a task of dialect A");
                if !result["task"].is_object() {
                    self.broke(format!("A-034: no task in {result}"));
                }
                self.given(at, since, "A", &result["task"]);
            }
            (Front::B | Front::Plain, _) => {
                let handle = &result["structuredContent"]["taskgate"];
                if handle["taskId"].is_string() {
                    self.count("a handle");
                    self.given(at, since, "S", handle);
                } else {
                    self.returned(at, answer.bytes, result);
                }
            }
        }
    }

    /// The result itself.
    pub(crate) fn returned(&self, at: usize, bytes: &str, result: &Value) {
        let name = self.mind.lock().wishes[at].name.clone();
        let mark = marked(bytes, 'r');
        if mark.is_none() || !bytes.contains(&format!("done {name} ")) {
            self.broke(format!("no result of {name}: {bytes}"));
        }
        self.count("a result at once");
        if let Some(id) = result["_meta"]["taskgate/joined"].as_str() {
            self.count("a call that joined a finished one");
            let mut book = self.life.world.book.lock();
            let key = self.mind.lock().wishes[at].key.clone();
            let given = book.given(id, &self.principal, &name, key.as_deref());
            self.check(given);
        }
        let mut mind = self.mind.lock();
        // Where a person gave its key free, the call was made again.
        if let (Some(Done::Returned(first)), true) = (&mind.wishes[at].done, mind.wishes[at].key.is_some())
            && *first != mark
            && !self.life.world.is_undone(&name)
        {
            self.broke(format!("INV-16: {name} returned {first:?} and {mark:?}"));
        }
        mind.wishes[at].done = Some(Done::Returned(mark));
        self.has.lock().insert(at);
    }

    /// Design 3: what its caller has read is given to no further call, unless the disk could not note that.
    pub(crate) fn called_anew(&self, at: usize, since: &Stamp, answer: &Answer<'_>) {
        let Some(result) = answer.result else { return };
        let handle = &result["structuredContent"]["taskgate"];
        let wish = self.mind.lock().wishes[at].clone();
        if handle["taskId"].is_string() {
            let id = handle["taskId"].as_str().unwrap_or_default();
            let mut book = self.life.world.book.lock();
            let given = book.given(id, &self.principal, &wish.name, None);
            let saw = given.and_then(|()| book.saw("S", handle, since));
            drop(book);
            self.check(saw);
            return;
        }
        if let Some(id) = result["_meta"]["taskgate/joined"].as_str()
            && self.has.lock().contains(&at)
            && !self.life.world.history.could_not_note(id)
        {
            self.broke(format!("design 3: {} was read, and the same call is given {id} again", wish.name));
        }
    }

    pub(crate) fn refused(&self, at: usize, error: &Value) {
        let words = error["message"].as_str().unwrap_or_default();
        let (outcome, reason) = (error["data"]["outcome"].as_str(), error["data"]["reason"].as_str());
        let mut mind = self.mind.lock();
        let wish = &mut mind.wishes[at];
        if reason == Some("key_reused") {
            self.broke(format!("INV-16: {} is refused: {error}", wish.name));
        }
        if words.contains("requestState") {
            wish.round = None;
            return;
        }
        let done = match outcome {
            Some("not_applied") => Done::NotApplied,
            _ if words.contains("cancelled") => Done::Cancelled,
            Some(_) | None => Done::Failed,
        };
        wish.done.get_or_insert(done);
    }

    /// B-124: questions before there is a task; the same call comes again with the answers.
    pub(crate) fn round(&self, at: usize, result: &Value) {
        self.count("a round of questions");
        let state = result["requestState"].as_str().unwrap_or_default().to_owned();
        let mut answers = serde_json::Map::new();
        for (key, request) in result["inputRequests"].as_object().into_iter().flatten() {
            if request["method"] != "elicitation/create" {
                self.broke(format!("B-124: {request}"));
            }
            let token = self.life.world.token();
            let answer = serde_json::json!({"action": "accept", "content": {"token": token}});
            answers.insert(key.clone(), answer);
        }
        let answers = Value::Object(answers).to_string();
        self.mind.lock().wishes[at].round = Some((state, answers));
    }

    pub(crate) fn misused(&self, at: usize, answer: &Answer<'_>) {
        let reason = answer.error.and_then(|error| error["data"]["reason"].as_str());
        if reason != Some("key_reused") {
            let name = self.mind.lock().wishes[at].name.clone();
            self.broke(format!("INV-16: another call under the key of {name}: {}", answer.bytes));
        }
        self.count("another call under a key refused");
    }

    /// INV-30: a call that comes again long after is not made again; the ledger still knows it.
    pub(crate) fn came_late(&self, at: usize, since: &Stamp, answer: &Answer<'_>) {
        let words = answer.error.and_then(|error| error["message"].as_str()).unwrap_or_default();
        if words.starts_with("This call was made before") {
            self.count("a late duplicate refused");
        } else if answer.bytes.contains("taskgate/joined")
            || ["not sent", "not made again"].iter().any(|said| words.contains(said))
        {
            self.count("a late duplicate that joined");
        } else {
            // The judge sees to it that the first did nothing.
            self.count("a key that was free again");
            let Some(result) = answer.result else { return };
            let (dialect, task) = match self.front {
                Front::A => ("A", &result["task"]),
                Front::B => ("B", result),
                Front::Plain => ("S", &result["structuredContent"]["taskgate"]),
            };
            if task["taskId"].is_string() {
                self.given(at, since, dialect, task);
            }
        }
    }
}

pub(crate) fn failed(error: &Value) -> Done {
    if error["data"]["outcome"] == "not_applied" { Done::NotApplied } else { Done::Failed }
}
