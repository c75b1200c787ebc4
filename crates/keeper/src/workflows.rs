//! Workflows that come with a host and go with it. What they say is for whoever starts the keeper to understand; the keeper
//! knows when they come, whose they are and when nothing of them lives any more.

use std::collections::BTreeMap;
use std::sync::Arc;

use taskgate_client::config::ServerConfig;
use taskgate_core::id::{ServerName, WorkflowName};
use taskgate_engine::limits::Own;
use taskgate_gateway::config::ServerPolicy;
use taskgate_store::ledger::Held;

use crate::attachment::Declared;

/// All workflows that hosts brought.
pub trait Workflows: Send + Sync + 'static {
    /// Understands what a host brings. Nothing changes before [`Equipment::hold`].
    ///
    /// # Errors
    /// In words for the host's person.
    fn bring(&self, brought: &Bringing<'_>) -> Result<Equipment, String>;

    /// The session with a server is open, or need not be waited for: systems of record can be asked. Its workflows.
    fn open(&self, server: &ServerName) -> Vec<WorkflowName>;

    /// The workflows of a server whose rules are here.
    fn of(&self, server: &ServerName) -> Vec<WorkflowName>;

    /// Whether a host ever brought workflows under this name of a server.
    fn knows(&self, base: &str) -> bool;

    /// What workflows ask of `server` that it does not have, in words.
    fn missing(&self, server: &ServerName, has: &dyn Fn(&str) -> bool) -> Vec<String>;

    /// Nothing of a server lives any more: its rules and their secrets are forgotten.
    fn leave(&self, server: &ServerName);
}

/// What a host brings.
#[derive(Debug)]
pub struct Bringing<'a> {
    /// What it declares; `None` for one without workflows.
    pub declared: Option<&'a Declared>,
    /// Its server.
    pub server: &'a ServerName,
    /// That server's name in the names of workflows.
    pub base: &'a str,
    /// How the store names a server that is only asked, by its name in the sheet.
    pub asked: &'a BTreeMap<String, ServerName>,
    /// What the store holds of workflows.
    pub held: &'a [Held],
}

/// Puts workflows into a server's policy, and into how it is reached.
pub type Equip = dyn FnOnce(&mut ServerPolicy, &mut ServerConfig) + Send;

/// How calls are made under what was brought.
pub struct Equipment {
    /// Has new calls made by it.
    pub equip: Box<Equip>,
    /// Has it hold from here on in the place of what held for its server: for what is found out of calls, earlier ones too.
    pub hold: Box<dyn FnOnce() + Send>,
    /// What bounds calls, by tool.
    pub own: BTreeMap<String, Arc<Own>>,
    /// Lines for the host's person.
    pub notices: Vec<String>,
}
