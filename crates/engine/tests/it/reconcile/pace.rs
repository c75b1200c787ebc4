//! How often a system of record is asked, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taskgate_core::id::WorkflowName;
use taskgate_core::operation::{Doubt, Effect, HandOff, Inquiry, Outcome, Stage as Step, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{Ending, Fault};
use taskgate_core::time::Millis;
use taskgate_engine::back::BackEvent;
use taskgate_engine::limits::Limits;

use super::bank::{Online, Policy, Script, Town, budget, lost, pay};
use crate::stage::{Puppet, Stage, call, text};

#[tokio::test(start_paused = true)]
async fn r5_4_a_system_of_record_that_is_down_for_a_day_leaves_it_unknown_and_the_engine_serves_on() {
    let town = Town::with(Policy::default(), Limits { deadline: Millis::days(7), ..Limits::default() });
    town.looks.then(lost());
    let begun = tokio::time::Instant::now();
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    tokio::time::sleep(Duration::from_secs(12 * 3600)).await;
    assert_eq!(handle.record().operation.stage, Step::Unknown(Doubt::AnswerLost));
    // Others are served.
    let mut other = town.stage.submit(call(Effect::Consequential)).await;
    town.hear().await.answer.send(text("{}")).unwrap();
    other.over().await;
    let record = handle.over().await;
    let took = begun.elapsed().as_secs();
    assert!((24 * 3600..24 * 3600 + 10).contains(&took), "{took}");
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert!(matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::BudgetSpent, .. }));
    let Some(Ending::Faulted(Fault::OutcomeUnknown(why))) = record.task.ending() else {
        panic!("{:?}", record.task)
    };
    assert!(why.contains("the reconciliation budget is spent after"), "{why}");
    assert!(why.contains("the last look-up failed"), "{why}");
    // It was asked for a whole day, and not more often than every few minutes (R5.1).
    let asked = town.looks.asked();
    assert!((200..=320).contains(&asked), "{asked}");
    assert!(town.history(&record.operation_id).await.contains("connection closed"));
    tokio::time::sleep(Duration::from_secs(24 * 3600)).await;
    assert_eq!(town.looks.asked(), asked, "a spent budget is spent");
}

