//! What is kept, and what each command does to it.

use std::collections::{BTreeMap, BTreeSet};

use taskgate_core::id::{OperationId, Principal, ServerName, TaskId, WorkflowName};
use taskgate_core::operation::{self, Inquiry, Operation, Stage};
use taskgate_core::task::QuestionKey;
use taskgate_core::time::UnixMillis;

use crate::codec::KeyColumns;
use crate::codec::event::EventRow;
use crate::law::{self, Breach};
use crate::ledger::{After, Busy, Happening, Held, LedgerEntry, Which};
use crate::record::{Change, Conflict, Frame, Intent, Phase, Record, Session};
use crate::summary::Summary;
use crate::{AppendError, CreateError, Created, Join, Retired, Retirement, Unfetched, Whose};

#[derive(Debug, Default)]
pub(super) struct State {
    /// By id first: recovery walks them in that order.
    tasks: BTreeMap<(TaskId, Principal), Row>,
    events: BTreeMap<(Principal, TaskId), Vec<(UnixMillis, EventRow)>>,
    operations: BTreeMap<(OperationId, Principal), Ledger>,
    keys: BTreeMap<KeyColumns, Keyed>,
    frames: BTreeMap<(Principal, Frame), TaskId>,
    workflow_tools: BTreeMap<WorkflowName, BTreeSet<(ServerName, String)>>,
    sessions: BTreeMap<String, Session>,
}

#[derive(Debug)]
struct Row {
    record: Record,
    closed: BTreeSet<QuestionKey>,
}

/// An operation.
#[derive(Debug)]
enum Ledger {
    /// Its task is kept, and has it.
    Kept(TaskId),
    /// Its task was purged.
    Alone(Box<LedgerEntry>),
}

#[derive(Debug)]
struct Keyed {
    digest: [u8; 32],
    owner: Principal,
    task: TaskId,
    operation: OperationId,
}

impl State {
    pub(super) fn create(&mut self, record: &Record, join: Join) -> Result<Created, CreateError> {
        let doing = "create a record";
        if record.version != 1 {
            return Err(Breach::NotTheFirst.refused(doing).into());
        }
        if let Some(earlier) = self.earlier(record, join)? {
            return Ok(earlier);
        }
        let call = &record.call;
        let frame = call.frame.map(|frame| (record.principal.clone(), frame));
        let scope = KeyColumns::of_record(record);
        let key_of =
            scope.as_ref().and_then(|scope| self.keys.get(scope)).map(|keyed| keyed.operation.clone());
        if let Some(busy) = self.beside(record) {
            return Err(CreateError::ObjectBusy(busy));
        }
        let operation = (record.operation_id.clone(), record.principal.clone());
        let events = (record.principal.clone(), record.id.clone());
        if self.events.contains_key(&events) || self.operations.contains_key(&operation) {
            return Err(Breach::IdUsed.refused(doing).into());
        }
        self.operations.insert(operation, Ledger::Kept(record.id.clone()));
        self.events.insert(events, vec![(record.updated, EventRow::creation(record, key_of.as_ref()))]);
        if let Some(scope) = scope {
            let owner = record.principal.clone();
            let (task, operation) = (record.id.clone(), record.operation_id.clone());
            self.keys.insert(scope, Keyed { digest: call.digest, owner, task, operation });
        }
        if let Some(frame) = frame {
            self.frames.insert(frame, record.id.clone());
        }
        if let Some(intent) = &call.intent {
            let tools = self.workflow_tools.entry(intent.workflow.clone()).or_default();
            tools.insert((call.server.clone(), call.tool.clone()));
        }
        let row = Row { record: Record { fetched: None, ..record.clone() }, closed: BTreeSet::new() };
        self.tasks.insert((record.id.clone(), record.principal.clone()), row);
        Ok(Created::New)
    }

    /// The call that a new record would not be made for.
    pub(super) fn earlier(&self, record: &Record, join: Join) -> Result<Option<Created>, CreateError> {
        let call = &record.call;
        let frame = call.frame.map(|frame| (record.principal.clone(), frame));
        if let Some(task) = frame.as_ref().and_then(|frame| self.frames.get(frame)) {
            return self.joined(&record.principal, task).map(Some);
        }
        let scope = KeyColumns::of_record(record);
        if let Some(keyed) = scope.as_ref().and_then(|scope| self.keys.get(scope)) {
            let ledger = self.operations.get(&(keyed.operation.clone(), keyed.owner.clone()));
            let holder = ledger.and_then(|ledger| self.entry(&keyed.owner, ledger));
            if holder.is_some_and(|holder| law::gives_key_free(&holder)) {
                return Ok(None);
            }
            if keyed.owner != record.principal {
                return Err(CreateError::KeyElsewhere);
            }
            if keyed.digest != call.digest {
                return Err(CreateError::KeyReused);
            }
            return self.joined(&record.principal, &keyed.task).map(Some);
        }
        let is_same_call = scope.is_none() && join == Join::SameCall;
        let first = is_same_call.then(|| self.same_call(record)).flatten();
        Ok(first.map(|first| Created::Joined(Box::new(first.clone()))))
    }

