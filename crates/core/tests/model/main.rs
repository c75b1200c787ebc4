//! H1: the shipped machine in every order of things that can happen (notes 3.4), and naive ones that must fail.
//!
//! `stateright` walks through all states of a small world: one operation, two workers, a gateway that dies and comes
//! back, a line that loses, delays and repeats, a server that counts what it did, look-ups, a fence, people. What must
//! always hold is checked in each; what must be reachable is looked for, so that nothing holds because nothing happens.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod questions;
mod world;

use stateright::{Checker, HasDiscoveries, Model, Property};
use taskgate_core::operation::{Effect, Inquiry, Outcome, Replay, Stage, Verdict};
use taskgate_core::recovery::Survival;
use taskgate_core::task::{Ending, Fault};

use world::{HONOURED, Habit, LATE, Now, Seen, Step, World, ticks};

impl Model for World {
    type State = Now;
    type Action = Step;

    fn init_states(&self) -> Vec<Now> {
        vec![self.start()]
    }

    fn actions(&self, state: &Now, actions: &mut Vec<Step>) {
        self.steps(state, actions);
    }

    fn next_state(&self, last: &Now, action: Step) -> Option<Now> {
        let next = self.take(last, action);
        (next != *last).then_some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        always()
    }
}

fn always() -> Vec<Property<World>> {
    vec![
        Property::always("INV-11: applied at most once", |_, now: &Now| now.server.effects <= 1),
        Property::always("INV-03, 04, 10, 12, 13, 17: nothing broken on the way", |_, now: &Now| {
            now.broken.is_none()
        }),
        Property::always("INV-10: no effect without a dispatch on record", |_, now: &Now| {
            now.server.effects == 0 || now.operation.attempts > 0
        }),
        Property::always("INV-13: confirmed applied is applied", |_, now: &Now| {
            now.operation.stage != Stage::Settled(Outcome::Confirmed(Verdict::Applied))
                || now.server.effects == 1
        }),
        Property::always("INV-13: confirmed not applied is not, and never will be", |_, now: &Now| {
            now.operation.stage != Stage::Settled(Outcome::Confirmed(Verdict::NotApplied))
                || now.server.effects == 0
        }),
        Property::always(
            "R4.6: what gives its key free did nothing and never will, unless a person was wrong",
            |_, now: &Now| {
                let is_attested = matches!(now.operation.stage, Stage::Settled(Outcome::Attested(_)));
                !now.operation.is_surely_undone() || is_attested || now.server.effects == 0
            },
        ),
        Property::always(
            "R4.5: that nothing was done is not reported of an earlier attempt that did it",
            |_, now: &Now| {
                now.operation.stage != Stage::Settled(Outcome::Reported(Verdict::NotApplied))
                    || now.server.effects == 0
            },
        ),
        Property::always("INV-14: what is unknown is asked after or shown to a person", |_, now: &Now| {
            !matches!(now.operation.stage, Stage::Unknown(_)) || now.operation.inquiry != Inquiry::Idle
        }),
        Property::always("INV-14: what is unknown is not reported as done", |_, now: &Now| {
            let is_done = matches!(now.ended, Some(Ending::Returned { is_error: false, .. }));
            !(is_done && matches!(now.operation.stage, Stage::Unknown(_)))
        }),
        Property::always("INV-14: never sent is said of what was never applied", |_, now: &Now| {
            !matches!(now.ended, Some(Ending::Faulted(Fault::NeverSent(_)))) || now.server.effects == 0
        }),
        Property::always("INV-06: a task is over exactly if it has an ending", |_, now: &Now| {
            now.ended.as_ref() == now.task.ending()
        }),
    ]
}

/// What must have been seen when all worlds were walked through; no single one has all of it.
const SOMETIMES: &[&str] = &[
    "prepared again",
    "dispatched",
    "observing",
    "NoneExpected",
    "Reported(Applied)",
    "Reported(NotApplied)",
    "Confirmed(Applied)",
    "Confirmed(NotApplied)",
    "Attested(Applied)",
    "Attested(NotApplied)",
    "Attested(NotApplied), and wrong",
    "corrected",
    "Assumed",
    "Assumed, and wrong",
    "Reported(Applied) at the second attempt",
    "Confirmed(NotApplied) at the second attempt",
    "cancelled and applied",
    "unknown: AnswerLost",
    "unknown: ToolError",
    "unknown: PeerError",
    "unknown: DeadlinePassed",
    "unknown: UpstreamLost",
    "unknown: Cancelled",
    "reconciling",
    "a person: NoRule",
    "a person: BudgetSpent",
    "a person: Assumed",
    "a person: Contradiction",
    "found: Applied",
    "found: NotApplied(Open)",
    "found: NotApplied(Settled)",
    "found: NotApplied(Fenced)",
    "found: Failed",
    "a late request",
    "a late answer",
    "2 crashes",
    "recovery: Send",
    "recovery: GiveUpUnsent",
    "recovery: SendAgain",
    "recovery: Expire",
    "recovery: Resume",
    "recovery: Doubt",
    "recovery: Reconcile",
    "recovery: Leave",
];

