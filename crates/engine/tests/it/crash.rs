//! The crash table, and a crash at every write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use taskgate_core::operation::{Doubt, Effect, Outcome, Replay, Stage as Step, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{CancelRule, Ending, Fault, QuestionKey};
use taskgate_engine::back::{Look, Reply, Stand};
use taskgate_engine::engine::Submitted;
use taskgate_engine::limits::Limits;
use taskgate_sim::{Around, Failed, Way};
use taskgate_store::Join;
use taskgate_store::memory::MemoryStore;
use taskgate_store::record::Key;

use crate::stage::{Puppet, Stage, call, form, look, me, returned, task, text};

#[tokio::test(start_paused = true)]
async fn prepared_work_is_sent_after_the_restart_unless_it_is_too_late() {
    for (down_ms, sent) in [(0, 1), (11 * 60_000, 0)] {
        let limits = Limits { running_max: 0, ..Limits::default() };
        let stage = Stage::with(Puppet::new(Survival::DiedWithUs), limits);
        let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
        stage.clock.skip_ms(down_ms);
        let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
        if sent == 1 {
            stage.back.hear().await.answer.send(text("{}")).unwrap();
        }
        let record = stage.over_by(&id).await;
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), sent);
        if sent == 0 {
            assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::NeverSent(_)))));
            assert_eq!(record.operation.stage, Step::Settled(Outcome::Confirmed(Verdict::NotApplied)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dispatched_work_is_unknown_after_the_restart_and_the_first_read_says_so() {
    for survival in [Survival::DiedWithUs, Survival::Survives] {
        let stage = Stage::new(Puppet::new(survival));
        let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
        let _heard = stage.back.hear().await;
        let stage = stage.restart(Puppet::new(survival)).await;
        let record = stage.read(&id).await;
        assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::OutcomeUnknown(_)))));
        assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
        assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn dispatched_work_that_may_be_repeated_is_sent_again() {
    for (effect, replay) in [(Effect::ReadOnly, Replay::Never), (Effect::Consequential, Replay::Natural)] {
        let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
        let mut new = call(effect);
        new.replay = replay;
        let id = stage.submit(new).await.record().id.clone();
        let _heard = stage.back.hear().await;
        let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
        stage.back.hear().await.answer.send(text("{\"again\":1}")).unwrap();
        let record = stage.over_by(&id).await;
        assert_eq!(returned(&record), b"{\"again\":1}");
        assert_eq!(record.operation.attempts, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_keyed_call_is_sent_again_with_the_same_key() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut new = call(Effect::Consequential);
    new.replay = Replay::Keyed { window: taskgate_core::time::Millis::hours(1) };
    let id = stage.submit(new).await.record().id.clone();
    let first = stage.back.hear().await.outgoing.key.expect("a key goes with it");
    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    let heard = stage.back.hear().await;
    assert_eq!(heard.outgoing.key, Some(first));
    heard.answer.send(text("{}")).unwrap();
    stage.over_by(&id).await;
}

#[tokio::test(start_paused = true)]
async fn b_084_an_observed_task_is_observed_again_and_never_started_again() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    while !matches!(handle.record().operation.stage, Step::Observing { .. }) {
        handle.changed().await;
    }
    let stage = stage.restart(Puppet::new(Survival::Survives)).await;
    stage.back.stands(Stand::Ended(Box::new(text("{\"r\":9}"))));
    assert_eq!(returned(&*stage.over_by(&id).await), b"{\"r\":9}");
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn an_observed_task_of_a_stdio_child_died_with_us() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    while !matches!(handle.record().operation.stage, Step::Observing { .. }) {
        handle.changed().await;
    }
    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    assert_eq!(stage.read(&id).await.operation.stage, Step::Unknown(Doubt::AnswerLost));
}

#[tokio::test(start_paused = true)]
async fn an_ended_task_is_there_after_the_restart() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let id = stage.submit(call(Effect::Consequential)).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{\"kept\":1}")).unwrap();
    stage.over_by(&id).await;
    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    assert_eq!(returned(&stage.read(&id).await), b"{\"kept\":1}");
}

