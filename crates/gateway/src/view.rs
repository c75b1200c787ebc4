//! A record as the dialects show it.

use std::hash::{DefaultHasher, Hash, Hasher};

use taskgate_engine::Engine;
use taskgate_store::record::Record;
use taskgate_wire::dialect::View;

/// The record as it is now.
pub(crate) fn view<'r>(engine: &Engine, record: &'r Record) -> View<'r> {
    let now = engine.clock().now();
    let created = record.task.lifetime.created;
    // The same task is always told the same spread, so that its poll interval only grows.
    let mut spread = DefaultHasher::new();
    record.id.expose().hash(&mut spread);
    let spread = u32::try_from(spread.finish() & 0xFFFF).unwrap_or(0);
    View {
        id: &record.id,
        operation: &record.operation_id,
        effect: record.operation.effect,
        task: &record.task,
        created,
        updated: record.updated,
        now,
        poll: engine.limits().rhythm.hint(now, created, spread),
    }
}
