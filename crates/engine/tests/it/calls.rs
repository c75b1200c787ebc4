//! Submitting, joining, queueing, cancelling.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::id::{Principal, TaskId};
use taskgate_core::operation::{Doubt, Effect, Outcome, Replay, Stage as Step, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault};
use taskgate_core::time::Millis;
use taskgate_engine::back::{Answer, BackEvent, InFlight, Stand};
use taskgate_engine::engine::{CancelError, SubmitError, Submitted};
use taskgate_engine::limits::{Limits, Own};
use taskgate_store::memory::{CommandKind, Fault as StoreFault};
use taskgate_store::record::Key;
use taskgate_store::{Join, Store};

use crate::stage::{Puppet, Stage, call, me, no, returned, server, task, text};

#[tokio::test(start_paused = true)]
async fn inv_10_the_record_is_dispatched_on_disk_before_the_back_hears_anything() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let stored = stage.store.load(&me(), &id).await.unwrap().unwrap();
    assert!(matches!(stored.operation.stage, Step::Dispatched { .. }));
    heard.answer.send(text("{\"r\":1}")).unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(returned(&record), b"{\"r\":1}");
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
    // Two durable commits, never one, never three (notes 0.2).
    assert_eq!(record.version, 2);
    assert_eq!(stage.store.load(&me(), &id).await.unwrap().unwrap(), *record);
}

#[tokio::test(start_paused = true)]
async fn r4_2_nothing_is_sent_if_the_record_cannot_be_written() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    stage.store.inject(CommandKind::Create, no());
    let refused = stage.engine.submit(call(Effect::Consequential), stage.back.clone()).await;
    assert!(matches!(refused, Err(SubmitError::Store(_))));
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    // Its places are free again.
    let handle = stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&handle.record().id).await;
}

#[tokio::test(start_paused = true)]
async fn inv_01_an_answer_is_not_lost_to_a_store_that_fails_for_a_while() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    for _ in 0..5 {
        stage.store.inject(CommandKind::Append, no());
    }
    stage.back.hear().await.answer.send(text("{\"kept\":true}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"kept\":true}");
    assert_eq!(stage.store.pending_faults(), 0);
}

#[tokio::test(start_paused = true)]
async fn r6_1_foreign_unknown_and_expired_ids_are_alike() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::ReadOnly)).await.record().id.clone();
    let stranger = Principal::anonymous();
    assert!(stage.engine.find(&stranger, &id).await.unwrap().is_none());
    assert!(stage.engine.cancel(&stranger, &id, CancelRule::Promise).await.unwrap().is_none());
    let unknown = TaskId::parse("tnothing").unwrap();
    assert!(stage.engine.find(&me(), &unknown).await.unwrap().is_none());
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
    stage.clock.skip_ms(25 * 3_600_000);
    assert!(stage.engine.find(&me(), &id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn r4_6_the_same_key_joins_and_another_request_under_it_is_refused() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let keyed = |digest| {
        let mut new = call(Effect::Consequential);
        new.call.key = Some(Key::of_caller("k"));
        new.call.digest = digest;
        new.join = Join::SameKey;
        new
    };
    let first = stage.submit(keyed([1; 32])).await.record().id.clone();
    let Submitted::Joined(again) = stage.engine.submit(keyed([1; 32]), stage.back.clone()).await.unwrap()
    else {
        panic!("it joins");
    };
    assert_eq!(again.record().id, first);
    let other = stage.engine.submit(keyed([2; 32]), stage.back.clone()).await;
    assert!(matches!(other, Err(SubmitError::KeyReused)));
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_identical_call_joins_while_the_first_is_unfinished() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let plain = || {
        let mut new = call(Effect::Consequential);
        new.join = Join::SameCall;
        new
    };
    let first = stage.submit(plain()).await.record().id.clone();
    let joined = stage.engine.submit(plain(), stage.back.clone()).await.unwrap();
    assert!(matches!(joined, Submitted::Joined(ref handle) if handle.record().id == first));
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&first).await;
    // Finished and known to be done: a new call is a new wish.
    assert_ne!(stage.submit(plain()).await.record().id, first);
}

