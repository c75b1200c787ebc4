//! The router: which way a call goes, with reasons, decided from what each side said and nothing else (R2).

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::operation::Effect;

/// How the operator wants a tool to be answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum ToolMode {
    /// Inline if it ends in time, else a task or a handle.
    #[default]
    Auto,
    /// Always a task or a handle.
    Task,
    /// Inline within the sync budget, else it is stopped and refused.
    Sync,
}

/// What the call can carry back to its client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Carry {
    /// A legacy call with `params.task`: it must be answered by a task.
    Augmented,
    /// A modern call that declares the extension: either shape will do (B-059).
    Extension,
    /// Neither: the answer is a tool result.
    Plain,
}

/// What the back's session can do with a task (R2.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BackTasks {
    /// Nothing.
    None,
    /// Dialect A: it declared `tasks.requests.tools.call` in this session.
    A,
    /// Dialect B: it declared the extension.
    B,
}

/// What a tool of a dialect A back says about tasks; absent means forbidden.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum TaskSupport {
    /// Never augment.
    #[default]
    Forbidden,
    /// Either way.
    Optional,
    /// Only as a task.
    Required,
}

/// Everything the router looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The operator's wish for this tool.
    pub mode: ToolMode,
    /// What it does to the world.
    pub effect: Effect,
    /// What the call can carry.
    pub carry: Carry,
    /// What the back can do.
    pub back: BackTasks,
    /// What the tool says.
    pub support: TaskSupport,
}

/// How the client is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Route {
    /// Inline within the sync budget, or not at all.
    Sync,
    /// Inline if in time, else a task or handle.
    Auto,
    /// A task or handle at once.
    Task,
}

/// How the back is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Asking {
    /// A plain call that a worker of ours holds: a gateway-held call, with the weaker recovery that it has (R2.8).
    Held,
    /// Dialect A: with `params.task`.
    Augmented,
    /// Dialect B: declaring the extension; the back decides.
    Directed,
}

/// When the call is written down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Recording {
    /// Before the back hears anything (R4.2).
    First,
    /// Only if it outlasts its time: it is read-only and may be answered inline.
    IfItLasts,
}

/// What the router chose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Towards the client.
    pub route: Route,
    /// Towards the back.
    pub asking: Asking,
    /// Towards the store.
    pub recording: Recording,
    /// Why, in the order in which it was decided.
    pub reasons: Vec<Reason>,
}

/// One reason. Its `Display` is the sentence that people read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// The call carries `params.task`.
    ClientAsksForTask,
    /// The operator set `mode = "task"`.
    ModeTask,
    /// The operator set `mode = "sync"`.
    ModeSync,
    /// Nothing else was asked for.
    DefaultAuto,
    /// The tool says `required`.
    ToolRequiresTask,
    /// The tool says `optional` and the effect is worth a task that survives us.
    ToolAllowsTask,
    /// The tool says `optional`, but a short read gains nothing (R1.1).
    ReadStaysPlain,
    /// The tool says `forbidden` or nothing.
    ToolForbidsTask,
    /// The back did not declare tasks: it is never sent an augmentation (R1.5).
    BackHasNoTasks,
    /// The back declared the extension and decides for itself.
    BackDecides,
    /// Not read-only: recorded before it is sent.
    EffectRecordedFirst,
    /// Read-only and answered inline: recorded only if it lasts.
    ReadRecordedIfItLasts,
    /// A handle leaves at once, so the record comes first.
    HandleRecordedFirst,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::ClientAsksForTask => "the client asked for a task",
            Reason::ModeTask => "the configuration says mode = \"task\"",
            Reason::ModeSync => "the configuration says mode = \"sync\"",
            Reason::DefaultAuto => "inline if it ends in time, else a task or handle",
            Reason::ToolRequiresTask => "the tool can only be called as a task",
            Reason::ToolAllowsTask => "the tool allows a task, which survives a crash of this gateway",
            Reason::ReadStaysPlain => "the tool allows a task, but a read-only call needs none",
            Reason::ToolForbidsTask => "the tool cannot be called as a task, so the gateway holds the call",
            Reason::BackHasNoTasks => "the server has no tasks, so the gateway holds the call",
            Reason::BackDecides => "the server decides whether it makes a task",
            Reason::EffectRecordedFirst => "it may change something, so it is recorded before it is sent",
            Reason::ReadRecordedIfItLasts => "it is read-only, so it is recorded only if it lasts",
            Reason::HandleRecordedFirst => "a handle is given at once, so it is recorded first",
        })
    }
}

