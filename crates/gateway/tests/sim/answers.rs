//! What a client makes of answers about tasks that it follows, and what it may expect of them.

use taskgate_wire::json as raw;

use crate::book::Stamp;
use crate::client::Client;
use crate::mind::{Done, Front};
use crate::server::marked;
use crate::understand::{Answer, failed, is_unknown};
use crate::world::Part;

impl Client {
    /// Whether the answer is that the task is not there.
    pub(crate) fn is_missing(&self, id: &str, answer: &Answer<'_>) -> bool {
        let words =
            answer.result.and_then(|result| result["content"][0]["text"].as_str()).unwrap_or_default();
        let is_missing = answer.error.is_some_and(is_unknown) || words.starts_with("There is no such task");
        if is_missing {
            if self.life.part == Part::After {
                self.count("an expired id");
            }
            let unknown = self.life.world.book.lock().unknown(id, &self.principal, self.life.now());
            self.check(unknown);
            self.is_done(id, Done::Failed);
        }
        is_missing
    }

    /// `tasks/get` of either dialect.
    pub(crate) fn got(&self, id: &str, since: &Stamp, answer: &Answer<'_>) {
        if self.is_missing(id, answer) {
            return;
        }
        let Some(task) = answer.result else {
            self.broke(format!("tasks/get: {}", answer.bytes));
            return;
        };
        let dialect = if self.front == Front::B { "B" } else { "A" };
        let mut book = self.life.world.book.lock();
        let mut checked = book.saw(dialect, task, since);
        let status = task["status"].as_str().unwrap_or_default();
        if dialect == "B" {
            let ended = raw::at(answer.bytes, &["result"]).or_else(|| raw::at(answer.bytes, &["error"]));
            match (status, ended) {
                ("completed" | "failed", Some(bytes)) => {
                    checked = checked.and_then(|()| book.ended(id, "B", bytes));
                }
                ("completed" | "failed", None) => self.broke(format!("INV-06: {task}")),
                _ => {}
            }
        }
        drop(book);
        self.check(checked);
        match (dialect, status) {
            ("B", "completed") => self.is_done(id, Done::Returned(marked(answer.bytes, 'r'))),
            ("B", "failed") => self.is_done(id, failed(&task["error"])),
            (_, "cancelled") => self.is_done(id, Done::Cancelled),
            _ => {}
        }
    }

    /// The result of a task, by `tasks/result` or `taskgate_task`.
    pub(crate) fn resulted(&self, id: &str, since: &Stamp, answer: &Answer<'_>) {
        if self.is_missing(id, answer) {
            return;
        }
        if self.front == Front::A {
            let ended = self.life.world.book.lock().ended(id, "A", answer.bytes);
            self.check(ended);
            self.count("a held result");
            let done = match (answer.error, answer.result) {
                (Some(error), _) if error["message"].as_str().unwrap_or_default().contains("cancel") => {
                    Done::Cancelled
                }
                (Some(error), _) => failed(error),
                (None, _) => Done::Returned(marked(answer.bytes, 'r')),
            };
            self.is_done(id, done);
            return;
        }
        let Some(result) = answer.result else {
            self.broke(format!("taskgate_task: {}", answer.bytes));
            return;
        };
        let handle = &result["structuredContent"]["taskgate"];
        if handle["taskId"].is_string() {
            let saw = self.life.world.book.lock().saw("S", handle, since);
            self.check(saw);
        }
        match handle["status"].as_str() {
            None => {
                let ended = self.life.world.book.lock().ended(id, "T", answer.bytes);
                self.check(ended);
                self.is_done(id, Done::Returned(marked(answer.bytes, 'r')));
            }
            Some("cancelled") => self.is_done(id, Done::Cancelled),
            Some("failed") => {
                let words = result["content"][0]["text"].as_str().unwrap_or_default();
                let ended = self.life.world.book.lock().ended(id, "W", words);
                self.check(ended);
                self.is_done(id, Done::Failed);
            }
            Some("working" | "input_required") => self.count("a wait that ended before its task"),
            Some(_) => self.broke(format!("taskgate_task: {result}")),
        }
    }

