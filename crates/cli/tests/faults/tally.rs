//! What happened how often. What is never counted was never tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use taskgate_faults::proxy::{Fault, Side};

use crate::act::{Blow, Break, How, Line, Step, Trial, Whom};

#[derive(Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    happened: BTreeMap<String, u64>,
    /// Injected faults.
    faults: u64,
    /// Of each message of each line: at which bytes it was cut.
    bytes: BTreeMap<String, BTreeSet<usize>>,
}

fn line_name(line: Line) -> &'static str {
    match line {
        Line::Client => "client-gateway",
        Line::Server => "gateway-server",
    }
}

fn side_name(side: Side) -> &'static str {
    match side {
        Side::Request => "request",
        Side::Answer => "answer",
    }
}

/// What a fault on a line is called.
pub(crate) fn fault_name(line: Line, fault: Fault) -> String {
    let line = line_name(line);
    match fault {
        Fault::Watch => format!("{line}: nothing"),
        Fault::Cut { side, after: usize::MAX, how } => {
            format!("{line}: whole {} then {how:?}", side_name(side))
        }
        Fault::Cut { side, how, .. } => format!("{line}: {} cut by {how:?}", side_name(side)),
        Fault::Stall { side, .. } => format!("{line}: {} stalled", side_name(side)),
        Fault::HalfClose { side, .. } => format!("{line}: {} half closed", side_name(side)),
        Fault::Duplicate => format!("{line}: request delivered twice"),
        Fault::Delay { side, .. } => format!("{line}: {} delayed", side_name(side)),
    }
}

/// What a blow is called.
pub(crate) fn blow_name(whom: Whom, how: How, step: Step) -> String {
    let how = match how {
        How::Kill => "kill -9",
        How::Stop { .. } => "SIGSTOP",
    };
    format!("{how} of {whom:?} while {step:?}").to_lowercase()
}

impl Tally {
    pub(crate) fn count(&self, what: String) {
        *self.0.lock().unwrap().happened.entry(what).or_default() += 1;
    }

    /// What a message's bytes are listed under.
    pub(crate) fn place(line: Line, trial: &Trial, method: &str, side: Side) -> String {
        match line {
            Line::Client => format!("{} {:?} {method} {}", line_name(line), trial.front, side_name(side)),
            Line::Server => format!("{} {} {method} {}", line_name(line), trial.back.name(), side_name(side)),
        }
    }

    pub(crate) fn broke(&self, line: Line, trial: &Trial, broken: &Break) {
        self.count(format!("line: {}", fault_name(line, broken.fault)));
        let mut counts = self.0.lock().unwrap();
        counts.faults += 1;
        if let Fault::Cut { side, after, .. } = broken.fault {
            let place = Tally::place(line, trial, &broken.method, side);
            counts.bytes.entry(place).or_default().insert(after);
        }
    }

    pub(crate) fn struck(&self, blow: Blow, first: &Trial) {
        self.count(format!("blow: {}", blow_name(blow.whom, blow.how, blow.step)));
        self.count(format!("blow: back {}", first.back.name()));
        self.0.lock().unwrap().faults += 1;
        if blow.again.is_some() {
            self.count("blow: kill -9 of gateway in recovery".to_owned());
            self.0.lock().unwrap().faults += 1;
        }
    }

    pub(crate) fn faults(&self) -> u64 {
        self.0.lock().unwrap().faults
    }

    pub(crate) fn happened(&self) -> BTreeMap<String, u64> {
        self.0.lock().unwrap().happened.clone()
    }

    pub(crate) fn times(&self, what: &str) -> u64 {
        self.0.lock().unwrap().happened.get(what).copied().unwrap_or_default()
    }

    /// How many places of each message were cut at, not counting the whole.
    pub(crate) fn bytes(&self) -> BTreeMap<String, BTreeSet<usize>> {
        self.0.lock().unwrap().bytes.clone()
    }
}
