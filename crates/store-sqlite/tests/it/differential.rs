//! Any commands, in any order: the twin on disk answers what the twin in memory answers (INV-50).

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};
use rusqlite::Connection;
use taskgate_core::id::{OperationId, Principal, ServerName};
use taskgate_core::operation::{
    self, Doubt, Effect, Finding, HandOff, Operation, Outcome, Replay, Standing, Verdict, Word,
};
use taskgate_core::task::{self, CancelRule, Ending, QuestionKey, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::conformance::sample::{self, Told, id, session, somebody, stranger};
use taskgate_store::ledger::{After, Which};
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::{Change, Conflict, Key, KeyScope, Object, Observed, Record};
use taskgate_store::{CreateError, Created, Join, Retirement, Store, Whose};
use taskgate_store_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::whole::assert_whole;

prop_state_machine! {
    #![proptest_config(Config { cases: Config::default().cases / 2, max_shrink_iters: 2_000, ..Config::default() })]

    #[test]
    fn inv_50_memory_and_sqlite_give_the_same_answers_to_the_same_commands(sequential 1..60 => Twins);
}

#[derive(Clone, Debug)]
enum Step {
    Create {
        slot: u8,
        call: u8,
        key: Option<u8>,
        frame: Option<u8>,
        join: u8,
        created: u8,
        version: u8,
        intent: u8,
    },
    Append {
        slot: u8,
        told: Vec<u8>,
        gap: i8,
        now: u8,
    },
    Break {
        slot: u8,
        how: u8,
    },
    Load {
        slot: u8,
        foreign: bool,
    },
    Fetched {
        slot: u8,
        foreign: bool,
        at: u8,
    },
    Unfetched {
        foreign: bool,
        now: u8,
    },
    List {
        whose: u8,
        foreign: bool,
        server: u8,
        after: Option<(u8, u8)>,
        limit: u8,
    },
    Unfinished {
        after: Option<u8>,
        limit: u8,
    },
    Purge {
        now: u8,
        limit: u8,
    },
    Operation {
        slot: u8,
    },
    Operations {
        which: u8,
        after: Option<(u8, u8, bool)>,
        limit: u8,
    },
    AheadOf {
        slot: u8,
    },
    Settle {
        slot: u8,
        told: u8,
        gap: i8,
        now: u8,
    },
    Retire {
        before: u8,
        below: u8,
        limit: u8,
    },
    PutSession {
        key: u8,
        seen: u8,
    },
    EndSession {
        key: u8,
    },
    ExpireSessions {
        before: u8,
        keep: u8,
    },
    Reopen,
}

/// Steps need no state to make sense, so the model keeps none: whatever does not apply is refused by both.
struct Steps;

impl ReferenceStateMachine for Steps {
    type State = ();
    type Transition = Step;

    fn init_state() -> BoxedStrategy<()> {
        Just(()).boxed()
    }

    fn transitions((): &()) -> BoxedStrategy<Step> {
        let slot = || 0..8_u8;
        prop_oneof![
            6 => (slot(), 0..4_u8, prop::option::of(0..3_u8), prop::option::of(0..6_u8), 0..3_u8, 0..4_u8, prop_oneof![9 => Just(1_u8), 1 => 0..3_u8], 0..12_u8)
                .prop_map(|(slot, call, key, frame, join, created, version, intent)| {
                    Step::Create { slot, call, key, frame, join, created, version, intent }
                }),
            14 => (slot(), prop::collection::vec(0..36_u8, 0..4), prop_oneof![9 => Just(0_i8), 1 => -1..3_i8], 0..20_u8)
                .prop_map(|(slot, told, gap, now)| Step::Append { slot, told, gap, now }),
            2 => (slot(), 0..11_u8).prop_map(|(slot, how)| Step::Break { slot, how }),
            3 => (slot(), any::<bool>()).prop_map(|(slot, foreign)| Step::Load { slot, foreign }),
            2 => (slot(), prop_oneof![7 => Just(false), 1 => Just(true)], 0..20_u8)
                .prop_map(|(slot, foreign, at)| Step::Fetched { slot, foreign, at }),
            2 => (any::<bool>(), 0..90_u8).prop_map(|(foreign, now)| Step::Unfetched { foreign, now }),
            3 => (0..3_u8, any::<bool>(), 0..2_u8, prop::option::of((0..4_u8, slot())), 0..6_u8)
                .prop_map(|(whose, foreign, server, after, limit)| {
                    Step::List { whose, foreign, server, after, limit }
                }),
            2 => (prop::option::of(slot()), 0..6_u8).prop_map(|(after, limit)| Step::Unfinished { after, limit }),
            2 => (0..90_u8, 0..4_u8).prop_map(|(now, limit)| Step::Purge { now, limit }),
            2 => slot().prop_map(|slot| Step::Operation { slot }),
            3 => (0..5_u8, prop::option::of((0..20_u8, slot(), any::<bool>())), 0..6_u8)
                .prop_map(|(which, after, limit)| Step::Operations { which, after, limit }),
            1 => slot().prop_map(|slot| Step::AheadOf { slot }),
            3 => (slot(), 23..36_u8, prop_oneof![9 => Just(0_i8), 1 => -1..3_i8], 0..20_u8)
                .prop_map(|(slot, told, gap, now)| Step::Settle { slot, told, gap, now }),
            1 => (0..90_u8, slot(), 0..4_u8)
                .prop_map(|(before, below, limit)| Step::Retire { before, below, limit }),
            1 => (0..4_u8, 0..9_u8).prop_map(|(key, seen)| Step::PutSession { key, seen }),
            1 => (0..4_u8).prop_map(|key| Step::EndSession { key }),
            1 => (0..9_u8, 0..4_u8).prop_map(|(before, keep)| Step::ExpireSessions { before, keep }),
            1 => Just(Step::Reopen),
        ]
        .boxed()
    }

    fn apply((): (), _: &Step) {}
}

/// Asks both, and finds that they answer alike.
macro_rules! same {
    ($twins:expr, $store:ident => $ask:expr) => {{
        let $store = &$twins.memory;
        let in_memory = $twins.runtime.block_on($ask);
        let $store = $twins.disk.as_ref().unwrap();
        let on_disk = $twins.runtime.block_on($ask);
        assert_eq!(plain(&in_memory), plain(&on_disk));
        in_memory
    }};
}

/// Both stores, and the record that each slot last stood for.
struct Twins {
    runtime: Runtime,
    folder: TempDir,
    memory: MemoryStore,
    disk: Option<SqliteStore>,
    records: BTreeMap<u8, Record>,
}

impl StateMachineTest for Twins {
    type SystemUnderTest = Twins;
    type Reference = Steps;

    fn init_test((): &()) -> Twins {
        // What survives a loss of power is for other tests; in memory a sync costs nothing.
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let disk = SqliteStore::open(&folder.path().join("taskgate.db")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Twins { runtime, folder, memory: MemoryStore::new(), disk: Some(disk), records: BTreeMap::new() }
    }

    fn apply(mut twins: Twins, (): &(), step: Step) -> Twins {
        twins.take(step);
        twins
    }

    fn check_invariants(twins: &Twins, (): &()) {
        for record in twins.records.values() {
            let _ = same!(twins, store => store.load(&record.principal, &record.id));
        }
    }

    fn teardown(mut twins: Twins, (): ()) {
        let _ = same!(twins, store => store.operations(Which::All, None, 100));
        let _ = same!(twins, store => store.unfinished(None, 100));
        twins.disk = None;
        assert_whole(&Connection::open(twins.folder.path().join("taskgate.db")).unwrap());
    }
}

impl Twins {
    fn take(&mut self, step: Step) {
        match step {
            Step::Create { slot, call, key, frame, join, created, version, intent } => {
                let mut record = new_record(slot, call, key);
                give_intent(&mut record, intent);
                record.call.frame = frame.map(|frame| sample::frame(frame.into()));
                record.version = version.into();
                record.task.lifetime.created = UnixMillis(created.into());
                let join = [Join::Never, Join::SameCall, Join::SameKey][usize::from(join)];
                let shared = Arc::new(record.clone());
                let earlier = same!(self, store => store.earlier(Arc::clone(&shared), join));
                let created = same!(self, store => store.create(Arc::clone(&shared), join));
                // Whoever looks first is told what creating comes to, but for an object that is busy and a wrong version.
                if version == 1
                    && !matches!(&created, Err(CreateError::ObjectBusy(_) | CreateError::Store(_)))
                {
                    assert_eq!(matches!(earlier, Ok(None)), matches!(created, Ok(Created::New)));
                }
                if let Ok(Created::New) = created {
                    self.records.insert(slot, record);
                }
            }
            Step::Append { slot, told, gap, now } => {
                let Some(record) = self.records.get(&slot) else { return };
                let (mut next, changes) = tell_leniently(record, UnixMillis(now.into()), &told);
                next.version = next.version.saturating_add_signed(gap.into());
                self.append(slot, next, &changes);
            }
            Step::Break { slot, how } => {
                let Some(record) = self.records.get(&slot) else { return };
                let mut next = record.clone();
                next.version += 1;
                let changes = break_law(&mut next, how);
                self.append(slot, next, &changes);
            }
            Step::Load { slot, foreign } => {
                let (principal, id) = (principal(foreign), id(&format!("slot-{slot}")));
                let _ = same!(self, store => store.load(&principal, &id));
            }
            Step::Fetched { slot, foreign, at } => {
                let principal = principal(foreign != (slot % 4 == 3));
                let (id, at) = (id(&format!("slot-{slot}")), UnixMillis(at.into()));
                let _ = same!(self, store => store.fetched(&principal, &id, at));
            }
            Step::Unfetched { foreign, now } => {
                let principal = principal(foreign);
                let _ = same!(self, store => store.unfetched(&principal, UnixMillis(now.into())));
            }
            Step::List { whose, foreign, server, after, limit } => {
                let (principal, server) = (principal(foreign), ServerName(format!("server-{server}")));
                let after = after.map(|(at, slot)| (UnixMillis(at.into()), id(&format!("slot-{slot}"))));
                let whose =
                    [Whose::Server(&principal, &server), Whose::Principal(&principal), Whose::Everyone]
                        [usize::from(whose)];
                let _ = same!(self, store => store.list(whose, after.clone(), limit.into()));
            }
            Step::Unfinished { after, limit } => {
                let after = after.map(|slot| id(&format!("slot-{slot}")));
                let _ = same!(self, store => store.unfinished(after.clone(), limit.into()));
            }
            Step::Purge { now, limit } => {
                let _ = same!(self, store => store.purge(UnixMillis(now.into()), limit.into()));
            }
            Step::Operation { slot } => {
                let id = operation_id(slot);
                let _ = same!(self, store => store.operation(&id));
                let _ = same!(self, store => store.history(&id));
                if let Ok(Some(entry)) = same!(self, store => store.operation(&id)) {
                    let _ = same!(self, store => store.key_given_to(&entry));
                }
            }
            Step::Operations { which, after, limit } => {
                let which = [Which::All, Which::Open, Which::Unknown, Which::Reconciling, Which::Waiting]
                    [usize::from(which)];
                let after = after.map(|(at, slot, foreign)| After {
                    at: UnixMillis(at.into()),
                    id: operation_id(slot),
                    principal: principal(foreign),
                });
                let _ = same!(self, store => store.operations(which, after.clone(), limit.into()));
            }
            Step::AheadOf { slot } => {
                let Some(record) = self.records.get(&slot).cloned() else { return };
                let _ = same!(self, store => store.ahead_of(&record));
            }
            Step::Settle { slot, told, gap, now } => {
                let Ok(Some(mut entry)) = same!(self, store => store.operation(&operation_id(slot))) else {
                    return;
                };
                let mut changes = vec![];
                for told in told_by(told, UnixMillis(now.into())) {
                    let Told::Operation(command) = told else { continue };
                    for event in entry.operation.decide(UnixMillis(now.into()), command).unwrap_or_default() {
                        entry.operation.apply(&event);
                        changes.push(event);
                    }
                }
                entry.version = (entry.version + 1).saturating_add_signed(gap.into());
                entry.updated = UnixMillis(now.into());
                let _ = same!(self, store => store.settle(entry.clone(), changes.clone()));
            }
            Step::Retire { before, below, limit } => {
                let (before, below) = (UnixMillis(before.into()), operation_id(below));
                let mut after = None;
                loop {
                    match same!(self, store => store.retire(before, &below, after.as_ref(), limit.into())) {
                        Ok(Retirement { next: Some(next), .. }) if after.as_ref() != Some(&next) => {
                            after = Some(next)
                        }
                        Ok(_) | Err(_) => break,
                    }
                }
            }
            Step::PutSession { key, seen } => {
                let session = session(&format!("session-{key}"), UnixMillis(seen.into()));
                let _ = same!(self, store => store.put_session(session.clone()));
            }
            Step::EndSession { key } => {
                let key = format!("session-{key}");
                let _ = same!(self, store => store.end_session(&key));
            }
            Step::ExpireSessions { before, keep } => {
                let before = UnixMillis(before.into());
                let _ = same!(self, store => async {
                    store.expire_sessions(before, keep.into()).await.map(|mut gone| {
                        gone.sort();
                        gone
                    })
                });
                for key in 0..4 {
                    let key = format!("session-{key}");
                    let _ = same!(self, store => store.session(&key));
                }
            }
            Step::Reopen => {
                self.memory = self.memory.reopen();
                self.disk = None;
                self.disk = Some(SqliteStore::open(&self.folder.path().join("taskgate.db")).unwrap());
            }
        }
    }

    fn append(&mut self, slot: u8, next: Record, changes: &[Change]) {
        let shared = Arc::new(next);
        let appended = same!(self, store => store.append(Arc::clone(&shared), changes.to_vec()));
        if appended.is_ok() {
            self.records.insert(slot, Arc::unwrap_or_clone(shared));
        }
    }
}

fn principal(foreign: bool) -> Principal {
    if foreign { stranger() } else { somebody() }
}

/// Few enough of everything that they meet.
fn new_record(slot: u8, call: u8, key: Option<u8>) -> Record {
    let mut record = sample::record(&format!("slot-{slot}"));
    record.principal = principal(slot % 4 == 3);
    record.operation_id = operation_id(slot);
    record.call.server = ServerName(format!("server-{}", call % 2));
    record.call.digest = [call; 32];
    record.call.key = key.map(|key| Key::of_caller(format!("key-{key}")));
    record.task.lifetime.ttl = Millis(40);
    record.task.lifetime.linger = Millis(10);
    let effect = if call == 0 { Effect::ReadOnly } else { Effect::Consequential };
    let replay = [Replay::Never, Replay::Natural, Replay::Keyed { window: Millis(9) }];
    record.operation = Operation::new(effect, replay[usize::from(call) % 3]);
    record
}

fn operation_id(slot: u8) -> OperationId {
    OperationId(format!("op-{}", if slot < 6 { slot } else { 6 }))
}

/// Two workflows and two objects, and every way that operations may get along; business keys too.
fn give_intent(record: &mut Record, number: u8) {
    if number < 4 {
        return;
    }
    let mut intent = sample::intent(if number.is_multiple_of(2) { "pay" } else { "refund" }, None);
    if number > 5 {
        let conflict = [Conflict::Allow, Conflict::Refuse, Conflict::Queue][usize::from(number) % 3];
        intent.object = Some(Object { name: format!("object-{}", number % 2), version: None, conflict });
    }
    record.call.intent = Some(intent);
    if let Some(key) = record.call.key.as_mut().filter(|_| number > 8) {
        key.scope = KeyScope::Tenant;
    }
}

/// What the core allows of what is told, and nothing of the rest.
fn tell_leniently(record: &Record, now: UnixMillis, told: &[u8]) -> (Record, Vec<Change>) {
    let mut next = record.clone();
    let mut changes = vec![];
    next.version += 1;
    next.updated = now;
    for told in told.iter().flat_map(|one| told_by(*one, now)) {
        match told {
            Told::Task(command) => {
                for event in next.task.decide(now, command).unwrap_or_default() {
                    next.task.apply(&event).unwrap();
                    changes.push(Change::Task(event));
                }
            }
            Told::Operation(command) => {
                for event in next.operation.decide(now, command).unwrap_or_default() {
                    next.operation.apply(&event);
                    changes.push(Change::Operation(event));
                }
            }
            Told::Observed(observed) => {
                next.observed = observed.clone();
                changes.push(Change::Observed(observed));
            }
        }
    }
    (next, changes)
}

fn told_by(number: u8, now: UnixMillis) -> Vec<Told> {
    let key = |number: u8| QuestionKey(format!("in-{number}"));
    let result = Bytes::from_static(b"{\"some\":\"bytes\"}");
    vec![match number {
        0 | 1 => sample::dispatch(),
        2 => sample::accept("up"),
        3 => Told::Operation(operation::Command::Hear(Word::Success)),
        4 => Told::Operation(operation::Command::Hear(Word::ToolError)),
        5 => Told::Operation(operation::Command::NeverSent),
        6 => Told::Operation(operation::Command::Lose(Doubt::AnswerLost)),
        7 => sample::ask(QuestionKind::Form, None),
        8 => sample::ask(QuestionKind::Url, Some("back")),
        9 | 10 => Told::Task(task::Command::TakeAnswer(key(number - 8))),
        11 | 12 => Told::Task(task::Command::SettleAnswer(key(number - 10))),
        13 => Told::Task(task::Command::Withdraw(key(1))),
        14 => Told::Task(task::Command::Say(format!("at {now:?}"))),
        15 => Told::Task(task::Command::Cancel(CancelRule::Wish)),
        16 => Told::Task(task::Command::Cancel(CancelRule::Promise)),
        17 => sample::end(Ending::Returned { result, is_error: now.0 % 2 == 0 }),
        18 => sample::end(Ending::Faulted(task::Fault::OutcomeUnknown("gone".into()))),
        19 => Told::Observed(Observed {
            status: Some("working".into()),
            last_updated_at: None,
            next_look: Some(now),
        }),
        20 => return [vec![sample::dispatch()], sample::lose()].concat(),
        23 => sample::close(),
        24 => sample::reconcile(),
        25 => sample::probed(Finding::Applied),
        26 => sample::probed(Finding::NotApplied(Standing::Open)),
        27 => sample::probed(Finding::NotApplied(Standing::Settled)),
        28 => sample::hand_off(HandOff::BudgetSpent),
        29 => sample::hand_off(HandOff::NoRule),
        30 => sample::attest(Verdict::Applied),
        31 => sample::attest(Verdict::NotApplied),
        32 => sample::receive("tx-1"),
        34 => sample::correct(Verdict::Applied),
        // That a person decides, whatever is held.
        35 => sample::hand_off(HandOff::Contradiction),
        33 => Told::Operation(operation::Command::Clear {
            standing: Standing::Fenced,
            what: operation::Text::new("nothing there"),
        }),
        // What most calls come to.
        _ => return [vec![sample::dispatch()], sample::succeed()].concat(),
    }]
}

/// Changes that some states forbid and others allow, and what the log shall say of them.
fn break_law(record: &mut Record, how: u8) -> Vec<Change> {
    match how {
        0 => record.task.state = task::State::Working,
        1 => record.task.message = Some("broken".into()),
        2 => record.task.answering.clear(),
        3 => {
            let result = Bytes::from_static(b"another");
            let ending = Ending::Returned { result, is_error: false };
            let at = UnixMillis(3);
            record.task.state = task::State::Over { ending: ending.clone(), at };
            record.task.answering.clear();
            return vec![Change::Task(task::Event::Ended { at, ending })];
        }
        4 => record.operation.stage = operation::Stage::Unknown(Doubt::PeerError),
        5 => record.operation.stage = operation::Stage::Prepared,
        7 => {
            // Nor is this for an append to change.
            record.call.frame = Some(sample::frame(9));
            record.fetched = Some(UnixMillis(1));
        }
        8 => record.operation.stage = operation::Stage::Settled(Outcome::Reported(Verdict::Applied)),
        9 => record.operation.stage = operation::Stage::Settled(Outcome::Attested(Verdict::Applied)),
        6 => record.principal = if record.principal == somebody() { stranger() } else { somebody() },
        _ => {
            let moved = std::mem::take(&mut record.task.answering);
            if let Some(asked) = task::Asked::new(moved) {
                record.task.state = task::State::InputRequired(asked);
            }
        }
    }
    vec![]
}

/// Answers to compare: errors by their kind, since the words are each store's own.
fn plain(answer: &impl Debug) -> String {
    let text = format!("{answer:?}");
    match text.find("Backend {") {
        Some(at) => text[..at].to_owned() + "Backend",
        None => text,
    }
}
