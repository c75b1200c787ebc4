//! What a client hears besides answers, and how it answers what it is asked.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use taskgate_wire::json as raw;

use crate::client::Client;
use crate::mind::Front;
use crate::server::marked;
use crate::world::Part;

impl Client {
    /// A request or notification. Each dialect has its own, and no others are sent (B-123, A-075).
    pub(crate) fn heard(self: &Arc<Self>, message: &Bytes, value: &Value) {
        let method = value["method"].as_str().unwrap_or_default();
        if value["jsonrpc"] != "2.0" {
            self.broke(format!("A-001: {value}"));
        }
        let is_request = value.get("id").is_some();
        let is_its_own = match (self.front, method) {
            (_, "notifications/progress") => !is_request && self.is_its_token(value),
            (Front::A | Front::Plain, "elicitation/create") => is_request && self.can_ask,
            (Front::A | Front::Plain, "notifications/cancelled") => !is_request,
            (Front::A, "notifications/tasks/status") => !is_request,
            (Front::B, "notifications/subscriptions/acknowledged" | "notifications/tasks") => !is_request,
            //
            (Front::B, "notifications/cancelled") => !is_request && self.is_piped,
            (Front::A | Front::B | Front::Plain, _) => false,
        };
        if !is_its_own {
            self.broke(format!("its dialect has no such message: {value}"));
        }
        let related = &value["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
        if let Some(id) = related.as_str() {
            if self.front != Front::A {
                self.broke(format!("A-071: it knows no tasks: {value}"));
            }
            let seen = self.life.world.book.lock().may_see(id, &self.principal);
            self.check(seen);
        }
        match method {
            "notifications/progress" => self.count("progress"),
            "elicitation/create" => self.asks(value),
            "notifications/tasks/status" => {
                self.count("a status told");
                let params = &value["params"];
                let id = params["taskId"].as_str().unwrap_or_default();
                let has_lost = self.mind.lock().has_lost;
                let mut book = self.life.world.book.lock();
                if !book.tasks.contains_key(id) {
                    if has_lost {
                        return;
                    }
                    self.broke(format!("A-036: its id was not given yet: {value}"));
                }
                // News and answers come by different ways, so it may be older than what is known.
                let saw = book.saw("A", params, &crate::book::Stamp::default());
                self.check(saw);
            }
            "notifications/tasks" => self.pushed(message, value),
            _ => {}
        }
    }

    pub(crate) fn is_its_token(&self, value: &Value) -> bool {
        let token = value["params"]["progressToken"].as_str().unwrap_or_default();
        if self.over.lock().contains(token) {
            self.broke(format!("A-080: its call is answered: {value}"));
        }
        self.mind.lock().tokens.contains(token)
    }

    /// A task on a subscription: each news is newer than the one before (INV-05).
    pub(crate) fn pushed(self: &Arc<Self>, message: &Bytes, value: &Value) {
        self.count("a task pushed");
        let params = &value["params"];
        let subscription = params["_meta"]["io.modelcontextprotocol/subscriptionId"].to_string();
        let id = params["taskId"].as_str().unwrap_or_default();
        let since = self.pushed.lock().get(&subscription).cloned().unwrap_or_default();
        let mut book = self.life.world.book.lock();
        let seen = book.may_see(id, &self.principal).and_then(|()| book.saw("B", params, &since));
        let text = std::str::from_utf8(message).unwrap_or_default();
        let ended = raw::at(text, &["params", "result"]).or_else(|| raw::at(text, &["params", "error"]));
        let checked = seen.and_then(|()| ended.map_or(Ok(()), |bytes| book.ended(id, "B", bytes)));
        let stamp = book.stamp(id);
        drop(book);
        self.check(checked);
        self.pushed.lock().insert(subscription, stamp);
    }

    /// It is asked on a connection. People take their time, answer twice, or not at all.
    pub(crate) fn asks(self: &Arc<Self>, value: &Value) {
        let id = value["id"].clone();
        if !self.asked.lock().insert(id.to_string()) {
            self.broke(format!("X-023: two questions have the id {id}"));
        }
        let name = marked(&value.to_string(), 'q');
        if name.is_none() {
            self.broke(format!("a question without its text: {value}"));
        }
        self.count("asked on a connection");
        let client = self.clone();
        tokio::spawn(async move { client.answers(id).await });
    }

    pub(crate) async fn answers(self: Arc<Self>, id: Value) {
        tokio::time::sleep(Duration::from_millis(self.below(3_000) as u64)).await;
        let token = self.life.world.token();
        let accept = |token: &str| json!({"action": "accept", "content": {"token": token}});
        let result = |id: &Value, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
        match self.below(12) {
            0 if self.life.part == Part::Broken => self.count("a question that nobody answered"),
            1 => {
                self.say(result(&id, json!({"action": "decline"}))).await;
            }
            2 => {
                let error = json!({"code": -1, "message": "User rejected"});
                self.say(json!({"jsonrpc": "2.0", "id": id, "error": error})).await;
            }
            3 => {
                self.count("answered twice");
                let was_taken =
                    self.say(result(&id, accept(&token))).await.is_none_or(|status| status == 202);
                let second = self.life.world.token();
                if was_taken {
                    self.life.world.book.lock().forbidden.insert(second.clone());
                }
                self.say(result(&id, accept(&second))).await;
            }
            4 => {
                self.count("answered what was not asked");
                let wrong = self.life.world.token();
                self.life.world.book.lock().forbidden.insert(wrong.clone());
                self.say(result(&json!("tg-00000000-77"), accept(&wrong))).await;
                self.say(result(&id, accept(&token))).await;
            }
            _ => {
                self.say(result(&id, accept(&token))).await;
            }
        }
    }
}
