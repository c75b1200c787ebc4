//! What a look-up proves, and what it does not (R4.5, notes 3.4).

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::id::Principal;
use taskgate_core::operation::{
    Attestation, Doubt, Finding, HandOff, Inquiry, Outcome, Stage as Step, Text, Verdict,
};
use taskgate_core::task::{CancelRule, Ending, Fault, Found};
use taskgate_core::time::Millis;
use taskgate_engine::back::Answer;
use taskgate_engine::engine::Submitted;
use taskgate_engine::limits::Limits;
use taskgate_store::Join;
use taskgate_store::record::{Conflict, Key, Object};

use super::bank::{Policy, Town, budget, lost, pay};
use crate::stage::{me, returned, task, text};

const CONFIRMED: Step = Step::Settled(Outcome::Confirmed(Verdict::Applied));
const CONFIRMED_NOT: Step = Step::Settled(Outcome::Confirmed(Verdict::NotApplied));

#[tokio::test(start_paused = true)]
async fn r4_5_a_positive_look_up_confirms_and_ends_the_task() {
    for by_http in [false, true] {
        let town = Town::new(Policy { by_http, ..Policy::default() });
        let mut handle = town.stage.submit(pay()).await;
        town.looks.first(text("huh"));
        town.looks.then(text("yes"));
        town.hear().await.answer.send(lost()).unwrap();
        let record = handle.over().await;
        assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::Found(Found::Applied))));
        assert_eq!(record.operation.stage, CONFIRMED);
        assert_eq!(record.operation.inquiry, Inquiry::Idle);
        assert_eq!(town.looks.asked(), 2);
        assert!(town.is_quiet_for(Duration::from_secs(3600)).await, "it is not sent again");
        assert_eq!(town.looks.asked(), 2, "what is confirmed is not asked again");
        if !by_http {
            // Apart from callers, and with nobody who could be asked anything.
            let opened = town.stage.back.opened.lock().clone();
            assert!(!opened.is_empty());
            assert!(opened.iter().all(|key| key.principal == Principal::gateway() && key.offers.is_empty()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn r4_5_a_negative_look_up_alone_confirms_nothing_however_often_it_is_made() {
    let mut policy = Policy::default();
    policy.asks.resend = true;
    policy.asks.budget = budget(3600, 1000);
    let town = Town::new(policy);
    town.looks.then(text("no"));
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert!(town.looks.asked() > 5);
    let record = handle.record();
    assert_eq!(record.task.ending(), None, "somebody may still find out");
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
    let record = handle.over().await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::Found(Found::AssumedNotApplied))));
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Assumed));
    assert!(matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::Assumed, .. }));
    assert_eq!(town.stage.back.sent.load(Ordering::SeqCst) - town.looks.asked(), 1, "sent once");
}

