//! The commands, and what several of them need.

pub(crate) mod config;
pub(crate) mod house;
pub(crate) mod import;
pub(crate) mod keeper;
pub(crate) mod listen;
pub(crate) mod logs;
pub(crate) mod ops;
pub(crate) mod owner;
pub(crate) mod probe;
pub(crate) mod renamed;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod signals;
pub(crate) mod tasks;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;

/// The runtime in which a command works.
pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the threads to work with")?)
}
