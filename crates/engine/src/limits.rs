//! The limits that the engine keeps, and their first values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::RwLock;
use taskgate_core::budget::Allowance;
use taskgate_core::id::ServerName;
use taskgate_core::poll::Rhythm;
use taskgate_core::time::Millis;
use taskgate_store::record::Call;

use crate::slots::Lane;

/// What the engine keeps to. The configuration's reference page gives each one's reason.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Lifetime of a handle whose client asked for none.
    pub ttl: Millis,
    /// Longest lifetime of a handle.
    pub ttl_max: Millis,
    /// Longest lifetime of a handle for callers that cannot be told apart (R6.2).
    pub ttl_max_shared: Millis,
    /// How long a result stays after the end, at least.
    pub linger: Millis,
    /// How long work may take.
    pub deadline: Millis,
    /// How long work may take for callers that cannot be told apart.
    pub deadline_shared: Millis,
    /// How long after its creation a call that was never sent may still be begun.
    pub start_by: Millis,
    /// How long to listen for an answer after a cancellation was passed on.
    pub cancel_grace: Millis,
    /// Unfinished tasks of one principal.
    pub live_max: usize,
    /// Unfinished tasks of all callers that cannot be told apart, together.
    pub live_max_shared: usize,
    /// Calls sent to one server and not yet answered.
    pub running_max: usize,
    /// Calls waiting for their turn at one server.
    pub queue_max: usize,
    /// How often to look.
    pub rhythm: Rhythm,
    /// For connecting and creating.
    pub create: Allowance,
    /// For failing status reads in a row.
    pub status_read: Allowance,
    /// For fetching a result once there is one.
    pub result: Allowance,
    /// For asking a system of record what became of an effect.
    pub reconcile: Allowance,
    /// How a system of record is asked.
    pub lookups: Lookups,
    /// How a webhook is told that an operation waits for a person.
    pub notices: Notices,
    /// How long operations, their history and their keys are kept after the last change.
    pub evidence: Millis,
    /// Finished records kept in memory for the next read.
    pub finished_cached: usize,
    /// Of tools whose workflow says otherwise, by server and tool.
    pub own: OwnByTool,
    /// The same of workflows that come and go while calls run. They count before `own`.
    pub brought: Brought,
}

/// What bounds the calls of workflows, by server and tool.
pub type OwnByTool = BTreeMap<ServerName, BTreeMap<String, Arc<Own>>>;

/// Bounds of workflows that come with a host and go with it.
#[derive(Clone, Debug, Default)]
pub struct Brought(Arc<RwLock<OwnByTool>>);

impl Brought {
    /// From here on these hold for the tools of `server`, in the place of all that held for it before. Where calls of it
    /// are under way, `is_live`, they go on counting where they were counted: a lane that changed its name meanwhile would
    /// never be told that they are over.
    pub fn put(&self, server: &ServerName, mut tools: BTreeMap<String, Arc<Own>>, is_live: bool) {
        let mut brought = self.0.write();
        if is_live {
            let before = brought.remove(server).unwrap_or_default();
            let names: BTreeSet<String> = before.keys().chain(tools.keys()).cloned().collect();
            for name in names {
                let lane = before.get(&name).map(|own| (own.workflow.clone(), own.running_max));
                let own = tools.get(&name).map(|own| Own::clone(own)).unwrap_or_default();
                let (workflow, running_max) = lane.unwrap_or_else(|| (own.workflow.clone(), None));
                tools.insert(name, Arc::new(Own { workflow, running_max, ..own }));
            }
        }
        brought.insert(server.clone(), tools);
    }

    /// Nothing of `server` lives any more.
    pub fn remove(&self, server: &ServerName) {
        self.0.write().remove(server);
    }

    fn find(&self, call: &Call) -> Option<Arc<Own>> {
        self.0.read().get(&call.server)?.get(&call.tool).cloned()
    }
}

/// What bounds the asking of systems of record, beside the budget of each operation (R5.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lookups {
    /// How long an answer may take, opening a session included.
    pub answer: Millis,
    /// Longest pause between two, unless the workflow asks for a longer one.
    pub pause_max: Millis,
    /// Operations of one workflow that are looked up at once.
    pub workflow_max: usize,
    /// Questions to one system at once, whichever workflows ask them.
    pub system_max: usize,
}

