//! What stands on the stage: a folder, two processes, and the way to the gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::TempDir;

use super::children::{Guard, Process};
use super::wire::Wire;
use crate::commands::listen;

/// The port that a person would expect.
const PORT: u16 = 7420;

/// Everything that runs.
pub(super) struct Stage {
    guard: Guard,
    folder: TempDir,
    server: Process,
    gateway: Option<Process>,
}

impl Stage {
    /// Starts the demo server, and before it the gateway.
    pub(super) async fn set(port: Option<u16>, report_ms: u64) -> anyhow::Result<Stage> {
        let mut guard = Guard::start()?;
        let folder = tempfile::Builder::new().prefix("taskgate-demo-").tempdir()?;
        let journal = folder.path().join("effects.jsonl");
        let report = report_ms.to_string();
        let args =
            ["demo-server", "--until-stdin-ends", "--report-ms", &report, "--journal", text(&journal)?];
        let server = Process::start(&mut guard, &args, &folder.path().join("server.log")).await?;
        let port = port.unwrap_or_else(free_port);
        let mut stage = Stage { guard, folder, server, gateway: None };
        stage.configure(port)?;
        stage.open().await?;
        if port == 0 {
            // The same address after the kill as before it.
            let url = stage.url()?;
            let port = url.parse::<hyper::Uri>()?.port_u16().context("the gateway has no port")?;
            stage.configure(port)?;
        }
        Ok(stage)
    }

    fn configure(&self, port: u16) -> anyhow::Result<()> {
        std::fs::write(self.config(), config(port, self.server_url()?))?;
        Ok(())
    }

    /// Starts the gateway: the same binary, as anyone would start it.
    pub(super) async fn open(&mut self) -> anyhow::Result<()> {
        let config = self.config();
        let args = ["serve", "--until-stdin-ends", "--json", "--config", text(&config)?];
        let log = self.log();
        let gateway = Process::start(&mut self.guard, &args, &log).await?;
        self.gateway = Some(gateway);
        Ok(())
    }

    /// `kill -9` of the gateway.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        let gateway = self.gateway.take().context("the gateway does not run")?;
        gateway.kill(&mut self.guard).await
    }

    pub(super) fn gateway_id(&self) -> i32 {
        self.gateway.as_ref().map_or(0, Process::id)
    }

    pub(super) fn server_id(&self) -> i32 {
        self.server.id()
    }

    /// A new way to the gateway.
    pub(super) fn wire(&self) -> anyhow::Result<Wire> {
        Ok(Wire::new(self.url()?))
    }

    pub(super) fn url(&self) -> anyhow::Result<&str> {
        let said = self.gateway.as_ref().map(|gateway| &gateway.said);
        said.and_then(|said| said["url"].as_str()).context("the gateway did not say where it answers")
    }

    pub(super) fn server_url(&self) -> anyhow::Result<&str> {
        self.server.said["url"].as_str().context("the demo server did not say where it answers")
    }

    pub(super) fn effects_url(&self) -> anyhow::Result<&str> {
        self.server.said["effects"].as_str().context("the demo server did not say where its effects are")
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder.path().join("taskgate.toml")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("gateway.log")
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends everything.
    pub(super) async fn clear(self) {
        let Stage { guard, folder, server, gateway, .. } = self;
        if let Some(gateway) = gateway {
            gateway.end().await;
        }
        server.end().await;
        guard.end().await;
        // A folder in the temporary place that cannot be removed harms nobody.
        let _ = folder.close();
    }
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the temporary folder has a name that is no text")
}

/// The usual port, or 0 if it is taken.
fn free_port() -> u16 {
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
    // Given back at once; whoever takes it in between is told by the gateway.
    if listen::take(usual).is_ok() { PORT } else { 0 }
}

fn config(port: u16, server: &str) -> String {
    format!(
        r#"# Written by `taskgate demo`.
[listen]
address = "127.0.0.1:{port}"

[store]
path = "taskgate.db"

[limits]
sync_budget = "3s" # 45 s by default; shortened so that nobody has to wait

[servers.demo]
url = "{server}"

[servers.demo.tools]
echo.effect = "read_only"
instant.effect = "read_only"
slow_report.effect = "reversible"
deploy.effect = "reversible"
payment.effect = "consequential"
"#
    )
}
