//! What is known of effects, and what is done to learn more.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::id::{OperationId, WorkflowName};
use taskgate_core::operation::{
    Attestation, Doubt, Effect, HandOff, Inquiry, Outcome, Stage as Step, Text, Verdict,
};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault, Found};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_engine::back::Answer;
use taskgate_engine::engine::{NewCall, SubmitError, Submitted};
use taskgate_engine::ledger::ResolveError;
use taskgate_engine::limits::Limits;
use taskgate_engine::rules::{About, Asks, Look, Receipted, Request, RuleFailed, Rules, Said, Webhook};
use taskgate_store::ledger::Which;
use taskgate_store::record::{Conflict, Intent, Key, Object};
use taskgate_store::{Join, Store};

use crate::stage::{Puppet, Stage, call, text};

/// A workflow whose receipts the test chooses, with a probe or without.
struct Bank {
    receipt: Mutex<Result<Option<Receipted>, RuleFailed>>,
    asks: bool,
}

impl Bank {
    fn new(asks: bool) -> Arc<Bank> {
        Arc::new(Bank { receipt: Mutex::new(Ok(None)), asks })
    }

    fn gives(&self, receipt: Result<Option<Receipted>, RuleFailed>) {
        *self.receipt.lock() = receipt;
    }
}

impl Rules for Bank {
    fn receipt(&self, about: &About<'_>, _: &Bytes, _: bool) -> Result<Option<Receipted>, RuleFailed> {
        assert_eq!(about.intent.workflow.0, "pay");
        assert!(about.params.is_some());
        self.receipt.lock().clone()
    }
    fn asks(&self, _: &WorkflowName) -> Option<Asks> {
        let second = Millis::secs(1);
        let asks = Asks { first: second, every: second, budget: None, settle: None, resend: false };
        self.asks.then_some(asks)
    }
    fn probe(&self, _: &About<'_>) -> Result<Request, RuleFailed> {
        Err(RuleFailed("this bank is closed".into()))
    }
    fn judge(&self, _: &About<'_>, _: &Said<'_>) -> Result<Look, RuleFailed> {
        Ok(Look::Unclear("this bank is closed".into()))
    }
    fn fence(&self, _: &About<'_>) -> Result<Option<Request>, RuleFailed> {
        Ok(None)
    }
    fn is_fenced(&self, _: &About<'_>, _: &Said<'_>) -> Result<bool, RuleFailed> {
        Ok(false)
    }
    fn owners(&self, _: &WorkflowName) -> Vec<String> {
        vec![]
    }
    fn webhook(&self, _: &WorkflowName) -> Option<Webhook> {
        None
    }
}

fn stage(bank: &Arc<Bank>) -> Stage {
    Stage::ruled(Puppet::new(Survival::DiedWithUs), bank.clone(), Limits::default())
}

fn pay(conflict: Conflict) -> NewCall {
    let mut new = call(Effect::Consequential);
    let object = Object { name: "invoice-1".into(), version: None, conflict };
    new.call.intent =
        Some(Intent { workflow: WorkflowName("pay".into()), object: Some(object), effect: None });
    new
}

fn attestation(verdict: Verdict) -> Attestation {
    Attestation { verdict, name: Text::new("Ann"), reason: Text::new("asked the bank") }
}

fn lost() -> Answer {
    Answer::Lost("connection closed".to_owned())
}

async fn waiting(stage: &Stage) -> Vec<OperationId> {
    let entries = stage.engine.operations(Which::Waiting, None, 9).await.unwrap();
    entries.into_iter().map(|entry| entry.id).collect()
}

