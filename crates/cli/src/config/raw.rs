//! The configuration as it is written.
//!
//! The doc comments here are the reference page (`taskgate config reference`), and the `Default` impls its defaults.
//! `x-since` is the version that knew the key first; a section's holds for its keys that state none.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use super::raw_limits::RawLimits;
pub(crate) use super::raw_workflow::RawWorkflow;
use super::units::{Size, Span};

/// A configuration of `taskgate serve`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(extend("x-since" = "0.1.0"))]
pub(crate) struct RawConfig {
    /// An `mcp.json` whose servers are taken too, as if they stood here. A relative path starts at this file's
    /// folder. Its `mcpServers` (or `servers`) are read with `command`, `args`, `env`, `cwd`, `url`, `headers` and
    /// `type`; an entry with `disabled: true` is left out, and what else it holds is ignored. A `[servers.NAME]`
    /// without `command` and `url` adds to the entry of that name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mcp_json: Option<String>,
    /// Where clients reach the gateway.
    pub(crate) listen: RawListen,
    /// Where tasks and operations are kept.
    pub(crate) store: RawStore,
    /// What modern lists (dialect B) say about caching where the server behind says nothing.
    pub(crate) listing: RawListing,
    /// What the gateway keeps to. The first values suit one person's machine. One that is left out gives way to a
    /// smaller bound that is written: with `ttl_max = "1h"` the default `ttl` is an hour too.
    pub(crate) limits: RawLimits,
    /// The servers behind the gateway, by name. Each answers at `/NAME/mcp`; if there is only one, it answers at
    /// `/mcp` too. In `command`, `args`, `env`, `cwd`, `url` and `headers`, `${NAME}` stands for a variable of the
    /// environment, `${NAME:-text}` for it or else the text, and `$${` for `${` itself.
    pub(crate) servers: BTreeMap<String, RawServer>,
    /// Policies for tools that do something, by name: keys, receipts, probes, and who is asked when nothing else can
    /// tell what happened. Values marked CEL are expressions; see below. The name is part of what keys and objects stand
    /// for: a workflow that is renamed knows nothing of the calls before, and would make one of them again. `run --config`
    /// brings those of its server to the keeper, which records them as `NAME/WORKFLOW`, and takes from `[limits]` what bounds
    /// their calls, results and looks.
    pub(crate) workflows: BTreeMap<String, RawWorkflow>,
}

/// Where clients reach the gateway.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawListen {
    /// Address and port. Only a loopback address is taken: there is no access control yet, so anyone who reaches
    /// the port can call the servers. Port 0 lets the system choose one, which is printed.
    #[schemars(extend("x-unit" = "address:port"))]
    pub(crate) address: String,
    /// Host names that the `Host` header may name besides the loopback ones, each with the port it must have, or
    /// without for any port. For a proxy on this machine that keeps the name it was called by. `*` allows every name,
    /// and gives up the protection against pages that resolve their own name to this machine.
    pub(crate) allowed_hosts: Vec<String>,
    /// Origins that web pages may call from, as browsers write them: `https://app.example`.
    pub(crate) allowed_origins: Vec<String>,
    /// Whether a modern `tasks/*` request without the header `Mcp-Name` is refused. The protocol demands the
    /// header; several clients leave it out.
    pub(crate) strict_mcp_name: bool,
    /// Whether a stateless request that declares the tasks of 2025-11-25, and not the tasks extension, may read and
    /// cancel tasks that were made in a session of that version. The protocol both demands and forbids it.
    pub(crate) legacy_tasks_for_stateless: bool,
}

impl Default for RawListen {
    fn default() -> RawListen {
        RawListen {
            address: "127.0.0.1:7420".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            strict_mcp_name: false,
            legacy_tasks_for_stateless: false,
        }
    }
}

