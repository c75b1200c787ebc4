//! Clients that use every command at once, and write down what they were told.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::task::{Command, QuestionKey, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_power::{Random, Recording};
use taskgate_store::conformance::sample::{
    self, CREATED, Told, accept, advance, ask, dispatch, fail, frame, lose, session, somebody, succeed,
};
use taskgate_store::record::{Key, Record, Session};
use taskgate_store::{Created, Join, Store};
use taskgate_store_sqlite::SqliteStore;

use crate::diary::{Diary, Known, Span};

/// Between what a purge may take and all else.
const PURGED_BEFORE: UnixMillis = UnixMillis(CREATED.0 + 30_000);

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
            record.call.frame = record.call.frame.map(|frame| taskgate_store::record::Frame {
                attachment: <[u8; 16]>::try_from(&format!("{name:_>16}").as_bytes()[..16]).unwrap(),
                ..frame
            });
            match random.below(8) {
                0 => self.plain(record).await,
                1 => self.asked(record).await,
                2 => self.lost(record).await,
                3 => self.doomed(record).await,
                4 => self.keyed(record, &text).await,
                5 => self.failed(record).await,
                6 => self.session(&text).await,
                _ => self.purge(&mut random).await,
            }
        }
    }

    async fn plain(&self, record: Record) {
        let sent = sent(record);
        self.create(&sent, false).await;
        let over = self.tell(&sent, succeed()).await;
        self.fetch(&over).await;
    }

    async fn asked(&self, record: Record) {
        self.create(&record, false).await;
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
        self.create(&sent, false).await;
        self.tell(&sent, lose()).await;
    }

    async fn failed(&self, record: Record) {
        let sent = sent(record);
        self.create(&sent, false).await;
        let over = self.tell(&sent, fail()).await;
        self.fetch(&over).await;
    }

    async fn doomed(&self, mut record: Record) {
        record.task.lifetime.ttl = Millis(10);
        record.task.lifetime.linger = Millis(0);
        let sent = sent(record);
        self.create(&sent, true).await;
        self.tell(&sent, succeed()).await;
    }

    /// A key that others use too, at the same time.
    async fn keyed(&self, mut record: Record, text: &str) {
        record.call.key = Some(Key::of_caller(format!("key-{text}")));
        let sent = sent(record);
        self.create(&sent, false).await;
        let mut again = sent.clone();
        again.id = sample::id(&format!("again-{text}"));
        again.operation_id.0 += "-again";
        again.call.frame = None;
        let joined = self.store.create(Arc::new(again), Join::SameKey).await.unwrap();
        assert!(matches!(&joined, Created::Joined(first) if **first == sent), "{joined:?}");
        self.tell(&sent, succeed()).await;
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

    async fn purge(&self, random: &mut Random) {
        let begun = self.recording.position();
        let index = {
            let mut diary = self.diary.lock();
            diary.purges.push((Span { begun, acknowledged: None }, 0));
            diary.purges.len() - 1
        };
        let count = self.store.purge(PURGED_BEFORE, 1 + random.below(8)).await.unwrap();
        let acknowledged = Some(self.recording.position());
        self.diary.lock().purges[index] = (Span { begun, acknowledged }, count);
    }

    async fn create(&self, record: &Record, is_doomed: bool) {
        let begun = Span { begun: self.recording.position(), acknowledged: None };
        let known = Known { versions: vec![(begun, record.clone())], fetched: None, is_doomed };
        self.diary.lock().tasks.insert(record.id.expose().to_owned(), known);
        let join = if record.call.key.is_some() { Join::SameKey } else { Join::Never };
        let created = self.store.create(Arc::new(record.clone()), join).await.unwrap();
        assert!(matches!(created, Created::New), "{created:?}");
        self.acknowledge(record);
    }

    async fn tell(&self, record: &Record, told: Vec<Told>) -> Record {
        let (next, changes) = advance(record, CREATED, told);
        let begun = Span { begun: self.recording.position(), acknowledged: None };
        self.known(record, |known| known.versions.push((begun, next.clone())));
        self.store.append(Arc::new(next.clone()), changes).await.unwrap();
        self.acknowledge(&next);
        next
    }

    fn acknowledge(&self, record: &Record) {
        let position = self.recording.position();
        self.known(record, |known| {
            known.versions[record.version as usize - 1].0.acknowledged = Some(position);
        });
    }

    async fn fetch(&self, record: &Record) {
        let at = CREATED + Millis(7);
        let begun = self.recording.position();
        self.known(record, |known| known.fetched = Some((Span { begun, acknowledged: None }, at)));
        self.store.fetched(&somebody(), &record.id, at).await.unwrap();
        let acknowledged = Some(self.recording.position());
        self.known(record, |known| known.fetched = Some((Span { begun, acknowledged }, at)));
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

    fn known(&self, record: &Record, change: impl FnOnce(&mut Known)) {
        change(self.diary.lock().tasks.get_mut(record.id.expose()).unwrap());
    }
}

/// A record that is made as dispatched, as almost all are.
fn sent(record: Record) -> Record {
    let mut sent = advance(&record, CREATED, vec![dispatch()]).0;
    sent.version = 1;
    sent
}
