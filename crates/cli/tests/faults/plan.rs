//! Which acts are played: everything there is if there is room for it, else a part that the seed chooses.

use std::collections::BTreeMap;

use taskgate_faults::bank::{Script, Turn};
use taskgate_faults::client::Front;
use taskgate_faults::proxy::{Close, Fault, Side};

use crate::act::{
    Act, Back, Blow, Break, FRONTS, How, KINDS, Line, Over, STEPS, Step, Trial, Whom, client_messages,
};
use crate::dice::Dice;
use crate::play::measure;
use crate::tally::{Tally, blow_name, fault_name};
use crate::world::World;

/// How the bank treats the effect, in turn.
pub(crate) const TURNS: [Turn; 12] = [
    Turn::Ordinary,
    Turn::LoseBefore,
    Turn::LoseAfter,
    Turn::Slow { ms: 30 },
    Turn::Refuse,
    Turn::Late { ms: 60 },
    Turn::LateClosed { ms: 60 },
    Turn::NonsenseBefore,
    Turn::NonsenseAfter,
    Turn::Contradict,
    Turn::Claim,
    Turn::Down,
];

/// One world and what is played in it.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) name: String,
    pub(crate) backs: Vec<Back>,
    pub(crate) plays: Plays,
    /// How many faults.
    pub(crate) share: usize,
    /// How many acts at once.
    pub(crate) width: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plays {
    /// Lines are broken.
    Breaks,
    /// Processes are killed and stopped.
    Blows,
}

/// A message on a line: what may be cut.
#[derive(Clone, Debug)]
struct Place {
    line: Line,
    back: Back,
    front: Front,
    method: &'static str,
    side: Side,
    length: usize,
}

/// Lanes for so many faults.
pub(crate) fn lanes(faults: usize) -> Vec<Lane> {
    let http = KINDS.map(|kind| Back { kind, over: Over::Http });
    let mut lanes = vec![Lane {
        name: "http".to_owned(),
        backs: http.to_vec(),
        plays: Plays::Breaks,
        share: faults * 62 / 100,
        width: 8,
    }];
    for kind in KINDS {
        let back = Back { kind, over: Over::Line };
        lanes.push(Lane {
            name: back.name(),
            backs: vec![back],
            plays: Plays::Breaks,
            share: faults * 6 / 100,
            // Whoever breaks this line breaks it for all.
            width: 1,
        });
    }
    let overs = [
        [Over::Http, Over::Line, Over::Http, Over::Child],
        [Over::Child, Over::Http, Over::Line, Over::Http],
    ];
    for (number, overs) in overs.into_iter().enumerate() {
        lanes.push(Lane {
            name: format!("blows-{number}"),
            backs: KINDS.into_iter().zip(overs).map(|(kind, over)| Back { kind, over }).collect(),
            plays: Plays::Blows,
            share: faults * 7 / 100,
            width: 1,
        });
    }
    lanes
}

/// Keys that no other trial has, all of one length, so that all messages of a place have one length.
pub(crate) struct Keys {
    lane: String,
    next: u32,
}

impl Keys {
    pub(crate) fn new(lane: &str) -> Keys {
        let lane: String = lane.chars().filter(char::is_ascii_alphanumeric).collect();
        Keys { lane, next: 0 }
    }

    fn next(&mut self) -> String {
        self.next += 1;
        format!("{}z{:06}z", self.lane, self.next)
    }
}

impl Lane {
    /// What is played in this lane.
    pub(crate) async fn acts(&self, world: &World, keys: &mut Keys, dice: &mut Dice) -> (Vec<Act>, Vec<Act>) {
        match self.plays {
            Plays::Breaks => {
                let (places, measured) = self.places(world, keys).await;
                let mut acts = self.cuts(&places, keys, dice);
                acts.extend(self.others(keys, dice));
                acts.extend(self.turns(keys, dice));
                dice.shuffle(&mut acts);
                (acts, measured)
            }
            Plays::Blows => (self.blows(keys, dice), Vec::new()),
        }
    }

