//! Plays the fault campaign, which is a test of `crates/cli`: as CI does, or longer, or one act of it again.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Faults;

/// Plays it. What failed is kept in files that `--replay` takes.
pub(crate) fn run(options: &Faults) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut test = Command::new("cargo");
    test.current_dir(&root).args(["test", "--quiet", "--package", "taskgate-cli", "--test", "faults"]);
    if let Some(trials) = options.trials {
        test.env("FAULTS_TRIALS", trials.to_string());
    }
    if let Some(seed) = options.seed {
        test.env("FAULTS_SEED", seed.to_string());
    }
    if options.every_byte {
        test.env("FAULTS_EVERY_BYTE", "1");
    }
    if let Some(file) = &options.replay {
        let file = file.canonicalize().with_context(|| format!("{} cannot be read", file.display()))?;
        test.env("FAULTS_REPLAY", file);
    }
    if let Some(lane) = &options.lane {
        test.env("FAULTS_LANE", lane);
    }
    let played = test.status().context("cargo could not be started")?;
    if !played.success() {
        bail!("the campaign failed; it says above how, and how to play that again");
    }
    Ok(())
}