#[tokio::test(start_paused = true)]
async fn r4_5_a_negative_look_up_behind_a_fence_confirms() {
    let town = Town::new(Policy { fences: true, ..Policy::default() });
    town.looks.then(text("no"));
    // The first fence is not agreed to: then the look-up proves nothing.
    town.fences.first(text("no"));
    town.fences.then(text("fenced"));
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    let record = handle.over().await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::Found(Found::NotApplied))));
    assert_eq!(record.operation.stage, CONFIRMED_NOT);
    assert_eq!((town.fences.asked(), town.looks.asked()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn r4_5_what_is_confirmed_not_applied_is_sent_again_once_where_the_workflow_says_so() {
    let mut policy = Policy { fences: true, ..Policy::default() };
    policy.asks.resend = true;
    let town = Town::new(policy);
    town.looks.then(text("no"));
    town.fences.then(text("fenced"));
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    let again = town.hear().await;
    assert_eq!(handle.record().operation.attempts, 2);
    assert_eq!(handle.record().operation.cleared, 1);
    town.looks.then(text("yes"));
    again.answer.send(text("{\"paid\":1}")).unwrap();
    let record = handle.over().await;
    assert_eq!(returned(&record), b"{\"paid\":1}");
    assert!(town.is_quiet_for(Duration::from_secs(24 * 3600)).await, "and not a third time");
    assert_eq!(town.operation(&record.operation_id).await.stage, CONFIRMED);
}

#[tokio::test(start_paused = true)]
async fn r4_5_nothing_is_sent_again_for_a_task_that_was_cancelled_or_has_no_time_left() {
    for cancelled in [true, false] {
        let mut policy = Policy { fences: true, ..Policy::default() };
        policy.asks.resend = true;
        policy.asks.first = Millis::secs(60);
        let deadline = if cancelled { Millis::hours(1) } else { Millis::secs(80) };
        let town = Town::with(policy, Limits { deadline, ..Limits::default() });
        town.looks.then(text("no"));
        town.fences.then(text("fenced"));
        let mut handle = town.stage.submit(pay()).await;
        town.hear().await.answer.send(lost()).unwrap();
        let record = handle.record();
        if cancelled {
            town.once(&record.operation_id, |operation| operation.inquiry != Inquiry::Idle).await;
            town.stage.engine.cancel(&me(), &record.id, CancelRule::Wish).await.unwrap();
        }
        let record = handle.over().await;
        town.once(&record.operation_id, |operation| operation.stage == CONFIRMED_NOT).await;
        assert!(town.is_quiet_for(Duration::from_secs(3600)).await, "cancelled: {cancelled}");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_settle_time_counts_from_the_proved_end_of_the_exchange() {
    let mut policy = Policy::default();
    policy.asks.settle = Some(Millis::secs(600));
    let town = Town::new(policy);
    town.looks.then(text("no"));
    let mut handle = town.stage.submit(pay()).await;
    let heard = town.hear().await;
    // The call hangs for an hour: that hour settles nothing.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let closed = tokio::time::Instant::now();
    heard.answer.send(lost()).unwrap();
    tokio::time::sleep(Duration::from_secs(599)).await;
    assert_eq!(handle.record().operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert!(town.looks.asked() > 3);
    let record = handle.over().await;
    assert_eq!(record.operation.stage, CONFIRMED_NOT);
    let took = closed.elapsed().as_secs();
    assert!((600..605).contains(&took), "it is asked as soon as that proves something: {took} s");
}

#[tokio::test(start_paused = true)]
async fn inv_48_a_clock_that_is_put_forward_settles_nothing() {
    let mut policy = Policy::default();
    policy.asks.settle = Some(Millis::secs(600));
    let town = Town::new(policy);
    town.looks.then(text("no"));
    // What was put forward before counts for nothing either way.
    town.stage.clock.skip_ms(3_600_000);
    let mut handle = town.stage.submit(pay()).await;
    let heard = town.hear().await;
    let closed = tokio::time::Instant::now();
    heard.answer.send(lost()).unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    town.stage.clock.skip_ms(3_600_000);
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert_eq!(handle.record().operation.stage, Step::Unknown(Doubt::AnswerLost));
    let record = handle.over().await;
    assert_eq!(record.operation.stage, CONFIRMED_NOT);
    let took = closed.elapsed().as_secs();
    assert!((600..605).contains(&took), "it is asked as soon as that proves something: {took} s");
}

#[tokio::test(start_paused = true)]
async fn r4_3_what_a_peer_reported_is_confirmed_beside_the_answer_and_holds_up_nothing() {
    let town = Town::with(Policy::default(), Limits { live_max: 1, ..Limits::default() });
    let unkeyed = || {
        let mut new = pay();
        new.call.key = None;
        new.join = Join::SameCall;
        new
    };
    let mut handle = town.stage.submit(unkeyed()).await;
    town.hear().await.answer.send(text("{\"paid\":1}")).unwrap();
    let record = handle.over().await;
    assert_eq!(returned(&record), b"{\"paid\":1}");
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
    // Its caller may make the same call again, and has room for it.
    let second = town.stage.engine.submit(unkeyed(), town.stage.back.clone()).await.unwrap();
    assert!(matches!(second, Submitted::Started(_)), "{second:?}");
    town.looks.then(text("yes"));
    let operation = town.once(&record.operation_id, |operation| !operation.is_active()).await;
    assert_eq!(operation.stage, CONFIRMED);
}

#[tokio::test(start_paused = true)]
async fn r4_3_a_system_of_record_that_has_not_what_was_reported_is_for_a_person() {
    let mut policy = Policy::default();
    policy.asks.budget = budget(600, 100);
    let town = Town::new(policy);
    town.looks.then(text("no"));
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(text("{\"paid\":1}")).unwrap();
    let record = handle.over().await;
    let operation = town.once(&record.operation_id, |operation| !operation.is_active()).await;
    assert_eq!(operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
    assert!(matches!(operation.inquiry, Inquiry::Person { why: HandOff::Contradiction, .. }));
}

#[tokio::test(start_paused = true)]
async fn r4_4_a_late_effect_of_a_cancelled_call_is_found_and_the_task_stays_cancelled() {
    for rule in [CancelRule::Promise, CancelRule::Wish] {
        let town = Town::new(Policy::default());
        let mut handle = town.stage.submit(pay()).await;
        let _heard = town.hear().await;
        let record = handle.record();
        town.stage.engine.cancel(&me(), &record.id, rule).await.unwrap();
        let record = handle.over().await;
        assert_eq!(record.task.ending(), Some(&Ending::Cancelled));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(matches!(town.operation(&record.operation_id).await.stage, Step::Unknown(_)));
        town.looks.then(text("yes"));
        town.once(&record.operation_id, |operation| operation.stage == CONFIRMED).await;
        assert_eq!(town.stage.read(&record.id).await.task.ending(), Some(&Ending::Cancelled));
    }
}

#[tokio::test(start_paused = true)]
async fn r5_6_an_answer_that_is_none_is_never_a_verdict() {
    let error = Answer::Raised { code: -32000, error: "{\"code\":-32000,\"message\":\"no\"}".into() };
    let input = Answer::InputRequired { questions: vec![], state: None };
    let late = || {
        let mut policy = Policy { fences: true, ..Policy::default() };
        policy.asks.budget = budget(10, 2);
        policy.asks.settle = Some(Millis(0));
        policy
    };
    for (answer, words) in [
        (error, "error -32000"),
        (task(), "by a task"),
        (input, "asked a question"),
        (lost(), "connection closed"),
        (Answer::NeverSent("connection refused".to_owned()), "connection refused"),
        (Answer::Nonsense("its result is no object".to_owned()), "no object"),
        (text("<html>no</html>"), "no such member"),
        (text("huh"), "neither"),
    ] {
        let town = Town::new(late());
        town.fences.then(text("fenced"));
        town.looks.then(answer);
        let mut handle = town.stage.submit(pay()).await;
        town.hear().await.answer.send(lost()).unwrap();
        let record = handle.over().await;
        assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost), "{words}");
        assert!(matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::BudgetSpent, .. }));
        let history = town.history(&record.operation_id).await;
        assert!(history.contains(words), "{words}: {history}");
    }
    for status in [301, 302, 401, 403, 429, 500, 503] {
        let town = Town::new(Policy { by_http: true, ..late() });
        *town.online.status.lock() = Ok(status);
        town.looks.then(text("yes"));
        let mut handle = town.stage.submit(pay()).await;
        town.hear().await.answer.send(lost()).unwrap();
        let record = handle.over().await;
        assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_system_of_record_that_changes_its_mind_is_believed_when_it_has_the_effect() {
    let town = Town::new(Policy::default());
    for word in ["no", "huh", "no", "yes"] {
        town.looks.first(text(word));
    }
    town.looks.then(text("no"));
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    let record = handle.over().await;
    assert_eq!(record.operation.stage, CONFIRMED);
    let history = town.history(&record.operation_id).await;
    assert!(history.contains("has no such effect, and the request may still arrive"), "{history}");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(town.operation(&record.operation_id).await.stage, CONFIRMED, "and stays so");
    assert_eq!(town.looks.asked(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_question_in_answer_to_a_look_up_ends_the_look_up() {
    let town = Town::new(Policy::default());
    let mut handle = town.stage.submit(pay()).await;
    town.looks.first(Answer::InputRequired { questions: vec![], state: None });
    town.hear().await.answer.send(lost()).unwrap();
    let id = handle.record().operation_id.clone();
    let operation =
        town.once(&id, |operation| matches!(operation.inquiry, Inquiry::Reconciling { tries: 1, .. })).await;
    assert!(matches!(operation.inquiry, Inquiry::Reconciling { last: Some(Finding::Failed), .. }));
    town.looks.then(text("yes"));
    handle.over().await;
}

#[tokio::test(start_paused = true)]
async fn design_7_what_is_only_assumed_keeps_its_object_until_a_person_decides() {
    let mut policy = Policy::default();
    policy.asks.budget = budget(600, 3);
    let town = Town::new(policy);
    town.looks.then(text("no"));
    let about = |key: &str| {
        let mut new = pay();
        new.call.key = Some(Key::of_caller(key));
        let object = Object { name: "invoice-1".into(), version: None, conflict: Conflict::Queue };
        new.call.intent.as_mut().unwrap().object = Some(object);
        new
    };
    let mut first = town.stage.submit(about("k-1")).await;
    let heard = town.hear().await;
    town.stage.clock.skip_ms(1);
    let mut second = town.stage.submit(about("k-2")).await;
    heard.answer.send(lost()).unwrap();
    let record = first.over().await;
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Assumed));
    assert!(town.is_quiet_for(Duration::from_secs(120)).await, "the first request may still arrive");
    let (name, reason) = (Text::new("ann"), Text::new("the statement has none"));
    let attestation = Attestation { verdict: Verdict::NotApplied, name, reason };
    town.stage.engine.attest(&record.operation_id, attestation).await.unwrap();
    town.hear().await.answer.send(text("{}")).unwrap();
    assert!(matches!(second.over().await.task.ending(), Some(Ending::Returned { .. })));
}
