//! What to do about work found unfinished after a crash: the crash table of the design (section 6), as a function.

use crate::operation::{Inquiry, Operation, Stage};
use crate::time::{Millis, UnixMillis};

/// Whether the back's work can outlive our process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Survival {
    /// It is a process of its own: a server over HTTP with tasks.
    Survives,
    /// It died with us (a stdio child), or the work hung on a connection that is gone.
    DiedWithUs,
}

/// What to do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Recovery {
    /// It was never sent: send it now.
    Send,
    /// It was never sent, and it is too late to begin: fail it, confirmed not applied.
    GiveUpUnsent,
    /// It was sent, or may have been, and may be sent again.
    SendAgain,
    /// It might be sent again, but by now it should be over: fail it.
    Expire,
    /// The back has a task for it: go on observing.
    Resume,
    /// It may or may not have happened: unknown.
    Doubt,
    /// Its outcome was being asked after: go on asking, under the same budget (R5.4).
    Reconcile,
    /// It is settled, or known to be in doubt and for a person to decide: nothing to do.
    Leave,
}

/// Decides what to do about `operation`, made at `created` and found after a crash.
///
/// # Units
/// `start_by`: how long after its creation a call that was never sent may still be begun. `deadline`: when the work
/// must be over.
///
/// # Source
/// design 6, *What each crash costs*; R4.5, R5.3
#[must_use]
pub fn recover(
    operation: &Operation,
    survival: Survival,
    created: UnixMillis,
    start_by: Millis,
    deadline: UnixMillis,
    now: UnixMillis,
) -> Recovery {
    match (&operation.stage, survival) {
        (Stage::Prepared, _) if now.since(created) <= start_by && now < deadline => Recovery::Send,
        (Stage::Prepared, _) => Recovery::GiveUpUnsent,
        (Stage::Observing { .. }, Survival::Survives) => Recovery::Resume,
        (Stage::Dispatched { .. }, _) | (Stage::Observing { .. }, Survival::DiedWithUs) => {
            match operation.may_resend(now) {
                true if now < deadline => Recovery::SendAgain,
                true => Recovery::Expire,
                false => Recovery::Doubt,
            }
        }
        (Stage::Settled(_) | Stage::Unknown(_), _) => match operation.inquiry {
            Inquiry::Reconciling { .. } => Recovery::Reconcile,
            Inquiry::Idle | Inquiry::Person { .. } => Recovery::Leave,
        },
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use core::fmt::Write;

    use super::*;
    use crate::operation::{Doubt, Effect, HandOff, Inquiry, Outcome, Replay, Upstream, Verdict};

    #[test]
    fn the_crash_table() {
        let mut table = String::new();
        let upstream = Upstream { task_id: "up-1".to_string(), session: None };
        let at = UnixMillis(1_000);
        for (name, effect, replay) in [
            ("read_only", Effect::ReadOnly, Replay::Never),
            ("consequential", Effect::Consequential, Replay::Never),
            ("natural", Effect::Consequential, Replay::Natural),
            ("keyed, window open", Effect::Consequential, Replay::Keyed { window: Millis::mins(60) }),
            ("keyed, window over", Effect::Consequential, Replay::Keyed { window: Millis(1) }),
        ] {
            writeln!(table, "## {name}").unwrap();
            for stage in [
                Stage::Prepared,
                Stage::Dispatched { at },
                Stage::Observing { at, upstream: upstream.clone() },
                Stage::Settled(Outcome::Reported(Verdict::Applied)),
                Stage::Unknown(Doubt::AnswerLost),
            ] {
                for survival in [Survival::Survives, Survival::DiedWithUs] {
                    for (when, now) in [
                        ("soon", UnixMillis(60_000)),
                        ("late", UnixMillis(700_000)),
                        ("after its deadline", UnixMillis(900_000)),
                    ] {
                        let operation = Operation {
                            stage: stage.clone(),
                            attempts: 1,
                            first_dispatched_at: Some(at),
                            ..Operation::new(effect, replay)
                        };
                        let (start_by, deadline) = (Millis::mins(10), UnixMillis(900_000));
                        let what = recover(&operation, survival, at, start_by, deadline, now);
                        writeln!(table, "{stage:?}, {survival:?}, {when}: {what:?}").unwrap();
                    }
                }
            }
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn r5_4_what_was_being_asked_after_goes_on_being_asked_after() {
        let at = UnixMillis(1_000);
        let asking = Inquiry::Reconciling { since: at, tries: 3, next: at, last: None };
        let waiting = Inquiry::Person { since: at, why: HandOff::BudgetSpent };
        for stage in [
            Stage::Unknown(Doubt::AnswerLost),
            Stage::Settled(Outcome::Reported(Verdict::Applied)),
            Stage::Settled(Outcome::Assumed),
        ] {
            for survival in [Survival::Survives, Survival::DiedWithUs] {
                for now in [UnixMillis(60_000), UnixMillis(900_000)] {
                    let found = |inquiry| {
                        let operation = Operation {
                            stage: stage.clone(),
                            inquiry,
                            attempts: 1,
                            first_dispatched_at: Some(at),
                            ..Operation::new(Effect::Consequential, Replay::Natural)
                        };
                        recover(&operation, survival, at, Millis::mins(10), UnixMillis(900_000), now)
                    };
                    assert_eq!(found(asking), Recovery::Reconcile);
                    assert_eq!(found(waiting), Recovery::Leave);
                    assert_eq!(found(Inquiry::Idle), Recovery::Leave);
                }
            }
        }
    }
}
