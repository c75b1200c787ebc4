//! What clients have read of each task, over all lives and fronts, and the promises that follow from it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use taskgate_wire::time;

use crate::server::marked;

/// What was known of a task when a request about it was sent: whatever answers it must know as much.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamp {
    is_over: bool,
    updated: String,
}

/// One task, as its clients know it.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) principal: String,
    pub(crate) wish: String,
    /// Readable until then, in milliseconds.
    promised: i64,
    stamp: Stamp,
    /// By dialect: the status of the end.
    ended: BTreeMap<&'static str, String>,
    /// By where it was read: the bytes of the result or error.
    bytes: BTreeMap<&'static str, String>,
    /// The server's mark in the result.
    mark: Option<String>,
    /// What each question key stands for.
    questions: BTreeMap<String, String>,
    /// Keys whose answer was acknowledged.
    pub(crate) answered: BTreeSet<String>,
    /// Its cancellation was promised.
    pub(crate) is_cancelled: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) tasks: BTreeMap<String, Known>,
    /// Which tasks a key stood for, by principal and key: a further one only where the one before is known to have done nothing.
    pub(crate) keys: BTreeMap<(String, String), Vec<String>>,
    /// Answers that must not reach the server.
    pub(crate) forbidden: BTreeSet<String>,
}

type Checked = Result<(), String>;

impl Book {
    /// A client reads an id for the first time, or again.
    pub(crate) fn given(&mut self, id: &str, principal: &str, wish: &str, key: Option<&str>) -> Checked {
        let known = self.tasks.entry(id.to_owned()).or_default();
        if known.wish.is_empty() {
            known.principal = principal.to_owned();
            known.wish = wish.to_owned();
        }
        if known.principal != principal || known.wish != wish {
            return Err(format!(
                "INV-25: {id} of {}, {} was given for {principal}, {wish}",
                known.principal, known.wish
            ));
        }
        let Some(key) = key else { return Ok(()) };
        let held = self.keys.entry((principal.to_owned(), key.to_owned())).or_default();
        if held.last().is_none_or(|last| last != id) {
            held.push(id.to_owned());
        }
        Ok(())
    }

    pub(crate) fn stamp(&self, id: &str) -> Stamp {
        self.tasks.get(id).map(|known| known.stamp.clone()).unwrap_or_default()
    }

    /// Status fields of a task, as a dialect writes them: `taskId`, `status`, `createdAt`, `lastUpdatedAt`, and its lifetime.
    pub(crate) fn saw(&mut self, dialect: &'static str, task: &Value, since: &Stamp) -> Checked {
        let field = |name: &str| task[name].as_str().unwrap_or_default().to_owned();
        let (id, status, updated) = (field("taskId"), field("status"), field("lastUpdatedAt"));
        let known = self.tasks.get_mut(&id).ok_or_else(|| format!("INV-25: {id} was never given"))?;
        let created = time::parse(&field("createdAt")).ok_or_else(|| format!("no createdAt in {task}"))?;
        let ttl = task["ttl"].as_i64().or_else(|| task["ttlMs"].as_i64());
        let ttl = ttl.ok_or_else(|| format!("no lifetime in {task}"))?;
        let is_over = match status.as_str() {
            "working" | "input_required" => false,
            "completed" | "failed" | "cancelled" => true,
            _ => return Err(format!("no status in {task}")),
        };
        if since.is_over && !is_over {
            return Err(format!("INV-03: {id} was over and is {status}"));
        }
        if updated < since.updated {
            return Err(format!("INV-05: {id} was updated {} and then {updated}", since.updated));
        }
        if created.0 + ttl < known.promised {
            return Err(format!(
                "INV-01: {id} was to live until {} and now only until {}",
                known.promised,
                created.0 + ttl
            ));
        }
        known.promised = created.0 + ttl;
        if updated > known.stamp.updated {
            known.stamp.updated = updated;
        }
        known.stamp.is_over |= is_over;
        if known.is_cancelled && is_over && status != "cancelled" {
            return Err(format!("INV-17: {id} was cancelled and is {status}"));
        }
        if is_over {
            let first = known.ended.entry(dialect).or_insert_with(|| status.clone());
            if *first != status {
                return Err(format!("INV-03: {id} ended as {first} and is {status} in {dialect}"));
            }
            let cancelled = known.ended.values().filter(|status| *status == "cancelled").count();
            if cancelled != 0 && cancelled != known.ended.len() {
                return Err(format!("INV-06: {id} has {:?}", known.ended));
            }
        }
        self.questions(&id, task)
    }

