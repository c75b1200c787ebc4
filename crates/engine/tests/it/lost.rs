//! A store that has broken for good, or that another process has (notes 2.7, INV-15).

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::operation::{Effect, Stage as Step};
use taskgate_core::recovery::Survival;
use taskgate_engine::engine::SubmitError;
use taskgate_store::Error;
use taskgate_store::memory::{CommandKind, Fault};
use tokio::time::{Instant, timeout};

use crate::stage::{Puppet, Stage, call, no, text};

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn notes_2_7_with_a_broken_store_nothing_more_is_sent_and_whoever_runs_the_engine_is_told() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let under_way = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    assert!(!stage.engine.is_lost());
    // Nobody writes anything at that time: the log is moved in an idle moment.
    stage.store.break_down("disk I/O error");
    let lost = timeout(SOON, stage.engine.lost()).await.expect("it is told");
    assert!(matches!(&*lost, Error::Broken { reason, .. } if reason == "disk I/O error"), "{lost:?}");
    let refused = stage.engine.submit(call(Effect::Consequential), stage.back.clone()).await;
    assert!(matches!(refused, Err(SubmitError::Store(Error::Broken { .. }))), "{refused:?}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
    // What comes now cannot be recorded here, and nobody waits until it can.
    let _ = heard.answer.send(text("{}"));
    timeout(SOON, stage.engine.shutdown(SOON * 60)).await.expect("nothing hangs");

    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    let record = stage.read(&under_way).await;
    assert!(matches!(record.operation.stage, Step::Unknown(_)), "{record:?}");
}

#[tokio::test(start_paused = true)]
async fn inv_45_a_call_at_which_the_store_breaks_is_refused_as_in_doubt_at_once_and_not_sent() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let store = stage.store.clone();
    let breaks = async move { store.break_down("disk I/O error") };
    stage.store.inject(CommandKind::Create, Fault::Late(Box::pin(breaks)));
    let begun = Instant::now();
    let refused = stage.engine.submit(call(Effect::Consequential), stage.back.clone()).await;
    assert!(matches!(refused, Err(SubmitError::InDoubt(Error::Broken { .. }))), "{refused:?}");
    assert_eq!(begun.elapsed(), Duration::ZERO, "there is nothing to wait for");
    assert!(stage.engine.is_lost());
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    timeout(SOON, stage.engine.shutdown(SOON * 60)).await.expect("nothing hangs");
}

#[tokio::test(start_paused = true)]
async fn inv_15_an_engine_whose_store_another_process_took_is_told_apart_from_one_that_works() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    stage.submit(call(Effect::Consequential)).await;
    let heard = stage.back.hear().await;
    let _other = stage.store.reopen();
    heard.answer.send(text("{}")).unwrap();
    let lost = timeout(SOON, stage.engine.lost()).await.expect("it is told");
    assert!(matches!(&*lost, Error::InUse { .. }), "{lost:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_waited_for_and_loses_no_store() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    for _ in 0..9 {
        stage.store.inject(CommandKind::Append, no());
    }
    heard.answer.send(text("{\"r\":1}")).unwrap();
    timeout(SOON, stage.over_by(&id)).await.expect("it is recorded when there is room");
    assert_eq!(stage.store.pending_faults(), 0);
    assert!(!stage.engine.is_lost());
    assert!(timeout(SOON, stage.engine.lost()).await.is_err());
}
