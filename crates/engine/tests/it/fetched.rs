//! Frames that come twice, and results that nobody fetched.

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::operation::Effect;
use taskgate_core::recovery::Survival;
use taskgate_core::task::CancelRule;
use taskgate_engine::back::Answer;
use taskgate_engine::engine::{NewCall, SubmitError, Submitted};
use taskgate_engine::limits::Limits;
use taskgate_store::memory::{CommandKind, Fault};
use taskgate_store::record::{Frame, Key};
use taskgate_store::{Join, Store, Unfetched};

use crate::stage::{Puppet, Stage, call, me, no, returned, text};

fn framed(sequence: u64) -> NewCall {
    let mut new = call(Effect::Consequential);
    new.call.frame = Some(Frame { attachment: [9; 16], sequence });
    new.join = Join::SameCall;
    new
}

#[tokio::test(start_paused = true)]
async fn r3_3_a_frame_sent_again_after_a_crash_is_the_same_call_and_is_not_sent_twice() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(framed(1)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    stage.over_by(&id).await;
    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    let Submitted::Again(mut again) = stage.engine.submit(framed(1), stage.back.clone()).await.unwrap()
    else {
        panic!("it is the same call");
    };
    assert_eq!(again.record().id, id);
    assert_eq!(returned(&*again.over().await), b"{\"r\":1}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    // Its places are free again.
    assert_eq!(stage.engine.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn r4_8_a_frame_whose_task_is_gone_is_not_sent_again_either() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(framed(1)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
    stage.clock.skip_ms(30 * 3_600_000);
    let now = stage.engine.clock().now();
    assert_eq!(stage.store.purge(now, 9).await.unwrap(), 1);
    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    let again = stage.engine.submit(framed(1), stage.back.clone()).await.unwrap();
    assert!(matches!(again, Submitted::Known(_)), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn design_3_a_result_that_nobody_fetched_is_joined_until_somebody_has() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(framed(1)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    stage.over_by(&id).await;
    assert_eq!(stage.engine.unfetched(&me()).await.unwrap(), Unfetched { running: 0, ended: 1 });

    let Submitted::Joined(joined) = stage.engine.submit(framed(2), stage.back.clone()).await.unwrap() else {
        panic!("it joins");
    };
    assert_eq!(returned(&joined.record()), b"{\"r\":1}");
    stage.engine.fetched(&me(), &id).await;
    assert_eq!(stage.engine.unfetched(&me()).await.unwrap(), Unfetched::default());
    assert_ne!(stage.submit(framed(3)).await.record().id, id);
    assert_eq!(stage.engine.unfetched(&me()).await.unwrap(), Unfetched { running: 1, ended: 0 });
}

#[tokio::test(start_paused = true)]
async fn design_3_a_call_after_a_tool_s_own_error_is_a_new_one() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let plain = || {
        let mut new = call(Effect::Consequential);
        new.join = Join::SameCall;
        new
    };
    let first = stage.submit(plain()).await.record().id.clone();
    let result = bytes::Bytes::from_static(b"{}");
    stage.back.hear().await.answer.send(Answer::Returned { result, is_error: true }).unwrap();
    stage.over_by(&first).await;
    let second = stage.submit(plain()).await.record().id.clone();
    assert_ne!(second, first);
    // An answer that was lost is another matter.
    drop(stage.back.hear().await.answer);
    stage.over_by(&second).await;
    let third = stage.engine.submit(plain(), stage.back.clone()).await.unwrap();
    assert!(matches!(third, Submitted::Joined(ref handle) if handle.record().id == second), "{third:?}");
}

#[tokio::test(start_paused = true)]
async fn design_3_that_a_result_was_fetched_wakes_nobody_and_later_reads_see_it() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(framed(1)).await.record().id.clone();
    // Nobody can have been given what is not there.
    stage.engine.fetched(&me(), &id).await;
    assert_eq!(stage.read(&id).await.fetched, None);
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    let version = stage.over_by(&id).await.version;
    let mut watcher = stage.engine.find(&me(), &id).await.unwrap().unwrap();
    let at = stage.engine.clock().now();
    stage.engine.fetched(&me(), &id).await;
    assert!(tokio::time::timeout(Duration::from_secs(1), watcher.changed()).await.is_err());
    stage.engine.fetched(&me(), &id).await;
    let record = stage.read(&id).await;
    assert_eq!((record.fetched, record.version), (Some(at), version));
    assert_eq!(stage.store.load(&me(), &id).await.unwrap(), Some(record));
}

#[tokio::test(start_paused = true)]
async fn design_3_a_late_word_on_the_effect_does_not_undo_a_fetch() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(framed(1)).await.record().id.clone();
    let heard = stage.back.hear().await;
    stage.engine.cancel(&me(), &id, CancelRule::Promise).await.unwrap();
    stage.engine.fetched(&me(), &id).await;
    let fetched = stage.read(&id).await.fetched;
    assert!(fetched.is_some());
    heard.answer.send(text("{}")).unwrap();
    while stage.engine.live() > 0 {
        tokio::task::yield_now().await;
    }
    let record = stage.read(&id).await;
    assert!(!record.operation.is_open());
    assert_eq!(record.fetched, fetched);
}

#[tokio::test(start_paused = true)]
async fn inv_45_a_store_that_cannot_note_a_fetch_costs_nothing_else() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(framed(1)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
    stage.store.inject(CommandKind::Fetched, no());
    stage.engine.fetched(&me(), &id).await;
    assert_eq!(stage.read(&id).await.fetched, None);
    stage.engine.fetched(&me(), &id).await;
    assert!(stage.read(&id).await.fetched.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_of_what_is_over_counts_nothing_twice() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let over = stage.submit(call(Effect::ReadOnly)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&over).await;
    stage.submit(call(Effect::ReadOnly)).await;
    assert_eq!(stage.engine.live(), 1);
    stage.engine.cancel(&me(), &over, CancelRule::Wish).await.unwrap();
    assert_eq!(stage.engine.live(), 1);
}

#[tokio::test(start_paused = true)]
async fn inv_35_a_call_that_joins_in_the_moment_of_the_first_one_s_recording_hears_of_its_end() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    // The first is on disk, and its store has not said so yet.
    let (say, said) = tokio::sync::oneshot::channel();
    let late = Box::pin(async move { said.await.unwrap_or_default() });
    stage.store.inject(CommandKind::Create, Fault::Late(late));
    let (engine, back) = (stage.engine.clone(), stage.back.clone());
    let first = tokio::spawn(async move { engine.submit(framed(1), back).await.unwrap() });
    while stage.store.unfinished(None, 1).await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let joins = [framed(1), framed(2)].map(|new| {
        let (engine, back) = (stage.engine.clone(), stage.back.clone());
        tokio::spawn(async move { engine.submit(new, back).await.unwrap() })
    });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    say.send(()).unwrap();
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    for join in joins {
        match join.await.unwrap() {
            Submitted::Again(mut handle) | Submitted::Joined(mut handle) => {
                assert_eq!(returned(&*handle.over().await), b"{\"r\":1}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(first.await.unwrap(), Submitted::Started(_)));
}

#[tokio::test(start_paused = true)]
async fn r4_6_a_call_that_comes_again_finds_the_first_where_a_new_one_would_be_refused() {
    let limits =
        Limits { running_max: 1, queue_max: 1, live_max: 2, live_max_shared: 2, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let by_frame = |sequence| NewCall { join: Join::Never, ..framed(sequence) };
    let by_key = || {
        let mut new = call(Effect::Consequential);
        (new.call.key, new.join) = (Some(Key::of_caller("k-1".to_owned())), Join::SameKey);
        new
    };
    let first = stage.submit(by_frame(1)).await.record().id.clone();
    let second = stage.submit(by_key()).await.record().id.clone();
    let submit = |new| stage.engine.submit(new, stage.back.clone());
    // There is no place any more, neither for its principal nor in the queue.
    assert!(matches!(submit(by_frame(2)).await, Err(SubmitError::TooManyTasks { .. })));
    let finds = async |new, id| match submit(new).await {
        Ok(Submitted::Again(handle) | Submitted::Joined(handle)) => assert_eq!(handle.record().id, id),
        other => panic!("{other:?}"),
    };
    finds(by_frame(1), first.clone()).await;
    finds(by_key(), second.clone()).await;
    // The disk is full, and for a moment it cannot be read either.
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    stage.over_by(&first).await;
    for reads in [0, 3] {
        for (new, id) in [(by_frame(1), first.clone()), (by_key(), second.clone())] {
            stage.store.inject(CommandKind::Create, no());
            (0..reads).for_each(|_| stage.store.inject(CommandKind::Read, no()));
            finds(new, id).await;
            assert_eq!(stage.store.pending_faults(), 0);
        }
    }
    // Where nobody can tell, that is what is said.
    stage.store.inject(CommandKind::Create, no());
    (0..99).for_each(|_| stage.store.inject(CommandKind::Read, no()));
    let told = submit(by_frame(1)).await;
    assert!(matches!(told, Err(SubmitError::InDoubt(_))), "{told:?}");
}
