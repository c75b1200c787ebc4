//! What chores share that play with peers and keep a page: where things are, the peers, the page on the terminal.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The folder of the workspace.
pub(crate) fn root() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().context("the workspace is not where it was built")
}

/// Installs what is missing of the peers.
pub(crate) fn install_peers(root: &Path) -> Result<()> {
    let installed = Command::new(root.join("tests/peers/install"))
        .status()
        .context("tests/peers/install could not be started")?;
    if !installed.success() {
        bail!("the peers are not installed; tests/peers/install says above what is missing");
    }
    Ok(())
}

/// Prints the page `docs/NAME`.
pub(crate) fn show(root: &Path, name: &str) -> Result<()> {
    let page = root.join("docs").join(name);
    let text =
        std::fs::read_to_string(&page).with_context(|| format!("{} cannot be read", page.display()))?;
    println!("{text}");
    Ok(())
}