#[tokio::test(start_paused = true)]
async fn r4_3_a_receipt_confirms_in_the_commit_that_ends_the_task() {
    let bank = Bank::new(true);
    bank.gives(Ok(Some(Receipted::Proof { reference: "tx-1".into(), verdict: Verdict::Applied })));
    let stage = stage(&bank);
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    stage.back.hear().await.answer.send(text("{\"tx\":1}")).unwrap();
    let record = handle.over().await;
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::Applied)));
    assert_eq!(record.operation.receipt, Some(Text::new("tx-1")));
    // Two commits a task: that it was sent, and its end.
    assert_eq!(record.version, 2);
    let history = stage.engine.history(&record.operation_id).await.unwrap();
    assert!(history[1].lines.contains(&"settled reported_applied answer success".to_owned()));
    assert!(history[1].lines.contains(&"settled confirmed_applied receipt tx-1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn design_7_a_receipt_rule_that_fails_says_nothing_and_a_person_is_asked() {
    let bank = Bank::new(false);
    bank.gives(Err(RuleFailed("there is no member \"tx\"".into())));
    let stage = stage(&bank);
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    let record = handle.over().await;
    assert!(matches!(record.task.ending(), Some(Ending::Returned { is_error: false, .. })));
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
    assert!(matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::RuleFailed, .. }));
    assert_eq!(waiting(&stage).await, std::slice::from_ref(&record.operation_id));
    // What nobody can have issued is kept, and proves nothing.
    bank.gives(Ok(Some(Receipted::Unproved { note: "a receipt of nobody: tx-9".into() })));
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    let record = handle.over().await;
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
    let history = stage.engine.history(&record.operation_id).await.unwrap();
    assert!(history[1].lines.contains(&"noted a receipt of nobody: tx-9".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn design_7_a_task_goes_on_while_its_effect_is_looked_up() {
    let stage = stage(&Bank::new(true));
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    stage.back.hear().await.answer.send(lost()).unwrap();
    let record = handle.changed().await;
    assert_eq!((record.version, record.task.ending()), (2, None));
    assert!(record.task.message.as_deref().unwrap().contains("looked up"));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert!(matches!(record.operation.inquiry, Inquiry::Reconciling { tries: 0, last: None, .. }));
    assert!(record.operation.closed_at.is_some(), "the connection is gone, which is proved");
    assert_eq!((stage.engine.live(), waiting(&stage).await), (1, vec![]));
    // What becomes known ends it, in one commit.
    let entry = stage.engine.attest(&record.operation_id, attestation(Verdict::NotApplied)).await.unwrap();
    assert_eq!(entry.operation.stage, Step::Settled(Outcome::Attested(Verdict::NotApplied)));
    let record = handle.over().await;
    assert_eq!(record.task.ending(), Some(&Ending::Faulted(Fault::Found(Found::NotApplied))));
    assert_eq!((record.version, stage.engine.live()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn r4_4_a_cancelled_call_stays_asked_after() {
    let stage = stage(&Bank::new(true));
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    stage.back.hear().await.answer.send(lost()).unwrap();
    let record = handle.changed().await;
    let cancelled =
        stage.engine.cancel(&record.principal, &record.id, CancelRule::Wish).await.unwrap().unwrap();
    assert_eq!(cancelled.task.ending(), Some(&Ending::Cancelled));
    assert!(matches!(cancelled.operation.inquiry, Inquiry::Reconciling { .. }));
    // It is still in memory, so that what is learned and what is read are one record.
    assert_eq!(stage.engine.live(), 1);
    stage.engine.attest(&record.operation_id, attestation(Verdict::Applied)).await.unwrap();
    let record = stage.engine.find(&record.principal, &record.id).await.unwrap().unwrap().record();
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Attested(Verdict::Applied)));
    assert_eq!((record.task.ending(), stage.engine.live()), (Some(&Ending::Cancelled), 0));
}

#[tokio::test(start_paused = true)]
async fn inv_14_without_rules_a_lost_answer_goes_to_a_person() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(lost()).unwrap();
    let record = handle.over().await;
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::OutcomeUnknown(_)))));
    assert!(matches!(record.operation.inquiry, Inquiry::Person { why: HandOff::NoRule, .. }));
    assert_eq!((record.version, waiting(&stage).await), (2, vec![record.operation_id.clone()]));
    // An error that was answered is known to whoever made the call.
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let error = Answer::Returned { result: Bytes::from_static(b"{\"isError\":true}"), is_error: true };
    stage.back.hear().await.answer.send(error).unwrap();
    let answered = handle.over().await;
    assert_eq!(answered.operation.inquiry, Inquiry::Idle);
    assert_eq!(waiting(&stage).await, std::slice::from_ref(&record.operation_id));
    // Nobody can be asked but a person, whose word needs a reason.
    let asked = stage.engine.reconcile_now(&record.operation_id).await;
    assert!(matches!(asked, Err(ResolveError::NoRule)), "{asked:?}");
    let silent = Attestation { reason: Text::new(" "), ..attestation(Verdict::Applied) };
    let silent = stage.engine.attest(&record.operation_id, silent).await;
    assert!(matches!(silent, Err(ResolveError::NoReason)), "{silent:?}");
    stage.engine.attest(&record.operation_id, attestation(Verdict::Applied)).await.unwrap();
    assert_eq!(waiting(&stage).await, []);
    let again = stage.engine.attest(&record.operation_id, attestation(Verdict::NotApplied)).await;
    assert!(matches!(again, Err(ResolveError::OutOfStage(_))), "{again:?}");
    let unknown = stage.engine.attest(&OperationId("op-none".into()), attestation(Verdict::Applied)).await;
    assert!(matches!(unknown, Err(ResolveError::Unknown)), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn r4_3_a_person_does_not_speak_of_what_is_under_way() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let heard = stage.back.hear().await;
    let id = handle.record().operation_id.clone();
    let refused = stage.engine.attest(&id, attestation(Verdict::Applied)).await;
    assert!(matches!(refused, Err(ResolveError::OutOfStage(_))), "{refused:?}");
    heard.answer.send(text("{}")).unwrap();
    assert_eq!(handle.over().await.operation.stage, Step::Settled(Outcome::Reported(Verdict::Applied)));
}