#[tokio::test(start_paused = true)]
async fn a_120_calls_beyond_the_running_ones_wait_and_beyond_the_queue_are_refused() {
    let limits = Limits { running_max: 1, queue_max: 1, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let first = stage.submit(call(Effect::Consequential)).await;
    let second = stage.submit(call(Effect::Consequential)).await;
    assert_eq!(second.record().operation.stage, Step::Prepared);
    let third = stage.engine.submit(call(Effect::Consequential), stage.back.clone()).await;
    assert!(matches!(third, Err(SubmitError::Busy { .. })));
    stage.back.hear().await.answer.send(text("{\"n\":1}")).unwrap();
    stage.over_by(&first.record().id).await;
    let heard = stage.back.hear().await;
    assert!(matches!(second.record().operation.stage, Step::Dispatched { .. }));
    heard.answer.send(text("{\"n\":2}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&second.record().id).await), b"{\"n\":2}");
}

#[tokio::test(start_paused = true)]
async fn a_094_g_024_one_principal_has_only_so_many_unfinished_tasks() {
    let limits = Limits { live_max: 1, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let first = stage.submit(call(Effect::ReadOnly)).await;
    let second = stage.engine.submit(call(Effect::ReadOnly), stage.back.clone()).await;
    assert!(matches!(second, Err(SubmitError::TooManyTasks { max: 1 })));
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&first.record().id).await;
    // The count falls when the driver leaves, a moment after the end is shown.
    while stage.engine.submit(call(Effect::ReadOnly), stage.back.clone()).await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_090_a_promised_cancellation_is_final_and_the_effect_is_still_told_to_the_ledger() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    let cancelled = stage.engine.cancel(&me(), &id, CancelRule::Promise).await.unwrap().unwrap();
    assert_eq!(cancelled.task.ending(), Some(&Ending::Cancelled));
    heard.stop.cancelled().await;
    heard.answer.send(text("{\"done\":true}")).unwrap();
    let mut handle = stage.engine.find(&me(), &id).await.unwrap().unwrap();
    while handle.record().operation.is_open() {
        handle.changed().await;
    }
    let record = handle.record();
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
    let again = stage.engine.cancel(&me(), &id, CancelRule::Promise).await;
    assert!(matches!(again, Err(CancelError::AlreadyOver(_))));
}

#[tokio::test(start_paused = true)]
async fn b_101_a_wished_cancellation_leaves_the_end_to_the_back() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    let wished = stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap().unwrap();
    assert!(wished.task.ending().is_none());
    heard.stop.cancelled().await;
    heard.answer.send(text("{\"too\":\"late\"}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"too\":\"late\"}");
    assert!(stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap().is_some());
}

/// In real time, since a paused clock stands still while anybody works.
#[tokio::test]
async fn r5_2_a_server_that_never_stops_talking_holds_up_neither_a_cancellation_nor_the_deadline() {
    for is_cancelled in [true, false] {
        let limits = Limits { deadline: Millis::secs(1), ..Limits::default() };
        let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
        let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
        let heard = stage.back.hear().await;
        let talking = tokio::spawn(async move {
            loop {
                // More than a driver takes before it lets others go on.
                for _ in 0..8_000 {
                    let said = BackEvent::Progress("{\"progress\":1}".into());
                    if heard.events.send(said).is_err() {
                        return;
                    }
                }
                tokio::task::yield_now().await;
            }
        });
        let ends = async {
            if is_cancelled {
                stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
                heard.stop.cancelled().await;
            } else {
                let record = stage.over_by(&id).await;
                assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
            }
        };
        tokio::time::timeout(Duration::from_secs(20), ends).await.expect("it is heard");
        talking.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn r4_4_a_cancelled_call_that_nobody_answers_is_unknown_not_undone() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let _heard = stage.back.hear().await;
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn b_037_a_call_that_is_stopped_by_closing_its_stream_is_cancelled() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    heard.stop.cancelled().await;
    drop(heard);
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn inv_17_a_call_cancelled_in_the_queue_is_never_sent() {
    let limits = Limits { running_max: 1, ..Limits::default() };
    for rule in [CancelRule::Promise, CancelRule::Wish] {
        let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits.clone());
        stage.submit(call(Effect::Consequential)).await;
        let queued = stage.submit(call(Effect::Consequential)).await.record().id.clone();
        let record = stage.engine.cancel(&me(), &queued, rule).await.unwrap().unwrap();
        assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
        assert_eq!(record.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
        stage.back.hear().await.answer.send(text("{}")).unwrap();
        let third = stage.submit(call(Effect::Consequential)).await;
        stage.back.hear().await.answer.send(text("{}")).unwrap();
        stage.over_by(&third.record().id).await;
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn r5_4_a_workflow_has_bounds_of_its_own_and_the_other_tools_have_theirs() {
    let own = Own {
        workflow: "payments".to_owned(),
        running_max: Some(2),
        deadline: Some(Millis::secs(5)),
        ttl_max: Some(Millis::hours(2)),
        ..Own::default()
    };
    let mut limits = Limits { running_max: 1, ..Limits::default() };
    limits.own.entry(server()).or_default().insert("pay".to_owned(), Arc::new(own));
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let pay = || {
        let mut new = call(Effect::Consequential);
        new.call.tool = "pay".to_owned();
        new
    };
    // A slow tool beside it takes none of its places, nor it one of theirs.
    let slow = stage.submit(call(Effect::Consequential)).await;
    let _held = stage.back.hear().await;
    let waiting = stage.submit(call(Effect::Consequential)).await;
    let first = stage.submit(pay()).await;
    let second = stage.submit(pay()).await;
    let third = stage.submit(pay()).await;
    let is_sent =
        |handle: &taskgate_engine::Handle| matches!(handle.record().operation.stage, Step::Dispatched { .. });
    assert_eq!([&waiting, &first, &second, &third].map(is_sent), [false, true, true, false]);
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&first.record().id).await;
    assert!(is_sent(&stage.engine.find(&me(), &third.record().id).await.unwrap().unwrap()));
    // Deadline and lifetime are its own too.
    let record = third.record();
    let created = record.task.lifetime.created;
    assert_eq!(record.deadline, created + Millis::secs(5));
    assert_eq!(record.task.lifetime.max, Millis::hours(2));
    let record = slow.record();
    assert_eq!(record.deadline, record.task.lifetime.created + Limits::default().deadline);
    let late = stage.over_by(&third.record().id).await;
    assert_eq!(late.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert!(slow.record().task.ending().is_none());
}

#[tokio::test(start_paused = true)]
async fn r3_6_at_the_deadline_the_work_is_cancelled_and_the_outcome_left_open() {
    let limits = Limits { deadline: Millis::secs(5), ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::DeadlinePassed));
    assert!(heard.stop.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_means_for_the_outcome() {
    let raised = |code| Answer::Raised { code, error: bytes::Bytes::from_static(b"{}") };
    let cases = [
        (Answer::Returned { result: "{}".into(), is_error: true }, Step::Unknown(Doubt::ToolError)),
        (raised(-32602), Step::Settled(Outcome::Reported(Verdict::NotApplied))),
        (raised(-32000), Step::Unknown(Doubt::PeerError)),
        (Answer::NeverSent("refused".to_owned()), Step::Settled(Outcome::Confirmed(Verdict::NotApplied))),
        (Answer::Lost("cut".to_owned()), Step::Unknown(Doubt::AnswerLost)),
        (Answer::Nonsense("odd".to_owned()), Step::Unknown(Doubt::PeerError)),
    ];
    for (answer, step) in cases {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
        stage.back.hear().await.answer.send(answer.clone()).unwrap();
        assert_eq!(stage.over_by(&id).await.operation.stage, step, "{answer:?}");
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn inv_11_a_lost_read_is_sent_again_and_a_lost_payment_is_not() {
    for (effect, sent) in [(Effect::ReadOnly, 2), (Effect::Consequential, 1)] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let id = stage.submit(call(effect)).await.record().id.clone();
        drop(stage.back.hear().await);
        if effect == Effect::ReadOnly {
            stage.back.hear().await.answer.send(text("{}")).unwrap();
        }
        stage.over_by(&id).await;
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn inv_17_a_call_that_is_cancelled_while_it_waits_to_be_sent_again_is_not_sent() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut new = call(Effect::Consequential);
    new.replay = Replay::Natural;
    let id = stage.submit(new).await.record().id.clone();
    drop(stage.back.hear().await);
    // Nothing else is left to do in this moment than to wait for the next try.
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::Cancelled));
    assert_eq!((record.operation.attempts, stage.back.sent.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn r4_5_a_second_attempt_that_never_left_does_not_say_that_nothing_happened() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut new = call(Effect::Consequential);
    new.replay = Replay::Natural;
    let id = stage.submit(new).await.record().id.clone();
    drop(stage.back.hear().await);
    // The first was lost; the next ones meet a closed door, until the budget for sending is spent.
    let record = loop {
        tokio::select! {
            heard = stage.back.hear() => {
                let _ = heard.answer.send(Answer::NeverSent("refused".to_owned()));
            }
            record = stage.over_by(&id) => break record,
        }
    };
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::OutcomeUnknown(_)))), "{record:?}");
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert!(stage.back.sent.load(Ordering::SeqCst) > 2, "it was tried again");
}

/// The process is suspended, or the disk slow, between the commit of a second attempt and its first byte.
#[tokio::test(start_paused = true)]
async fn r4_5_an_attempt_is_not_sent_once_the_window_of_its_key_has_passed_since_it_was_written_down() {
    for (suspended_ms, sent) in [(50_000, 2), (61_000, 1)] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let mut new = call(Effect::Consequential);
        new.replay = Replay::Keyed { window: Millis::secs(60) };
        let id = stage.submit(new).await.record().id.clone();
        let clock = stage.clock.clone();
        let suspended = Box::pin(async move { clock.skip_ms(suspended_ms) });
        stage.store.inject(CommandKind::Append, StoreFault::Late(suspended));
        drop(stage.back.hear().await);
        if sent == 2 {
            stage.back.hear().await.answer.send(text("{}")).unwrap();
        }
        let record = stage.over_by(&id).await;
        assert_eq!((record.operation.attempts, stage.store.pending_faults()), (2, 0));
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), sent, "after {suspended_ms} ms");
        if sent == 1 {
            assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
            assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::OutcomeUnknown(_)))));
        }
    }
}

