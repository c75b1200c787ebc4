//! A crash at every write of a reconciliation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taskgate_core::operation::{Outcome, Stage as Step, Verdict};
use taskgate_engine::limits::Limits;
use taskgate_store::memory::MemoryStore;

use super::bank::{Policy, Town, lost, pay};
use crate::crash::DiesAfter;
use crate::stage::text;

/// Loses the first call, and carries out those after it; a look-up tells how often that was.
async fn life(town: &Town, made: &AtomicUsize) {
    loop {
        let heard = town.hear().await;
        if made.fetch_add(1, Ordering::SeqCst) == 0 {
            let _ = heard.answer.send(lost());
        } else {
            town.looks.then(text("yes"));
            let _ = heard.answer.send(text("{\"paid\":1}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn inv_11_r4_5_a_crash_at_every_write_of_a_reconciliation_sends_at_most_once_more() {
    let mut kinds = [0; 2];
    for (last, last_is_done) in (2..=7).flat_map(|last| [(last, false), (last, true)]) {
        let policy = || {
            let mut policy = Policy { fences: true, ..Policy::default() };
            policy.asks.resend = true;
            policy
        };
        let store = MemoryStore::new();
        let dying = DiesAfter::over(&store, last, last_is_done);
        let town = Town::over(policy(), Limits::default(), store, Some(Arc::new(dying)));
        // The first look-up says nothing, the second that nothing was done.
        town.looks.first(text("huh"));
        town.looks.then(text("no"));
        town.fences.then(text("fenced"));
        let sent = AtomicUsize::new(0);
        let handle = town.stage.submit(pay()).await;
        let (task, id) = (handle.record().id.clone(), handle.record().operation_id.clone());
        // The first life, which ends in the middle.
        let _ = tokio::time::timeout(Duration::from_secs(600), life(&town, &sent)).await;
        let before = sent.load(Ordering::SeqCst);
        assert!((1..=2).contains(&before), "write {last} (done: {last_is_done}): sent {before} times");
        let town = town.restart().await;
        // The second life: it is found out, whatever was written.
        let living = life(&town, &sent);
        let over = async {
            let record = town.stage.over_by(&task).await;
            (record, town.once(&id, |operation| !operation.is_active()).await)
        };
        let (_, operation) = tokio::select! {
            () = living => unreachable!("it goes on for ever"),
            over = over => over,
        };
        let sent = sent.load(Ordering::SeqCst);
        assert!(sent <= 2, "write {last} (done: {last_is_done}): sent {sent} times");
        match operation.stage {
            // The second attempt was made and confirmed, or nothing was ever done.
            Step::Settled(Outcome::Confirmed(Verdict::Applied)) => {
                assert_eq!(sent, 2);
                kinds[0] += 1;
            }
            Step::Settled(Outcome::Confirmed(Verdict::NotApplied)) => kinds[1] += 1,
            other => panic!("write {last} (done: {last_is_done}): {other:?}\n{}", town.history(&id).await),
        }
    }
    assert!(kinds[0] > 0, "some went through to the end: {kinds:?}");
}