/// What bounds the telling of people (design 7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notices {
    /// How long an acknowledgement may take.
    pub answer: Millis,
    /// For one notice. Past that its operation is still on the list of those that wait, and in the log.
    pub budget: Allowance,
    /// Notices of one workflow that are under way at once.
    pub workflow_max: usize,
}

/// What bounds the calls of one workflow; `None`: as for all others.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Own {
    /// Its name, under which its calls are counted.
    pub workflow: String,
    /// Calls sent and not yet answered, counted apart from those of the server's other tools.
    pub running_max: Option<usize>,
    /// How long its work may take.
    pub deadline: Option<Millis>,
    /// Longest lifetime of a handle.
    pub ttl_max: Option<Millis>,
    /// For connecting and creating.
    pub create: Option<Allowance>,
    /// For failing status reads in a row.
    pub status_read: Option<Allowance>,
    /// For fetching a result once there is one.
    pub result: Option<Allowance>,
}

impl Limits {
    fn own(&self, call: &Call) -> Option<Arc<Own>> {
        self.brought.find(call).or_else(|| self.own.get(&call.server)?.get(&call.tool).cloned())
    }

    /// Where a call waits for its turn, and how many run there.
    pub(crate) fn lane(&self, call: &Call) -> (Lane, usize) {
        match self.own(call).as_deref() {
            Some(Own { workflow, running_max: Some(max), .. }) => {
                (Lane { server: call.server.clone(), workflow: Some(workflow.clone()) }, *max)
            }
            Some(_) | None => (Lane { server: call.server.clone(), workflow: None }, self.running_max),
        }
    }

    /// How long the work of a call may take, and the longest lifetime of its handle. What is shared with others stays
    /// within what holds for them.
    pub(crate) fn spans(&self, call: &Call, is_shared: bool) -> (Millis, Millis) {
        let (deadline, ttl_max) = if is_shared {
            (self.deadline_shared, self.ttl_max_shared)
        } else {
            (self.deadline, self.ttl_max)
        };
        let Some(own) = self.own(call) else { return (deadline, ttl_max) };
        let ttl_max = own.ttl_max.map_or(ttl_max, |own| own.min(ttl_max));
        let deadline = own.deadline.map_or(deadline, |own| if is_shared { own.min(deadline) } else { own });
        (deadline, ttl_max)
    }

    /// For connecting and creating.
    pub(crate) fn create(&self, call: &Call) -> Allowance {
        self.own(call).and_then(|own| own.create).unwrap_or(self.create)
    }

    /// For failing status reads in a row.
    pub(crate) fn status_read(&self, call: &Call) -> Allowance {
        self.own(call).and_then(|own| own.status_read).unwrap_or(self.status_read)
    }

    /// For fetching a result once there is one.
    pub(crate) fn result(&self, call: &Call) -> Allowance {
        self.own(call).and_then(|own| own.result).unwrap_or(self.result)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            ttl: Millis::hours(24),
            ttl_max: Millis::days(7),
            ttl_max_shared: Millis::hours(1),
            linger: Millis::hours(1),
            deadline: Millis::hours(24),
            deadline_shared: Millis::hours(1),
            start_by: Millis::mins(10),
            cancel_grace: Millis::secs(5),
            live_max: 1_000,
            live_max_shared: 10_000,
            running_max: 64,
            queue_max: 10_000,
            rhythm: Rhythm::DEFAULT,
            create: Allowance { time: Millis::secs(30), attempts: 5 },
            status_read: Allowance { time: Millis::mins(10), attempts: 60 },
            result: Allowance { time: Millis::secs(60), attempts: 10 },
            reconcile: Allowance { time: Millis::hours(24), attempts: 400 },
            lookups: Lookups {
                answer: Millis::secs(30),
                pause_max: Millis::mins(5),
                workflow_max: 8,
                system_max: 4,
            },
            notices: Notices {
                answer: Millis::secs(10),
                budget: Allowance { time: Millis::hours(24), attempts: 300 },
                workflow_max: 4,
            },
            evidence: Millis::days(400),
            finished_cached: 4_096,
            own: BTreeMap::new(),
            brought: Brought::default(),
        }
    }
}
