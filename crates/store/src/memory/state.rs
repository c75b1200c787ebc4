//! What is kept, and what each command does to it.

use std::collections::{BTreeMap, BTreeSet};

use taskgate_core::id::{OperationId, Principal, ServerName, TaskId};
use taskgate_core::task::QuestionKey;
use taskgate_core::time::UnixMillis;

use crate::codec::event::EventRow;
use crate::law::{self, Breach};
use crate::record::{Change, Frame, Phase, Record, Session};
use crate::{AppendError, CreateError, Created, Join, Unfetched, Whose};

#[derive(Debug, Default)]
pub(super) struct State {
    /// By id first: recovery walks them in that order.
    tasks: BTreeMap<(TaskId, Principal), Row>,
    events: BTreeMap<(Principal, TaskId), Vec<EventRow>>,
    operations: BTreeSet<(Principal, OperationId)>,
    keys: BTreeMap<KeyScope, Keyed>,
    frames: BTreeMap<(Principal, Frame), TaskId>,
    sessions: BTreeMap<String, Session>,
}

#[derive(Debug)]
struct Row {
    record: Record,
    closed: BTreeSet<QuestionKey>,
}

/// The scope of an idempotency key (R4.6).
type KeyScope = (Principal, ServerName, String, String);

#[derive(Debug)]
struct Keyed {
    digest: [u8; 32],
    task: TaskId,
}

impl State {
    pub(super) fn create(&mut self, record: &Record, join: Join) -> Result<Created, CreateError> {
        let doing = "create a record";
        if record.version != 1 {
            return Err(Breach::NotTheFirst.refused(doing).into());
        }
        let call = &record.call;
        let frame = call.frame.map(|frame| (record.principal.clone(), frame));
        if let Some(task) = frame.as_ref().and_then(|frame| self.frames.get(frame)) {
            return Ok(Created::Joined(self.load(&record.principal, task).map(Box::new)));
        }
        let scope = call
            .key
            .clone()
            .map(|key| (record.principal.clone(), call.server.clone(), call.tool.clone(), key));
        if let Some(keyed) = scope.as_ref().and_then(|scope| self.keys.get(scope)) {
            if keyed.digest != call.digest {
                return Err(CreateError::KeyReused);
            }
            return Ok(Created::Joined(self.load(&record.principal, &keyed.task).map(Box::new)));
        }
        if scope.is_none()
            && join == Join::SameCall
            && let Some(first) = self.same_call(record)
        {
            return Ok(Created::Joined(Some(Box::new(first.clone()))));
        }
        let operation = (record.principal.clone(), record.operation_id.clone());
        let events = (record.principal.clone(), record.id.clone());
        if self.events.contains_key(&events) || self.operations.contains(&operation) {
            return Err(Breach::IdUsed.refused(doing).into());
        }
        self.operations.insert(operation);
        self.events.insert(events, vec![EventRow::creation(record)]);
        if let Some(scope) = scope {
            self.keys.insert(scope, Keyed { digest: call.digest, task: record.id.clone() });
        }
        if let Some(frame) = frame {
            self.frames.insert(frame, record.id.clone());
        }
        let row = Row { record: Record { fetched: None, ..record.clone() }, closed: BTreeSet::new() };
        self.tasks.insert((record.id.clone(), record.principal.clone()), row);
        Ok(Created::New)
    }

    fn same_call(&self, new: &Record) -> Option<&Record> {
        self.tasks
            .values()
            .map(|row| &row.record)
            .filter(|old| old.principal == new.principal && old.call.key.is_none())
            .filter(|old| old.call.server == new.call.server && old.call.tool == new.call.tool)
            .filter(|old| old.call.digest == new.call.digest)
            .filter(|old| old.takes_same_call())
            .min_by_key(|old| (old.task.lifetime.created, &old.id))
    }

    pub(super) fn append(&mut self, record: &Record, changes: &[Change]) -> Result<(), AppendError> {
        let expected = record.version.saturating_sub(1);
        let row = self.tasks.get_mut(&(record.id.clone(), record.principal.clone()));
        let found = row.as_ref().map(|row| row.record.version);
        let Some(row) = row.filter(|row| record.version > 1 && row.record.version == expected) else {
            return Err(AppendError::Conflict { expected, found });
        };
        let old = &row.record;
        let mut new = record.clone();
        new.front = old.front;
        new.call = old.call.clone();
        new.operation_id = old.operation_id.clone();
        new.task.lifetime = old.task.lifetime;
        new.operation.effect = old.operation.effect;
        new.operation.replay = old.operation.replay;
        new.fetched = old.fetched;
        law::check(old, &new, changes, &row.closed).map_err(|breach| breach.refused("append to a record"))?;
        let still_open: BTreeSet<_> = law::open_keys(&new.task).collect();
        let closing: Vec<_> =
            law::open_keys(&old.task).filter(|key| !still_open.contains(key)).cloned().collect();
        row.closed.extend(closing);
        row.record = new;
        let events = self.events.entry((record.principal.clone(), record.id.clone())).or_default();
        events.push(EventRow::of(changes));
        Ok(())
    }