/// A first attempt repeats nothing, however late it is.
#[tokio::test(start_paused = true)]
async fn r4_5_a_first_attempt_is_sent_whatever_the_window_of_its_key() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let clock = stage.clock.clone();
    stage.store.inject(CommandKind::Create, StoreFault::Late(Box::pin(async move { clock.skip_ms(61_000) })));
    let mut new = call(Effect::Consequential);
    new.replay = Replay::Keyed { window: Millis::secs(60) };
    let id = stage.submit(new).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    assert_eq!(stage.over_by(&id).await.operation.attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_that_outlasts_its_time_is_recorded_and_taken_over() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let in_flight = taskgate_engine::back::Back::call(
        &*stage.back,
        taskgate_engine::back::Outgoing {
            tool: "t".to_owned(),
            params: bytes::Bytes::new(),
            asking: taskgate_core::gate::Asking::Held,
            ttl: Millis(0),
            key: None,
            offers: "{}".to_owned(),
            round: None,
        },
    );
    let heard = stage.back.hear().await;
    let handle =
        stage.engine.adopt(call(Effect::ReadOnly), stage.back.clone(), in_flight, None).await.unwrap();
    assert!(stage.store.load(&me(), &handle.record().id).await.unwrap().is_some());
    heard.answer.send(text("{\"late\":1}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&handle.record().id).await), b"{\"late\":1}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_a_back_answers_by_a_task_is_observed() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let handle = stage
        .engine
        .adopt(call(Effect::ReadOnly), stage.back.clone(), InFlight::ready(task()), None)
        .await
        .unwrap();
    stage.back.stands(Stand::Ended(Box::new(text("{\"r\":2}"))));
    assert_eq!(returned(&*stage.over_by(&handle.record().id).await), b"{\"r\":2}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_engine_takes_nothing_new_and_says_so() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let _heard = stage.back.hear().await;
    stage.engine.shutdown(Duration::from_millis(10)).await;
    let refused = stage.engine.submit(call(Effect::ReadOnly), stage.back.clone()).await;
    assert!(matches!(refused, Err(SubmitError::Stopping)));
    // What was under way is as the crash table wants to find it.
    let stored = stage.store.load(&me(), &id).await.unwrap().unwrap();
    assert!(matches!(stored.operation.stage, Step::Dispatched { .. }));
}
