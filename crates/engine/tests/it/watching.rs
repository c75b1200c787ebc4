//! Observing a task of the back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::budget::Allowance;
use taskgate_core::operation::{Doubt, Effect, Outcome, Replay, Stage as Step, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault};
use taskgate_core::time::Millis;
use taskgate_engine::back::{Answer, BackEvent, Look, LookError, Stand};
use taskgate_engine::engine::NewCall;
use taskgate_engine::limits::{Limits, Own};
use taskgate_store::record::Record;

use crate::stage::{Puppet, Stage, call, look, me, returned, server, task, text};

#[tokio::test(start_paused = true)]
async fn a_048_b_083_g_010_the_peers_interval_is_kept_however_many_read() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    *stage.back.look.lock() = Ok(Look { poll: Some(Millis::secs(10)), ..look(Stand::Working) });
    let handle = stage.submit(call(Effect::ReadOnly)).await;
    stage.back.hear().await.answer.send(task()).unwrap();
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.read(&handle.record().id).await;
    }
    let looks = stage.back.looks.load(Ordering::SeqCst);
    assert!((4..=8).contains(&looks), "{looks} looks in a minute at an interval of 10 s");
}

#[tokio::test(start_paused = true)]
async fn a_076_x_017_the_final_status_is_shown_only_with_its_result() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    *stage.back.result.lock() = Err(LookError::Transient("not now".to_owned()));
    stage.back.stands(Stand::Over);
    let back = stage.back.clone();
    let later = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(3)).await;
        *back.result.lock() = Ok(text("{\"r\":3}"));
    });
    let record = stage.over_by(&id).await;
    later.await.unwrap();
    assert_eq!(returned(&record), b"{\"r\":3}");
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
}

#[tokio::test(start_paused = true)]
async fn a_nudge_is_a_look_now() {
    let stage = Stage::new(Puppet::attending(Survival::Survives, true));
    *stage.back.look.lock() = Ok(Look { poll: Some(Millis::hours(1)), ..look(Stand::Working) });
    let id = stage.submit(call(Effect::ReadOnly)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let attendance = stage.back.attendance().await;
    while stage.back.looks.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stage.back.stands(Stand::Ended(Box::new(text("{}"))));
    attendance.events.send(BackEvent::Nudge).unwrap();
    let before = tokio::time::Instant::now();
    stage.over_by(&id).await;
    assert!(before.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn x_026_the_result_may_come_by_the_stream_that_is_held_open() {
    let stage = Stage::new(Puppet::attending(Survival::Survives, true));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    stage.back.attendance().await.answer.send(text("{\"by\":\"stream\"}")).unwrap();
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"by\":\"stream\"}");
}

#[tokio::test(start_paused = true)]
async fn a_049_a_050_a_067_a_stream_that_broke_is_opened_again_when_input_is_wanted() {
    let stage = Stage::new(Puppet::attending(Survival::Survives, true));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    drop(stage.back.attendance().await);
    stage.back.stands(Stand::InputRequired);
    stage.back.attendance().await.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
}

#[tokio::test(start_paused = true)]
async fn r5_6_failed_reads_end_by_their_own_budget_and_leave_the_outcome_unknown() {
    let limits =
        Limits { status_read: Allowance { time: Millis::mins(1), attempts: 3 }, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::Survives), limits);
    *stage.back.look.lock() = Err(LookError::Transient("no route".to_owned()));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let record = stage.over_by(&id).await;
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::BudgetSpent(_)))));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert_eq!(stage.back.looks.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn x_045_a_task_that_the_back_forgot_is_lost_not_done() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    *stage.back.look.lock() = Err(LookError::UnknownTask);
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::UpstreamLost)));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::UpstreamLost));
}

#[tokio::test(start_paused = true)]
async fn a_086_b_103_x_038_a_cancellation_is_passed_on_and_the_backs_word_shown() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    let heard = stage.back.hear().await;
    let stop = heard.stop.clone();
    heard.answer.send(task()).unwrap();
    while stage.back.looks.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    stage.back.stands(Stand::Cancelled);
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(stage.back.cancels.load(Ordering::SeqCst), 1);
    assert!(!stop.is_cancelled(), "the request that made the task is not taken back");
}

