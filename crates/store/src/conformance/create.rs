//! Making records.

use std::sync::Arc;

use super::Factory;
use super::sample::{all_shapes, assert_kept, id, put, record, somebody, stranger};
use crate::{CreateError, Error, Join, Store};

/// Whatever a new record says, it says after a restart too.
pub async fn inv_01_a_created_record_is_read_back_as_it_was_given(factory: &impl Factory) {
    let store = factory.fresh().await;
    for shape in all_shapes() {
        put(&store, &shape).await;
        assert_kept(&store, &shape).await;
    }
    let store = factory.reopen(store).await;
    for shape in all_shapes() {
        assert_kept(&store, &shape).await;
    }
}

/// Any other version is a defect of ours, and nothing is written.
pub async fn inv_04_a_record_begins_at_version_1(factory: &impl Factory) {
    let store = factory.fresh().await;
    for version in [0, 2] {
        let mut wrong = record("late");
        wrong.version = version;
        let refused = store.create(Arc::new(wrong), Join::Never).await;
        assert!(matches!(refused, Err(CreateError::Store(Error::Backend { .. }))), "{refused:?}");
    }
    assert_eq!(store.load(&somebody(), &id("late")).await.expect("readable"), None);
    put(&store, &record("late")).await;
}

/// Neither that of a task nor that of an operation.
pub async fn inv_16_an_id_is_never_used_twice(factory: &impl Factory) {
    let store = factory.fresh().await;
    let first = record("one");
    put(&store, &first).await;

    let mut same_task = record("one");
    same_task.operation_id = record("two").operation_id;
    let mut same_operation = record("two");
    same_operation.operation_id = first.operation_id.clone();
    for second in [same_task, same_operation] {
        let refused = store.create(Arc::new(second), Join::Never).await;
        assert!(matches!(refused, Err(CreateError::Store(Error::Backend { .. }))), "{refused:?}");
    }
    assert_kept(&store, &first).await;
    put(&store, &record("two")).await;
}

/// Knowing an id is not permission (R6.1).
pub async fn inv_25_a_foreign_id_looks_like_an_unknown_one(factory: &impl Factory) {
    let store = factory.fresh().await;
    put(&store, &record("mine")).await;
    assert_eq!(store.load(&stranger(), &id("mine")).await.expect("readable"), None);
    assert_eq!(store.load(&somebody(), &id("nobody-s")).await.expect("readable"), None);
}
