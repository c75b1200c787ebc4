//! Servers that are child processes.

mod input;
mod lines;
mod pending;
mod process;
mod stderr;

pub(crate) use pending::Waiting;
pub(crate) use process::Process;