#[tokio::test(start_paused = true)]
async fn a_091_a_cancelled_task_that_the_back_has_deleted_was_cancelled() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    while stage.back.looks.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    *stage.back.look.lock() = Err(LookError::UnknownTask);
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn b_133_x_042_what_is_not_pushed_is_polled() {
    let stage = Stage::new(Puppet::attending(Survival::Survives, true));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    // It stays open, and nothing comes on it.
    let _silent = stage.back.attendance().await;
    stage.back.stands(Stand::Ended(Box::new(text("{\"by\":\"poll\"}"))));
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"by\":\"poll\"}");
}

#[tokio::test(start_paused = true)]
async fn x_013_the_words_of_the_back_are_shown() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    *stage.back.look.lock() = Ok(Look { message: Some("page 3 of 9".to_owned()), ..look(Stand::Working) });
    stage.back.hear().await.answer.send(task()).unwrap();
    while handle.record().task.message.as_deref() != Some("page 3 of 9") {
        handle.changed().await;
    }
    stage.back.stands(Stand::Ended(Box::new(text("{}"))));
    stage.over_by(&handle.record().id).await;
}

#[tokio::test(start_paused = true)]
async fn q_037_work_whose_time_is_over_is_cancelled_at_the_back() {
    let limits = Limits { deadline: Millis::secs(5), ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::Survives), limits);
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let record = stage.over_by(&id).await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert_eq!(stage.back.cancels.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn g_009_a_task_that_is_over_here_is_not_looked_at_again() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    stage.back.stands(Stand::Ended(Box::new(text("{}"))));
    stage.over_by(&id).await;
    // A back whose task moves once more.
    stage.back.stands(Stand::Working);
    let looks = stage.back.looks.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(stage.back.looks.load(Ordering::SeqCst), looks);
    assert!(stage.read(&id).await.task.ending().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_place_is_free_again_once_the_back_has_made_its_task() {
    let limits = Limits { running_max: 1, ..Limits::default() };
    let stage = Stage::with(Puppet::new(Survival::Survives), limits);
    stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(task()).unwrap();
    stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(task()).unwrap();
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn q_001_an_empty_result_of_a_cancelled_task_is_a_cancellation() {
    let stage = Stage::new(Puppet::attending(Survival::Survives, true));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let attendance = stage.back.attendance().await;
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    stage.back.stands(Stand::Cancelled);
    attendance.answer.send(text("{}")).unwrap();
    assert_eq!(stage.over_by(&id).await.task.ending(), Some(&Ending::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn r5_4_the_budgets_of_a_workflow_are_its_own_and_are_named_when_they_are_spent() {
    let two = Some(Allowance { time: Millis::mins(1), attempts: 2 });
    let own = |own: Own| {
        let mut limits = Limits::default();
        limits.own.entry(server()).or_default().insert(call(Effect::Consequential).call.tool, Arc::new(own));
        Stage::with(Puppet::new(Survival::Survives), limits)
    };
    let words = |record: &Record| match record.task.ending() {
        Some(Ending::Faulted(Fault::BudgetSpent(words) | Fault::OutcomeUnknown(words))) => words.clone(),
        other => panic!("{other:?}"),
    };

    let stage = own(Own { status_read: two, ..Own::default() });
    *stage.back.look.lock() = Err(LookError::Transient("no route".to_owned()));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let said = words(&*stage.over_by(&id).await);
    assert!(said.starts_with("the status read budget is spent after 2 tries"), "{said}");

    let stage = own(Own { result: two, ..Own::default() });
    *stage.back.result.lock() = Err(LookError::Transient("not now".to_owned()));
    stage.back.stands(Stand::Over);
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    let said = words(&*stage.over_by(&id).await);
    assert!(said.starts_with("the result retrieval budget is spent after 2 tries"), "{said}");

    let stage = own(Own { create: two, ..Own::default() });
    let again = NewCall { replay: Replay::Natural, ..call(Effect::Consequential) };
    let id = stage.submit(again).await.record().id.clone();
    for _ in 0..2 {
        stage.back.hear().await.answer.send(Answer::Lost("cut".to_owned())).unwrap();
    }
    let record = stage.over_by(&id).await;
    let said = words(&record);
    assert!(said.starts_with("the create budget is spent after 2 tries") && said.ends_with("cut"), "{said}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 2);
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
}