    pub(crate) fn cancelled(&self, id: &str, since: &Stamp, answer: &Answer<'_>) {
        if self.is_missing(id, answer) {
            return;
        }
        match self.front {
            Front::A => match (answer.result, answer.error) {
                (Some(task), _) => {
                    self.count("a cancellation promised");
                    if task["status"] != "cancelled" {
                        self.broke(format!("INV-17: {task}"));
                    }
                    let mut book = self.life.world.book.lock();
                    if let Some(known) = book.tasks.get_mut(id) {
                        known.is_cancelled = true;
                    }
                    let saw = book.saw("A", task, since);
                    drop(book);
                    self.check(saw);
                }
                (None, Some(error)) if error["code"] == -32602 => {}
                (None, _) => self.broke(format!("tasks/cancel: {}", answer.bytes)),
            },
            Front::B => {
                self.count("a cancellation wished");
                if answer.bytes != "{\"resultType\":\"complete\"}" {
                    self.broke(format!("B-100: {}", answer.bytes));
                }
            }
            Front::Plain => self.count("a cancellation wished by the tool"),
        }
    }

    pub(crate) fn answered(&self, id: &str, key: &str, answer: &Answer<'_>) {
        if self.is_missing(id, answer) {
            return;
        }
        let was_taken = match self.front {
            Front::B => answer.bytes == "{\"resultType\":\"complete\"}",
            Front::A | Front::Plain => answer.result.is_some_and(|result| result["isError"] != true),
        };
        // One whose acknowledgement was lost.
        let is_closed = answer.bytes.contains("No such question is open");
        if was_taken {
            self.count("an answer acknowledged");
        }
        if (was_taken || is_closed)
            && let Some(known) = self.life.world.book.lock().tasks.get_mut(id)
        {
            known.answered.insert(key.to_owned());
        }
    }

    pub(crate) fn listened(&self, answer: &Answer<'_>) {
        self.count("a subscription that ended");
        if answer.result.is_none_or(|result| result["resultType"] != "complete") {
            self.broke(format!("B-135: {}", answer.bytes));
        }
    }

    pub(crate) fn listed(&self, answer: &Answer<'_>) {
        let Some(result) = answer.result else {
            self.broke(format!("tasks/list: {}", answer.bytes));
            return;
        };
        self.count("a list");
        let tasks = match self.front {
            Front::A => &result["tasks"],
            Front::B | Front::Plain => &result["structuredContent"]["taskgate"]["tasks"],
        };
        let mine: Vec<&str> =
            tasks.as_array().into_iter().flatten().filter_map(|task| task["taskId"].as_str()).collect();
        let book = self.life.world.book.lock();
        for id in &mine {
            self.check(book.may_see(id, &self.principal));
        }
        let now = self.life.now();
        for wish in &self.mind.lock().wishes {
            if let Some(id) = wish.id.as_deref()
                && !mine.contains(&id)
                && !book.has_expired(id, now)
            {
                self.broke(format!("INV-01: {id} is not in the list"));
            }
        }
    }

    /// INV-25: what is somebody else's is not there, in the same bytes as what never was.
    pub(crate) fn spied(&self, id: &str, answer: &Answer<'_>) {
        self.count("a foreign id");
        let is_refused =
            answer.error.is_some() || answer.result.is_some_and(|result| result["isError"] == true);
        if !is_refused {
            self.broke(format!("INV-25: {id}: {}", answer.bytes));
        }
        let first = self.spied.lock().get_or_insert_with(|| answer.bytes.to_owned()).clone();
        if first != answer.bytes {
            self.broke(format!("INV-25: {first} or {}", answer.bytes));
        }
    }
}