    /// Plays a call of each kind that nothing happens to, and sees how long its messages are.
    async fn places(&self, world: &World, keys: &mut Keys) -> (Vec<Place>, Vec<Act>) {
        let (mut places, mut played) = (Vec::new(), Vec::new());
        let mut wanted = Vec::new();
        for back in &self.backs {
            wanted.extend(back.messages().iter().map(|method| (Line::Server, *back, Front::A, *method)));
        }
        if self.width > 1 {
            for front in FRONTS {
                wanted.extend(
                    client_messages(front).iter().map(|method| (Line::Client, self.backs[0], front, *method)),
                );
            }
        }
        for (line, back, front, method) in wanted {
            let mut found = None;
            for attempt in 1..=8 {
                let mut trial = plain(keys.next(), back, front);
                if method != "tools/call" {
                    // A busy machine may be too late to ask about a short one.
                    trial.script.effects.push_back(Turn::Slow { ms: attempt * 150 });
                }
                found = measure(world, &trial, line, method).await;
                played.push(Act { trials: vec![trial], blow: None });
                if found.is_some() {
                    break;
                }
            }
            let found = found.unwrap_or_else(|| panic!("no {method} was seen of {}", back.name()));
            for (side, length) in [(Side::Request, found.request), (Side::Answer, found.answer)] {
                places.push(Place { line, back, front, method, side, length });
            }
        }
        (places, played)
    }

    /// One message is cut at every byte in both directions of each line; of the others as many as there is room for.
    fn cuts(&self, places: &[Place], keys: &mut Keys, dice: &mut Dice) -> Vec<Act> {
        let room = self.share * 3 / 4;
        let mut all: Vec<(&Place, usize)> =
            places.iter().flat_map(|place| (0..=place.length).map(move |after| (place, after))).collect();
        dice.shuffle(&mut all);
        let calls: Vec<_> = places.iter().filter(|place| place.method == "tools/call").collect();
        let whole = |line| {
            let of: Vec<_> = calls.iter().filter(|place| place.line == line).collect();
            (!of.is_empty()).then_some((of.len(), of))
        };
        let mut chosen = Vec::new();
        if room < all.len() {
            // A line of its own has a world of its own, and less room.
            let lines: &[Line] = if self.width > 1 { &[Line::Server, Line::Client] } else { &[] };
            for line in lines {
                if let Some((count, of)) = whole(*line) {
                    let picked = of[usize::try_from(dice.below(count as u64)).unwrap()];
                    let same = |place: &&Place| {
                        place.line == picked.line && place.back == picked.back && place.front == picked.front
                    };
                    for place in calls.iter().copied().filter(same) {
                        chosen.extend((0..=place.length).map(|after| (place, after)));
                    }
                }
            }
            all.truncate(room.saturating_sub(chosen.len()));
        }
        chosen.extend(all);
        chosen
            .into_iter()
            .map(|(place, after)| {
                let how = dice.pick(&[Close::Fin, Close::Reset]);
                let after = if after >= place.length { usize::MAX } else { after };
                self.broken(place, Fault::Cut { side: place.side, after, how }, 0, keys, dice)
            })
            .collect()
    }

    fn broken(&self, place: &Place, fault: Fault, release: u64, keys: &mut Keys, dice: &mut Dice) -> Act {
        let broken = Some(Break { method: place.method.to_owned(), fault, release });
        let mut trial = plain(keys.next(), place.back, place.front);
        match place.line {
            Line::Server => {
                trial.front = dice.pick(&FRONTS);
                trial.behind = broken;
            }
            Line::Client => {
                trial.back = dice.pick(&self.backs);
                trial.before = broken;
                if dice.below(3) == 0 {
                    // So that there is something to repeat while it is under way.
                    trial.script.effects.push_back(Turn::Slow { ms: dice.below(40) });
                }
            }
        }
        trial = following(trial, place.method, dice);
        // A client that holds a task repeats only what it can name.
        trial.keyed = dice.below(4) > 0;
        trial.tool = crate::policy::pick(trial.keyed, dice).to_owned();
        if fault == Fault::Duplicate && place.line == Line::Server {
            // Whoever hears a call twice does it twice, unless it looks at the key.
            (trial.keyed, trial.tool) = (true, "pay_keyed".to_owned());
        }
        if fault == Fault::Duplicate && place.line == Line::Client {
            trial.keyed = true;
        }
        Act { trials: vec![trial], blow: None }
    }

