//! Runs the official conformance suite, which is a test of `crates/cli`, and shows or writes its page.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Conformance;

/// Installs the peers, runs the suite, and writes `docs/conformance.md` if all was run and nothing was unexpected.
pub(crate) fn run(options: &Conformance) -> Result<()> {
    let root = root()?;
    let installed = Command::new(root.join("tests/peers/install"))
        .status()
        .context("tests/peers/install could not be started")?;
    if !installed.success() {
        bail!("the peers are not installed; tests/peers/install says above what is missing");
    }
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
        let page = root.join("docs/conformance.md");
        let text =
            std::fs::read_to_string(&page).with_context(|| format!("{} cannot be read", page.display()))?;
        println!("{text}");
    }
    Ok(())
}

fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().context("the workspace is not where it was built")
}
