//! What happened how often. What is never counted was never tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use taskgate_faults::proxy::{Fault, Side};

use taskgate_faults::client::Front;

use crate::act::{Back, Blow, Break, How, Line, Step, Trial, Whom};

#[derive(Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    happened: BTreeMap<String, u64>,
    /// Injected faults.
    faults: u64,
    /// Of each message of each line.
    bytes: BTreeMap<String, Bytes>,
}

/// A message, and where it was cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes {
    /// How long it is.
    pub(crate) length: usize,
    /// After how many of its bytes it was cut, the whole not among them.
    pub(crate) cut: BTreeSet<usize>,
}

fn line_name(line: Line) -> &'static str {
    match line {
        Line::Client => "client-gateway",
        Line::Server => "gateway-server",
        Line::Books => "gateway-bank",
        Line::Hook => "gateway-hook",
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

/// What the second delivery of a message is called.
pub(crate) fn twice_name(line: Line, message: &str) -> String {
    format!("twice: {} {message}", line_name(line))
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
    pub(crate) fn place(line: Line, back: Back, front: Front, message: &str, side: Side) -> String {
        let (line_of, side) = (line_name(line), side_name(side));
        match line {
            Line::Client => format!("{line_of} {front:?} {message} {side}").to_lowercase(),
            Line::Server => format!("{line_of} {} {message} {side}", back.name()),
            Line::Books | Line::Hook => format!("{line_of} {message} {side}"),
        }
    }

    /// How long the messages are that can be cut.
    pub(crate) fn measured(&self, lengths: BTreeMap<String, usize>) {
        let mut counts = self.0.lock().unwrap();
        for (place, length) in lengths {
            counts.bytes.entry(place).or_default().length = length;
        }
    }

    pub(crate) fn broke(&self, trial: &Trial, broken: &Break) {
        self.count(format!("line: {}", fault_name(broken.line, broken.fault)));
        if broken.fault == Fault::Duplicate {
            self.count(twice_name(broken.line, &broken.message));
        }
        let mut counts = self.0.lock().unwrap();
        counts.faults += 1;
        if let Fault::Cut { side, after, .. } = broken.fault {
            let place = Tally::place(broken.line, trial.back, trial.front, &broken.message, side);
            let bytes = counts.bytes.entry(place).or_default();
            if after < bytes.length {
                bytes.cut.insert(after);
            }
        }
    }

    pub(crate) fn struck(&self, blow: Blow, first: &Trial) {
        self.count(format!("blow: {}", blow_name(blow.whom, blow.how, blow.step)));
        self.count(format!("blow: back {}", first.back.name()));
        self.fault();
    }

    /// The gateway was killed while it recovered from a kill.
    pub(crate) fn struck_again(&self, listened: bool) {
        let when = if listened { "after" } else { "before" };
        self.count(format!("blow: kill -9 of gateway in recovery, {when} it listened"));
        self.fault();
    }

    /// One more injected fault.
    pub(crate) fn fault(&self) {
        self.0.lock().unwrap().faults += 1;
    }

    /// How often the gateway was killed at a step or in a recovery, and how often of these in a recovery.
    pub(crate) fn kills(&self) -> (u64, u64) {
        let counts = self.0.lock().unwrap();
        let sum = |begin: &str| -> u64 {
            counts.happened.iter().filter(|(name, _)| name.starts_with(begin)).map(|(_, times)| times).sum()
        };
        let again = sum("blow: kill -9 of gateway in recovery");
        (again + sum("blow: kill -9 of gateway while"), again)
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

    /// Where each message was cut.
    pub(crate) fn bytes(&self) -> BTreeMap<String, Bytes> {
        self.0.lock().unwrap().bytes.clone()
    }
}
