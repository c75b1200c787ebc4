//! Plays the matrix of clients and servers, which is a test of `crates/cli`, and shows or writes its page.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::args::Matrix;
use crate::page;

/// Installs the peers, plays, and writes `docs/matrix.md` if all was played and nothing was unexpected.
pub(crate) fn run(options: &Matrix) -> Result<()> {
    let root = page::root()?;
    page::install_peers(&root)?;
    let mut test = Command::new("cargo");
    test.current_dir(&root)
        .args(["test", "--quiet", "--package", "taskgate-cli", "--test", "interop", "--", "--nocapture"])
        .env("MATRIX_CLIENTS", options.client.join(","))
        .env("MATRIX_SERVERS", options.server.join(","));
    if !options.check {
        test.env("UPDATE", "1");
    }
    if options.keep {
        test.env("MATRIX_KEEP", "1");
    }
    let played = test.status().context("cargo could not be started")?;
    if !played.success() {
        bail!("the matrix is not as it should be; the test says above which cells");
    }
    let whole = options.client.is_empty() && options.server.is_empty();
    if whole {
        page::show(&root, "matrix.md")?;
    }
    Ok(())
}
