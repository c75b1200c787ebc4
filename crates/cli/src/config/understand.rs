//! From what is written to what it means.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taskgate_core::budget::Allowance;
use taskgate_core::poll::Rhythm;
use taskgate_core::time::Millis;
use taskgate_engine::limits::{Brought, Limits, Lookups, Notices, Own};
use taskgate_gateway::INLINE_MIN;
use taskgate_gateway::config::{GatewayConfig, Listing};
use taskgate_workflow::{Forward, Workflow};

use super::raw::{RawConfig, RawLimits, RawListen, RawServer};
use super::server::{self, Server};
use super::units::Span;
use super::workflow::{self, Around};
use super::{Config, Named};
use crate::environment::Environment;

/// What is wrong with the meaning of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The key, from the top of the file.
    pub(crate) path: Vec<String>,
    pub(crate) what: String,
    pub(crate) help: String,
    /// Bytes of the value, where it is a text and only a part of it is wrong.
    pub(crate) inside: Option<Range<usize>>,
}

impl Fault {
    pub(crate) fn new(path: &[&str], what: impl Into<String>, help: impl Into<String>) -> Fault {
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        Fault { path, what: what.into(), help: help.into(), inside: None }
    }
}

/// Reads `raw`, whose relative paths start at `folder`. `servers` are those of the file and of its mcp.json, each with
/// the folder at which its relative paths start.
pub(crate) fn understand(
    raw: &RawConfig,
    servers: &BTreeMap<String, (RawServer, PathBuf)>,
    folder: &Path,
    environment: &Environment,
) -> Result<Config, Vec<Fault>> {
    understand_from(raw, servers, folder, environment, false)
}

/// The same; `is_handed` says that it was understood before, by the process that hands it on with names of its own.
pub(crate) fn understand_from(
    raw: &RawConfig,
    servers: &BTreeMap<String, (RawServer, PathBuf)>,
    folder: &Path,
    environment: &Environment,
    is_handed: bool,
) -> Result<Config, Vec<Fault>> {
    let mut faults = Vec::new();
    let address = address(&raw.listen, &mut faults);
    names(&raw.listen, &mut faults);
    let store = store(raw.store.path.as_deref(), folder, environment);
    let engine = limits(&raw.limits, &mut faults);
    let mut understood = Vec::new();
    for (name, (server, folder)) in servers {
        if let Some(server) = server::understand(name, server, folder, environment, &mut faults) {
            understood.push(server);
        }
    }
    server::distinct_paths(&understood, &mut faults);
    let known = servers.iter().map(|(name, (server, _))| (name.clone(), server.clone())).collect();
    let around =
        Around { servers: &known, workflows: &raw.workflows, limits: &raw.limits, environment, is_handed };
    let workflows: Vec<_> = workflow::understand(&around, &mut faults).into_iter().map(Arc::new).collect();
    if servers.is_empty() {
        faults.push(Fault::new(
            &[],
            "no server is configured",
            "add a [servers.NAME] with `command` or `url`, or name an mcp.json: `mcp_json = \"…\"`",
        ));
    }
    let (Some(address), true) = (address, faults.is_empty()) else { return Err(faults) };
    let (servers, policies) = understood
        .into_iter()
        .map(|Server { mut back, mut policy }| {
            raw.limits.bound(&mut back);
            for workflow in workflows.iter().filter(|workflow| workflow.server == policy.name) {
                let workflow: &Arc<Workflow> = workflow;
                let tools = workflow.tools.iter().cloned();
                if let Some(Forward::Header(name)) = &workflow.forward {
                    back.key_headers.extend(tools.clone().map(|tool| (tool, name.clone())));
                }
                policy.workflows.extend(tools.map(|tool| (tool, workflow.clone())));
            }
            (back, policy)
        })
        .unzip();
    let mut engine = engine;
    for workflow in &workflows {
        let bounds = &workflow.bounds;
        let own = Arc::new(Own {
            workflow: workflow.name.clone(),
            running_max: bounds.running,
            deadline: bounds.deadline,
            ttl_max: bounds.ttl_max,
            create: bounds.create,
            status_read: bounds.status_read,
            result: bounds.result,
        });
        let tools = engine.own.entry(workflow.server.clone()).or_default();
        tools.extend(workflow.tools.iter().map(|tool| (tool.clone(), own.clone())));
    }
    let gateway = GatewayConfig {
        limits: raw.limits.front(),
        allowed_hosts: raw.listen.allowed_hosts.clone(),
        allowed_origins: raw.listen.allowed_origins.clone(),
        strict_mcp_name: raw.listen.strict_mcp_name,
        legacy_tasks_for_stateless: raw.listen.legacy_tasks_for_stateless,
        listing: Listing { ttl: raw.listing.ttl.0, is_public: raw.listing.public },
        ..GatewayConfig::new(policies)
    };
    let store_bytes_max = raw.store.size_max.map(|size| size.0 as u64);
    let named = raw.workflows.iter().map(|(section, workflow)| Named {
        section: section.clone(),
        recorded_as: workflow::recorded_as(section, workflow).to_owned(),
        is_said: workflow.recorded_as.is_some(),
        server: workflow.server.clone(),
        tools: workflow.tools.clone(),
        at: None,
    });
    let named = named.collect();
    Ok(Config { address, store, store_bytes_max, engine, gateway, servers, workflows, named })
}

