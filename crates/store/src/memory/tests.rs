use std::future::poll_fn;
use std::task::Poll;

use super::*;
use crate::codec::event::EventKind;
use crate::conformance::Factory;
use crate::conformance::sample::{
    CREATED, advance, assert_kept, dispatch, id, put, record, somebody, succeed, tell,
};

struct InMemory;

#[async_trait]
impl Factory for InMemory {
    type Store = MemoryStore;

    async fn fresh(&self) -> MemoryStore {
        MemoryStore::new()
    }

    async fn reopen(&self, store: MemoryStore) -> MemoryStore {
        store.close().await;
        store.reopen()
    }

    async fn rival(&self, store: &MemoryStore) -> Result<MemoryStore, Error> {
        Ok(store.reopen())
    }
}

mod conforms {
    use super::InMemory;

    crate::conformance!(InMemory);
}

fn broken() -> Error {
    Error::Full { place: "memory".into() }
}

#[tokio::test]
async fn inv_45_a_failed_command_did_nothing_and_an_ambiguous_one_did_it() {
    let store = MemoryStore::new();
    store.inject(CommandKind::Create, Fault::Fail(broken()));
    store.inject(CommandKind::Create, Fault::Ambiguous(broken()));
    let first = record("one");
    for is_there in [false, true] {
        let created = store.create(Arc::new(first.clone()), Join::Never).await;
        assert!(matches!(created, Err(CreateError::Store(Error::Full { .. }))));
        assert_eq!(store.load(&somebody(), &id("one")).await.unwrap().is_some(), is_there);
    }
    store.inject(CommandKind::Append, Fault::Ambiguous(broken()));
    let (sent, changes) = advance(&first, CREATED, vec![dispatch()]);
    assert!(store.append(Arc::new(sent.clone()), changes).await.is_err());
    assert_kept(&store, &sent).await;
    assert_eq!(store.pending_faults(), 0);
}

#[tokio::test]
async fn inv_45_a_delayed_command_does_nothing_before_its_time() {
    let store = MemoryStore::new();
    let mut is_first = true;
    let turn = poll_fn(move |context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    });
    store.inject(CommandKind::Create, Fault::Wait(Box::pin(turn)));
    let mut create = store.create(Arc::new(record("one")), Join::Never);
    let mut seen = vec![];
    poll_fn(|context| {
        let poll = create.as_mut().poll(context);
        seen.push(store.kept.state.lock().load(&somebody(), &id("one")).is_some());
        poll.map(|created| assert!(created.is_ok()))
    })
    .await;
    assert_eq!(seen, [false, true]);
}

#[tokio::test]
async fn inv_04_the_log_has_one_event_for_each_version() {
    let store = MemoryStore::new();
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, CREATED, vec![dispatch()]).await;
    tell(&store, &sent, CREATED, succeed()).await;
    let kinds: Vec<_> = store.events(&somebody(), &id("one")).into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Created, EventKind::Dispatched, EventKind::Ended]);
}