    /// What can happen to a message beside being cut.
    fn others(&self, keys: &mut Keys, dice: &mut Dice) -> Vec<Act> {
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
        let lines: &[Line] = if self.width > 1 { &[Line::Server, Line::Client] } else { &[Line::Server] };
        let mut acts = Vec::new();
        for at in 0..(self.share / 8).max(kinds.len() * lines.len()) {
            let line = lines[at % lines.len()];
            let after = usize::try_from(dice.below(400)).unwrap();
            let fault = match kinds[at / lines.len() % kinds.len()] {
                Fault::Stall { side, .. } => Fault::Stall { side, after },
                Fault::HalfClose { side, .. } => Fault::HalfClose { side, after },
                Fault::Delay { side, .. } => Fault::Delay { side, after, ms: dice.below(80) },
                other @ (Fault::Duplicate | Fault::Watch | Fault::Cut { .. }) => other,
            };
            let place = Place {
                line,
                back: dice.pick(&self.backs),
                front: dice.pick(&FRONTS),
                method: "tools/call",
                side: fault.side(),
                length: 0,
            };
            acts.push(self.broken(&place, fault, dice.below(100), keys, dice));
        }
        acts
    }

    /// What the bank and the servers say.
    fn turns(&self, keys: &mut Keys, dice: &mut Dice) -> Vec<Act> {
        let mut acts = Vec::new();
        for at in 0..(self.share / 8).max(TURNS.len() + 2) {
            let mut trial = plain(keys.next(), dice.pick(&self.backs), dice.pick(&FRONTS));
            trial.keyed = dice.below(2) == 0;
            trial.tool = crate::policy::pick(trial.keyed, dice).to_owned();
            match at % (TURNS.len() + 2) {
                0 => trial.word = Some("not_understood".to_owned()),
                1 => trial.word = Some("rpc_error".to_owned()),
                turn => trial.script = Script { effects: [TURNS[turn - 2]].into(), ..Script::default() },
            }
            acts.push(Act { trials: vec![trial], blow: None });
        }
        acts
    }

    fn blows(&self, keys: &mut Keys, dice: &mut Dice) -> Vec<Act> {
        let mut ways = Vec::new();
        for step in STEPS {
            // Kills of the gateway are what it is about.
            ways.extend([(Whom::Gateway, true, step); 3]);
            for (whom, kill) in [
                (Whom::Gateway, false),
                (Whom::Server, true),
                (Whom::Server, false),
                (Whom::Client, true),
                (Whom::Client, false),
            ] {
                ways.push((whom, kill, step));
            }
        }
        dice.shuffle(&mut ways);
        let (mut acts, mut kills) = (Vec::new(), 0_u32);
        for (whom, kill, step) in ways.into_iter().cycle().take(self.share) {
            let fits: Vec<(Front, Back)> = FRONTS
                .into_iter()
                .flat_map(|front| self.backs.iter().map(move |back| (front, *back)))
                .filter(|(front, back)| step.fits(*front, *back))
                .collect();
            let (front, back) = dice.pick(&fits);
            let how = if kill { How::Kill } else { How::Stop { ms: 20 + dice.below(400) } };
            let mut blow = Blow { whom, how, step, delay: dice.below(3_000), again: None };
            if whom == Whom::Gateway && kill {
                kills += 1;
                if kills.is_multiple_of(2) {
                    // Of three kills one is in the recovery from the one before it.
                    blow.again = Some(dice.below(250_000));
                }
            }
            let mut first = plain(keys.next(), back, front);
            first.keyed = dice.below(3) > 0;
            if matches!(step, Step::Following | Step::Fetching) {
                first = following(first, "tasks/get", dice);
            } else if back.over == Over::Child {
                first.script.effects.push_back(Turn::Slow { ms: dice.below(30) });
            }
            let mut trials = vec![first];
            for _ in 0..3 {
                let mut other = plain(keys.next(), dice.pick(&self.backs), dice.pick(&FRONTS));
                other.keyed = dice.below(3) > 0;
                other.script.effects.push_back(dice.pick(&[
                    Turn::Slow { ms: dice.clone().below(200) },
                    Turn::Ordinary,
                    Turn::LateClosed { ms: 100 },
                ]));
                trials.push(other);
            }
            for trial in &mut trials {
                trial.tool = crate::policy::pick(trial.keyed, dice).to_owned();
            }
            acts.push(Act { trials, blow: Some(blow) });
        }
        acts
    }
}

