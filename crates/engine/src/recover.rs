//! After a crash, before anything else: the crash table of the design (section 6), carried out.
//!
//! What needs no server is decided at once. What would send or observe at a server that nobody has brought yet is
//! parked, and taken up when it is there (design 4).

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Command as Do, Doubt, Effect, Stage};
use taskgate_core::recovery::{Recovery, Survival, recover};
use taskgate_core::task::{Command, Ending, Fault};
use taskgate_seeded::Bug;
use taskgate_store::record::Record;
use taskgate_store::summary::Summary;

use crate::drive::Start;
use crate::engine::Engine;
use crate::handle::Live;
use crate::ledger::{End, conclude};
use crate::objects;
use crate::slots::Waiting;

/// Tasks read, and decided on, at a time; enough for commits to be shared.
const PAGE: usize = 256;

/// What recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// Never sent, and sent now.
    pub sent: usize,
    /// Never sent, and too late.
    pub given_up: usize,
    /// Sent before, and sent again.
    pub sent_again: usize,
    /// Sent before, and too late to be sent again.
    pub expired: usize,
    /// Observed again.
    pub resumed: usize,
    /// Left in doubt: unknown.
    pub doubted: usize,
    /// Asked after again.
    pub reconciling: usize,
    /// Waiting for a server that is not known yet. None of the others.
    pub parked: usize,
}

impl Recovered {
    fn count(&mut self, what: Recovery) {
        match what {
            Recovery::Send => self.sent += 1,
            Recovery::GiveUpUnsent => self.given_up += 1,
            Recovery::SendAgain => self.sent_again += 1,
            Recovery::Expire => self.expired += 1,
            Recovery::Resume => self.resumed += 1,
            Recovery::Doubt => self.doubted += 1,
            Recovery::Reconcile => self.reconciling += 1,
            Recovery::Leave => {}
        }
    }
}

/// The words that a client reads of a call that a crash left in doubt.
const IN_DOUBT: &str = "the gateway stopped after the call was sent and before its answer came";

/// And of one that was never sent.
const TOO_LATE: &str = "the gateway was stopped for longer than calls may wait to be begun";

/// And of one whose server nobody brought in time.
const NO_SERVER: &str = "nobody started its server again before its deadline passed";

/// What became of a record that recovery read.
enum Fate {
    /// This was done.
    Done(Recovery),
    /// It waits for its server.
    Parked,
}

impl Engine {
    /// Takes up the work that a crash interrupted. When this returns, the first read of every task is right. Servers
    /// that are added later bring their parked work by [`Engine::take_up`].
    ///
    /// # Errors
    /// The store's; then nothing must be served.
    ///
    /// # Source
    /// design 4; design 6, *What each crash costs*; R3.3, R4.5, INV-01, INV-11
    pub async fn recover(self: &Arc<Self>) -> Result<Recovered, taskgate_store::Error> {
        let mut report = Recovered::default();
        let mut after = None;
        loop {
            let page = self.parts.store.unfinished(after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.id().clone());
            let is_last_page = page.len() < PAGE;
            // Decisions that only need writing share their commits.
            let mut fates = stream::iter(page.into_iter().map(|summary| self.clone().found(summary)))
                .buffer_unordered(PAGE);
            while let Some(fate) = fates.next().await {
                match fate? {
                    Fate::Done(what) => report.count(what),
                    Fate::Parked => report.parked += 1,
                }
            }
            if is_last_page {
                break;
            }
        }
        report.reconciling += self.take_up_inquiries().await?;
        Ok(report)
    }

    /// Takes up what is parked for a server that is known now. Whether calls can still be begun, and whether their
    /// deadlines have passed, is judged here. Costs nothing when nothing is parked.
    ///
    /// # Errors
    /// The store's; what was not taken up then stays parked.
    ///
    /// # Source
    /// design 4
    pub async fn take_up(self: &Arc<Self>, server: &ServerName) -> Result<Recovered, taskgate_store::Error> {
        let parked = self.parked.take(server);
        if parked.is_empty() {
            return Ok(Recovered::default());
        }
        // What was taken out must be begun or put back, whoever stops waiting.
        let engine = self.clone();
        self.detached(async move {
            let mut report = Recovered::default();
            let mut parked = parked.into_iter();
            while let Some(live) = parked.next() {
                match engine.take_up_one(&live).await {
                    Ok(what) => report.count(what),
                    Err(error) => {
                        std::iter::once(live).chain(parked).for_each(|live| engine.parked.add(live));
                        return Err(error);
                    }
                }
            }
            Ok(report)
        })
        .await
    }

