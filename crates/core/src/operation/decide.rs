//! What may follow from what an operation is told.
//!
//! One function per command, each with all stages: that is the table. Its snapshot is beside it.

use alloc::vec;
use alloc::vec::Vec;

use taskgate_seeded::Bug;

use super::{
    Attestation, Command, Doubt, Effect, Event, Evidence, Finding, HandOff, Inquiry, Operation, Outcome,
    Probed, Stage, Standing, Text, Verdict, Word,
};
use crate::time::{Millis, UnixMillis};

/// A command that does not fit the stage. The operation is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the operation is not at a stage where this can happen")]
pub struct OutOfStage;

type Decision = Result<Vec<Event>, OutOfStage>;

impl Operation {
    /// Decides what `command` does at `now`; changes nothing. No events: it was so already.
    ///
    /// # Errors
    /// [`OutOfStage`]: for instance a second dispatch while the first may still arrive (R4.5), or a person's word against
    /// what is confirmed.
    ///
    /// # Source
    /// design 7; notes 2.3, 3.4; R4.2 to R4.5
    pub fn decide(&self, now: UnixMillis, command: Command) -> Decision {
        match command {
            Command::Dispatch => self.dispatch(now),
            Command::Accept(upstream) => match &self.stage {
                Stage::Dispatched { .. } => Ok(vec![Event::Accepted { upstream }]),
                Stage::Prepared | Stage::Observing { .. } | Stage::Settled(_) | Stage::Unknown(_) => {
                    Err(OutOfStage)
                }
            },
            Command::Hear(word) => self.hear(now, word),
            Command::NeverSent => self.never_sent(),
            Command::Lose(doubt) => match &self.stage {
                Stage::Dispatched { .. } | Stage::Observing { .. } => Ok(vec![self.lost(doubt)]),
                Stage::Prepared | Stage::Settled(_) | Stage::Unknown(_) => Err(OutOfStage),
            },
            Command::Repeat => match &self.stage {
                Stage::Dispatched { .. } | Stage::Observing { .. } if self.may_resend(now) => {
                    Ok(vec![Event::Dispatched { at: now }])
                }
                Stage::Prepared
                | Stage::Dispatched { .. }
                | Stage::Observing { .. }
                | Stage::Settled(_)
                | Stage::Unknown(_) => Err(OutOfStage),
            },
            Command::Close => match &self.stage {
                Stage::Settled(_) | Stage::Unknown(_) if self.attempts > 0 => match self.closed_at {
                    None => Ok(vec![Event::Closed { at: now }]),
                    Some(_) => Ok(vec![]),
                },
                Stage::Prepared
                | Stage::Dispatched { .. }
                | Stage::Observing { .. }
                | Stage::Settled(_)
                | Stage::Unknown(_) => Err(OutOfStage),
            },
            Command::Receive(receipt) => {
                let evidence = Evidence::Receipt { reference: receipt.reference };
                self.confirm(now, receipt.verdict, evidence, IsUnderWay::MayBe)
            }
            Command::Reconcile { first } => self.reconcile(now, first),
            Command::Probed(probed) => self.probed(now, probed),
            Command::HandOff { why, note } => self.hand_off(now, why, note),
            Command::Attest(attestation) => self.attest(attestation),
            Command::Correct(attestation) => match &self.stage {
                Stage::Settled(Outcome::Attested(_)) => Ok(vec![attested(attestation)]),
                Stage::Prepared
                | Stage::Dispatched { .. }
                | Stage::Observing { .. }
                | Stage::Settled(_)
                | Stage::Unknown(_) => self.attest(attestation),
            },
            Command::Clear { standing, what } => match &self.stage {
                Stage::Unknown(_) if self.proves(standing) => {
                    Ok(vec![Event::Cleared { finding: Finding::NotApplied(standing), what }])
                }
                Stage::Prepared
                | Stage::Dispatched { .. }
                | Stage::Observing { .. }
                | Stage::Settled(_)
                | Stage::Unknown(_) => Err(OutOfStage),
            },
            Command::Note(text) => Ok(vec![Event::Noted { text }]),
        }
    }