#[tokio::test(start_paused = true)]
async fn g_011_a_question_still_open_upstream_is_asked_again_under_a_new_key() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let asking = || Ok(Look { questions: vec![("k".to_owned(), form("{}"))], ..look(Stand::InputRequired) });
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    *stage.back.look.lock() = asking();
    stage.back.hear().await.answer.send(task()).unwrap();
    while handle.record().task.outstanding().is_none() {
        handle.changed().await;
    }
    let back = Puppet::new(Survival::Survives);
    *back.look.lock() = asking();
    let stage = stage.restart(back).await;
    // The first read shows no question whose answer would be lost.
    assert!(stage.read(&id).await.task.outstanding().is_none());
    let mut handle = stage.engine.find(&me(), &id).await.unwrap().unwrap();
    let second = QuestionKey("in-2".to_owned());
    while !handle.record().task.outstanding().is_some_and(|asked| asked.questions().contains_key(&second)) {
        handle.changed().await;
    }
    let reply = Reply::Result("{\"action\":\"accept\"}".into());
    stage.engine.answer(&me(), &id, &second, reply).await.unwrap();
    assert_eq!(stage.back.answers.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_was_asked_for_is_passed_on_again() {
    let stage = Stage::new(Puppet::new(Survival::Survives));
    let mut handle = stage.submit(call(Effect::Consequential)).await;
    let id = handle.record().id.clone();
    stage.back.hear().await.answer.send(task()).unwrap();
    while !matches!(handle.record().operation.stage, Step::Observing { .. }) {
        handle.changed().await;
    }
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    let back = Puppet::new(Survival::Survives);
    back.stands(Stand::Cancelled);
    let stage = stage.restart(back).await;
    stage.over_by(&id).await;
    assert_eq!(stage.back.cancels.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_was_to_be_cancelled_is_not_sent_again_though_it_might_be() {
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let mut new = call(Effect::Consequential);
    new.replay = Replay::Natural;
    let id = stage.submit(new).await.record().id.clone();
    let _heard = stage.back.hear().await;
    stage.engine.cancel(&me(), &id, CancelRule::Wish).await.unwrap();
    let stage = stage.restart(Puppet::new(Survival::DiedWithUs)).await;
    let record = stage.read(&id).await;
    assert!(matches!(record.task.ending(), Some(Ending::Faulted(Fault::OutcomeUnknown(_)))));
    assert_eq!(record.operation.stage, Step::Unknown(Doubt::AnswerLost));
    assert_eq!(stage.back.sent.load(Ordering::SeqCst), 0);
}

/// Lets through so many writes and then dies: the write is done or not, and nobody ever hears which.
pub(crate) struct DiesAfter {
    writes: AtomicUsize,
    last: usize,
    last_is_done: bool,
}

impl DiesAfter {
    /// In the way to `store`.
    pub(crate) fn over(store: &MemoryStore, last: usize, last_is_done: bool) -> Around<DiesAfter> {
        let way = DiesAfter { writes: AtomicUsize::new(0), last, last_is_done };
        Around { store: store.clone(), way }
    }
}

impl Way for DiesAfter {
    async fn write<T: Send, E: Failed>(
        &self,
        _: &'static str,
        write: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let n = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        if n > self.last || (n == self.last && !self.last_is_done) {
            return std::future::pending().await;
        }
        let done = write.await;
        if n == self.last {
            return std::future::pending().await;
        }
        done
    }
}

/// A world in which every call that arrives makes its effect and is answered.
fn obliging(back: &Arc<Puppet>) -> tokio::task::JoinHandle<()> {
    let back = back.clone();
    tokio::spawn(async move {
        loop {
            let _ = back.hear().await.answer.send(text("{\"done\":1}"));
        }
    })
}

#[tokio::test(start_paused = true)]
async fn inv_11_a_crash_at_every_write_makes_no_second_effect_and_loses_no_task() {
    for (last, last_is_done) in (1..=3).flat_map(|last| [(last, false), (last, true)]) {
        let store = MemoryStore::new();
        let dying = DiesAfter::over(&store, last, last_is_done);
        let back = Puppet::new(Survival::DiedWithUs);
        let world = obliging(&back);
        let first = Stage::new(back.clone());
        let stage =
            Stage::over(store, Some(Arc::new(dying)), back.clone(), first.clock.clone(), Limits::default());
        let keyed = || {
            let mut new = call(Effect::Consequential);
            new.call.key = Some(Key::of_caller("order-1"));
            new.join = Join::SameKey;
            new
        };
        // The first life: submit, and wait for what never comes if it died.
        let answered = tokio::time::timeout(std::time::Duration::from_secs(60), async {
            let handle = stage.submit(keyed()).await;
            let id = handle.record().id.clone();
            stage.over_by(&id).await;
            id
        })
        .await
        .ok();
        // The second life: the client sends the same key again.
        let second = stage.restart(back.clone()).await;
        let handle = match second.engine.submit(keyed(), back.clone()).await.unwrap() {
            Submitted::Started(handle) | Submitted::Joined(handle) | Submitted::Again(handle) => handle,
            Submitted::Known(_) => panic!("nothing was purged"),
        };
        let id = handle.record().id.clone();
        let record = second.over_by(&id).await;
        let sent = back.sent.load(Ordering::SeqCst);
        assert!(sent <= 1, "write {last} (done: {last_is_done}): sent {sent} times");
        if let Some(known) = answered {
            assert_eq!(known, id, "an id that left us is kept");
        }
        match record.operation.stage {
            Step::Settled(Outcome::Reported(Verdict::Applied)) => assert_eq!(sent, 1),
            Step::Unknown(Doubt::AnswerLost) => assert!(last <= 2),
            ref other => panic!("write {last} (done: {last_is_done}): {other:?}"),
        }
        world.abort();
    }
}
