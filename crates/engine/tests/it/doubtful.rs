//! A store that says that it could not, though it could, and one that cannot say (INV-45).

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::operation::{
    Attestation, Doubt, Effect, Inquiry, Outcome, Replay, Stage as Step, Text, Verdict,
};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault as End, QuestionKey};
use taskgate_core::time::Millis;
use taskgate_engine::back::{Answer, BackEvent, Reply};
use taskgate_engine::engine::{Answered, SubmitError};
use taskgate_engine::limits::Limits;
use taskgate_store::memory::{CommandKind, Fault};
use taskgate_store::{Error, Store};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::stage::{Puppet, Stage, call, form, me, no, returned, task, text};

fn cut() -> Error {
    Error::Backend { doing: "commit", source: Box::from("the connection was cut") }
}

/// It was done, and nobody hears so.
fn ambiguous() -> Fault {
    Fault::Ambiguous(cut())
}

fn unreadable(stage: &Stage, reads: usize) {
    for _ in 0..reads {
        stage.store.inject(CommandKind::Read, Fault::Fail(cut()));
    }
}

const SOON: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn inv_45_a_call_that_was_recorded_though_the_store_said_no_is_carried_out_once() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    stage.store.inject(CommandKind::Create, ambiguous());
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    let over = timeout(SOON, stage.over_by(&id)).await.expect("somebody drives it");
    assert_eq!(returned(&over), b"{\"r\":1}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn inv_45_a_call_of_which_the_store_cannot_say_in_time_whether_it_is_recorded_is_never_sent() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    stage.store.inject(CommandKind::Create, ambiguous());
    unreadable(&stage, 10);
    let refused = stage.engine.submit(call(Effect::Consequential), stage.back.clone()).await;
    assert!(matches!(refused, Err(SubmitError::InDoubt(_))), "{refused:?}");
    // It was recorded; its task ends as what it is, though nobody was told of it.
    let id = loop {
        match stage.store.list(taskgate_store::Whose::Everyone, None, 9).await {
            Ok(listed) => break listed[0].id().clone(),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    };
    let over = timeout(SOON, stage.over_by(&id)).await.expect("it ends");
    assert!(matches!(over.task.ending(), Some(Ending::Faulted(End::NeverSent(_)))), "{over:?}");
    assert_eq!(over.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
    assert_eq!((stage.back.sent.load(Ordering::SeqCst), stage.engine.live()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn inv_45_an_end_that_was_written_though_the_store_said_no_is_shown_and_written_once() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.store.inject(CommandKind::Append, ambiguous());
    // And for a while nobody can find out.
    unreadable(&stage, 3);
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    let over = timeout(SOON, stage.over_by(&id)).await.expect("whoever waits is woken (INV-35)");
    assert_eq!((returned(&over), over.version), (&b"{\"r\":1}"[..], 2));
    assert_eq!(stage.store.pending_faults(), 0);
    assert_eq!(stage.store.load(&me(), &id).await.unwrap().unwrap(), *over);
}

#[tokio::test(start_paused = true)]
async fn inv_35_an_end_in_doubt_whose_task_is_purged_before_anybody_can_tell_wakes_who_waits() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    stage.store.inject(CommandKind::Append, ambiguous());
    unreadable(&stage, 3);
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    while stage.store.pending_faults() > 0 {
        // The disk takes deletions before it can be read.
        let far = stage.engine.clock().now() + Millis::hours(99);
        stage.store.purge(far, 9).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let over = timeout(SOON, handle.over()).await.expect("whoever waits is woken");
    assert_eq!(returned(&over), b"{\"r\":1}");
    assert!(stage.store.load(&me(), &over.id).await.unwrap().is_none());
    while stage.engine.live() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn inv_45_a_cancellation_that_was_written_though_the_store_said_no_holds() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    stage.store.inject(CommandKind::Append, ambiguous());
    let record = stage.engine.cancel(&me(), &id, CancelRule::Promise).await.unwrap().unwrap();
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    timeout(SOON, heard.stop.cancelled()).await.expect("the server is told");
    heard.answer.send(text("{\"done\":1}")).unwrap();
    while stage.engine.live() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let record = stage.read(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
}

#[tokio::test(start_paused = true)]
async fn inv_45_a_cancellation_in_doubt_is_found_out_before_anything_else_is_decided() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    stage.store.inject(CommandKind::Append, ambiguous());
    unreadable(&stage, 9);
    let refused = stage.engine.cancel(&me(), &id, CancelRule::Wish).await;
    assert!(refused.is_err(), "{refused:?}");
    timeout(SOON, heard.stop.cancelled()).await.expect("what was wished reaches the server all the same");
    heard.answer.send(text("{\"done\":1}")).unwrap();
    let over = timeout(SOON, stage.over_by(&id)).await.expect("it goes on");
    assert!(over.task.cancel_wished_at.is_some());
    assert_eq!((returned(&over), over.version), (&b"{\"done\":1}"[..], 3));
}

#[tokio::test(start_paused = true)]
async fn inv_20_inv_45_an_answer_that_was_taken_though_the_store_said_no_reaches_the_server_once() {
    for reads in [0, 9] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let mut handle = stage.submit(call(Effect::Consequential)).await;
        let id = handle.record().id.clone();
        let heard = stage.back.hear().await;
        let (reply, replied) = oneshot::channel();
        heard.events.send(BackEvent::Asked { ask: 1, question: form("{}"), reply }).unwrap();
        while handle.record().task.outstanding().is_none() {
            handle.changed().await;
        }
        stage.store.inject(CommandKind::Append, ambiguous());
        unreadable(&stage, reads);
        let key = QuestionKey("in-1".to_owned());
        let accept = || Reply::Result("{\"action\":\"accept\"}".into());
        let taken = stage.engine.answer(&me(), &id, &key, accept()).await;
        // Where nobody could find out in time the client hears an error, and its answer is not lost by that.
        assert_eq!(taken.is_err(), reads > 0, "{taken:?}");
        let reached = timeout(SOON, replied).await.expect("the server has its answer").unwrap();
        assert!(matches!(reached, Reply::Result(_)));
        let again = stage.engine.answer(&me(), &id, &key, accept()).await.unwrap();
        assert_eq!(again, Some(Answered::NotOutstanding));
        heard.answer.send(text("{}")).unwrap();
        timeout(SOON, stage.over_by(&id)).await.expect("it ends");
    }
}

#[tokio::test(start_paused = true)]
async fn inv_45_a_persons_word_that_was_written_though_the_store_said_no_is_written_once() {
    for is_purged in [false, true] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let record = stage.submit(call(Effect::Consequential)).await.record();
        drop(stage.back.hear().await);
        let over = stage.over_by(&record.id).await;
        assert!(matches!(over.operation.inquiry, Inquiry::Person { .. }));
        if is_purged {
            stage.clock.skip_ms(25 * 3_600_000);
            assert_eq!(stage.store.purge(stage.engine.clock().now(), 9).await.unwrap(), 1);
        }
        let kind = if is_purged { CommandKind::Settle } else { CommandKind::Append };
        stage.store.inject(kind, ambiguous());
        let attestation = Attestation {
            verdict: Verdict::Applied,
            name: Text::new("ann"),
            reason: Text::new("it is in the books"),
        };
        let entry = stage.engine.attest(&record.operation_id, attestation).await.unwrap();
        assert_eq!(entry.operation.stage, Step::Settled(Outcome::Attested(Verdict::Applied)));
        let stored = stage.store.operation(&record.operation_id).await.unwrap().unwrap();
        assert_eq!((stored.version, stored.operation), (over.version + 1, entry.operation));
        assert_eq!(stage.store.pending_faults(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn inv_10_a_dispatch_that_never_came_to_disk_is_not_sent_when_the_engine_stops() {
    let limits = Limits { running_max: 1, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    stage.submit(call(Effect::Consequential)).await;
    let queued = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let first = stage.back.hear().await;
    // The first ends; from then on the disk takes nothing, and the second, whose turn it is, cannot be recorded as sent.
    for _ in 0..99 {
        stage.store.inject(CommandKind::Append, no());
    }
    first.answer.send(text("{}")).unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.engine.shutdown(Duration::from_millis(Millis::secs(1).0)).await;
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
    let stored = stage.store.load(&me(), &queued).await.unwrap().unwrap();
    assert_eq!(stored.operation.stage, Step::Prepared);
}

#[tokio::test(start_paused = true)]
async fn inv_17_what_is_cancelled_while_it_waits_to_be_sent_again_is_not_sent() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut new = call(Effect::Consequential);
    new.replay = Replay::Natural;
    let id = stage.submit(new).await.record().id.clone();
    stage.back.hear().await.answer.send(Answer::Lost("the line broke".to_owned())).unwrap();
    // It is about to be sent again, after a pause.
    tokio::time::sleep(Duration::from_millis(1)).await;
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    let over = timeout(SOON, stage.over_by(&id)).await.expect("it ends");
    assert_eq!((over.task.ending(), over.operation.attempts), (Some(&Ending::Cancelled), 1));
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_promised_to_be_over_is_listened_to_no_longer_after_a_restart_than_before() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    while !matches!(handle.record().operation.stage, Step::Observing { .. }) {
        handle.changed().await;
    }
    stage.engine.cancel(&me(), &id, CancelRule::Promise).await.unwrap();
    let stage = stage.restart(Puppet::new(Survival::Survives)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let record = stage.read(&id).await;
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::Cancelled));
    assert_eq!((stage.back.cancels.load(Ordering::SeqCst), stage.engine.live()), (1, 0));
}