fn plain() -> World {
    World {
        effect: Effect::Consequential,
        replay: Replay::Never,
        survival: Survival::DiedWithUs,
        has_probe: false,
        has_fence: false,
        sends_again: false,
        crashes: 1,
        cancels: false,
        end: 3,
        habit: Habit::Shipped,
        seen: Seen::default(),
    }
}

/// What an operator declares of a key: as long as the server honours it, less the time that a request may be late.
const KEYED: Replay = Replay::Keyed { window: ticks(HONOURED - LATE) };

fn worlds() -> Vec<World> {
    let seen = Seen::default();
    let plain = World { seen, ..plain() };
    let with = |change: fn(&mut World)| {
        let mut world = plain.clone();
        change(&mut world);
        world
    };
    vec![
        with(|world| (world.crashes, world.cancels) = (2, true)),
        with(|world| (world.survival, world.cancels) = (Survival::Survives, true)),
        with(|world| world.effect = Effect::ReadOnly),
        with(|world| world.replay = Replay::Natural),
        with(|world| (world.replay, world.end) = (KEYED, 4)),
        with(|world| (world.has_probe, world.cancels) = (true, true)),
        with(|world| (world.has_probe, world.survival) = (true, Survival::Survives)),
        with(|world| (world.has_probe, world.has_fence) = (true, true)),
        with(|world| (world.has_probe, world.sends_again) = (true, true)),
        with(|world| (world.has_probe, world.has_fence, world.sends_again) = (true, true, true)),
    ]
}

#[test]
fn h1_inv_03_inv_06_inv_10_to_inv_14_inv_17_hold_in_every_order_of_things() {
    let worlds = worlds();
    let mut states = 0;
    for world in &worlds {
        let checker =
            world.clone().checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        println!(
            "{:>9} states, depth {:>2}: {}",
            checker.unique_state_count(),
            checker.max_depth(),
            named(world)
        );
        for property in world.properties() {
            if let Some(path) = checker.discovery(property.name) {
                let last = path.last_state().clone();
                panic!("{} in {}:\n{:?}\n{last:#?}", property.name, named(world), path.into_actions());
            }
        }
        states += checker.unique_state_count();
    }
    let seen = worlds[0].seen.all();
    println!("{states} states in all; seen: {seen:#?}");
    let missing: Vec<_> = SOMETIMES.iter().filter(|what| !seen.contains(**what)).collect();
    assert!(missing.is_empty(), "never seen: {missing:#?}");
}

fn named(world: &World) -> String {
    let World {
        effect,
        replay,
        survival,
        has_probe,
        has_fence,
        sends_again,
        crashes,
        cancels,
        end,
        habit,
        ..
    } = world;
    format!(
        "{effect:?} {replay:?} {survival:?} probe {has_probe} fence {has_fence} sent again {sends_again} \
        crashes {crashes} cancels {cancels} ticks {end} {habit:?}"
    )
}

/// What a naive gateway does is found by the same model, as it was in the spike (notes 3.4).
#[test]
fn h1_naive_gateways_are_found_out() {
    let probe = World { has_probe: true, ..plain() };
    let again = World { sends_again: true, ..probe.clone() };
    let keyed = World { replay: Replay::Keyed { window: ticks(HONOURED) }, end: 5, ..plain() };
    let cancels = World { cancels: true, ..plain() };
    let once = "INV-11: applied at most once";
    let on_the_way = "INV-03, 04, 10, 12, 13, 17: nothing broken on the way";
    let fenced = World { has_fence: true, ..again.clone() };
    let not_done = "R4.5: that nothing was done is not reported of an earlier attempt that did it";
    for (habit, world, broken) in [
        (Habit::HearsAnyAttempt, fenced, not_done),
        (Habit::RunsAgainOnRestart, plain(), once),
        (Habit::NotFoundIsNotApplied, again.clone(), once),
        (Habit::NotFoundIsNotApplied, probe, "INV-13: confirmed not applied is not, and never will be"),
        (Habit::ClosesWithoutProof, again, once),
        (Habit::SendsFirst, plain(), on_the_way),
        (Habit::WindowToTheEnd, keyed, once),
        (Habit::SendsCancelled, cancels, on_the_way),
    ] {
        let world = World { habit, ..world };
        let wanted = HasDiscoveries::AllOf([broken].into());
        let checker = world.checker().threads(2).finish_when(wanted).spawn_bfs().join();
        let path = checker.discovery(broken);
        let path = path.unwrap_or_else(|| panic!("{habit:?} is not found out by {broken}"));
        println!(
            "{:>8} states: {habit:?} breaks {broken}: {:?}",
            checker.unique_state_count(),
            path.into_actions()
        );
    }
}
