//! Work whose server is not there yet after a restart.

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::id::{ServerName, TaskId};
use taskgate_core::operation::{Doubt, Effect, Outcome, Replay, Stage as Step, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault, QuestionKey};
use taskgate_engine::back::{BackEvent, Reply, Stand};
use taskgate_engine::engine::Answered;
use taskgate_engine::limits::Limits;
use taskgate_engine::recover::Recovered;
use taskgate_store::Whose;
use taskgate_store::memory::CommandKind;
use tokio::sync::oneshot;

use crate::stage::{Puppet, Stage, call, form, me, no, returned, server, task, text};

/// The process goes, without a word to the store, and comes back before anybody brought the server.
async fn dies(stage: Stage) -> (Stage, Recovered) {
    stage.engine.shutdown(Duration::ZERO).await;
    stage.restart_without_server().await
}

/// A call that was recorded and never sent, after the restart.
async fn prepared() -> (Stage, TaskId) {
    let limits = Limits { running_max: 0, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let (stage, found) = dies(stage).await;
    assert_eq!(found, Recovered { parked: 1, ..Recovered::default() });
    (stage, id)
}

/// A read-only call that was sent, after the restart.
async fn dispatched() -> (Stage, TaskId) {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::ReadOnly)).await.record().id.clone();
    let heard = stage.back.hear().await;
    let (stage, found) = dies(stage).await;
    drop(heard);
    assert_eq!(found, Recovered { parked: 1, ..Recovered::default() });
    (stage, id)
}

/// A task of a server that outlives us, after the restart.
async fn observed() -> (Stage, TaskId) {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    while !matches!(handle.record().operation.stage, Step::Observing { .. }) {
        handle.changed().await;
    }
    let (stage, found) = dies(stage).await;
    assert_eq!(found, Recovered { parked: 1, ..Recovered::default() });
    (stage, id)
}

fn counts(stage: &Stage) -> (usize, usize) {
    (stage.engine.parked(), stage.engine.live())
}

