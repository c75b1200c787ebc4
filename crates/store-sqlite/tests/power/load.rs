//! Clients that use every command at once, and write down what they were told.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::id::TaskId;
use taskgate_core::operation::{self, Finding, Verdict, Word};
use taskgate_core::task::{CancelRule, Command, Ending, QuestionKey, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_power::{Random, Recording};
use taskgate_store::conformance::sample::{
    self, CREATED, Told, accept, advance, ask, attest, dispatch, end, fail, frame, lose, probed, reconcile,
    session, somebody, succeed,
};
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::{Frame, Key, Record, Session};
use taskgate_store::{Created, Join, Store};
use taskgate_store_sqlite::SqliteStore;

use crate::diary::{Diary, Known, OLD_BEFORE, Span, old_below};

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) clients: usize,
    /// For each client.
    pub(crate) tasks: usize,
    /// The params of a task are at most so long.
    pub(crate) bytes_max: usize,
}

pub(crate) struct Player {
    pub(crate) store: SqliteStore,
    pub(crate) recording: Recording,
    pub(crate) diary: Mutex<Diary>,
}

impl Player {
    /// All clients at once, until they are done. `name` sets their ids apart from those of other players.
    pub(crate) async fn play(self: &Arc<Self>, size: Size, seed: u64, name: &str) {
        let clients: Vec<_> = (0..size.clients)
            .map(|client| {
                let (player, name) = (Arc::clone(self), format!("{name}c{client}"));
                let random = Random::new(seed ^ ((client as u64 + 1) << 32));
                tokio::spawn(async move { player.client(size, random, &name, client).await })
            })
            .collect();
        for client in clients {
            client.await.unwrap();
        }
    }

    async fn client(&self, size: Size, mut random: Random, name: &str, client: usize) {
        for number in 0..size.tasks {
            let text = format!("{name}-{number}");
            let mut record = sample::record(&text);
            record.call.params = Bytes::from(vec![b'p'; 20 + random.below(size.bytes_max)]);
            record.call.frame = Some(frame((number as u64) << 8 | client as u64));
            record.call.frame = record.call.frame.map(|frame| Frame {
                attachment: <[u8; 16]>::try_from(&format!("{name:_>16}").as_bytes()[..16]).unwrap(),
                ..frame
            });
            match random.below(14) {
                0 => self.plain(record).await,
                1 => self.asked(record).await,
                2 => self.lost(record).await,
                3 => self.doomed(record).await,
                4 => self.keyed(record, &text).await,
                5 => self.failed(record).await,
                6 => self.session(&text).await,
                7 => self.purge(1 + random.below(8)).await,
                8 => self.spared(record, &mut random).await,
                9 | 10 => self.settled(record, &mut random).await,
                11 => self.told(record, &mut random).await,
                12 => self.freed(record, &text).await,
                _ => self.retire(1 + random.below(4)).await,
            }
        }
    }

    async fn plain(&self, record: Record) {
        let sent = sent(record);
        self.create(&sent).await;
        let over = self.tell(&sent, succeed()).await;
        self.fetch(&over).await;
    }

    async fn asked(&self, record: Record) {
        self.create(&record).await;
        let sent = self.tell(&record, vec![dispatch()]).await;
        let taken = self.tell(&sent, vec![accept("up-1")]).await;
        let asked =
            self.tell(&taken, vec![ask(QuestionKind::Form, None), ask(QuestionKind::Url, None)]).await;
        let key = QuestionKey("in-1".into());
        let answered = self.tell(&asked, vec![Told::Task(Command::TakeAnswer(key.clone()))]).await;
        let settled = self.tell(&answered, vec![Told::Task(Command::SettleAnswer(key))]).await;
        let void = self.tell(&settled, vec![Told::Task(Command::Withdraw(QuestionKey("in-2".into())))]).await;
        self.tell(&void, succeed()).await;
    }

    async fn lost(&self, record: Record) {
        let sent = sent(record);
        self.create(&sent).await;
        self.tell(&sent, lose()).await;
    }

    async fn failed(&self, record: Record) {
        let sent = sent(record);
        self.create(&sent).await;
        let over = self.tell(&sent, fail()).await;
        self.fetch(&over).await;
    }

    async fn doomed(&self, record: Record) {
        let sent = sent(short_lived(record));
        self.create(&sent).await;
        self.tell(&sent, succeed()).await;
    }