#[tokio::test(start_paused = true)]
async fn inv_30_r4_8_a_purged_operation_is_known_and_resolved() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let keyed = || {
        let mut new = call(Effect::Consequential);
        new.call.key = Some(Key::of_caller("k"));
        new.join = Join::SameKey;
        new
    };
    let mut handle = stage.submit(keyed()).await;
    stage.back.hear().await.answer.send(lost()).unwrap();
    let id = handle.over().await.operation_id.clone();
    assert_eq!(stage.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 1);
    let attested = stage.engine.attest(&id, attestation(Verdict::Applied)).await.unwrap();
    assert_eq!((attested.kept, attested.version), (None, 3));
    let (restarted, _) = stage.restart_ruled().await;
    // The late duplicate is answered by what is known, and nothing is sent.
    match restarted.engine.submit(keyed(), restarted.back.clone()).await.unwrap() {
        Submitted::Known(known) => assert_eq!(*known, attested),
        other => panic!("{other:?}"),
    }
    assert_eq!(restarted.back.sent.load(Ordering::SeqCst), 1);
    let lines: Vec<_> =
        restarted.engine.history(&id).await.unwrap().into_iter().flat_map(|it| it.lines).collect();
    assert_eq!(lines.last().unwrap(), "settled attested_applied person Ann: asked the bank");
}

#[tokio::test(start_paused = true)]
async fn r4_3_a_persons_word_is_corrected_by_a_person_and_confirmed_stands_against_both() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(lost()).unwrap();
    let id = handle.over().await.operation_id.clone();
    let word =
        |verdict, name, reason| Attestation { verdict, name: Text::new(name), reason: Text::new(reason) };
    stage.engine.attest(&id, word(Verdict::Applied, "Ann", "saw it")).await.unwrap();
    let second = || word(Verdict::NotApplied, "Bob", "that was another one");
    let refused = stage.engine.attest(&id, second()).await;
    assert!(matches!(refused, Err(ResolveError::OutOfStage(_))), "{refused:?}");
    let silent = stage.engine.correct(&id, word(Verdict::NotApplied, "Bob", " ")).await;
    assert!(matches!(silent, Err(ResolveError::NoReason)), "{silent:?}");
    let corrected = stage.engine.correct(&id, second()).await.unwrap();
    assert_eq!(corrected.operation.stage, Step::Settled(Outcome::Attested(Verdict::NotApplied)));
    // The same word with a better reason, also once the task is gone.
    assert_eq!(stage.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 1);
    stage.engine.correct(&id, word(Verdict::NotApplied, "Bob", "the bank wrote so")).await.unwrap();
    let history = stage.engine.history(&id).await.unwrap();
    let lines: Vec<_> = history.iter().flat_map(|it| &it.lines).filter(|it| it.contains("person")).collect();
    assert_eq!(
        lines,
        [
            "settled attested_applied person Ann: saw it",
            "settled attested_not_applied person Bob: that was another one",
            "settled attested_not_applied person Bob: the bank wrote so",
        ]
    );

    let mut handle = stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(Answer::NeverSent("refused".to_owned())).unwrap();
    let id = handle.over().await.operation_id.clone();
    let refused = stage.engine.correct(&id, word(Verdict::Applied, "Ann", "saw it")).await;
    assert!(matches!(refused, Err(ResolveError::OutOfStage(_))), "{refused:?}");
}

