//! Runs the official conformance suite, which is a test of `crates/cli`, and shows or writes its page.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Conformance;
use crate::page;

/// Installs the peers, runs the suite, and writes `docs/conformance.md` if all was run and nothing was unexpected.
pub(crate) fn run(options: &Conformance) -> Result<()> {
    let root = page::root()?;
    page::install_peers(&root)?;
    let mut test = Command::new("cargo");
    test.current_dir(&root)
        .args(["test", "--quiet", "--package", "taskgate-cli", "--test", "conformance", "--", "--nocapture"])
        .env("CONFORMANCE_SCENARIOS", options.scenario.join(","));
    for (is_set, name) in [
        (!options.check, "UPDATE"),
        (options.direct, "CONFORMANCE_DIRECT"),
        (options.keep, "CONFORMANCE_KEEP"),
    ] {
        if is_set {
            test.env(name, "1");
        }
    }
    let ran = test.status().context("cargo could not be started")?;
    if !ran.success() {
        bail!("the suite finds what it should not; the test says above what");
    }
    if options.scenario.is_empty() && !options.direct {
        page::show(&root, "conformance.md")?;
    }
    Ok(())
}