    fn joined(&self, principal: &Principal, task: &TaskId) -> Result<Created, CreateError> {
        if let Some(record) = self.load(principal, task) {
            return Ok(Created::Joined(Box::new(record)));
        }
        let mut alone = self.entries().filter(|entry| entry.principal == *principal && entry.task == *task);
        alone.next().map(|entry| Created::Known(Box::new(entry))).ok_or_else(|| {
            let row = task.expose();
            crate::codec::Place { table: "operation", row }.corrupt("operation_id").into()
        })
    }

    /// What keeps a new record from being carried out now.
    fn beside(&self, record: &Record) -> Option<Busy> {
        let object = record.call.intent.as_ref()?.object.as_ref()?;
        match (object.conflict, &record.operation.stage) {
            (Conflict::Allow, _) | (Conflict::Queue, Stage::Prepared) => None,
            (
                Conflict::Queue,
                Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Settled(_) | Stage::Unknown(_),
            )
            | (Conflict::Refuse, _) => self.open_beside(record, |_| true),
        }
    }

    pub(super) fn ahead_of(&self, record: &Record) -> Option<Busy> {
        let mine = (record.task.lifetime.created, &record.operation_id, &record.principal);
        self.open_beside(record, |other| {
            other.operation.stage != Stage::Prepared || (other.created, &other.id, &other.principal) < mine
        })
    }

    /// The first made of the open operations on the object of `record` that `counts`.
    fn open_beside(&self, record: &Record, counts: impl Fn(&LedgerEntry) -> bool) -> Option<Busy> {
        let named = |intent: &Intent| {
            intent.object.as_ref().map(|object| (intent.workflow.clone(), object.name.clone()))
        };
        let object = record.call.intent.as_ref().and_then(named)?;
        self.entries()
            .filter(|other| {
                other.operation.is_open() && other.intent.as_ref().and_then(named) == Some(object.clone())
            })
            .filter(|other| (&other.principal, &other.id) != (&record.principal, &record.operation_id))
            .filter(counts)
            .min_by_key(|other| (other.created, other.id.clone(), other.principal.clone()))
            .map(|other| Busy {
                operation: (other.principal == record.principal).then_some(other.id),
                since: other.created,
            })
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
        if law::overturns(&old.operation, &new.operation)
            && let Some(to) = given_to(&self.keys, &LedgerEntry::of(old))
        {
            return Err(AppendError::KeyGiven { to });
        }
        let still_open: BTreeSet<_> = law::open_keys(&new.task).collect();
        let closing: Vec<_> =
            law::open_keys(&old.task).filter(|key| !still_open.contains(key)).cloned().collect();
        row.closed.extend(closing);
        row.record = new;
        let events = self.events.entry((record.principal.clone(), record.id.clone())).or_default();
        events.push((record.updated, EventRow::of(changes)));
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
    ) -> Vec<Summary> {
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
        found.into_values().rev().take(limit).cloned().map(Summary::of).collect()
    }