/// The first one's task is kept, or gone; and it is in memory, or read from disk.
#[tokio::test(start_paused = true)]
async fn r4_6_an_effect_that_was_made_after_its_key_was_given_on_is_told_to_a_person() {
    for (is_purged, is_restarted) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let keyed = || {
            let mut new = call(Effect::Consequential);
            new.call.key = Some(Key::of_caller("k"));
            new.join = Join::SameKey;
            new
        };
        let mut handle = stage.submit(keyed()).await;
        stage.back.hear().await.answer.send(lost()).unwrap();
        let first = handle.over().await.operation_id.clone();
        stage.engine.attest(&first, attestation(Verdict::NotApplied)).await.unwrap();
        let mut second = stage.submit(keyed()).await;
        stage.back.hear().await.answer.send(text("{}")).unwrap();
        let second = second.over().await;
        assert_ne!(second.operation_id, first);
        if is_purged {
            assert_eq!(stage.store.purge(UnixMillis(i64::MAX), 9).await.unwrap(), 2);
        }
        if is_restarted {
            stage = stage.restart_ruled().await.0;
        }
        let entry = stage.engine.operation(&first).await.unwrap().unwrap();
        let given = stage.engine.key_given_to(&entry).await.unwrap();
        assert_eq!(given.as_ref(), Some(&second.operation_id));
        assert_eq!(waiting(&stage).await, []);

        let found = stage.engine.correct(&first, attestation(Verdict::Applied)).await.unwrap();
        assert_eq!(found.operation.stage, Step::Settled(Outcome::Attested(Verdict::Applied)));
        assert!(matches!(found.operation.inquiry, Inquiry::Person { why: HandOff::Contradiction, .. }));
        assert_eq!(waiting(&stage).await, std::slice::from_ref(&first));
        let last = stage.engine.history(&first).await.unwrap().pop().unwrap();
        assert!(last.lines.iter().any(|line| line.contains(&second.operation_id.0)), "{last:?}");
        // The other one is as it was, and once a person has seen it, it is off the list.
        let other = stage.engine.operation(&second.operation_id).await.unwrap().unwrap();
        assert_eq!((other.version, &other.operation), (second.version, &second.operation));
        stage.engine.attest(&first, attestation(Verdict::Applied)).await.unwrap();
        assert_eq!(waiting(&stage).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn r5_4_what_was_asked_after_at_a_crash_still_is() {
    let bank = Bank::new(true);
    let stage = stage(&bank);
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    stage.back.hear().await.answer.send(lost()).unwrap();
    let before = handle.changed().await;
    let (restarted, report) = stage.restart_ruled().await;
    assert_eq!((report.reconciling, report.doubted), (1, 0));
    let found = restarted.engine.find(&before.principal, &before.id).await.unwrap().unwrap().record();
    assert_eq!((found.task.ending(), &found.operation), (None, &before.operation));
    assert_eq!(restarted.engine.live(), 1);
    // What was sent and not answered is asked after from then on.
    let sent = restarted.submit(pay(Conflict::Allow)).await.record();
    restarted.back.hear().await;
    let (again, report) = restarted.restart_ruled().await;
    assert_eq!((report.reconciling, report.doubted), (1, 1));
    let found = again.engine.find(&sent.principal, &sent.id).await.unwrap().unwrap().record();
    assert_eq!((found.task.ending(), again.engine.live()), (None, 2));
    assert!(matches!(found.operation.inquiry, Inquiry::Reconciling { .. }));
}

#[tokio::test(start_paused = true)]
async fn r4_5_a_person_can_have_it_asked_once_more() {
    let bank = Bank::new(true);
    let stage = stage(&bank);
    let mut handle = stage.submit(pay(Conflict::Allow)).await;
    let error = Answer::Returned { result: Bytes::from_static(b"{\"isError\":true}"), is_error: true };
    stage.back.hear().await.answer.send(error).unwrap();
    let record = handle.over().await;
    // The answer that came is the client's; what it means for the effect is looked up behind it.
    assert!(matches!(record.task.ending(), Some(Ending::Returned { is_error: true, .. })));
    assert!(matches!(record.operation.inquiry, Inquiry::Reconciling { .. }));
    stage.clock.skip_ms(500);
    let entry = stage.engine.reconcile_now(&record.operation_id).await.unwrap();
    let Inquiry::Reconciling { since, next, .. } = entry.operation.inquiry else { panic!("{entry:?}") };
    assert!(next < since + Millis::secs(1), "it is due at once");
}

#[tokio::test(start_paused = true)]
async fn design_7_a_second_call_on_an_object_waits_until_the_first_is_settled() {
    let bank = Bank::new(false);
    let stage = stage(&bank);
    let mut first = stage.submit(pay(Conflict::Queue)).await;
    let heard = stage.back.hear().await;
    // Of one and the same millisecond nobody can say which came first.
    stage.clock.skip_ms(1);
    let mut second = stage.submit(pay(Conflict::Queue)).await;
    stage.clock.skip_ms(1);
    let mut third = stage.submit(pay(Conflict::Queue)).await;
    assert_eq!(second.record().operation.stage, Step::Prepared);
    heard.answer.send(lost()).unwrap();
    let unknown = first.over().await;
    // Unknown is not settled: nothing more is sent.
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 1);
    stage.engine.attest(&unknown.operation_id, attestation(Verdict::NotApplied)).await.unwrap();
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    second.over().await;
    // One after the other, also over a restart.
    let heard = stage.back.hear().await;
    drop(heard.answer);
    let lost = third.over().await;
    let fourth = stage.submit(pay(Conflict::Queue)).await.record();
    let (restarted, report) = stage.restart_ruled().await;
    assert_eq!(report.sent, 1);
    restarted.engine.attest(&lost.operation_id, attestation(Verdict::Applied)).await.unwrap();
    restarted.back.hear().await.answer.send(text("{}")).unwrap();
    let mut fourth = restarted.engine.find(&fourth.principal, &fourth.id).await.unwrap().unwrap();
    assert!(matches!(fourth.over().await.task.ending(), Some(Ending::Returned { .. })));
    assert_eq!(restarted.back.sent.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn design_7_who_waits_too_long_for_an_object_was_never_sent() {
    let bank = Bank::new(false);
    let stage = stage(&bank);
    let first = stage.submit(pay(Conflict::Queue)).await;
    let _heard = stage.back.hear().await;
    let mut second = stage.submit(pay(Conflict::Queue)).await;
    let mut third = stage.submit(pay(Conflict::Queue)).await;
    let record = third.record();
    stage.engine.cancel(&record.principal, &record.id, CancelRule::Wish).await.unwrap();
    assert_eq!(third.over().await.task.ending(), Some(&Ending::Cancelled));
    let house = tokio::spawn({
        let engine = stage.engine.clone();
        async move { engine.keep_house().await }
    });
    let record = second.over().await;
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::NeverSent(_)))), "{record:?}");
    assert_eq!(record.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
    assert_eq!((first.record().task.ending(), stage.engine.live()), (None, 1));
    house.abort();
}

