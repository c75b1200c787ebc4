//! What is still heard of an exchange whose task is over, and when it is proved over (R4.3, R4.4; notes 2.3, 3.4).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::operation::{Doubt, Inquiry, Outcome, Stage as Step, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault};
use taskgate_core::time::Millis;
use taskgate_engine::Handle;
use taskgate_engine::back::{Answer, LookError, Stand};
use taskgate_engine::limits::Limits;
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::Record;

use super::bank::{Policy, Town, budget, pay};
use crate::stage::{Heard, me, task, text};

const CONFIRMED: Step = Step::Settled(Outcome::Confirmed(Verdict::Applied));
const CONFIRMED_NOT: Step = Step::Settled(Outcome::Confirmed(Verdict::NotApplied));
const REPORTED: Step = Step::Settled(Outcome::Reported(Verdict::Applied));

/// How an exchange is let go.
#[derive(Clone, Copy, PartialEq, Debug)]
enum LetGo {
    Deadline,
    Promise,
}

/// One whose look-ups find nothing, which proves something a minute after the end of the exchange.
fn settling() -> Policy {
    let mut policy = Policy::default();
    policy.asks.settle = Some(Millis::secs(60));
    policy.asks.budget = budget(7200, 1000);
    policy
}

fn town(policy: Policy, is_pipe: bool) -> Town {
    let town = Town::with(policy, Limits { deadline: Millis::secs(30), ..Limits::default() });
    town.stage.back.is_pipe.store(is_pipe, Ordering::SeqCst);
    town.looks.then(text("no"));
    town
}