    pub(super) fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Vec<Summary> {
        self.tasks
            .values()
            .map(|row| &row.record)
            .filter(|record| after.as_ref().is_none_or(|after| record.id > *after))
            .filter(|record| record.phase() == Phase::Unfinished)
            .take(limit)
            .cloned()
            .map(Summary::of)
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
            if let Some(row) = self.tasks.remove(key) {
                let entry = LedgerEntry { kept: None, ..LedgerEntry::of(&row.record) };
                let id = (entry.id.clone(), entry.principal.clone());
                self.operations.insert(id, Ledger::Alone(Box::new(entry)));
            }
        }
        expired.len()
    }

    fn entries(&self) -> impl Iterator<Item = LedgerEntry> {
        self.operations.iter().filter_map(|((_, principal), ledger)| self.entry(principal, ledger))
    }

    fn entry(&self, principal: &Principal, ledger: &Ledger) -> Option<LedgerEntry> {
        match ledger {
            Ledger::Kept(task) => {
                let row = self.tasks.get(&(task.clone(), principal.clone()));
                row.map(|row| LedgerEntry::of(&row.record))
            }
            Ledger::Alone(entry) => Some((**entry).clone()),
        }
    }

    pub(super) fn operation(&self, id: &OperationId) -> Option<LedgerEntry> {
        self.entries().find(|entry| entry.id == *id)
    }

    pub(super) fn operations(&self, which: Which, after: Option<&After>, limit: usize) -> Vec<LedgerEntry> {
        let mut found: Vec<_> = self
            .entries()
            .filter(|entry| which.has(&entry.operation))
            .map(|entry| (entry.after(), entry))
            .filter(|(place, _)| {
                after.is_none_or(|after| {
                    if which.is_by_time() {
                        place > after
                    } else {
                        (&place.id, &place.principal) < (&after.id, &after.principal)
                    }
                })
            })
            .collect();
        if which.is_by_time() {
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
        } else {
            found.sort_by(|(one, _), (other, _)| {
                (&other.id, &other.principal).cmp(&(&one.id, &one.principal))
            });
        }
        found.into_iter().take(limit).map(|(_, entry)| entry).collect()
    }

    pub(super) fn key_given_to(&self, entry: &LedgerEntry) -> Option<OperationId> {
        given_to(&self.keys, entry)
    }

    pub(super) fn history(&self, id: &OperationId) -> Vec<Happening> {
        let Some(entry) = self.operation(id) else { return vec![] };
        let events = self.events.get(&(entry.principal, entry.task)).into_iter().flatten();
        (1..).zip(events).map(|(version, (at, event))| event.clone().happening(version, *at)).collect()
    }

    pub(super) fn held(&self) -> Vec<Held> {
        let counted = |workflow: &WorkflowName| {
            let open = self.entries().filter(|entry| {
                entry.intent.as_ref().is_some_and(|intent| intent.workflow == *workflow)
                    && (entry.operation.is_open() || entry.operation.inquiry != Inquiry::Idle)
            });
            let mut keys: BTreeMap<&str, usize> = BTreeMap::new();
            for key in self.keys.keys().filter(|key| key.server.is_empty() && key.tool == workflow.0) {
                *keys.entry(&key.principal).or_default() += 1;
            }
            (open.count(), keys.values().map(|count| (*count).min(Held::KEYS_MAX)).sum())
        };
        let all = self.workflow_tools.iter().map(|(workflow, tools)| {
            let (open, keys) = counted(workflow);
            Held { workflow: workflow.clone(), tools: tools.clone(), open, keys }
        });
        all.filter(|held| held.open + held.keys > 0).collect()
    }

    pub(super) fn settle(
        &mut self,
        new: &LedgerEntry,
        changes: &[operation::Event],
    ) -> Result<(), AppendError> {
        let expected = new.version.saturating_sub(1);
        let ledger = self.operations.get_mut(&(new.id.clone(), new.principal.clone()));
        let old = match ledger {
            Some(Ledger::Alone(old)) if new.version > 1 && old.version == expected => old,
            Some(Ledger::Alone(old)) => {
                return Err(AppendError::Conflict { expected, found: Some(old.version) });
            }
            Some(Ledger::Kept(_)) | None => return Err(AppendError::Conflict { expected, found: None }),
        };
        law::outcome(&old.operation, &new.operation)
            .map_err(|breach| breach.refused("append to an operation"))?;
        if law::overturns(&old.operation, &new.operation)
            && let Some(to) = given_to(&self.keys, old)
        {
            return Err(AppendError::KeyGiven { to });
        }
        let Operation { effect, replay, .. } = old.operation;
        old.operation = Operation { effect, replay, ..new.operation.clone() };
        old.version = new.version;
        old.updated = new.updated;
        let changes: Vec<_> = changes.iter().cloned().map(Change::Operation).collect();
        let log = (old.principal.clone(), old.task.clone());
        self.events.entry(log).or_default().push((new.updated, EventRow::of(&changes)));
        Ok(())
    }

    pub(super) fn retire(
        &mut self,
        before: UnixMillis,
        below: &OperationId,
        after: Option<&Retired>,
        limit: usize,
    ) -> Retirement {
        let place = |entry: &LedgerEntry| (entry.principal.clone(), entry.id.clone());
        let mut seen: Vec<_> = self
            .entries()
            .filter(|entry| entry.id < *below && after.is_none_or(|after| place(entry) > *after))
            .collect();
        seen.sort_by_key(place);
        let has_more = seen.len() > limit;
        seen.truncate(limit);
        let next =
            seen.last().filter(|_| has_more).map(place).or_else(|| after.filter(|_| has_more).cloned());
        let gone: Vec<_> =
            seen.into_iter().filter(|entry| entry.may_retire() && entry.updated < before).collect();
        for entry in &gone {
            self.operations.remove(&(entry.id.clone(), entry.principal.clone()));
            self.events.remove(&(entry.principal.clone(), entry.task.clone()));
            if let Some(scope) = KeyColumns::of_entry(entry)
                && given_to(&self.keys, entry).is_none()
            {
                self.keys.remove(&scope);
            }
            self.frames.retain(|(principal, _), task| (principal, &*task) != (&entry.principal, &entry.task));
        }
        Retirement { deleted: gone.len(), next }
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
        let log = self.events.get(&(principal.clone(), id.clone()));
        log.into_iter().flatten().map(|(_, event)| event.clone()).collect()
    }
}

/// The operation that the key of `entry` stands for, if that is another.
fn given_to(keys: &BTreeMap<KeyColumns, Keyed>, entry: &LedgerEntry) -> Option<OperationId> {
    let keyed = keys.get(&KeyColumns::of_entry(entry)?)?;
    ((&keyed.operation, &keyed.owner) != (&entry.id, &entry.principal)).then(|| keyed.operation.clone())
}