    /// The questions in it: what a key stands for never changes.
    fn questions(&mut self, id: &str, task: &Value) -> Checked {
        let named = task["inputRequests"].as_object().into_iter().flatten();
        let mut asked: Vec<(String, String)> =
            named.map(|(key, request)| (key.clone(), request.to_string())).collect();
        for question in task["questions"].as_array().into_iter().flatten() {
            asked.push((question["key"].as_str().unwrap_or_default().to_owned(), question.to_string()));
        }
        for (key, text) in asked {
            self.question(id, &key, &text)?;
        }
        Ok(())
    }

    pub(crate) fn question(&mut self, id: &str, key: &str, text: &str) -> Checked {
        let Some(known) = self.tasks.get_mut(id) else { return Ok(()) };
        let name = marked(text, 'q').ok_or_else(|| format!("no question in {text}"))?;
        let first = known.questions.entry(key.to_owned()).or_insert_with(|| name.clone());
        if *first == name { Ok(()) } else { Err(format!("INV-20: {id} {key} stands for {first} and {name}")) }
    }

    /// The final result or error of a task, as the bytes read in one place.
    pub(crate) fn ended(&mut self, id: &str, place: &'static str, bytes: &str) -> Checked {
        let Some(known) = self.tasks.get_mut(id) else { return Err(format!("INV-25: {id} was never given")) };
        known.stamp.is_over = true;
        let first = known.bytes.entry(place).or_insert_with(|| bytes.to_owned());
        if first != bytes {
            return Err(format!("INV-03: {id} by {place} was {first} and is {bytes}"));
        }
        if known.is_cancelled && marked(bytes, 'r').is_some() {
            return Err(format!("INV-17: {id} was cancelled and shows {bytes}"));
        }
        let Some(mark) = marked(bytes, 'r') else { return Ok(()) };
        if !bytes.contains(" \\u00e9\"") {
            return Err(format!("G-005: {id} by {place} has other bytes than its server wrote: {bytes}"));
        }
        let first = known.mark.get_or_insert_with(|| mark.clone());
        if *first == mark {
            Ok(())
        } else {
            Err(format!("INV-03: {id} showed {first}, and {mark} by {place}"))
        }
    }

    /// A client is told that a task is not there.
    pub(crate) fn unknown(&mut self, id: &str, principal: &str, now: i64) -> Checked {
        match self.tasks.get(id) {
            Some(known) if known.principal == principal && now < known.promised => Err(format!(
                "INV-01, INV-48: {id} is not there, and was to live until {} and it is {now}",
                known.promised
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// A client is shown a task: is it one of its own, and still to be there?
    pub(crate) fn may_see(&self, id: &str, principal: &str) -> Checked {
        match self.tasks.get(id) {
            Some(known) if known.principal != principal => Err(format!("INV-25: {principal} saw {id}")),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether nothing was promised any more, or is now.
    pub(crate) fn has_expired(&self, id: &str, now: i64) -> bool {
        self.tasks.get(id).is_none_or(|known| known.promised <= now)
    }

    /// The questions of a task that were read, by key.
    pub(crate) fn asked(&self, id: &str) -> Vec<String> {
        self.tasks.get(id).map(|known| known.questions.keys().cloned().collect()).unwrap_or_default()
    }
}
