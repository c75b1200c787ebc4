//! What an operator decides about the front.

use std::collections::BTreeMap;
use std::sync::Arc;

use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::Millis;
use taskgate_workflow::Workflow;

/// Everything that is configured about the front.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// The servers behind us, each at its own path.
    pub servers: Vec<ServerPolicy>,
    /// What the front keeps to.
    pub limits: Limits,
    /// Host names, without port, that the `Host` header may name besides the loopback ones. `*` allows any.
    pub allowed_hosts: Vec<String>,
    /// Origins that web pages may come from, as browsers write them: `https://app.example`. A page of our own
    /// origin is always allowed.
    pub allowed_origins: Vec<String>,
    /// Whether a modern `tasks/*` request without `Mcp-Name` is refused (G-018).
    pub strict_mcp_name: bool,
    /// Whether a stateless request that declares only the tasks of 2025-11-25 may read and cancel tasks that were made
    /// in a session of that version.
    pub legacy_tasks_for_stateless: bool,
    /// What modern lists say about caching.
    pub listing: Listing,
}

impl GatewayConfig {
    /// These servers, and the first values of everything else.
    ///
    /// The only server of a gateway also answers at `/mcp`.
    #[must_use]
    pub fn new(servers: Vec<ServerPolicy>) -> GatewayConfig {
        GatewayConfig {
            servers,
            limits: Limits::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            strict_mcp_name: false,
            legacy_tasks_for_stateless: false,
            listing: Listing::default(),
        }
    }
}

/// How the calls of one server are treated.
#[derive(Clone, Debug)]
pub struct ServerPolicy {
    /// Its name.
    pub name: ServerName,
    /// Where it answers: `/NAME/mcp`.
    pub path: String,
    /// For a tool that nobody spoke for.
    pub default: ToolPolicy,
    /// For the others, by name.
    pub tools: BTreeMap<String, ToolPolicy>,
    /// The workflows of its tools, by tool. Each speaks for its tool in the place of `tools`.
    pub workflows: BTreeMap<String, Arc<Workflow>>,
    /// Whether `annotations.readOnlyHint` of a tool that nobody spoke for is believed (design 7).
    pub trust_annotations: bool,
    /// Which of a caller's tasks are found and listed here.
    pub sees: Sees,
    /// How long a plain call is waited for here, in the place of [`Limits::sync_budget`].
    pub sync_budget: Option<Millis>,
}

/// Which of a caller's tasks are found and listed at a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sees {
    /// Those that were made at this server.
    #[default]
    Server,
    /// All: a server whose environment has changed is another server, and its user's tasks are still there (design 4).
    Principal,
}

impl ServerPolicy {
    /// The safe defaults at `/NAME/mcp`.
    #[must_use]
    pub fn new(name: ServerName) -> ServerPolicy {
        let path = format!("/{name}/mcp");
        ServerPolicy {
            name,
            path,
            default: ToolPolicy::default(),
            tools: BTreeMap::new(),
            workflows: BTreeMap::new(),
            trust_annotations: false,
            sees: Sees::Server,
            sync_budget: None,
        }
    }

    /// How long a plain call is waited for.
    pub(crate) fn sync_budget(&self, limits: &Limits) -> Millis {
        self.sync_budget.unwrap_or(limits.sync_budget)
    }

    /// Whether a task of the caller's, made at `server`, is to be seen here.
    pub(crate) fn shows(&self, server: &ServerName) -> bool {
        match self.sees {
            Sees::Server => *server == self.name,
            Sees::Principal => true,
        }
    }

    /// What holds for `tool`, of which its server says that it is, or is not, read-only.
    pub(crate) fn tool(&self, tool: &str, says_read_only: bool) -> ToolPolicy {
        if let Some(workflow) = self.workflows.get(tool) {
            return ToolPolicy { effect: workflow.effect, mode: workflow.mode, replay: workflow.replay };
        }
        match self.tools.get(tool) {
            Some(policy) => *policy,
            None if self.trust_annotations && says_read_only => {
                ToolPolicy { effect: Effect::ReadOnly, ..self.default }
            }
            None => self.default,
        }
    }
}

