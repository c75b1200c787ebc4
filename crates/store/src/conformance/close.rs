//! The end, and what is there after it.

use std::sync::Arc;

use taskgate_core::time::UnixMillis;

use super::Factory;
use super::sample::{
    CREATED, advance, all_shapes, assert_kept, dispatch, id, put, record, server, session, somebody, succeed,
    tell,
};
use crate::{AppendError, CreateError, Error, Join, Store, Whose};

/// What was acknowledged is there.
pub async fn inv_01_everything_survives_a_restart(factory: &impl Factory) {
    let store = factory.fresh().await;
    for shape in all_shapes() {
        put(&store, &shape).await;
    }
    let first = record("one");
    put(&store, &first).await;
    let sent = tell(&store, &first, CREATED, vec![dispatch()]).await;
    let seen = session("s", UnixMillis(5));
    store.put_session(seen.clone()).await.expect("writable");
    let listed = store.list(Whose::Server(&somebody(), &server()), None, 100).await.expect("readable");
    let unfinished = store.unfinished(None, 100).await.expect("readable");

    let store = factory.reopen(store).await;
    assert_eq!(store.list(Whose::Server(&somebody(), &server()), None, 100).await.expect("readable"), listed);
    assert_eq!(store.unfinished(None, 100).await.expect("readable"), unfinished);
    assert_eq!(store.session("s").await.expect("readable"), Some(seen));
    let over = tell(&store, &sent, CREATED, succeed()).await;
    assert_kept(&store, &over).await;
}

/// What it sealed can be opened.
pub async fn g_013_the_secret_survives_a_restart(factory: &impl Factory) {
    let store = factory.fresh().await;
    let secret = store.secret();
    assert_ne!(secret, [0; 32]);
    let store = factory.reopen(store).await;
    assert_eq!(store.secret(), secret);
}

/// Nor does closing it twice hurt.
pub async fn inv_40_a_closed_store_takes_no_commands(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    store.close().await;
    store.close().await;
    let created = store.create(Arc::new(record("two")), Join::Never).await;
    assert!(matches!(created, Err(CreateError::Store(Error::Closed))), "{created:?}");
    let (next, changes) = advance(&first, CREATED, vec![dispatch()]);
    let appended = store.append(Arc::new(next), changes).await;
    assert!(matches!(appended, Err(AppendError::Store(Error::Closed))), "{appended:?}");
    assert!(matches!(store.load(&somebody(), &id("one")).await, Err(Error::Closed)));
    assert!(matches!(store.purge(CREATED, 1).await, Err(Error::Closed)));
    assert!(matches!(store.put_session(session("s", CREATED)).await, Err(Error::Closed)));
    assert!(matches!(store.session("s").await, Err(Error::Closed)));
}

/// Either nobody else is let in, or whoever had it before writes nothing any more.
pub async fn inv_15_a_store_has_one_owner(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;
    let rival = match factory.rival(&store).await {
        Err(error) => {
            assert!(matches!(error, Error::InUse { .. }), "{error:?}");
            tell(&store, &first, CREATED, vec![dispatch()]).await;
            return;
        }
        Ok(rival) => rival,
    };
    let created = store.create(Arc::new(record("two")), Join::Never).await;
    assert!(matches!(created, Err(CreateError::Store(Error::InUse { .. }))), "{created:?}");
    let (next, changes) = advance(&first, CREATED, vec![dispatch()]);
    let appended = store.append(Arc::new(next), changes).await;
    assert!(matches!(appended, Err(AppendError::Store(Error::InUse { .. }))), "{appended:?}");
    assert!(matches!(store.fetched(&somebody(), &id("one"), CREATED).await, Err(Error::InUse { .. })));
    assert!(matches!(store.purge(CREATED, 1).await, Err(Error::InUse { .. })));
    assert!(matches!(store.put_session(session("s", CREATED)).await, Err(Error::InUse { .. })));
    assert_kept(&rival, &first).await;
    assert_eq!(rival.load(&somebody(), &id("two")).await.expect("readable"), None);
    tell(&rival, &first, CREATED, vec![dispatch()]).await;
}