/// As behind the keeper: a laptop that is closed over the weekend.
#[tokio::test(start_paused = true)]
async fn r5_4_time_in_which_the_rules_were_not_here_spends_no_budget_alone() {
    let policy = Policy::default();
    let awaited = policy.awaited.clone();
    awaited.store(true, Ordering::SeqCst);
    let town = Town::new(policy);
    town.looks.then(text("yes"));
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    tokio::time::sleep(Duration::from_secs(60 * 3600)).await;
    // Its task ended at its deadline; its operation is neither looked at nor given to a person.
    let record = handle.over().await;
    assert!(
        matches!(record.task.ending(), Some(Ending::Faulted(Fault::DeadlinePassed))),
        "{:?}",
        record.task
    );
    let operation = town.operation(&record.operation_id).await;
    assert!(matches!(operation.inquiry, Inquiry::Reconciling { tries: 0, .. }), "{operation:?}");
    assert_eq!(town.looks.asked(), 0);
    awaited.store(false, Ordering::SeqCst);
    town.stage.engine.rules_came(&[WorkflowName("pay".into())]).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let operation = town.operation(&record.operation_id).await;
    assert_eq!(operation.stage, Step::Settled(Outcome::Confirmed(Verdict::Applied)));
    assert_eq!(town.looks.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn r5_4_a_workflow_may_have_a_budget_of_its_own_in_attempts_too() {
    let mut policy = Policy::default();
    policy.asks.budget = budget(24 * 3600, 3);
    let town = Town::new(policy);
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    let record = handle.over().await;
    let Some(Ending::Faulted(Fault::OutcomeUnknown(why))) = record.task.ending() else {
        panic!("{:?}", record.task)
    };
    assert!(why.contains("after 3 tries"), "{why}");
    assert_eq!(town.looks.asked(), 3);
}

#[tokio::test(start_paused = true)]
async fn r5_4_a_restart_neither_refills_the_budget_nor_asks_at_once() {
    let mut policy = Policy::default();
    policy.asks.budget = budget(24 * 3600, 8);
    let town = Town::new(policy);
    let handle = town.stage.submit(pay()).await;
    let (id, task) = (handle.record().operation_id.clone(), handle.record().id.clone());
    town.hear().await.answer.send(lost()).unwrap();
    town.once(&id, |operation| matches!(operation.inquiry, Inquiry::Reconciling { tries: 5, .. })).await;
    let before = town.operation(&id).await.inquiry;
    let town = town.restart().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(town.operation(&id).await.inquiry, before);
    town.stage.over_by(&task).await;
    assert_eq!(town.looks.asked(), 8);
}

#[tokio::test(start_paused = true)]
async fn r5_1_one_system_is_asked_few_things_at_once_however_many_wait() {
    let policy = Policy { by_http: true, ..Policy::default() };
    let looks = Script::of(text("yes"));
    let slow = Arc::new(Slow {
        inner: Online {
            status: parking_lot::Mutex::new(Ok(200)),
            looks,
            notices: parking_lot::Mutex::default(),
            deaf_for: AtomicUsize::new(0),
        },
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
    });
    let back = Puppet::new(Survival::DiedWithUs);
    let store = taskgate_store::memory::MemoryStore::new();
    let mut limits = Limits::default();
    limits.lookups.system_max = 3;
    let stage = Stage::online(store, None, back, Arc::new(policy), slow.clone(), limits);
    let engine = stage.engine.clone();
    let reconciling = tokio::spawn(async move { engine.reconcile().await });
    let mut handles = Vec::new();
    for n in 0..40 {
        let mut new = pay();
        new.call.key = Some(taskgate_store::record::Key::of_caller(format!("k-{n}")));
        handles.push(stage.submit(new).await);
        stage.back.hear().await.answer.send(lost()).unwrap();
    }
    for handle in &mut handles {
        handle.over().await;
    }
    assert_eq!(slow.most.load(Ordering::SeqCst), 3);
    reconciling.abort();
}

/// A bank that takes five seconds for an answer and counts whom it serves at once.
struct Slow {
    inner: Online,
    now: AtomicUsize,
    most: AtomicUsize,
}

#[async_trait::async_trait]
impl taskgate_engine::web::Web for Slow {
    async fn get(
        &self,
        url: &str,
        headers: &[(String, taskgate_engine::rules::Hidden)],
        time: Duration,
        bytes_max: usize,
    ) -> Result<taskgate_engine::web::WebAnswer, String> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(5)).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        self.inner.get(url, headers, time, bytes_max).await
    }

    async fn notify(
        &self,
        _: &taskgate_engine::rules::Webhook,
        _: &taskgate_engine::web::Notice,
        _: Duration,
    ) -> Result<(), String> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn r5_4_a_look_up_that_hangs_is_given_up_and_made_again() {
    let mut limits = Limits::default();
    limits.lookups.answer = Millis::secs(7);
    let town = Town::with(Policy::default(), limits);
    town.stage.back.opened.lock().clear();
    let mut handle = town.stage.submit(pay()).await;
    let id = handle.record().operation_id.clone();
    let heard = town.hear().await;
    town.looks.hang(1);
    town.looks.then(text("yes"));
    heard.answer.send(lost()).unwrap();
    town.once(&id, |operation| matches!(operation.inquiry, Inquiry::Reconciling { tries: 1, .. })).await;
    assert!(town.history(&id).await.contains("no answer within 7 s"));
    handle.over().await;
}

#[tokio::test(start_paused = true)]
async fn r5_2_progress_never_moves_the_deadline() {
    let town = Town::with(Policy::default(), Limits { deadline: Millis::secs(60), ..Limits::default() });
    let begun = tokio::time::Instant::now();
    let mut handle = town.stage.submit(pay()).await;
    let heard = town.hear().await;
    let reporting = tokio::spawn(async move {
        for n in 0.. {
            let said = format!("{{\"progress\":{n}}}");
            if heard.events.send(BackEvent::Progress(said.into())).is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let record = handle.over().await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert_eq!(begun.elapsed().as_secs(), 60);
    reporting.abort();
}
