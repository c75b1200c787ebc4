//! What is run: which scenarios, against whom, at which version.

/// One run of the suite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Job {
    /// Everything that a version requires of a server, or one scenario of it.
    Server { revision: &'static str, before: Before, scenario: Option<String> },
    /// One scenario of the tasks extension, which no version requires.
    Tasks { scenario: &'static str, before: Before },
    /// One scenario against our client side, with a client of an era in front.
    Client { scenario: &'static str, revision: &'static str, front: Front },
}

/// What answers the suite.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Before {
    /// The fixture itself.
    Direct,
    /// The gateway, which speaks with the fixture as it would by itself: at 2026-07-28.
    Modern,
    /// The gateway, which speaks with the fixture at 2025-11-25.
    Legacy,
}

/// The SDK that calls through the gateway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Front {
    Legacy,
    Modern,
}

pub(crate) const V2025: &str = "2025-11-25";
pub(crate) const V2026: &str = "2026-07-28";

/// The ten of them. No dated suite has them, so each is named.
pub(crate) const TASKS: [&str; 10] = [
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
    "tasks-status-notifications",
];

/// Client scenarios and their versions. Those that are left out are named on the page, with the reason.
pub(crate) const CLIENT: [(&str, &str); 13] = [
    ("initialize", V2025),
    ("tools_call", V2025),
    ("elicitation-sep1034-client-defaults", V2025),
    (SSE_RETRY, V2025),
    ("json-schema-2020-12-preservation", V2025),
    ("tools_call", V2026),
    ("request-metadata", V2026),
    ("sep-2322-client-request-state", V2026),
    ("http-standard-headers", V2026),
    ("http-custom-headers", V2026),
    ("http-invalid-tool-headers", V2026),
    ("json-schema-ref-no-deref", V2026),
    ("json-schema-2020-12-preservation", V2026),
];

const SSE_RETRY: &str = "sse-retry";

impl Job {
    pub(crate) fn is_direct(&self) -> bool {
        match self {
            Job::Server { before, .. } | Job::Tasks { before, .. } => *before == Before::Direct,
            Job::Client { .. } => false,
        }
    }

    /// Whether it judges how soon something happens.
    pub(crate) fn measures_time(&self) -> bool {
        matches!(self, Job::Client { scenario: SSE_RETRY, .. })
    }
}

/// All runs, or those for these scenarios.
pub(crate) fn jobs(wanted: &[&str]) -> Vec<Job> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.contains(&name);
    let mut jobs = Vec::new();
    let required = |scenario: Option<String>| {
        let at = |revision, before| Job::Server { revision, before, scenario: scenario.clone() };
        [
            at(V2025, Before::Direct),
            at(V2025, Before::Modern),
            at(V2025, Before::Legacy),
            at(V2026, Before::Direct),
            at(V2026, Before::Modern),
        ]
    };
    if wanted.is_empty() {
        jobs.extend(required(None));
    }
    for name in wanted {
        let is_other = TASKS.contains(name) || CLIENT.iter().any(|(scenario, _)| scenario == name);
        if !is_other {
            jobs.extend(required(Some((*name).to_owned())));
        }
    }
    for scenario in TASKS.into_iter().filter(|name| is_wanted(name)) {
        jobs.extend([Before::Direct, Before::Modern].map(|before| Job::Tasks { scenario, before }));
    }
    for (scenario, revision) in CLIENT.into_iter().filter(|(name, _)| is_wanted(name)) {
        jobs.extend([Front::Legacy, Front::Modern].map(|front| Job::Client { scenario, revision, front }));
    }
    jobs
}