    async fn take_up_one(self: &Arc<Self>, live: &Arc<Live>) -> Result<Recovery, taskgate_store::Error> {
        let what = self.decide(&Summary::of(Record::clone(&live.record())));
        self.carry_out(what, live).await?;
        if !begins(what) {
            self.keep(live);
        }
        Ok(what)
    }

    /// Ends what is parked and must be over by now: a task must not stay `working` for a server that never comes.
    pub(crate) async fn expire_parked(self: &Arc<Self>) {
        let now = self.parts.clock.now();
        for live in self.parked.all() {
            if live.record().deadline > now {
                continue;
            }
            let closed = match live.record().operation.stage {
                Stage::Prepared => {
                    self.close(&live, Do::NeverSent, Fault::NeverSent(NO_SERVER.to_owned()), true).await
                }
                Stage::Dispatched { .. }
                | Stage::Observing { .. }
                | Stage::Settled(_)
                | Stage::Unknown(_) => {
                    let is_closed = self.is_over(&live.record());
                    self.close(&live, Do::Lose(Doubt::DeadlinePassed), Fault::DeadlinePassed, is_closed).await
                }
            };
            match closed {
                Ok(()) => {
                    self.parked.forget(&live);
                    self.keep(&live);
                }
                Err(error) => {
                    tracing::warn!(task = ?live.record().id, %error, "could not end a task whose deadline has passed");
                }
            }
        }
    }

    async fn found(self: Arc<Self>, summary: Summary) -> Result<Fate, taskgate_store::Error> {
        let what = self.decide(&summary);
        // Taken up with those whose tasks are gone: what was called with and what came of it need not be read for that.
        if what == Recovery::Reconcile && summary.task().ending().is_some() {
            return Ok(Fate::Done(what));
        }
        let Some(record) = self.parts.store.load(summary.principal(), summary.id()).await? else {
            // Nobody deletes what is unfinished.
            tracing::error!(task = ?summary.id(), "recovery met a task that is gone");
            return Ok(Fate::Done(what));
        };
        let is_parked = begins(what) && !self.parts.backs.is_known(&record.call.server);
        let live = Arc::new(Live::new(Arc::new(record)));
        if begins(what) {
            // Before anybody reads: an answer to a question of before would be taken and lost.
            self.void_questions(&live).await?;
            // Counted, whatever the bound: these were admitted before.
            self.registry.admit(&live.record().principal, usize::MAX);
            self.registry.insert(&live);
        }
        if is_parked {
            self.parked.add(live);
            return Ok(Fate::Parked);
        }
        self.carry_out(what, &live).await?;
        if !begins(what) {
            // Its effect may be asked after from here on, or again.
            self.keep(&live);
        }
        Ok(Fate::Done(what))
    }

    /// What the crash table says, unless nobody wants it any more: work that a promise cancelled is not begun again,
    /// though what it did is still found out where it can be. Nor is work whose client wished it stopped.
    fn decide(&self, summary: &Summary) -> Recovery {
        let what = recover(
            summary.operation(),
            self.parts.backs.survival(summary.server()),
            summary.created(),
            self.parts.limits.start_by,
            summary.deadline(),
            self.parts.clock.now(),
        );
        let is_over = summary.task().ending().is_some();
        let is_wished = summary.task().cancel_wished_at.is_some();
        let is_unwanted = (is_over || is_wished) && !taskgate_seeded::is(Bug::CancelIgnored);
        match what {
            Recovery::Send if is_over => Recovery::GiveUpUnsent,
            Recovery::SendAgain | Recovery::Expire if is_unwanted => Recovery::Doubt,
            Recovery::Send
            | Recovery::SendAgain
            | Recovery::Expire
            | Recovery::GiveUpUnsent
            | Recovery::Resume
            | Recovery::Doubt
            | Recovery::Reconcile
            | Recovery::Leave => what,
        }
    }