    fn dispatch(&self, now: UnixMillis) -> Decision {
        match &self.stage {
            Stage::Prepared => Ok(vec![Event::Dispatched { at: now }]),
            Stage::Dispatched { .. } | Stage::Unknown(_) if self.may_resend(now) => {
                Ok(vec![Event::Dispatched { at: now }])
            }
            Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Settled(_) | Stage::Unknown(_) => {
                Err(OutOfStage)
            }
        }
    }

    fn hear(&self, now: UnixMillis, word: Word) -> Decision {
        match &self.stage {
            // A late answer is still the best word there is on an effect in doubt.
            Stage::Dispatched { .. } | Stage::Observing { .. } | Stage::Unknown(_) => {
                Ok(vec![self.heard(word)])
            }
            Stage::Settled(held @ Outcome::Assumed) => match word.verdict() {
                None => Err(OutOfStage),
                Some(Verdict::NotApplied) if self.has_earlier_attempts() => Err(OutOfStage),
                Some(told) => {
                    let settled = self.heard(word);
                    let against = contradiction(*held, told, &Evidence::Answer(word));
                    Ok(against.into_iter().chain([settled]).collect())
                }
            },
            // Nothing changes by it, but whoever looks at the operation must know that it was said.
            Stage::Settled(held @ (Outcome::Attested(_) | Outcome::Confirmed(_))) => {
                let evidence = Evidence::Answer(word);
                let against = word.verdict().and_then(|told| contradiction(*held, told, &evidence));
                against.map(|against| self.disputed(now, against)).ok_or(OutOfStage)
            }
            Stage::Prepared | Stage::Settled(Outcome::NoneExpected | Outcome::Reported(_)) => Err(OutOfStage),
        }
    }

    fn never_sent(&self) -> Decision {
        match &self.stage {
            // Only the first attempt's failure to leave proves anything: an earlier one may have arrived, unless all
            // earlier ones were cleared.
            Stage::Dispatched { .. } if self.has_earlier_attempts() => Ok(vec![self.lost(Doubt::AnswerLost)]),
            Stage::Prepared | Stage::Dispatched { .. } => Ok(vec![Event::Settled {
                outcome: self.unless_read_only(Outcome::Confirmed(Verdict::NotApplied)),
                evidence: Evidence::NeverSent,
            }]),
            Stage::Observing { .. } | Stage::Settled(_) | Stage::Unknown(_) => Err(OutOfStage),
        }
    }