/// Where tasks and operations are kept.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawStore {
    /// The SQLite file. One process owns it. A relative path starts at this file's folder, `~/` at your home. If it
    /// is not given: `taskgate/taskgate.db` under `$XDG_STATE_HOME`, or else under `~/.local/state`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "path", "x-default" = "`taskgate/taskgate.db` in the state folder"))]
    pub(crate) path: Option<String>,
    /// How large the file may grow. Above it new calls are refused until expired tasks were deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as far as the disk goes"))]
    pub(crate) size_max: Option<Size>,
}

/// What modern lists say about caching.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawListing {
    /// How long a list stays fresh (`ttlMs`). 0 has clients ask each time.
    pub(crate) ttl: Span,
    /// Whether a list may be shared between callers (`cacheScope`).
    pub(crate) public: bool,
}

impl Default for RawListing {
    fn default() -> RawListing {
        let listing = taskgate_gateway::config::Listing::default();
        RawListing { ttl: Span(listing.ttl), public: listing.is_public }
    }
}

/// One server: either `command` or `url`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawServer {
    /// The program of a server that speaks over its stdin and stdout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// Its arguments.
    pub(crate) args: Vec<String>,
    /// What is set in its environment, besides our own environment. Never shown or logged.
    pub(crate) env: BTreeMap<String, String>,
    /// Its folder. A relative path starts at this file's folder. If it is not given: the gateway's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "path", "x-default" = "the gateway's folder"))]
    pub(crate) cwd: Option<String>,
    /// The endpoint of a server that speaks Streamable HTTP: `http://` or `https://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "URL"))]
    pub(crate) url: Option<String>,
    /// What is sent to it with every request, credentials among it. Never shown or logged.
    pub(crate) headers: BTreeMap<String, String>,
    /// Which era of the protocol to speak: `auto` asks the server, `legacy` opens with `initialize` (2025-11-25 and
    /// before), `modern` speaks 2026-07-28 only.
    pub(crate) era: RawEra,
    /// Whether all callers share one session with it. It is then offered no elicitation, sampling or roots.
    pub(crate) shared: bool,
    /// Whether its own `readOnlyHint` is believed for tools that are not listed under `tools`. Only for servers
    /// that you trust: a read-only tool may be called again after a crash.
    pub(crate) trust_annotations: bool,
    /// Where it answers at the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "path of a URL", "x-default" = "`/NAME/mcp`"))]
    pub(crate) path: Option<String>,
    /// What holds for tools that are not listed under `tools`.
    pub(crate) default: RawTool,
    /// What holds for single tools, by name. A key that is not given falls back to `default`.
    pub(crate) tools: BTreeMap<String, RawTool>,
}

/// An era of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawEra {
    #[default]
    Auto,
    Legacy,
    Modern,
}

/// How the calls of a tool are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTool {
    /// What it does to the world. `read_only`: nothing, so it may be sent again. `reversible` and `consequential`:
    /// something, so it is recorded before it is sent, and after a lost answer its outcome is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`consequential`"))]
    pub(crate) effect: Option<RawEffect>,
    /// How it is answered. `auto`: with the result if it comes in time, else with a task or a handle. `task`:
    /// always with a task or a handle. `sync`: with the result within `sync_budget`, else it is stopped and refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`auto`"))]
    pub(crate) mode: Option<RawMode>,
    /// Whether the same call may be sent again though its outcome is unknown. `never`: no. `natural`: twice has the
    /// effect of once. `keyed`: the server honours the idempotency key that we send, for `replay_window`. You
    /// declare this; nobody checks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`never`"))]
    pub(crate) replay: Option<RawReplay>,
    /// With `replay = "keyed"`: how long after the first dispatch the server still honours the key. Declare less than it
    /// promises, by as long as a request may be under way and this machine suspended or its clock set back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replay_window: Option<Span>,
}

/// What a tool does to the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawEffect {
    ReadOnly,
    Reversible,
    Consequential,
}

/// How a tool is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawMode {
    Auto,
    Task,
    Sync,
}

/// Whether a call may be sent again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawReplay {
    Never,
    Natural,
    Keyed,
}
