//! Which acts are played: everything there is if there is room for it, else a part that the seed chooses.
//!
//! - [`places`](crate::places): the messages that there are, and what is done to them
//! - [`owed`](crate::owed): what must have happened

use taskgate_faults::bank::{Script, Turn};
use taskgate_faults::client::Front;

use crate::act::{Act, Back, Blow, FRONTS, How, KINDS, Over, STEPS, Step, Trial, Whom};
use crate::dice::Dice;
use crate::places;
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
    /// Lines are broken, those of clients too.
    Breaks,
    /// The line of one server is broken, by which all calls go.
    Line,
    /// The line is broken while the gateway opens its servers.
    Openings,
    /// Processes are killed and stopped.
    Blows,
}

/// Lanes for so many faults.
pub(crate) fn lanes(faults: usize) -> Vec<Lane> {
    let all = |over| KINDS.map(|kind| Back { kind, over }).to_vec();
    let mut lanes = vec![Lane {
        name: "http".to_owned(),
        backs: all(Over::Http),
        plays: Plays::Breaks,
        share: faults * 54 / 100,
        width: 12,
    }];
    for kind in KINDS {
        let back = Back { kind, over: Over::Line };
        lanes.push(Lane {
            name: back.name(),
            backs: vec![back],
            plays: Plays::Line,
            share: faults * 5 / 100,
            // Whoever breaks this line breaks it for all.
            width: 1,
        });
    }
    for (name, over) in [("open-http", Over::Http), ("open-line", Over::Line)] {
        lanes.push(Lane {
            name: name.to_owned(),
            backs: all(over),
            plays: Plays::Openings,
            share: faults * 6 / 100,
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

    pub(crate) fn next(&mut self) -> String {
        self.next += 1;
        format!("{}z{:06}z", self.lane, self.next)
    }
}

impl Lane {
    /// What is played in this lane, and what was played for measuring. With `every_byte` there is room for everything.
    pub(crate) async fn acts(
        &self,
        world: &World,
        keys: &mut Keys,
        dice: &mut Dice,
        every_byte: bool,
    ) -> places::Planned {
        match self.plays {
            Plays::Breaks | Plays::Line | Plays::Openings => {
                let mut planned = places::planned(self, world, keys, dice, every_byte).await;
                match self.plays {
                    Plays::Breaks | Plays::Line => planned.acts.extend(self.turns(keys, dice)),
                    Plays::Openings | Plays::Blows => {}
                }
                dice.shuffle(&mut planned.acts);
                planned
            }
            Plays::Blows => places::Planned { acts: self.blows(keys, dice), ..places::Planned::default() },
        }
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
            if trial.tool == "pay_hand" && dice.below(2) == 0 {
                // The one look-up says nothing; a person has it asked again.
                trial.script.probes.push_back(dice.pick(&[
                    Turn::NonsenseBefore,
                    Turn::Down,
                    Turn::LoseBefore,
                ]));
            }
            acts.push(alone(trial));
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
                if kills.is_multiple_of(2) || kills.is_multiple_of(9) {
                    // Of three kills one is in the recovery from the one before it, and a few more in case some are missed.
                    blow.again = Some(dice.below(300_000));
                }
            }
            let mut first = plain(keys.next(), back, front);
            first.keyed = dice.below(3) > 0;
            if matches!(step, Step::Following | Step::Fetching) {
                first = following(first, dice);
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
            // Something for a person to ask about.
            let hand = &mut trials[3];
            hand.tool = "pay_hand".to_owned();
            hand.script.effects = [dice.pick(&[Turn::LoseBefore, Turn::LoseAfter])].into();
            hand.script.probes.push_back(Turn::NonsenseBefore);
            acts.push(Act { trials, blow: Some(blow), opening: false });
        }
        acts
    }
}

impl Act {
    /// The same of calls that were never made.
    pub(crate) fn renewed(&self, keys: &mut Keys) -> Act {
        let mut act = self.clone();
        for trial in &mut act.trials {
            trial.key = keys.next();
        }
        act
    }
}

/// A call that takes long enough to be asked about, where that is what it is for.
pub(crate) fn following(mut trial: Trial, dice: &mut Dice) -> Trial {
    if trial.script.effects.is_empty() {
        trial.script.effects.push_back(Turn::Slow { ms: 120 + dice.below(60) });
    }
    trial
}

pub(crate) fn plain(key: String, back: Back, front: Front) -> Trial {
    Trial {
        key,
        back,
        front,
        tool: "pay".to_owned(),
        keyed: true,
        word: None,
        script: Script::default(),
        breaks: Vec::new(),
        opens: false,
    }
}

/// One call on its own.
pub(crate) fn alone(trial: Trial) -> Act {
    Act { trials: vec![trial], blow: None, opening: false }
}
