//! What keeps an engine in order while it runs, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use taskgate_core::time::UnixMillis;
use taskgate_store::{Retired, Retirement};

use crate::engine::Engine;
use crate::ids;

/// How often expired tasks are looked for.
const HOUSEKEEPING: Duration = Duration::from_secs(30);

/// Deleted between two commits of others: about a millisecond of the writer (notes 4.3).
const PURGE_BATCH: usize = 64;

/// Looks at old evidence in one go, of those that find nothing which may go. There may be any amount of what must stay; the next
/// go begins where this one ended.
const VAIN_LOOKS: usize = 256;

impl Engine {
    /// Takes nothing new, gives what is under way `patience` to end, and waits until nothing is being written any
    /// more. What has not ended by then is decided by the crash table at the next [`Engine::recover`].
    pub async fn shutdown(&self, patience: Duration) {
        self.closing.cancel();
        self.drivers.close();
        if tokio::time::timeout(patience, self.drivers.wait()).await.is_err() {
            self.stopping.cancel();
            self.drivers.wait().await;
        }
    }

    /// How many calls are under way or wait for their turn.
    #[must_use]
    pub fn live(&self) -> usize {
        self.registry.count().saturating_sub(self.parked.len())
    }

    /// How many unfinished tasks wait for a server that nobody has brought since the restart: see
    /// [`Engine::take_up`].
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Ends parked work whose deadline has passed and deletes what has expired and what evidence is old enough, now and every half minute, until the
    /// engine stops (A-094, R3.6, R4.8).
    pub async fn keep_house(self: &Arc<Self>) {
        let mut ticks = tokio::time::interval(HOUSEKEEPING);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut looked_at = None;
        loop {
            tokio::select! {
                biased;
                _ = ticks.tick() => {}
                () = self.closing.cancelled() => return,
            }
            self.expire_parked().await;
            self.tend_objects().await;
            loop {
                match self.parts.store.purge(self.parts.clock.now(), PURGE_BATCH).await {
                    Ok(PURGE_BATCH) => tokio::task::yield_now().await,
                    Ok(_) => break,
                    Err(error) => {
                        tracing::warn!(%error, "could not delete expired tasks");
                        break;
                    }
                }
            }
            self.retire_evidence(&mut looked_at).await;
        }
    }

    /// Deletes the evidence that need not be kept any longer (design 10), from behind `looked_at` on.
    async fn retire_evidence(&self, looked_at: &mut Option<Retired>) {
        let age = i64::try_from(self.parts.limits.evidence.0).unwrap_or(i64::MAX);
        let before = UnixMillis(self.parts.clock.now().0.saturating_sub(age));
        let below = ids::first_operation_id(before);
        let mut vain = 0;
        while vain < VAIN_LOOKS {
            match self.parts.store.retire(before, &below, looked_at.as_ref(), PURGE_BATCH).await {
                Ok(Retirement { deleted, next }) => {
                    *looked_at = next;
                    if looked_at.is_none() {
                        return;
                    }
                    vain += usize::from(deleted == 0);
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(%error, "could not delete old evidence");
                    return;
                }
            }
        }
    }
}
