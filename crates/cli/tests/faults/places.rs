//! The messages that there are on the lines, how long they are, and what is done to them.

use std::collections::BTreeMap;

use taskgate_faults::bank::Turn;
use taskgate_faults::client::Front;
use taskgate_faults::proxy::{Close, Fault, Side};

use crate::act::{Act, Back, Break, FENCE, FRONTS, LOOK, Line, Over, Trial, WAIT, client_messages};
use crate::dice::Dice;
use crate::plan::{Keys, Lane, Plays, alone, following, plain};
use crate::play::measure;
use crate::tally::Tally;
use crate::world::World;

/// In how many places a message is cut at least.
const FEWEST: usize = 4;

/// What there is to be played.
#[derive(Default)]
pub(crate) struct Planned {
    pub(crate) acts: Vec<Act>,
    /// What was played for measuring.
    pub(crate) measured: Vec<Act>,
    /// How many bytes each message of a line has, by the name that the tally has for it.
    pub(crate) lengths: BTreeMap<String, usize>,
}

/// A message on a line.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    line: Line,
    back: Back,
    front: Front,
    message: &'static str,
    side: Side,
    length: usize,
}

/// The messages of a lane: on which line, of which server and front. `back` and `front` count only where the message
/// hangs on them.
pub(crate) fn wanted(lane: &Lane) -> Vec<(Line, Back, Front, &'static str)> {
    let mut wanted = Vec::new();
    for back in &lane.backs {
        let messages = match lane.plays {
            Plays::Breaks | Plays::Line => back.messages(),
            Plays::Openings => back.opening(),
            Plays::Blows => &[],
        };
        wanted.extend(messages.iter().map(|message| (Line::Server, *back, Front::A, *message)));
    }
    if lane.plays == Plays::Breaks {
        let back = lane.backs[0];
        for front in FRONTS {
            wanted.extend(client_messages(front).iter().map(|message| (Line::Client, back, front, *message)));
        }
        wanted.push((Line::Books, back, Front::A, "GET"));
        wanted.push((Line::Hook, back, Front::A, "POST"));
    }
    wanted
}

/// Whether there is a message on this side: a notification has no answer of its own on a line of lines.
pub(crate) fn has_side(back: Back, message: &str, side: Side) -> bool {
    !(side == Side::Answer && back.over == Over::Line && message == "notifications/initialized")
}

pub(crate) async fn planned(
    lane: &Lane,
    world: &World,
    keys: &mut Keys,
    dice: &mut Dice,
    every_byte: bool,
) -> Planned {
    let mut planned = Planned::default();
    let mut places = Vec::new();
    for (line, back, front, message) in wanted(lane) {
        let mut found = None;
        for attempt in 1..=8 {
            let place = Place { line, back, front, message, side: Side::Request, length: 0 };
            let mut trial = passing(&place, keys, dice);
            if let Some(Turn::Slow { ms }) = trial.script.effects.front_mut() {
                // A busy machine may be too late to ask about a short one.
                *ms = attempt * 300;
            }
            let act = Act { opening: lane.plays == Plays::Openings, ..alone(trial) };
            found = measure(world, &act, line, message).await;
            planned.measured.push(act);
            if found.is_some() {
                break;
            }
        }
        let found = found.unwrap_or_else(|| panic!("no {message} was seen of {} by {front:?}", back.name()));
        for (side, length) in [(Side::Request, found.request), (Side::Answer, found.answer)] {
            if has_side(back, message, side) {
                let place = Place { line, back, front, message, side, length };
                planned.lengths.insert(Tally::place(line, back, front, message, side), length);
                places.push(place);
            }
        }
    }
    let mut trials = cuts(lane, &places, keys, dice, every_byte);
    trials.extend(others(lane, &places, keys, dice));
    planned.acts = match lane.plays {
        Plays::Openings => together(trials, &lane.backs, dice),
        Plays::Breaks | Plays::Line | Plays::Blows => trials.into_iter().map(alone).collect(),
    };
    planned
}

/// Every so many-th byte of each message, beginning where the seed says; each of them if there is room.
fn cuts(lane: &Lane, places: &[Place], keys: &mut Keys, dice: &mut Dice, every_byte: bool) -> Vec<Trial> {
    let all: usize = places.iter().map(|place| place.length + 1).sum();
    let room = (lane.share * 3 / 4).max(1);
    let stride = if every_byte { 1 } else { all.div_ceil(room).max(1) };
    let mut trials = Vec::new();
    for place in places {
        let stride = stride.min((place.length / FEWEST).max(1));
        let begin = usize::try_from(dice.below(stride as u64)).unwrap();
        for after in (begin..=place.length).step_by(stride) {
            let how = dice.pick(&[Close::Fin, Close::Reset]);
            let after = if after >= place.length { usize::MAX } else { after };
            trials.push(broken(lane, place, Fault::Cut { side: place.side, after, how }, 0, keys, dice));
        }
    }
    trials
}

