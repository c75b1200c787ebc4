//! Sessions.

use taskgate_core::time::UnixMillis;

use super::Factory;
use super::sample::session;
use crate::Store;

async fn left(store: &impl Store, keys: &[&str]) -> Vec<String> {
    let mut left = vec![];
    for key in keys {
        if store.session(key).await.expect("readable").is_some() {
            left.push((*key).to_owned());
        }
    }
    left
}

/// Under its key, as it was last written.
pub async fn x_048_a_session_is_kept_and_replaced(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = session("a", UnixMillis(1));
    store.put_session(first.clone()).await.expect("writable");
    assert_eq!(store.session("a").await.expect("readable"), Some(first.clone()));
    assert_eq!(store.session("b").await.expect("readable"), None);

    let mut second = first;
    second.log_level = Some("warning".into());
    second.seen = UnixMillis(60_000);
    store.put_session(second.clone()).await.expect("writable");
    let store = factory.reopen(store).await;
    assert_eq!(store.session("a").await.expect("readable"), Some(second));
}

/// Once.
pub async fn x_048_an_ended_session_is_gone(factory: &impl Factory) {
    let store = factory.fresh().await;
    store.put_session(session("a", UnixMillis(1))).await.expect("writable");
    assert!(store.end_session("a").await.expect("writable"));
    assert!(!store.end_session("a").await.expect("writable"));
    assert_eq!(store.session("a").await.expect("readable"), None);
}

/// Those seen at the very time stay.
pub async fn x_048_unseen_sessions_expire(factory: &impl Factory) {
    let store = factory.fresh().await;
    for (key, seen) in [("a", 1), ("b", 2), ("c", 3)] {
        store.put_session(session(key, UnixMillis(seen))).await.expect("writable");
    }
    assert_eq!(store.expire_sessions(UnixMillis(2), 10).await.expect("writable").len(), 1);
    assert_eq!(left(&store, &["a", "b", "c"]).await, ["b", "c"]);
    assert_eq!(store.expire_sessions(UnixMillis(2), 10).await.expect("writable").len(), 0);
}

/// Of those seen at the same time, the first key goes first.
pub async fn x_048_the_longest_unseen_go_above_the_limit(factory: &impl Factory) {
    let store = factory.fresh().await;
    for (key, seen) in [("d", 1), ("b", 2), ("a", 2), ("c", 3)] {
        store.put_session(session(key, UnixMillis(seen))).await.expect("writable");
    }
    assert_eq!(store.expire_sessions(UnixMillis(0), 2).await.expect("writable").len(), 2);
    assert_eq!(left(&store, &["a", "b", "c", "d"]).await, ["b", "c"]);
    assert_eq!(store.expire_sessions(UnixMillis(3), 1).await.expect("writable").len(), 1);
    assert_eq!(left(&store, &["b", "c"]).await, ["c"]);
    assert_eq!(store.expire_sessions(UnixMillis(0), 0).await.expect("writable").len(), 1);
    assert_eq!(store.expire_sessions(UnixMillis(0), 0).await.expect("writable").len(), 0);
}