/// A call that hangs until it is let go.
async fn let_go(town: &Town, how: LetGo) -> (Heard, Arc<Record>) {
    let mut handle: Handle = town.stage.submit(pay()).await;
    let heard = town.hear().await;
    if how == LetGo::Promise {
        town.stage.engine.cancel(&me(), &handle.record().id, CancelRule::Promise).await.unwrap();
    }
    let record = handle.over().await;
    let ending = match how {
        LetGo::Deadline => Ending::Faulted(Fault::DeadlinePassed),
        LetGo::Promise => Ending::Cancelled,
    };
    assert_eq!(record.task.ending(), Some(&ending));
    heard.stop.cancelled().await;
    (heard, record)
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_over_http_what_is_let_go_is_proved_over_when_its_connection_is_closed() {
    for how in [LetGo::Deadline, LetGo::Promise] {
        let town = town(settling(), false);
        let (heard, record) = let_go(&town, how).await;
        assert_eq!(
            town.operation(&record.operation_id).await.closed_at,
            None,
            "{how:?}: it is still listened to"
        );
        heard.closed.cancelled().await;
        let operation = town.once(&record.operation_id, |operation| operation.closed_at.is_some()).await;
        assert!(operation.is_active(), "{how:?}");
        let closed = tokio::time::Instant::now();
        town.once(&record.operation_id, |operation| operation.stage == CONFIRMED_NOT).await;
        let took = closed.elapsed().as_secs();
        assert!((59..=61).contains(&took), "{how:?}: asked as soon as that proves something: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_on_a_pipe_what_is_let_go_is_over_only_with_the_process() {
    for how in [LetGo::Deadline, LetGo::Promise] {
        let town = town(settling(), true);
        let (_heard, record) = let_go(&town, how).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let operation = town.operation(&record.operation_id).await;
        assert_eq!(operation.closed_at, None, "{how:?}: the process may still do it");
        assert!(matches!(operation.stage, Step::Unknown(_)), "{how:?}");
        town.stage.back.gone.cancel();
        let closed = tokio::time::Instant::now();
        town.once(&record.operation_id, |operation| operation.stage == CONFIRMED_NOT).await;
        let took = closed.elapsed().as_secs();
        assert!((59..=61).contains(&took), "{how:?}: the look-up is brought forward: {took} s");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_what_is_never_proved_over_never_settles() {
    let town = town(settling(), true);
    let (_heard, record) = let_go(&town, LetGo::Deadline).await;
    let operation = town.once(&record.operation_id, |operation| !operation.is_active()).await;
    assert_eq!(operation.stage, Step::Settled(Outcome::Assumed));
    assert_eq!(operation.closed_at, None);
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_an_answer_lost_on_a_pipe_whose_process_lives_proves_nothing() {
    let town = town(settling(), true);
    let mut handle = town.stage.submit(pay()).await;
    town.hear()
        .await
        .answer
        .send(Answer::Lost("it did not answer tools/call within 5 s".to_owned()))
        .unwrap();
    let record = handle.over().await;
    let operation = town.operation(&record.operation_id).await;
    assert_eq!(operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert_eq!(operation.closed_at, None);
    town.stage.back.gone.cancel();
    town.once(&record.operation_id, |operation| operation.stage == CONFIRMED_NOT).await;
}

#[tokio::test(start_paused = true)]
async fn r4_4_what_is_answered_while_the_server_is_told_to_stop_goes_to_the_operation() {
    for (answer, stage) in [
        (text("done"), REPORTED),
        (text("receipt"), CONFIRMED),
        (
            Answer::Raised { code: -32_602, error: "{}".into() },
            Step::Settled(Outcome::Reported(Verdict::NotApplied)),
        ),
        // Nobody is given these any more: they take no doubt away.
        (Answer::Raised { code: -32_000, error: "{}".into() }, Step::Unknown(Doubt::DeadlinePassed)),
        (Answer::Returned { result: "no luck".into(), is_error: true }, Step::Unknown(Doubt::DeadlinePassed)),
    ] {
        let town = town(Policy::default(), false);
        let (heard, record) = let_go(&town, LetGo::Deadline).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        let words = format!("{answer:?}");
        heard.answer.send(answer).unwrap();
        let operation = town.once(&record.operation_id, |operation| {
            operation.stage == stage && operation.closed_at.is_some()
        });
        let operation = operation.await;
        if stage == REPORTED {
            assert!(matches!(operation.inquiry, Inquiry::Reconciling { .. }), "and is confirmed beside that");
        }
        let history = town.history(&record.operation_id).await;
        assert!(history.contains("too late"), "{words}: {history}");
        // Over is over for the task.
        let kept = town.stage.read(&record.id).await;
        assert_eq!(kept.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)), "{words}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_not_left_by_the_deadline_is_certain_not_to_have_been_done() {
    let town = town(Policy::default(), true);
    let mut handle = town.stage.submit(pay()).await;
    let heard = town.hear().await;
    let stop = heard.stop.clone();
    let server = tokio::spawn(async move {
        stop.cancelled().await;
        heard.answer.send(Answer::NeverSent("it was stopped before its turn".to_owned())).unwrap();
    });
    let record = handle.over().await;
    server.await.unwrap();
    let operation = town.operation(&record.operation_id).await;
    assert!(matches!(operation.stage, Step::Unknown(Doubt::DeadlinePassed) | CONFIRMED_NOT), "{operation:?}");
    town.once(&record.operation_id, |operation| {
        operation.closed_at.is_some() || operation.stage == CONFIRMED_NOT
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn r4_4_a_task_of_the_server_is_looked_at_until_it_has_stopped() {
    for (stand, stage) in [
        (Stand::Cancelled, Step::Unknown(Doubt::DeadlinePassed)),
        (Stand::Ended(Box::new(text("receipt"))), CONFIRMED),
        (Stand::Over, REPORTED),
    ] {
        let town = town(Policy::default(), false);
        let mut handle = town.stage.submit(pay()).await;
        town.hear().await.answer.send(task()).unwrap();
        let record = handle.over().await;
        assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
        tokio::time::sleep(Duration::from_secs(2)).await;
        let operation = town.operation(&record.operation_id).await;
        assert_eq!((operation.stage, operation.closed_at), (Step::Unknown(Doubt::DeadlinePassed), None));
        assert_eq!(town.stage.back.cancels.load(Ordering::SeqCst), 1);
        town.stage.back.stands(stand);
        let is_proof = stage == CONFIRMED;
        town.once(&record.operation_id, |operation| {
            operation.stage == stage && (is_proof || operation.closed_at.is_some())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_a_task_of_the_server_that_cannot_be_read_is_not_proved_over() {
    for error in [LookError::UnknownTask, LookError::Nonsense("what?".to_owned())] {
        let town = Town::new(settling());
        let mut handle = town.stage.submit(pay()).await;
        *town.stage.back.look.lock() = Err(error.clone());
        town.hear().await.answer.send(task()).unwrap();
        let id = handle.record().operation_id.clone();
        town.once(&id, |operation| matches!(operation.stage, Step::Unknown(_))).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(town.operation(&id).await.closed_at, None, "{error:?}");
        let _ = handle.over().await;
    }
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_a_restart_proves_over_what_the_process_before_it_held() {
    let town = town(settling(), true);
    let (_heard, record) = let_go(&town, LetGo::Deadline).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(town.operation(&record.operation_id).await.closed_at, None);
    let town = town.restart().await;
    town.looks.then(text("no"));
    assert!(town.operation(&record.operation_id).await.closed_at.is_some());
    town.once(&record.operation_id, |operation| operation.stage == CONFIRMED_NOT).await;
}

#[tokio::test(start_paused = true)]
async fn notes_3_4_a_restart_proves_nothing_of_a_task_that_outlives_it() {
    for survival in [Survival::Survives, Survival::DiedWithUs] {
        let limits = Limits { deadline: Millis::secs(30), ..Limits::default() };
        let town = Town::at(survival, settling(), limits, MemoryStore::new(), None);
        town.looks.then(text("no"));
        let mut handle = town.stage.submit(pay()).await;
        town.hear().await.answer.send(task()).unwrap();
        let record = handle.over().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(town.operation(&record.operation_id).await.closed_at, None);
        let town = town.restart().await;
        let operation = town.operation(&record.operation_id).await;
        assert_eq!(operation.closed_at.is_none(), survival == Survival::Survives);
    }
}
