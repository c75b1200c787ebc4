//! MCP hosts and the files in which they keep their servers: finding them, reading them without changing a byte, putting
//! `taskgate run --` in front of a server's command, and taking it out again.
//!
//! - `host`, `places`: the hosts, and where their files stand
//! - `tree`, `json`, `yaml`: a file as a tree that knows which bytes each part is
//! - `shape`, `entry`: where in a file the servers stand, and how each is started
//! - `edit`, `splice`: the edit, its undoing, and the proof that one is the other's opposite
//! - `mask`, `blind`, `diff`: what is shown of it, without secrets
//! - `keep`: writing, with a backup
//! - `program`: what is put in front
//! - `print`: the entry for a host, for `run --print-config`

pub(crate) mod blind;
pub(crate) mod diff;
pub(crate) mod edit;
pub(crate) mod entry;
pub(crate) mod host;
pub(crate) mod json;
pub(crate) mod keep;
pub(crate) mod mask;
pub(crate) mod places;
mod print;
pub(crate) mod program;
pub(crate) mod shape;
mod splice;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod yaml;

pub(crate) use host::Host;
pub(crate) use print::print_config;