/// A call that takes long enough to be asked about, where that is what it is for.
fn following(mut trial: Trial, method: &str, dice: &mut Dice) -> Trial {
    if method != "tools/call" && trial.script.effects.is_empty() {
        trial.script.effects.push_back(Turn::Slow { ms: 120 + dice.below(60) });
    }
    trial
}

fn plain(key: String, back: Back, front: Front) -> Trial {
    Trial {
        key,
        back,
        front,
        tool: "pay".to_owned(),
        keyed: true,
        word: None,
        script: Script::default(),
        behind: None,
        before: None,
    }
}

/// What must have happened at least once for the campaign to say anything, and how often it did.
pub(crate) fn owed(tally: &Tally) -> BTreeMap<String, u64> {
    let mut names = Vec::new();
    for line in [Line::Client, Line::Server] {
        for side in [Side::Request, Side::Answer] {
            for how in [Close::Fin, Close::Reset] {
                for after in [1, usize::MAX] {
                    names.push(fault_name(line, Fault::Cut { side, after, how }));
                }
            }
            names.push(fault_name(line, Fault::Stall { side, after: 1 }));
            names.push(fault_name(line, Fault::HalfClose { side, after: 1 }));
            names.push(fault_name(line, Fault::Delay { side, after: 1, ms: 1 }));
        }
        names.push(fault_name(line, Fault::Duplicate));
    }
    let mut names: Vec<_> = names.into_iter().map(|name| format!("line: {name}")).collect();
    for step in STEPS {
        for whom in [Whom::Gateway, Whom::Server, Whom::Client] {
            for how in [How::Kill, How::Stop { ms: 1 }] {
                names.push(format!("blow: {}", blow_name(whom, how, step)));
            }
        }
    }
    names.push("blow: kill -9 of gateway in recovery".to_owned());
    for lane in lanes(0).iter().filter(|lane| lane.plays == Plays::Blows) {
        names.extend(lane.backs.iter().map(|back| format!("blow: back {}", back.name())));
    }
    for turn in TURNS {
        let word = serde_json::json!(turn)["turn"].as_str().unwrap_or_default().to_owned();
        names.push(format!("bank: effect {word}"));
    }
    names.extend(taskgate_faults::server::PAYMENTS.map(|tool| format!("policy: {tool}")));
    names.extend(crate::policy::STATES.map(|state| format!("ledger: {state}")));
    names.extend(
        [
            "effects: 0",
            "effects: 1",
            "inquiry: with a person (Assumed)",
            "inquiry: with a person (NoRule)",
            "told: result",
            "told: tool error",
            "told: error, outcome applied",
            "told: error, outcome not_applied",
            "told: error, outcome unknown",
        ]
        .map(str::to_owned),
    );
    names
        .into_iter()
        .map(|name| {
            let times = tally.times(&name);
            (name, times)
        })
        .collect()
}