    /// Its task is over and its time too, but its operation is not: no purge takes it, until that is (INV-30).
    async fn spared(&self, record: Record, random: &mut Random) {
        let sent = sent(short_lived(record));
        self.create(&sent).await;
        let (over, last) = if random.one_in(2) {
            let cancel = Told::Task(Command::Cancel(CancelRule::Promise));
            (vec![cancel], Told::Operation(operation::Command::Hear(Word::Success)))
        } else {
            ([lose(), vec![reconcile()]].concat(), probed(Finding::Applied))
        };
        let over = self.tell(&sent, over).await;
        self.purge(64).await;
        let found = self.store.load(&over.principal, &over.id).await.unwrap();
        assert_eq!(found.as_ref(), Some(&over), "an open operation went");
        self.diary.lock().spared += 1;
        if !random.one_in(3) {
            self.tell(&over, vec![last]).await;
        }
    }

    /// Its effect is found out after its task was purged.
    async fn settled(&self, mut record: Record, random: &mut Random) {
        if random.one_in(2) {
            aged(&mut record);
        }
        if random.one_in(2) {
            record.call.key = Some(Key::of_caller(format!("key-{}", record.id.expose())));
        }
        let sent = sent(short_lived(record));
        self.create(&sent).await;
        let over = self.tell(&sent, lose()).await;
        while self.store.load(&over.principal, &over.id).await.unwrap().is_some() {
            self.purge(8).await;
        }
        // What is unknown is no evidence to let go.
        self.retire(64).await;
        let entry = self.store.operation(&over.operation_id).await.unwrap().unwrap();
        assert_eq!(entry, LedgerEntry { kept: None, ..LedgerEntry::of(&over) });
        match random.below(3) {
            0 => {}
            1 => {
                self.settle(&entry, CREATED, attest(Verdict::NotApplied)).await;
            }
            _ => {
                let asked = self.settle(&entry, CREATED, reconcile()).await;
                // If it is found out late, its evidence is young.
                let at = if random.one_in(2) { CREATED } else { OLD_BEFORE };
                self.settle(&asked, at, probed(Finding::Applied)).await;
            }
        }
    }

    /// An error that its caller was told: the first evidence that goes.
    async fn told(&self, mut record: Record, random: &mut Random) {
        aged(&mut record);
        if random.one_in(2) {
            record.call.key = Some(Key::of_caller(format!("key-{}", record.id.expose())));
        }
        let sent = sent(short_lived(record));
        self.create(&sent).await;
        let over = self.tell(&sent, fail()).await;
        if random.one_in(2) {
            self.fetch(&over).await;
        }
        self.purge(64).await;
        self.retire(64).await;
    }

    /// A key that others use too, at the same time.
    async fn keyed(&self, mut record: Record, text: &str) {
        record.call.key = Some(Key::of_caller(format!("key-{text}")));
        let sent = sent(record);
        self.create(&sent).await;
        let mut again = sent.clone();
        again.id = sample::id(&format!("again-{text}"));
        again.operation_id.0 += "-again";
        again.call.frame = None;
        let joined = self.store.create(Arc::new(again), Join::SameKey).await.unwrap();
        assert!(matches!(&joined, Created::Joined(first) if **first == sent), "{joined:?}");
        self.tell(&sent, succeed()).await;
    }

    /// A key that is given free, and taken over by another call.
    async fn freed(&self, mut record: Record, text: &str) {
        record.call.key = Some(Key::of_caller(format!("key-{text}")));
        self.create(&record).await;
        let never = Told::Operation(operation::Command::NeverSent);
        let over = self.tell(&record, vec![never, end(Ending::Cancelled)]).await;
        let mut next = Record { id: sample::id(&format!("next-{text}")), ..sent(record) };
        next.operation_id.0 += "-next";
        next.call.frame =
            next.call.frame.map(|frame| Frame { sequence: frame.sequence | (1 << 60), ..frame });
        next.call.digest = [8; 32];
        self.create(&next).await;
        let again = self.store.key_given_to(&LedgerEntry::of(&over)).await.unwrap();
        assert_eq!(again.as_ref(), Some(&next.operation_id));
        self.tell(&next, succeed()).await;
    }

    async fn session(&self, text: &str) {
        let seen = |millis| CREATED + Millis(millis);
        self.put_session(session(text, seen(0))).await;
        self.put_session(session(text, seen(50_000))).await;
        if text.ends_with(['1', '4', '7']) {
            self.value(text, None);
            assert!(self.store.end_session(text).await.unwrap());
            self.acknowledge_value(text);
        }
    }

    async fn purge(&self, limit: usize) {
        let index = self.begin(|diary| &mut diary.purges);
        let count = self.store.purge(OLD_BEFORE, limit).await.unwrap();
        self.end(|diary| &mut diary.purges, index, count);
    }

    async fn retire(&self, limit: usize) {
        let index = self.begin(|diary| &mut diary.retirements);
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.store.retire(OLD_BEFORE, &old_below(), after.as_ref(), limit).await.unwrap();
            count += page.deleted;
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        self.end(|diary| &mut diary.retirements, index, count);
    }

