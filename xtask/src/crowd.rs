//! Has clients of every kind call at once, which is a test of `crates/cli`, for as long as is wished.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Load;
use crate::gateway::{build, workspace};

/// Plays with the gateway as it is released; the test prints the seed and the figures.
pub(crate) fn run(options: &Load) -> Result<()> {
    let binary = match &options.gateway {
        Some(binary) => {
            binary.canonicalize().with_context(|| format!("{} is not there", binary.display()))?
        }
        None => build()?,
    };
    let mut test = Command::new("cargo");
    test.current_dir(workspace())
        .args(["test", "--package", "taskgate-cli", "--test", "load", "--", "--nocapture", "side_by_side"])
        .env("LOAD_GATEWAY", binary)
        .env("LOAD_SECONDS", (options.minutes * 60).to_string())
        .env("LOAD_CLIENTS", options.clients.to_string());
    if let Some(seed) = options.seed {
        test.env("LOAD_SEED", seed.to_string());
    }
    if !test.status().context("cargo could not be started")?.success() {
        bail!("a client saw what it must not see; the test says above what");
    }
    Ok(())
}
