//! The configuration: as written (`raw`), as understood ([`Config`]), and the way from one to the other.
//!
//! - `raw`, `raw_limits`, `raw_workflow`, `units`: what can be written, with defaults and documentation
//! - `load`: files in, [`Config`] or [`problem::Problems`] out
//! - `unknown`, `place`, `problem`: what is wrong, and where
//! - `understand`, `server`, `workflow`, `rules`, `limits`, `expand`: what it means
//! - `handed`: a server's workflows, as `run` hands them to the keeper
//! - `advice`: what is worth a second look
//! - `mcp_json`: servers as hosts keep them
//! - `reference`: the page and the schema that are generated from all that

pub(crate) mod advice;
mod expand;
pub(crate) mod handed;
mod limits;
pub(crate) mod load;
mod mcp_json;
mod place;
pub(crate) mod problem;
mod raw;
mod raw_limits;
mod raw_workflow;
pub(crate) mod reference;
mod rules;
mod server;
mod shown;
pub(crate) mod understand;
pub(crate) mod units;
mod unknown;
mod workflow;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use taskgate_client::config::ServerConfig;
use taskgate_gateway::config::GatewayConfig;
use taskgate_workflow::Workflow;

/// What the configuration means. It was checked once and does not change.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where to listen.
    pub(crate) address: SocketAddr,
    /// The SQLite file; `None` if none was given and there is no home to keep it in.
    pub(crate) store: Option<PathBuf>,
    /// How large it may grow.
    pub(crate) store_bytes_max: Option<u64>,
    /// What the engine keeps to.
    pub(crate) engine: taskgate_engine::limits::Limits,
    /// What the front keeps to, and how calls are treated.
    pub(crate) gateway: GatewayConfig,
    /// The servers.
    pub(crate) servers: Vec<ServerConfig>,
    /// The workflows.
    pub(crate) workflows: Vec<Arc<Workflow>>,
    /// Their names, as they are written.
    pub(crate) named: Vec<Named>,
}

/// A workflow's names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Named {
    /// That of its section.
    pub(crate) section: String,
    /// That under which its operations are kept.
    pub(crate) recorded_as: String,
    /// Whether the latter is written.
    pub(crate) is_said: bool,
    /// Whose tools it is for.
    pub(crate) server: String,
    /// The tools.
    pub(crate) tools: Vec<String>,
    /// Where its section stands: the file and the line, from 1.
    pub(crate) at: Option<(String, usize)>,
}