    pub(super) fn load(&self, principal: &Principal, id: &TaskId) -> Option<Record> {
        self.tasks.get(&(id.clone(), principal.clone())).map(|row| row.record.clone())
    }

    pub(super) fn fetched(&mut self, principal: &Principal, id: &TaskId, at: UnixMillis) {
        if let Some(row) = self.tasks.get_mut(&(id.clone(), principal.clone()))
            && row.record.task.ending().is_some()
        {
            row.record.fetched.get_or_insert(at);
        }
    }

    pub(super) fn unfetched(&self, principal: &Principal, now: UnixMillis) -> Unfetched {
        let mut count = Unfetched::default();
        for record in
            self.tasks.values().map(|row| &row.record).filter(|record| record.principal == *principal)
        {
            match record.task.expires() {
                None => count.running += 1,
                Some(expires) if expires > now && record.is_unfetched() => count.ended += 1,
                Some(_) => {}
            }
        }
        count
    }

    pub(super) fn list(
        &self,
        whose: Whose<'_>,
        after: Option<(UnixMillis, TaskId)>,
        limit: usize,
    ) -> Vec<Record> {
        let mut found: BTreeMap<(UnixMillis, &TaskId), &Record> = BTreeMap::new();
        for record in self.tasks.values().map(|row| &row.record) {
            let place = (record.task.lifetime.created, &record.id);
            let is_behind = after.as_ref().is_none_or(|(created, id)| place < (*created, id));
            let is_theirs = match whose {
                Whose::Server(principal, server) => {
                    record.principal == *principal && record.call.server == *server
                }
                Whose::Principal(principal) => record.principal == *principal,
                Whose::Everyone => true,
            };
            if is_theirs && is_behind {
                found.insert(place, record);
            }
        }
        found.into_values().rev().take(limit).cloned().collect()
    }

    pub(super) fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Vec<Record> {
        self.tasks
            .values()
            .map(|row| &row.record)
            .filter(|record| after.as_ref().is_none_or(|after| record.id > *after))
            .filter(|record| record.phase() == Phase::Unfinished)
            .take(limit)
            .cloned()
            .collect()
    }

    pub(super) fn purge(&mut self, now: UnixMillis, limit: usize) -> usize {
        let mut expired: Vec<_> = self
            .tasks
            .iter()
            .filter(|(_, row)| row.record.phase() != Phase::Unfinished)
            .filter_map(|(key, row)| Some((row.record.task.expires()?, key.clone())))
            .filter(|(expires, _)| *expires < now)
            .collect();
        expired.sort();
        expired.truncate(limit);
        for (_, key) in &expired {
            self.tasks.remove(key);
        }
        expired.len()
    }

    pub(super) fn put_session(&mut self, session: Session) {
        self.sessions.insert(session.key.clone(), session);
    }

    pub(super) fn session(&self, key: &str) -> Option<Session> {
        self.sessions.get(key).cloned()
    }

    pub(super) fn end_session(&mut self, key: &str) -> bool {
        self.sessions.remove(key).is_some()
    }

    pub(super) fn expire_sessions(&mut self, before: UnixMillis, keep: usize) -> Vec<String> {
        let mut oldest: Vec<_> =
            self.sessions.values().map(|session| (session.seen, session.key.clone())).collect();
        oldest.sort();
        let stale = oldest.iter().filter(|(seen, _)| *seen < before).count();
        let gone = stale.max(oldest.len().saturating_sub(keep));
        let gone: Vec<_> = oldest.into_iter().take(gone).map(|(_, key)| key).collect();
        for key in &gone {
            self.sessions.remove(key);
        }
        gone
    }

    pub(super) fn events(&self, principal: &Principal, id: &TaskId) -> Vec<EventRow> {
        self.events.get(&(principal.clone(), id.clone())).cloned().unwrap_or_default()
    }
}