    fn reconcile(&self, now: UnixMillis, first: Millis) -> Decision {
        match &self.stage {
            Stage::Unknown(_) | Stage::Settled(Outcome::Reported(_) | Outcome::Assumed) => {
                let since = match self.inquiry {
                    Inquiry::Reconciling { since, .. } => since,
                    Inquiry::Idle | Inquiry::Person { .. } => now,
                };
                Ok(vec![Event::Reconciling { since, next: now + first }])
            }
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Settled(Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_)) => {
                Err(OutOfStage)
            }
        }
    }

    fn probed(&self, now: UnixMillis, Probed { finding, what, again }: Probed) -> Decision {
        let verdict = match finding {
            Finding::Applied => Some(Verdict::Applied),
            Finding::NotApplied(standing) if self.proves(standing) => Some(Verdict::NotApplied),
            Finding::NotApplied(_) | Finding::Unclear | Finding::Failed => None,
        };
        match (verdict, self.inquiry) {
            (Some(verdict), _) => {
                self.confirm(now, verdict, Evidence::Probe { finding, what }, IsUnderWay::MustNotBe)
            }
            (None, Inquiry::Reconciling { .. }) => {
                let finding = match finding {
                    Finding::NotApplied(_) => Finding::NotApplied(Standing::Open),
                    Finding::Applied | Finding::Unclear | Finding::Failed => finding,
                };
                Ok(vec![Event::Probed { finding, what, next: now + again }])
            }
            (None, Inquiry::Idle | Inquiry::Person { .. }) => Err(OutOfStage),
        }
    }

    fn hand_off(&self, now: UnixMillis, why: HandOff, note: Option<Text>) -> Decision {
        let negative = match self.inquiry {
            Inquiry::Reconciling { tries, last: Some(Finding::NotApplied(_)), .. } => Some(tries),
            Inquiry::Idle | Inquiry::Reconciling { .. } | Inquiry::Person { .. } => None,
        };
        let is_over = match why {
            HandOff::BudgetSpent | HandOff::Assumed => true,
            HandOff::NoRule | HandOff::Contradiction | HandOff::RuleFailed | HandOff::Wished => false,
        };
        let asked = |why| Event::HandedOff { at: now, why, note };
        match (&self.stage, self.inquiry, negative) {
            // Two sources are at odds, whatever is held.
            (Stage::Settled(Outcome::Confirmed(_) | Outcome::Attested(_)), inquiry, _)
                if why == HandOff::Contradiction =>
            {
                match inquiry {
                    Inquiry::Person { .. } => Ok(vec![]),
                    Inquiry::Idle | Inquiry::Reconciling { .. } => Ok(vec![asked(why)]),
                }
            }
            (Stage::Prepared | Stage::Dispatched { .. } | Stage::Observing { .. }, _, _)
            | (Stage::Settled(Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_)), _, _) => {
                Err(OutOfStage)
            }
            (Stage::Unknown(_) | Stage::Settled(_), Inquiry::Person { .. }, _) => Ok(vec![]),
            (Stage::Unknown(_), _, Some(tries)) if is_over => Ok(vec![
                Event::Settled { outcome: Outcome::Assumed, evidence: Evidence::Silence { tries } },
                asked(HandOff::Assumed),
            ]),
            (Stage::Settled(Outcome::Reported(Verdict::Applied)), _, Some(_)) if is_over => {
                Ok(vec![asked(HandOff::Contradiction)])
            }
            (Stage::Unknown(_) | Stage::Settled(_), _, None) if why == HandOff::Assumed => Err(OutOfStage),
            (Stage::Unknown(_) | Stage::Settled(_), _, Some(_) | None) => Ok(vec![asked(why)]),
        }
    }

    fn attest(&self, attestation: Attestation) -> Decision {
        let verdict = attestation.verdict;
        let is_disputed = match self.inquiry {
            Inquiry::Person { why: HandOff::Contradiction, .. } => true,
            Inquiry::Idle | Inquiry::Reconciling { .. } | Inquiry::Person { .. } => false,
        };
        match &self.stage {
            Stage::Unknown(_) | Stage::Settled(Outcome::Reported(_) | Outcome::Assumed) => {
                Ok(vec![attested(attestation)])
            }
            // What a person adds to what another said, or to what is certain, changes nothing and is kept.
            Stage::Settled(Outcome::Attested(held)) if *held == verdict && !is_disputed => {
                Ok(vec![attested(attestation)])
            }
            Stage::Settled(Outcome::Attested(held) | Outcome::Confirmed(held)) if *held == verdict => {
                let Attestation { name, reason, verdict: _ } = attestation;
                Ok(vec![Event::Acknowledged { name, reason }])
            }
            Stage::Settled(Outcome::Attested(_)) if is_disputed => Ok(vec![attested(attestation)]),
            Stage::Prepared
            | Stage::Dispatched { .. }
            | Stage::Observing { .. }
            | Stage::Settled(Outcome::NoneExpected | Outcome::Confirmed(_) | Outcome::Attested(_)) => {
                Err(OutOfStage)
            }
        }
    }

    /// The system of record says `verdict`.
    fn confirm(
        &self,
        now: UnixMillis,
        verdict: Verdict,
        evidence: Evidence,
        is_under_way: IsUnderWay,
    ) -> Decision {
        let settled = |evidence| Event::Settled { outcome: Outcome::Confirmed(verdict), evidence };
        match (&self.stage, is_under_way) {
            (Stage::Dispatched { .. } | Stage::Observing { .. }, IsUnderWay::MayBe) => match self.effect {
                Effect::ReadOnly => Err(OutOfStage),
                Effect::Reversible | Effect::Consequential => Ok(vec![settled(evidence)]),
            },
            (Stage::Unknown(_), IsUnderWay::MayBe | IsUnderWay::MustNotBe) => Ok(vec![settled(evidence)]),
            (
                Stage::Settled(held @ (Outcome::Reported(_) | Outcome::Attested(_) | Outcome::Assumed)),
                IsUnderWay::MayBe | IsUnderWay::MustNotBe,
            ) => {
                let against = contradiction(*held, verdict, &evidence);
                Ok(against.into_iter().chain([settled(evidence)]).collect())
            }
            (Stage::Settled(held @ Outcome::Confirmed(_)), IsUnderWay::MayBe | IsUnderWay::MustNotBe) => {
                let against = contradiction(*held, verdict, &evidence);
                Ok(against.map(|against| self.disputed(now, against)).unwrap_or_default())
            }
            (
                Stage::Prepared
                | Stage::Dispatched { .. }
                | Stage::Observing { .. }
                | Stage::Settled(Outcome::NoneExpected),
                IsUnderWay::MayBe | IsUnderWay::MustNotBe,
            ) => Err(OutOfStage),
        }
    }

    /// What is held stays as it is, and a person is told.
    fn disputed(&self, now: UnixMillis, against: Event) -> Vec<Event> {
        match self.inquiry {
            Inquiry::Person { why: HandOff::Contradiction, .. } => vec![against],
            Inquiry::Idle | Inquiry::Reconciling { .. } | Inquiry::Person { .. } => {
                vec![against, Event::HandedOff { at: now, why: HandOff::Contradiction, note: None }]
            }
        }
    }

    /// Whether a look-up of this standing that found nothing proves anything of this operation.
    fn proves(&self, standing: Standing) -> bool {
        match standing {
            Standing::Fenced => true,
            Standing::Settled => self.closed_at.is_some() || taskgate_seeded::is(Bug::SettleFromDispatch),
            Standing::Open => taskgate_seeded::is(Bug::NotFoundIsNotApplied),
        }
    }

    /// Whether an attempt before the last may have arrived.
    fn has_earlier_attempts(&self) -> bool {
        self.attempts > self.cleared + 1 && !taskgate_seeded::is(Bug::FirstAttemptForgotten)
    }

    fn heard(&self, word: Word) -> Event {
        let told = |verdict| Event::Settled {
            outcome: self.unless_read_only(Outcome::Reported(verdict)),
            evidence: Evidence::Answer(word),
        };
        match word {
            Word::Success => told(Verdict::Applied),
            // Said of one attempt, while an earlier one may have done it.
            Word::NotUnderstood if self.has_earlier_attempts() => {
                self.doubted(Doubt::PeerError, Evidence::Answer(word))
            }
            Word::NotUnderstood => told(Verdict::NotApplied),
            Word::ToolError => self.doubted(Doubt::ToolError, Evidence::Answer(word)),
            Word::OtherError => self.doubted(Doubt::PeerError, Evidence::Answer(word)),
        }
    }

    fn lost(&self, doubt: Doubt) -> Event {
        self.doubted(doubt, Evidence::None)
    }

    fn doubted(&self, doubt: Doubt, evidence: Evidence) -> Event {
        match self.effect {
            Effect::ReadOnly => Event::Settled { outcome: Outcome::NoneExpected, evidence },
            Effect::Reversible | Effect::Consequential => Event::Doubted { doubt },
        }
    }

    fn unless_read_only(&self, outcome: Outcome) -> Outcome {
        match self.effect {
            Effect::ReadOnly => Outcome::NoneExpected,
            Effect::Reversible | Effect::Consequential => outcome,
        }
    }
}

/// Whether an exchange may be open while something is confirmed: a receipt comes with its result, a look-up does not.
#[derive(Clone, Copy)]
enum IsUnderWay {
    MayBe,
    MustNotBe,
}

fn attested(Attestation { verdict, name, reason }: Attestation) -> Event {
    Event::Settled { outcome: Outcome::Attested(verdict), evidence: Evidence::Person { name, reason } }
}

/// That `told` is the opposite of `held`, if it is.
fn contradiction(held: Outcome, told: Verdict, evidence: &Evidence) -> Option<Event> {
    let is_opposite = held.verdict().is_some_and(|verdict| verdict != told);
    is_opposite.then(|| Event::Contradicted { held, told, evidence: evidence.clone() })
}