/// What can happen to a message beside being cut; each of them comes twice at least once.
fn others(lane: &Lane, places: &[Place], keys: &mut Keys, dice: &mut Dice) -> Vec<Trial> {
    let mut kinds = Vec::new();
    for side in [Side::Request, Side::Answer] {
        kinds.extend([
            Fault::Stall { side, after: 0 },
            Fault::HalfClose { side, after: 0 },
            Fault::Delay { side, after: 0, ms: 0 },
        ]);
    }
    kinds.push(Fault::Duplicate);
    for side in [Side::Request, Side::Answer] {
        // All of it passes, and then the connection ends.
        kinds.extend([Close::Fin, Close::Reset].map(|how| Fault::Cut { side, after: usize::MAX, how }));
    }
    let lines: &[Line] = match lane.plays {
        Plays::Breaks => &[Line::Server, Line::Client, Line::Server, Line::Client, Line::Books, Line::Hook],
        Plays::Line | Plays::Openings | Plays::Blows => &[Line::Server],
    };
    let requests = places.iter().filter(|place| place.side == Side::Request);
    let mut trials: Vec<_> =
        requests.map(|place| broken(lane, place, Fault::Duplicate, 0, keys, dice)).collect();
    for at in 0..(lane.share / 8).max(2 * kinds.len() * lines.len()) {
        let line = lines[at % lines.len()];
        let kind = kinds[at / lines.len() % kinds.len()];
        let here: Vec<_> =
            places.iter().filter(|place| place.line == line && place.side == kind.side()).collect();
        let place = here[usize::try_from(dice.below(here.len() as u64)).unwrap()];
        let after = usize::try_from(dice.below(place.length as u64 + 1)).unwrap();
        let fault = match kind {
            Fault::Stall { side, .. } => Fault::Stall { side, after },
            Fault::HalfClose { side, .. } => Fault::HalfClose { side, after },
            Fault::Delay { side, .. } => Fault::Delay { side, after, ms: dice.below(80) },
            other @ (Fault::Duplicate | Fault::Watch | Fault::Cut { .. }) => other,
        };
        trials.push(broken(lane, place, fault, dice.below(100), keys, dice));
    }
    trials
}

/// A call that comes by a place, as the front and server of the place.
fn passing(place: &Place, keys: &mut Keys, dice: &mut Dice) -> Trial {
    let mut trial = plain(keys.next(), place.back, place.front);
    match (place.line, place.message) {
        (Line::Client, "initialize") => trial.opens = true,
        (Line::Client, "tasks/get" | "tasks/result") => {
            trial.script.effects.push_back(Turn::Slow { ms: 280 + dice.below(60) });
        }
        (Line::Client, WAIT) => {
            trial.script.effects.push_back(Turn::Slow { ms: 600 + dice.below(60) });
        }
        (Line::Server, "tasks/get" | "tasks/result") => trial = following(trial, dice),
        (Line::Server, LOOK) => {
            trial.tool = dice.pick(&["pay_probe", "pay_settle", "pay_hand"]).to_owned();
            doubted(&mut trial, dice);
        }
        (Line::Server, FENCE) => {
            trial.tool = "pay_fence".to_owned();
            trial.script.effects.push_back(Turn::LoseBefore);
        }
        (Line::Books, _) => {
            trial.tool = "pay_get".to_owned();
            doubted(&mut trial, dice);
        }
        (Line::Hook, _) => {
            trial.tool = "pay_person".to_owned();
            doubted(&mut trial, dice);
        }
        (Line::Client | Line::Server, _) => {}
    }
    trial
}

/// Its answer is lost, so that somebody has to find out what became of it.
fn doubted(trial: &mut Trial, dice: &mut Dice) {
    if trial.back.over == Over::Line {
        // Who breaks this line breaks what comes after too.
        trial.script.effects.push_back(dice.pick(&[Turn::LoseAfter, Turn::LoseBefore]));
        return;
    }
    let side = dice.pick(&[Side::Request, Side::Answer, Side::Answer]);
    let fault = Fault::Cut { side, after: usize::try_from(dice.below(30)).unwrap(), how: Close::Reset };
    trial.breaks.push(Break { line: Line::Server, message: "tools/call".to_owned(), fault, release: 0 });
}

fn broken(lane: &Lane, place: &Place, fault: Fault, release: u64, keys: &mut Keys, dice: &mut Dice) -> Trial {
    let mut place = place.clone();
    match place.line {
        Line::Server => place.front = dice.pick(&FRONTS),
        Line::Client => place.back = dice.pick(&lane.backs),
        Line::Books | Line::Hook => {
            place.back = dice.pick(&lane.backs);
            place.front = dice.pick(&FRONTS);
        }
    }
    let mut trial = passing(&place, keys, dice);
    trial.breaks.push(Break { line: place.line, message: place.message.to_owned(), fault, release });
    trial.keyed = dice.below(4) > 0;
    if trial.tool == "pay" {
        trial.tool = crate::policy::pick(trial.keyed, dice).to_owned();
    }
    if place.line == Line::Client && trial.script.effects.is_empty() && dice.below(3) == 0 {
        // So that there is something to repeat while it is under way.
        trial.script.effects.push_back(Turn::Slow { ms: dice.below(40) });
    }
    if fault == Fault::Duplicate && place.line == Line::Server && place.message == "tools/call" {
        // Whoever hears a call twice does it twice, unless it looks at the key.
        (trial.keyed, trial.tool) = (true, "pay_keyed".to_owned());
    }
    if fault == Fault::Duplicate && place.line == Line::Client {
        trial.keyed = true;
    }
    trial
}

/// One call to each server in one act, since the gateway opens them all when it starts.
fn together(trials: Vec<Trial>, backs: &[Back], dice: &mut Dice) -> Vec<Act> {
    let mut of: BTreeMap<Back, Vec<Trial>> = backs.iter().map(|back| (*back, Vec::new())).collect();
    for trial in trials {
        of.entry(trial.back).or_default().push(trial);
    }
    for trials in of.values_mut() {
        dice.shuffle(trials);
    }
    let mut acts = Vec::new();
    loop {
        let trials: Vec<_> = of.values_mut().filter_map(Vec::pop).collect();
        if trials.is_empty() {
            return acts;
        }
        acts.push(Act { trials, blow: None, opening: true });
    }
}