/// Chooses the way of one call.
///
/// # Source
/// R1.1 to R1.6, R2.1, R2.6, R2.8, B-057, B-058, X-003; design 6
#[must_use]
pub fn decide(facts: Facts) -> Decision {
    let (route, why_route) = match (facts.carry, facts.mode) {
        (Carry::Augmented, ToolMode::Auto | ToolMode::Task | ToolMode::Sync) => {
            (Route::Task, Reason::ClientAsksForTask)
        }
        (Carry::Extension | Carry::Plain, ToolMode::Task) => (Route::Task, Reason::ModeTask),
        (Carry::Extension | Carry::Plain, ToolMode::Sync) => (Route::Sync, Reason::ModeSync),
        (Carry::Extension | Carry::Plain, ToolMode::Auto) => (Route::Auto, Reason::DefaultAuto),
    };
    let is_short_read = facts.effect == Effect::ReadOnly && route != Route::Task;
    let (asking, why_asking) = match (facts.back, facts.support) {
        (BackTasks::None, TaskSupport::Forbidden | TaskSupport::Optional | TaskSupport::Required) => {
            (Asking::Held, Reason::BackHasNoTasks)
        }
        (BackTasks::B, TaskSupport::Forbidden | TaskSupport::Optional | TaskSupport::Required) => {
            (Asking::Directed, Reason::BackDecides)
        }
        (BackTasks::A, TaskSupport::Required) => (Asking::Augmented, Reason::ToolRequiresTask),
        (BackTasks::A, TaskSupport::Optional) if is_short_read => (Asking::Held, Reason::ReadStaysPlain),
        (BackTasks::A, TaskSupport::Optional) => (Asking::Augmented, Reason::ToolAllowsTask),
        (BackTasks::A, TaskSupport::Forbidden) => (Asking::Held, Reason::ToolForbidsTask),
    };
    // A back that answers with a task of its own needs an observer, and an observer needs a record.
    let (recording, why_recording) = match (facts.effect, route, asking) {
        (Effect::ReadOnly, Route::Auto | Route::Sync, Asking::Held | Asking::Directed) => {
            (Recording::IfItLasts, Reason::ReadRecordedIfItLasts)
        }
        (Effect::ReadOnly, _, _) => (Recording::First, Reason::HandleRecordedFirst),
        (Effect::Reversible | Effect::Consequential, _, _) => (Recording::First, Reason::EffectRecordedFirst),
    };
    Decision { route, asking, recording, reasons: vec![why_route, why_asking, why_recording] }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;
    use core::fmt::Write;

    use super::*;

    fn all() -> Vec<Facts> {
        let mut all = vec![];
        for mode in [ToolMode::Auto, ToolMode::Task, ToolMode::Sync] {
            for effect in [Effect::ReadOnly, Effect::Reversible, Effect::Consequential] {
                for carry in [Carry::Augmented, Carry::Extension, Carry::Plain] {
                    for back in [BackTasks::None, BackTasks::A, BackTasks::B] {
                        for support in [TaskSupport::Forbidden, TaskSupport::Optional, TaskSupport::Required]
                        {
                            all.push(Facts { mode, effect, carry, back, support });
                        }
                    }
                }
            }
        }
        all
    }

    #[test]
    fn r2_7_every_decision_for_review() {
        let mut table = String::new();
        for facts in all() {
            let decision = decide(facts);
            writeln!(
                table,
                "{:?} {:?} {:?} back {:?} tool {:?} => {:?} {:?} {:?}",
                facts.mode,
                facts.effect,
                facts.carry,
                facts.back,
                facts.support,
                decision.route,
                decision.asking,
                decision.recording
            )
            .unwrap();
        }
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_019_a_020_a_026_a_027_a_030_x_003_a_back_is_sent_an_augmentation_where_it_and_the_tool_take_it() {
        for facts in all() {
            let asking = decide(facts).asking;
            if facts.back != BackTasks::A || facts.support == TaskSupport::Forbidden {
                assert_ne!(asking, Asking::Augmented, "{facts:?}");
            }
            if facts.back == BackTasks::A && facts.support == TaskSupport::Required {
                assert_eq!(asking, Asking::Augmented, "{facts:?}");
            }
        }
    }

    #[test]
    fn r4_2_what_may_change_something_is_recorded_first() {
        for facts in all() {
            if facts.effect != Effect::ReadOnly {
                assert_eq!(decide(facts).recording, Recording::First, "{facts:?}");
            }
        }
    }

    #[test]
    fn a_033_an_augmented_call_is_always_answered_by_a_task() {
        for facts in all().into_iter().filter(|facts| facts.carry == Carry::Augmented) {
            assert_eq!(decide(facts).route, Route::Task, "{facts:?}");
        }
    }
}
