//! What waits for a person, and who is told of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use taskgate_core::operation::{Attestation, HandOff, Inquiry, Outcome, Stage as Step, Text, Verdict};
use taskgate_core::task::{CancelRule, Ending, Fault};
use taskgate_core::time::Millis;
use taskgate_engine::limits::Limits;
use taskgate_store::Store;
use taskgate_store::ledger::Which;
use taskgate_store::record::{Conflict, Object};

use super::bank::{Policy, Town, budget, lost, pay};
use crate::stage::{me, text};

fn hooked() -> Policy {
    let mut policy = Policy { hook: true, ..Policy::default() };
    policy.asks.budget = budget(30, 3);
    policy
}

async fn handed_off(town: &Town) -> taskgate_core::id::OperationId {
    let mut new = pay();
    let intent = new.call.intent.as_mut().unwrap();
    let version = Some("7".to_owned());
    intent.object = Some(Object { name: "invoice-1".into(), version, conflict: Conflict::Allow });
    intent.effect = Some("pays 3 to Bob".to_owned());
    let mut handle = town.stage.submit(new).await;
    town.hear().await.answer.send(lost()).unwrap();
    handle.over().await.operation_id.clone()
}

async fn told(town: &Town, times: usize) {
    let waiting = async {
        while town.online.notices.lock().len() < times {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(3600), waiting).await.expect("a notice");
}

#[tokio::test(start_paused = true)]
async fn r4_5_who_owns_a_workflow_is_told_until_they_acknowledge_it() {
    let town = Town::new(hooked());
    town.online.deaf_for.store(3, Ordering::SeqCst);
    let id = handed_off(&town).await;
    told(&town, 4).await;
    tokio::time::sleep(Duration::from_secs(48 * 3600)).await;
    let notices = town.online.notices.lock().clone();
    assert_eq!(notices.len(), 4, "acknowledged is acknowledged");
    assert!(notices.iter().all(|notice| *notice == notices[0]), "each says the same, under one id");
    let notice = &notices[0];
    assert_eq!(notice.operation, id);
    assert_eq!((notice.workflow.0.as_str(), notice.tool.as_str()), ("pay", "t"));
    assert_eq!(notice.object, Some(("invoice-1".to_owned(), Some("7".to_owned()))));
    assert_eq!((notice.outcome, notice.reason), ("unknown", "budget_spent"));
    assert_eq!(notice.owners, ["treasury"]);
    let Inquiry::Person { since, .. } = town.operation(&id).await.inquiry else { panic!("it waits") };
    assert_eq!(notice.since, since);
    // No arguments, no key, no text of the effect.
    let all = format!("{notice:?}");
    assert!(!all.contains("k-1") && !all.contains("Bob") && !all.contains("secret"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_sent_again_after_a_restart_only_if_nobody_acknowledged_it() {
    let town = Town::new(hooked());
    town.online.deaf_for.store(usize::MAX, Ordering::SeqCst);
    handed_off(&town).await;
    told(&town, 1).await;
    let town = town.restart().await;
    town.online.notices.lock().clear();
    town.online.deaf_for.store(0, Ordering::SeqCst);
    told(&town, 1).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let town = town.restart().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(town.online.notices.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_notice_is_given_up_when_its_own_budget_is_spent_and_the_operation_still_waits() {
    let town = Town::new(hooked());
    town.online.deaf_for.store(usize::MAX, Ordering::SeqCst);
    let id = handed_off(&town).await;
    tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    let sent = town.online.notices.lock().len();
    assert!((100..=301).contains(&sent), "{sent}");
    tokio::time::sleep(Duration::from_secs(25 * 3600)).await;
    assert_eq!(town.online.notices.lock().len(), sent);
    let waiting = town.stage.engine.operations(Which::Waiting, None, 9).await.unwrap();
    assert_eq!(waiting.len(), 1);
    assert_eq!(waiting[0].id, id);
}

#[tokio::test(start_paused = true)]
async fn what_a_person_resolved_is_told_no_more() {
    let town = Town::new(hooked());
    town.online.deaf_for.store(usize::MAX, Ordering::SeqCst);
    let id = handed_off(&town).await;
    told(&town, 2).await;
    let word = Attestation {
        verdict: Verdict::NotApplied,
        name: Text::new("Ann"),
        reason: Text::new("asked the bank"),
    };
    town.stage.engine.attest(&id, word).await.unwrap();
    let sent = town.online.notices.lock().len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(town.online.notices.lock().len() <= sent + 1);
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_at_its_deadline_and_its_effect_is_asked_after_all_the_same() {
    let town = Town::with(Policy::default(), Limits { deadline: Millis::mins(10), ..Limits::default() });
    let mut handle = town.stage.submit(pay()).await;
    let begun = tokio::time::Instant::now();
    town.hear().await.answer.send(lost()).unwrap();
    let record = handle.over().await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::DeadlinePassed)));
    assert_eq!(begun.elapsed().as_secs(), 600);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let before = town.stage.read(&record.id).await;
    assert!(matches!(before.operation.inquiry, Inquiry::Reconciling { .. }));
    town.looks.then(text("yes"));
    let confirmed = Step::Settled(Outcome::Confirmed(Verdict::Applied));
    town.once(&record.operation_id, |operation| operation.stage == confirmed).await;
    // Over is over.
    assert_eq!(town.stage.read(&record.id).await.task, before.task);
}

#[tokio::test(start_paused = true)]
async fn a_person_has_it_asked_again_though_its_task_is_gone() {
    let town = Town::with(hooked(), Limits { ttl: Millis::mins(5), linger: Millis(0), ..Limits::default() });
    let id = handed_off(&town).await;
    let far = taskgate_core::time::UnixMillis(i64::MAX);
    assert_eq!(town.stage.store.purge(far, 9).await.unwrap(), 1);
    assert_eq!(town.stage.engine.operation(&id).await.unwrap().unwrap().kept, None);
    town.looks.then(text("yes"));
    town.stage.engine.reconcile_now(&id).await.unwrap();
    let asked = tokio::time::Instant::now();
    let confirmed = Step::Settled(Outcome::Confirmed(Verdict::Applied));
    town.once(&id, |operation| operation.stage == confirmed).await;
    assert!(asked.elapsed() < Duration::from_secs(1), "now is now");
    let history = town.history(&id).await;
    assert!(history.contains("the system of record has the effect"), "{history}");
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_workflow_is_gone_is_for_a_person() {
    let town = Town::new(Policy::default());
    let mut new = pay();
    new.call.intent.as_mut().unwrap().workflow.0 = "other".to_owned();
    let mut handle = town.stage.submit(new).await;
    town.hear().await.answer.send(lost()).unwrap();
    let record = handle.over().await;
    assert!(matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::NoRule, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_while_its_effect_is_looked_up_ends_and_the_look_up_goes_on() {
    let town = Town::new(Policy::default());
    let mut handle = town.stage.submit(pay()).await;
    town.hear().await.answer.send(lost()).unwrap();
    let id = handle.record().operation_id.clone();
    town.once(&id, |operation| matches!(operation.inquiry, Inquiry::Reconciling { .. })).await;
    town.stage.engine.cancel(&me(), &handle.record().id, CancelRule::Promise).await.unwrap();
    assert_eq!(handle.over().await.task.ending(), Some(&Ending::Cancelled));
    town.looks.then(text("yes"));
    town.once(&id, |operation| !operation.is_active()).await;
}