#[tokio::test(start_paused = true)]
async fn design_7_a_second_call_on_an_object_is_refused_where_the_workflow_says_so() {
    let stage = stage(&Bank::new(false));
    let mut first = stage.submit(pay(Conflict::Refuse)).await;
    let heard = stage.back.hear().await;
    let refused = stage.engine.submit(pay(Conflict::Refuse), stage.back.clone()).await;
    match refused {
        Err(SubmitError::ObjectBusy(busy)) => {
            assert_eq!(busy.operation, Some(first.record().operation_id.clone()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.engine.live(), 1);
    heard.answer.send(text("{}")).unwrap();
    first.over().await;
    stage.submit(pay(Conflict::Refuse)).await;
    stage.back.hear().await;
}

#[tokio::test(start_paused = true)]
async fn r4_8_housekeeping_lets_old_evidence_go() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    stage.back.hear().await.answer.send(text("{}")).unwrap();
    let id = handle.over().await.operation_id.clone();
    let house = tokio::spawn({
        let engine = stage.engine.clone();
        async move { engine.keep_house().await }
    });
    let days = |days: i64| days * 24 * 3_600_000;
    stage.clock.skip_ms(days(399));
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    let kept = stage.engine.operation(&id).await.unwrap().expect("it is kept for 400 days");
    assert_eq!(kept.kept, None);
    stage.clock.skip_ms(days(2));
    tokio::time::sleep(std::time::Duration::from_secs(61)).await;
    assert_eq!(stage.engine.operation(&id).await.unwrap(), None);
    house.abort();
}
