//! What must have happened at least once for the campaign to say anything, and how often it did.

use std::collections::BTreeMap;

use taskgate_faults::proxy::{Close, Fault, Side};

use crate::act::{How, Line, STEPS, Whom};
use crate::places;
use crate::plan::{Plays, TURNS, lanes};
use crate::tally::{Tally, blow_name, fault_name, twice_name};

/// Name by name.
pub(crate) fn owed(tally: &Tally) -> BTreeMap<String, u64> {
    let mut names = lines();
    for step in STEPS {
        for whom in [Whom::Gateway, Whom::Server, Whom::Client] {
            for how in [How::Kill, How::Stop { ms: 1 }] {
                names.push(format!("blow: {}", blow_name(whom, how, step)));
            }
        }
    }
    for when in ["before it listened", "after it listened"] {
        names.push(format!("blow: kill -9 of gateway in recovery, {when}"));
    }
    for lane in lanes(0).iter().filter(|lane| lane.plays == Plays::Blows) {
        names.extend(lane.backs.iter().map(|back| format!("blow: back {}", back.name())));
    }
    for turn in TURNS {
        let word = serde_json::json!(turn)["turn"].as_str().unwrap_or_default().to_owned();
        names.push(format!("bank: effect {word}"));
    }
    names.extend(taskgate_faults::server::PAYMENTS.map(|tool| format!("policy: {tool}")));
    for source in crate::check::SOURCES {
        names.extend(crate::policy::STATES.map(|state| format!("{source}: {state}")));
        names.push(format!("{source}: person: assumed"));
        names.push(format!("{source}: person: no_rule"));
    }
    names.extend(crate::person::STATES.map(str::to_owned));
    names.extend(
        [
            "effects: 0",
            "effects: 1",
            "told: result",
            "told: tool error",
            "told: error, outcome applied",
            "told: error, outcome not_applied",
            "told: error, outcome unknown",
        ]
        .map(str::to_owned),
    );
    let counted = names.into_iter().map(|name| {
        let times = tally.times(&name);
        (name, times)
    });
    let mut owed: BTreeMap<String, u64> = counted.collect();
    let bytes = tally.bytes();
    for lane in lanes(0) {
        for (line, back, front, message) in places::wanted(&lane) {
            let twice = twice_name(line, message);
            owed.insert(twice.clone(), tally.times(&twice));
            for side in [Side::Request, Side::Answer] {
                if places::has_side(back, message, side) {
                    let name = Tally::place(line, back, front, message, side);
                    let cut = bytes.get(&name).map_or(0, |bytes| bytes.cut.len());
                    owed.insert(format!("bytes cut at: {name}"), u64::try_from(cut).unwrap());
                }
            }
        }
    }
    owed
}

fn lines() -> Vec<String> {
    let mut names = Vec::new();
    for line in [Line::Client, Line::Server] {
        for side in [Side::Request, Side::Answer] {
            for how in [Close::Fin, Close::Reset] {
                for after in [1, usize::MAX] {
                    names.push(fault_name(line, Fault::Cut { side, after, how }));
                }
            }
        }
    }
    for line in [Line::Client, Line::Server, Line::Books, Line::Hook] {
        for side in [Side::Request, Side::Answer] {
            names.push(fault_name(line, Fault::Stall { side, after: 1 }));
            names.push(fault_name(line, Fault::HalfClose { side, after: 1 }));
            names.push(fault_name(line, Fault::Delay { side, after: 1, ms: 1 }));
        }
        names.push(fault_name(line, Fault::Duplicate));
    }
    names.into_iter().map(|name| format!("line: {name}")).collect()
}

/// Which process was struck how at which step, how often: a table.
pub(crate) fn blows(tally: &Tally) -> String {
    let mut table = format!("{:<14}", "while");
    let ways = || {
        [Whom::Gateway, Whom::Server, Whom::Client]
            .into_iter()
            .flat_map(|whom| [How::Kill, How::Stop { ms: 1 }].map(|how| (whom, how)))
    };
    for (whom, how) in ways() {
        let how = if how == How::Kill { "kill -9" } else { "STOP/CONT" };
        table.push_str(&format!("{:>18}", format!("{whom:?} {how}").to_lowercase()));
    }
    for step in STEPS {
        table.push_str(&format!("\n{:<14}", format!("{step:?}").to_lowercase()));
        for (whom, how) in ways() {
            let times = tally.times(&format!("blow: {}", blow_name(whom, how, step)));
            table.push_str(&format!("{times:>18}"));
        }
    }
    table
}