/// What is wrong with an address, and what to do.
pub(crate) type Refusal = (String, String);

/// Reads the address to listen at: loopback, since there is no access control yet.
pub(crate) fn listen_address(text: &str) -> Result<SocketAddr, Refusal> {
    let named = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let address = match named {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        None => text.parse::<SocketAddr>().map_err(|_| {
            (format!("{text:?} is no address with a port"), "write it like \"127.0.0.1:7420\"".to_owned())
        })?,
    };
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err((
        format!("{} is not a loopback address", address.ip()),
        "taskgate has no access control yet: whoever reaches the port can call every server, so it listens on \
         127.0.0.1 or [::1] only"
            .to_owned(),
    ))
}

fn address(listen: &RawListen, faults: &mut Vec<Fault>) -> Option<SocketAddr> {
    listen_address(&listen.address)
        .map_err(|(what, help)| faults.push(Fault::new(&["listen", "address"], what, help)))
        .ok()
}

/// Names that browsers and proxies could never send would silently allow nothing.
fn names(listen: &RawListen, faults: &mut Vec<Fault>) {
    for host in &listen.allowed_hosts {
        if host.is_empty() || host.contains('/') || host.chars().any(char::is_whitespace) {
            faults.push(Fault::new(
                &["listen", "allowed_hosts"],
                format!("{host:?} is no host name"),
                "write the name alone, without a scheme and a path: \"gateway.example\"",
            ));
        }
    }
    for origin in &listen.allowed_origins {
        let authority = origin.split_once("://").map(|(_, rest)| rest.trim_end_matches('/'));
        if authority.is_none_or(|authority| authority.is_empty() || authority.contains('/')) {
            faults.push(Fault::new(
                &["listen", "allowed_origins"],
                format!("{origin:?} is no origin"),
                "write it as browsers do, with a scheme and without a path: \"https://app.example\"",
            ));
        }
    }
}

/// Where tasks are kept; without a home there is no place by default.
pub(crate) fn store(path: Option<&str>, folder: &Path, environment: &Environment) -> Option<PathBuf> {
    match path {
        Some(path) => Some(resolve(path, folder, environment)),
        None => environment.state_dir().map(|state| state.join("taskgate.db")),
    }
}

/// A path as it is written in a file of `folder`.
pub(crate) fn resolve(path: &str, folder: &Path, environment: &Environment) -> PathBuf {
    match (path.strip_prefix("~/"), environment.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        (Some(_) | None, _) => folder.join(path),
    }
}

/// The shortest lifetime that a task can have.
const TTL_MIN: Millis = Millis(1_000);

