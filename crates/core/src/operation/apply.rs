//! Folding what happened into an operation.

use super::{Event, Evidence, Inquiry, Operation, Stage};
use crate::time::UnixMillis;

impl Operation {
    /// Folds one recorded event in.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Dispatched { at } => {
                self.stage = Stage::Dispatched { at: *at };
                self.attempts += 1;
                self.first_dispatched_at.get_or_insert(*at);
                self.closed_at = None;
                self.inquiry = Inquiry::Idle;
            }
            Event::Accepted { upstream } => {
                let at = match &self.stage {
                    Stage::Dispatched { at } | Stage::Observing { at, .. } => *at,
                    Stage::Prepared | Stage::Settled(_) | Stage::Unknown(_) => UnixMillis::default(),
                };
                self.stage = Stage::Observing { at, upstream: upstream.clone() };
            }
            Event::Settled { outcome, evidence } => {
                self.stage = Stage::Settled(*outcome);
                self.inquiry = Inquiry::Idle;
                match evidence {
                    Evidence::Receipt { reference } => self.receipt = Some(reference.clone()),
                    Evidence::None
                    | Evidence::Answer(_)
                    | Evidence::NeverSent
                    | Evidence::Probe { .. }
                    | Evidence::Silence { .. }
                    | Evidence::Person { .. } => {}
                }
            }
            Event::Doubted { doubt } => self.stage = Stage::Unknown(*doubt),
            Event::Closed { at } => self.closed_at = Some(*at),
            Event::Reconciling { since, next } => {
                self.inquiry = match self.inquiry {
                    Inquiry::Reconciling { since: begun, tries, next: _, last } if begun == *since => {
                        Inquiry::Reconciling { since: begun, tries, next: *next, last }
                    }
                    Inquiry::Idle | Inquiry::Reconciling { .. } | Inquiry::Person { .. } => {
                        Inquiry::Reconciling { since: *since, tries: 0, next: *next, last: None }
                    }
                };
            }
            Event::Probed { finding, what: _, next } => {
                if let Inquiry::Reconciling { tries, next: due, last, .. } = &mut self.inquiry {
                    *tries = tries.saturating_add(1);
                    *due = *next;
                    *last = Some(*finding);
                }
            }
            Event::HandedOff { at, why, note: _ } => self.inquiry = Inquiry::Person { since: *at, why: *why },
            Event::Acknowledged { .. } => self.inquiry = Inquiry::Idle,
            Event::Cleared { .. } => {
                self.stage = Stage::Prepared;
                self.cleared = self.attempts;
                self.inquiry = Inquiry::Idle;
            }
            Event::Contradicted { .. } | Event::Noted { .. } => {}
        }
    }
}