    /// Notes that a count is asked for; its number.
    fn begin(&self, counts: impl Fn(&mut Diary) -> &mut Vec<(Span, usize)>) -> usize {
        let begun = self.recording.position();
        let mut diary = self.diary.lock();
        let counts = counts(&mut diary);
        counts.push((Span { begun, acknowledged: None }, 0));
        counts.len() - 1
    }

    fn end(&self, counts: impl Fn(&mut Diary) -> &mut Vec<(Span, usize)>, index: usize, count: usize) {
        let acknowledged = Some(self.recording.position());
        let mut diary = self.diary.lock();
        let (span, counted) = &mut counts(&mut diary)[index];
        (span.acknowledged, *counted) = (acknowledged, count);
    }

    async fn create(&self, record: &Record) {
        let begun = Span { begun: self.recording.position(), acknowledged: None };
        let known = Known { versions: vec![(begun, record.clone())], ..Known::default() };
        self.diary.lock().tasks.insert(record.id.expose().to_owned(), known);
        let join = if record.call.key.is_some() { Join::SameKey } else { Join::Never };
        let created = self.store.create(Arc::new(record.clone()), join).await.unwrap();
        assert!(matches!(created, Created::New), "{created:?}");
        self.acknowledge(record);
    }

    async fn tell(&self, record: &Record, told: Vec<Told>) -> Record {
        let (next, changes) = advance(record, CREATED, told);
        let begun = Span { begun: self.recording.position(), acknowledged: None };
        self.known(&record.id, |known| known.versions.push((begun, next.clone())));
        self.store.append(Arc::new(next.clone()), changes).await.unwrap();
        self.acknowledge(&next);
        next
    }

    /// As [`tell`](Player::tell), for an operation whose task is gone.
    async fn settle(&self, entry: &LedgerEntry, at: UnixMillis, told: Told) -> LedgerEntry {
        let Told::Operation(command) = told else { panic!("there is no task") };
        let mut next = LedgerEntry { version: entry.version + 1, updated: at, ..entry.clone() };
        let changes = next.operation.decide(at, command).unwrap();
        for change in &changes {
            next.operation.apply(change);
        }
        let begun = Span { begun: self.recording.position(), acknowledged: None };
        self.known(&entry.task, |known| known.alone.push((begun, next.clone())));
        self.store.settle(next.clone(), changes).await.unwrap();
        let position = self.recording.position();
        self.known(&entry.task, |known| known.alone.last_mut().unwrap().0.acknowledged = Some(position));
        next
    }

    fn acknowledge(&self, record: &Record) {
        let position = self.recording.position();
        self.known(&record.id, |known| {
            known.versions[record.version as usize - 1].0.acknowledged = Some(position);
        });
    }

    async fn fetch(&self, record: &Record) {
        let at = CREATED + Millis(7);
        let begun = self.recording.position();
        self.known(&record.id, |known| known.fetched = Some((Span { begun, acknowledged: None }, at)));
        self.store.fetched(&somebody(), &record.id, at).await.unwrap();
        let acknowledged = Some(self.recording.position());
        self.known(&record.id, |known| known.fetched = Some((Span { begun, acknowledged }, at)));
    }

    async fn put_session(&self, session: Session) {
        self.value(&session.key, Some(session.clone()));
        let key = session.key.clone();
        self.store.put_session(session).await.unwrap();
        self.acknowledge_value(&key);
    }

    fn value(&self, key: &str, value: Option<Session>) {
        let begun = Span { begun: self.recording.position(), acknowledged: None };
        self.diary.lock().sessions.entry(key.to_owned()).or_default().push((begun, value));
    }

    fn acknowledge_value(&self, key: &str) {
        let position = self.recording.position();
        let mut diary = self.diary.lock();
        diary.sessions.get_mut(key).unwrap().last_mut().unwrap().0.acknowledged = Some(position);
    }

    fn known(&self, id: &TaskId, change: impl FnOnce(&mut Known)) {
        change(self.diary.lock().tasks.get_mut(id.expose()).unwrap());
    }
}

/// A purge may take it once it is done with.
fn short_lived(mut record: Record) -> Record {
    record.task.lifetime.ttl = Millis(10);
    record.task.lifetime.linger = Millis(0);
    record
}

/// Its evidence is old enough to go.
fn aged(record: &mut Record) {
    record.operation_id.0.insert_str(0, "aged-");
}

/// A record that is made as dispatched, as almost all are.
fn sent(record: Record) -> Record {
    let mut sent = advance(&record, CREATED, vec![dispatch()]).0;
    sent.version = 1;
    sent
}