/// Reads the limits. One that was left at its default gives way to a smaller bound; one that was written does not.
fn limits(raw: &RawLimits, faults: &mut Vec<Fault>) -> Limits {
    let first = RawLimits::default();
    let mut within = |(low, value, default): (&str, Span, Span), (high, bound): (&str, Span)| {
        if value.0 > bound.0 && value != default {
            faults.push(Fault::new(
                &["limits", low],
                format!("`{low}` is {value}, longer than `{high}` ({bound})"),
                format!("shorten `{low}`, or lengthen `{high}` in [limits]"),
            ));
        }
        value.0.min(bound.0)
    };
    let ttl_max = within(("ttl_max", raw.ttl_max, first.ttl_max), ("evidence", raw.evidence));
    let ttl_max = ("ttl_max", Span(ttl_max));
    let ttl = within(("ttl", raw.ttl, first.ttl), ttl_max);
    let ttl_max_shared =
        within(("ttl_max_anonymous", raw.ttl_max_anonymous, first.ttl_max_anonymous), ttl_max);
    let deadline = within(("deadline", raw.deadline, first.deadline), ttl_max);
    let deadline_shared = within(
        ("deadline_anonymous", raw.deadline_anonymous, first.deadline_anonymous),
        ("ttl_max_anonymous", Span(ttl_max_shared)),
    );
    let floor = within(("poll_floor", raw.poll_floor, first.poll_floor), ("poll_ceiling", raw.poll_ceiling));
    within(("restart_first", raw.restart_first, first.restart_first), ("restart_max", raw.restart_max));
    for (name, value) in [("ttl_max", raw.ttl_max), ("ttl_max_anonymous", raw.ttl_max_anonymous)] {
        if value.0 < TTL_MIN {
            faults.push(Fault::new(
                &["limits", name],
                format!("`{name}` is {value}, in which no task could be read"),
                "use \"1s\" or more",
            ));
        }
    }
    for (name, value) in raw.counts() {
        if value == 0 {
            faults.push(Fault::new(
                &["limits", name],
                format!("`{name}` is 0, which lets nothing through"),
                "use 1 or more",
            ));
        }
    }
    if raw.result_inline.0 < INLINE_MIN {
        let (what, help) = workflow::too_short("result_inline", raw.result_inline);
        faults.push(Fault::new(&["limits", "result_inline"], what, help));
    }
    for (name, value) in raw.spans() {
        if value.0 == Millis(0) {
            faults.push(Fault::new(
                &["limits", name],
                format!("`{name}` is {value}, in which nothing can be done"),
                "use \"1s\" or more",
            ));
        }
    }
    for (name, value) in raw.rhythms() {
        if value.0 < Millis(50) {
            faults.push(Fault::new(
                &["limits", name],
                format!("`{name}` is {value}, which keeps a processor busy for nothing"),
                "use \"50ms\" or more",
            ));
        }
    }
    Limits {
        ttl,
        ttl_max: ttl_max.1.0,
        ttl_max_shared,
        linger: raw.linger.0,
        deadline,
        deadline_shared,
        start_by: raw.start_by.0,
        cancel_grace: raw.cancel_grace.0,
        live_max: raw.live_tasks,
        live_max_shared: raw.live_tasks_anonymous,
        running_max: raw.running,
        queue_max: raw.queue,
        rhythm: Rhythm { floor, ceiling: raw.poll_ceiling.0 },
        create: Allowance { time: raw.create_time.0, attempts: raw.create_attempts },
        status_read: Allowance { time: raw.status_read_time.0, attempts: raw.status_read_attempts },
        result: Allowance { time: raw.result_time.0, attempts: raw.result_attempts },
        reconcile: Allowance { time: raw.reconcile_time.0, attempts: raw.reconcile_attempts },
        lookups: Lookups {
            answer: raw.lookup_answer.0,
            pause_max: raw.lookup_ceiling.0,
            workflow_max: raw.lookups,
            system_max: raw.lookups_system,
        },
        notices: Notices {
            answer: raw.webhook_answer.0,
            budget: Allowance { time: raw.webhook_time.0, attempts: raw.webhook_attempts },
            workflow_max: raw.webhooks,
        },
        evidence: raw.evidence.0,
        finished_cached: raw.finished_cached,
        own: BTreeMap::new(),
        brought: Brought::default(),
    }
}