    pub(crate) async fn carry_out(
        self: &Arc<Self>,
        what: Recovery,
        live: &Arc<Live>,
    ) -> Result<(), taskgate_store::Error> {
        let (lane, running_max) = self.parts.limits.lane(&live.record().call);
        match what {
            Recovery::Send if objects::queues(&live.record()) => {
                self.wait_for_object(Waiting { live: live.clone(), back: None });
            }
            Recovery::Send | Recovery::SendAgain => {
                let waiting = Waiting { live: live.clone(), back: None };
                self.turns(self.slots.queue(&lane, waiting, false, running_max));
            }
            Recovery::Resume => {
                self.slots.force(&lane);
                self.start(live.clone(), None, Start::Resume);
            }
            Recovery::GiveUpUnsent => {
                self.close(live, Do::NeverSent, Fault::NeverSent(TOO_LATE.to_owned()), true).await?;
            }
            Recovery::Expire => {
                let is_closed = self.is_over(&live.record());
                self.close(live, Do::Lose(Doubt::DeadlinePassed), Fault::DeadlinePassed, is_closed).await?;
            }
            // Taken up with those whose tasks are gone: see `recover`.
            Recovery::Reconcile => {}
            Recovery::Doubt | Recovery::Leave => {
                let is_closed = self.is_over(&live.record());
                self.close(live, Do::Lose(Doubt::AnswerLost), self.in_doubt(live), is_closed).await?;
            }
        }
        Ok(())
    }

    /// Whether an exchange of before the crash is over: we held it, or the server that did is gone with us.
    fn is_over(&self, record: &Record) -> bool {
        match record.operation.stage {
            Stage::Observing { .. } => self.parts.backs.survival(&record.call.server) == Survival::DiedWithUs,
            Stage::Prepared | Stage::Dispatched { .. } | Stage::Settled(_) | Stage::Unknown(_) => true,
        }
    }

    /// Nobody can tell whether an answer of before got through, so what is still open is asked again, under a new key
    /// (G-011). It is done before anybody reads: an answer to the old key would be taken and lost.
    async fn void_questions(self: &Arc<Self>, live: &Live) -> Result<(), taskgate_store::Error> {
        let voided = self.change(live, |draft| {
            let task = &draft.record().task;
            let open = task.outstanding().into_iter().flat_map(|asked| asked.questions().keys());
            let keys: Vec<_> = open.chain(task.answering.keys()).cloned().collect();
            keys.into_iter().try_for_each(|key| draft.task(Command::Withdraw(key)))
        });
        if voided.await?.is_err() {
            tracing::error!(task = ?live.record().id, "recovery met a question that it could not void");
        }
        Ok(())
    }

    fn in_doubt(&self, live: &Live) -> Fault {
        match live.record().operation.effect {
            Effect::ReadOnly => Fault::UpstreamFault(IN_DOUBT.to_owned()),
            Effect::Reversible | Effect::Consequential => Fault::OutcomeUnknown(IN_DOUBT.to_owned()),
        }
    }

    /// Ends what is not driven, and writes down what that says of the effect.
    pub(crate) async fn close(
        self: &Arc<Self>,
        live: &Arc<Live>,
        told: Do,
        fault: Fault,
        is_closed: bool,
    ) -> Result<(), taskgate_store::Error> {
        let rules = &*self.parts.rules;
        let changed = self
            .change(live, |draft| {
                let is_over = draft.record().task.ending().is_some();
                let concluded = conclude(draft, rules, End::of(told, Ending::Faulted(fault), is_closed));
                if is_over { Ok(()) } else { concluded }
            })
            .await;
        if changed.is_err() {
            self.once_known(live, async move |engine, live| {
                if live.record().task.ending().is_some() {
                    engine.parked.forget(&live);
                }
                engine.keep(&live);
            });
        }
        if changed?.is_err() {
            tracing::error!(task = ?live.record().id, "recovery met a task that it could not close");
        }
        Ok(())
    }
}

/// Whether it sets a driver going, for which its server must be there.
fn begins(what: Recovery) -> bool {
    match what {
        Recovery::Send | Recovery::SendAgain | Recovery::Resume => true,
        Recovery::GiveUpUnsent
        | Recovery::Expire
        | Recovery::Doubt
        | Recovery::Reconcile
        | Recovery::Leave => false,
    }
}