#[tokio::test(start_paused = true)]
async fn design_4_work_of_a_server_that_is_not_there_waits_for_it() {
    let (stage, id) = prepared().await;
    assert_eq!(counts(&stage), (1, 0));
    assert!(stage.read(&id).await.task.ending().is_none());
    let listed = stage.engine.list(Whose::Principal(&me()), None, 9).await.unwrap();
    assert_eq!(listed.first().map(|summary| summary.id()), Some(&id));
    // Another server's coming is nothing to it.
    let other = ServerName("other".to_owned());
    assert_eq!(stage.engine.take_up(&other).await.unwrap(), Recovered::default());
    assert_eq!(counts(&stage), (1, 0));
    assert_eq!(stage.bring_server().await, Recovered { sent: 1, ..Recovered::default() });
    assert_eq!(counts(&stage), (0, 1));
    stage.back.hear().await.answer.send(text("{\"r\":1}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"r\":1}");
    // It is taken up once.
    assert_eq!(stage.bring_server().await, Recovered::default());
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
    assert_eq!(counts(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn design_4_what_may_be_sent_again_is_sent_again_when_its_server_is_there() {
    let (stage, id) = dispatched().await;
    assert_eq!(stage.bring_server().await, Recovered { sent_again: 1, ..Recovered::default() });
    stage.back.hear().await.answer.send(text("{\"r\":2}")).unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(returned(&record), b"{\"r\":2}");
    assert_eq!(record.operation.attempts, 2);
}

#[tokio::test(start_paused = true)]
async fn design_4_a_server_s_own_task_is_observed_when_the_server_is_there() {
    let (stage, id) = observed().await;
    stage.back.stands(Stand::Ended(Box::new(text("{\"r\":3}"))));
    assert_eq!(stage.bring_server().await, Recovered { resumed: 1, ..Recovered::default() });
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"r\":3}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn design_6_what_needs_no_server_is_decided_at_once() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let sent = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let _heard = stage.back.hear().await;
    let (stage, found) = dies(stage).await;
    assert_eq!(found, Recovered { doubted: 1, ..Recovered::default() });
    assert_eq!(stage.read(&sent).await.operation.stage, Step::Unknown(Doubt::AnswerLost));

    let limits = Limits { running_max: 0, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
    let unsent = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.clock.skip_ms(11 * 60_000);
    let (stage, found) = dies(stage).await;
    assert_eq!(found, Recovered { given_up: 1, ..Recovered::default() });
    assert!(matches!(stage.read(&unsent).await.task.ending(), Some(Ending::Faulted(Fault::NeverSent(_)))));
    assert_eq!(counts(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn design_4_whether_a_call_may_still_be_begun_is_judged_when_its_server_is_there() {
    let (stage, id) = prepared().await;
    stage.clock.skip_ms(11 * 60_000);
    assert_eq!(stage.bring_server().await, Recovered { given_up: 1, ..Recovered::default() });
    let record = stage.read(&id).await;
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::NeverSent(_)))));
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    assert_eq!(counts(&stage), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn r3_6_a_call_is_not_sent_again_after_its_deadline() {
    let (stage, id) = dispatched().await;
    stage.clock.skip_ms(25 * 3_600_000);
    assert_eq!(stage.bring_server().await, Recovered { expired: 1, ..Recovered::default() });
    assert_eq!(stage.over_by(&id).await.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn r3_6_a_task_does_not_work_for_ever_for_a_server_that_never_comes() {
    for begun in 0..3 {
        let (stage, id) = match begun {
            0 => prepared().await,
            1 => dispatched().await,
            _ => observed().await,
        };
        let was = stage.read(&id).await.operation.stage;
        let house = tokio::spawn({
            let engine = stage.engine.clone();
            async move { engine.keep_house().await }
        });
        let mut handle = stage.engine.find(&me(), &id).await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(23 * 3_600)).await;
        assert!(handle.record().task.ending().is_none(), "{was:?}");
        let over = tokio::time::timeout(Duration::from_secs(2 * 3_600), handle.over()).await.unwrap();
        house.abort();
        match was {
            Step::Prepared => {
                assert!(matches!(over.task.ending(), Some(Ending::Faulted(Fault::NeverSent(_)))));
                assert_eq!(over.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
            }
            Step::Dispatched { .. } | Step::Observing { .. } => {
                assert_eq!(over.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
            }
            Step::Settled(_) | Step::Unknown(_) => panic!("{was:?}"),
        }
        assert_eq!(stage.bring_server().await, Recovered::default());
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn design_4_a_parked_call_that_was_never_sent_is_cancelled_for_certain() {
    for rule in [CancelRule::Wish, CancelRule::Promise] {
        let (stage, id) = prepared().await;
        let record = stage.engine.cancel(&me(), &id, rule).await.unwrap().unwrap();
        assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
        assert_eq!(record.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
        assert_eq!(counts(&stage), (0, 0));
        assert_eq!(stage.bring_server().await, Recovered::default());
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn design_4_a_parked_call_that_was_sent_is_cancelled_and_not_sent_again() {
    for (effect, replay, left) in [
        (Effect::ReadOnly, Replay::Never, Step::Settled(Outcome::NoneExpected)),
        (Effect::Consequential, Replay::Natural, Step::Unknown(Doubt::Cancelled)),
    ] {
        for rule in [CancelRule::Wish, CancelRule::Promise] {
            let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
            let mut new = call(effect);
            new.replay = replay;
            let id = stage.submit(new).await.record().id.clone();
            let _heard = stage.back.hear().await;
            let (stage, _) = dies(stage).await;
            let record = stage.engine.cancel(&me(), &id, rule).await.unwrap().unwrap();
            assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
            assert_eq!(record.operation.stage, left);
            assert_eq!(counts(&stage), (0, 0));
            assert_eq!(stage.bring_server().await, Recovered::default());
            assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn x_038_the_cancellation_of_a_parked_observation_is_passed_on_when_the_server_is_there() {
    let (stage, id) = observed().await;
    let record = stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap().unwrap();
    assert!(record.task.ending().is_none());
    assert_eq!(counts(&stage), (1, 0));
    stage.bring_server().await;
    while stage.back.cancels.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    stage.back.stands(Stand::Cancelled);
    assert_eq!(stage.over_by(&id).await.task.ending(), Some(&Ending::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn g_011_a_parked_task_has_no_question_open() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::ReadOnly)).await;
    let id = handle.record().id.clone();
    let heard = stage.back.hear().await;
    let (reply, _replied) = oneshot::channel();
    heard.events.send(BackEvent::Asked { ask: 1, question: form("{}"), reply }).unwrap();
    while handle.record().task.outstanding().is_none() {
        handle.changed().await;
    }
    let (stage, _) = dies(stage).await;
    assert!(stage.read(&id).await.task.outstanding().is_none());
    let key = QuestionKey("in-1".to_owned());
    let answered = stage.engine.answer(&me(), &id, &key, Reply::Result(bytes::Bytes::new())).await.unwrap();
    assert_eq!(answered, Some(Answered::NotOutstanding));
}

#[tokio::test(start_paused = true)]
async fn inv_45_what_could_not_be_taken_up_stays_parked() {
    let (stage, id) = prepared().await;
    stage.clock.skip_ms(11 * 60_000);
    stage.store.inject(CommandKind::Append, no());
    assert!(stage.engine.take_up(&server()).await.is_err());
    assert_eq!(counts(&stage), (1, 0));
    assert_eq!(stage.bring_server().await, Recovered { given_up: 1, ..Recovered::default() });
    assert!(stage.read(&id).await.task.ending().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_to_be_sent_again_is_not_sent_once_it_is_cancelled() {
    for rule in [CancelRule::Wish, CancelRule::Promise] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let (mut ids, mut heard) = (vec![], vec![]);
        for _ in 0..2 {
            ids.push(stage.submit(call(Effect::ReadOnly)).await.record().id.clone());
            heard.push(stage.back.hear().await);
            // Recovery goes by id, which begins with the time.
            stage.clock.skip_ms(1);
        }
        stage.engine.shutdown(Duration::ZERO).await;
        let limits = Limits { running_max: 1, ..Limits::default() };
        let again = Puppet::new(Survival::DiedWithUs);
        let stage = Stage::over(stage.store.reopen(), None, again, stage.clock.clone(), limits);
        stage.engine.recover().await.unwrap();
        let first = stage.back.hear().await;
        assert_eq!(stage.engine.live(), 2);
        stage.engine.cancel(&me(), &ids[1], rule).await.unwrap();
        first.answer.send(text("{}")).unwrap();
        stage.over_by(&ids[0]).await;
        assert_eq!(stage.over_by(&ids[1]).await.task.ending(), Some(&Ending::Cancelled));
        while stage.engine.live() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
        assert_eq!(stage.read(&ids[1]).await.operation.stage, Step::Settled(Outcome::NoneExpected));
    }
}