/// How the calls of one tool are treated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ToolPolicy {
    /// What it does to the world.
    pub effect: Effect,
    /// How it is answered.
    pub mode: ToolMode,
    /// Whether it may be sent again though its outcome is unknown.
    pub replay: Replay,
}

impl Default for ToolPolicy {
    fn default() -> ToolPolicy {
        ToolPolicy { effect: Effect::Consequential, mode: ToolMode::Auto, replay: Replay::Never }
    }
}

/// What modern lists say about caching, where the server behind us says nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// `ttlMs`: how long a list stays fresh.
    pub ttl: Millis,
    /// Whether lists may be shared between callers: `cacheScope`.
    pub is_public: bool,
}

/// What the front keeps to. The configuration's reference page gives each one's reason.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a plain call is waited for; under the 60 s that hosts enforce.
    pub sync_budget: Millis,
    /// How long a call that can carry a task is waited for before it gets one.
    pub task_after: Millis,
    /// Largest message from a client.
    pub message_bytes_max: usize,
    /// Sessions that are kept; above it the longest unseen one goes.
    pub sessions_max: usize,
    /// How long a session is kept unused.
    pub session_idle: Millis,
    /// Open `subscriptions/listen` of one principal.
    pub listens_max: usize,
    /// `tasks/result` of one principal that are held open.
    pub blocked_results_max: usize,
    /// Open GET streams of one session.
    pub streams_max: usize,
    /// Ids and URIs in the filter of one `subscriptions/listen`.
    pub filter_max: usize,
    /// Requests of one client that are under way at once, over one pipe or in one session.
    pub requests_max: usize,
    /// Connections.
    pub connections_max: usize,
    /// Tasks on one page of a list.
    pub page_tasks: usize,
    /// Text on one page of a result that the handle tool shows.
    pub page_bytes: usize,
    /// Longest result of a tool with a workflow that is answered in whole, unless the workflow has a bound of its own.
    /// Less than [`INLINE_MIN`](crate::INLINE_MIN) counts as that.
    pub result_inline: usize,
    /// After how long a request that is still held gets a stream instead of waiting in silence.
    pub stream_after: Millis,
    /// How often an open stream shows that it lives.
    pub keep_alive: Millis,
    /// How long a passed-through request is waited for.
    pub request_time: Millis,
    /// How long a person is waited for when a server asks something outside a task.
    pub ask_time: Millis,
    /// How long calls under way are waited for when we stop.
    pub drain: Millis,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sync_budget: Millis::secs(45),
            task_after: Millis::secs(2),
            message_bytes_max: 4 * 1024 * 1024,
            sessions_max: 10_000,
            session_idle: Millis::hours(24),
            listens_max: 256,
            blocked_results_max: 1_000,
            streams_max: 8,
            filter_max: 1_000,
            requests_max: 1_024,
            connections_max: 10_000,
            page_tasks: 100,
            page_bytes: 32 * 1024,
            result_inline: 256 * 1024,
            stream_after: Millis::secs(1),
            keep_alive: Millis::secs(15),
            request_time: Millis::secs(60),
            ask_time: Millis::mins(10),
            drain: Millis::secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_7_a_tool_nobody_spoke_for_is_consequential_unless_its_server_is_trusted() {
        let mut policy = ServerPolicy::new(ServerName("demo".into()));
        assert_eq!(policy.tool("read", true).effect, Effect::Consequential);
        policy.trust_annotations = true;
        assert_eq!(policy.tool("read", true).effect, Effect::ReadOnly);
        assert_eq!(policy.tool("write", false).effect, Effect::Consequential);
        let mode = ToolPolicy { mode: ToolMode::Task, ..ToolPolicy::default() };
        policy.tools.insert("read".into(), mode);
        assert_eq!(policy.tool("read", true), mode);
    }
}
