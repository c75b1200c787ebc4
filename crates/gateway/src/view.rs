//! A record as the dialects show it.

use std::hash::{DefaultHasher, Hash, Hasher};

use taskgate_core::id::{OperationId, TaskId};
use taskgate_core::operation::Effect;
use taskgate_core::task::Task;
use taskgate_core::time::UnixMillis;
use taskgate_engine::Engine;
use taskgate_store::record::Record;
use taskgate_store::summary::Summary;
use taskgate_wire::dialect::View;

/// The record as it is now.
pub(crate) fn view<'r>(engine: &Engine, record: &'r Record) -> View<'r> {
    let Record { id, operation_id, operation, task, updated, .. } = record;
    of(engine, id, operation_id, operation.effect, task, *updated)
}

/// The same of a record whose payloads were not read: for what shows none.
pub(crate) fn outline<'s>(engine: &Engine, summary: &'s Summary) -> View<'s> {
    let effect = summary.operation().effect;
    of(engine, summary.id(), summary.operation_id(), effect, summary.task(), summary.updated())
}

fn of<'r>(
    engine: &Engine,
    id: &'r TaskId,
    operation: &'r OperationId,
    effect: Effect,
    task: &'r Task,
    updated: UnixMillis,
) -> View<'r> {
    let now = engine.clock().now();
    let created = task.lifetime.created;
    // The same task is always told the same spread, so that its poll interval only grows.
    let mut spread = DefaultHasher::new();
    id.expose().hash(&mut spread);
    let spread = u32::try_from(spread.finish() & 0xFFFF).unwrap_or(0);
    View {
        id,
        operation,
        effect,
        task,
        created,
        updated,
        now,
        poll: engine.limits().rhythm.hint(now, created, spread),
    }
}
