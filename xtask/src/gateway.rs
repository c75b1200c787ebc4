//! The gateway under test: built, configured, started, killed.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::time::{Instant, sleep};

use crate::args::Era;
use crate::load::connection::Connection;
use crate::load::speaker::Peer;
use crate::process::Process;

/// How long a start may take before it counts as failed.
const START_MAX: Duration = Duration::from_secs(60);

/// A step while waiting for a start; the time of a restart is known to this.
const STEP: Duration = Duration::from_millis(1);

/// The folder of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_path_buf)
}

/// Builds the gateway as it is released.
pub(crate) fn build() -> Result<PathBuf> {
    let status = Command::new("cargo")
        .args(["build", "--release", "--package", "taskgate-cli"])
        .current_dir(workspace())
        .status()
        .context("start cargo")?;
    ensure!(status.success(), "the gateway does not build");
    Ok(workspace().join("target/release/taskgate"))
}

/// A gateway before two instant servers, one of each era.
#[derive(Debug)]
pub(crate) struct Gateway {
    binary: PathBuf,
    folder: PathBuf,
    address: SocketAddr,
    process: Option<Process>,
}

impl Gateway {
    /// Starts it with a store of its own in `folder`, in front of these servers.
    pub(crate) async fn start(binary: &Path, folder: &Path, backs: &[(Era, SocketAddr)]) -> Result<Gateway> {
        fs::create_dir_all(folder)?;
        // Freed before the gateway takes it; nothing else here asks for a port meanwhile.
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        fs::write(folder.join("taskgate.toml"), config(address, backs))?;
        let mut gateway =
            Gateway { binary: binary.to_owned(), folder: folder.to_owned(), address, process: None };
        gateway.start_again().await?;
        Ok(gateway)
    }

    /// Starts it anew over what it left; the time from the start of the process to the first `200` of `/readyz`.
    pub(crate) async fn start_again(&mut self) -> Result<Duration> {
        let log = File::options().create(true).append(true).open(self.folder.join("gateway.log"))?;
        let started = Instant::now();
        let child = Command::new(&self.binary)
            .args(["serve", "--config", "taskgate.toml"])
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", self.binary.display()))?;
        let mut process = Process::new(child);
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {}\r\n\r\n", self.address);
        loop {
            if let Ok(mut connection) = Connection::open(self.address).await
                && let Ok(answer) = connection.exchange(request.as_bytes()).await
                && answer.status == 200
            {
                self.process = Some(process);
                return Ok(started.elapsed());
            }
            if process.has_ended()? || started.elapsed() > START_MAX {
                let log = fs::read_to_string(self.folder.join("gateway.log")).unwrap_or_default();
                bail!("the gateway did not start: {log}");
            }
            sleep(STEP).await;
        }
    }

    /// `SIGKILL`.
    pub(crate) fn kill(&mut self) -> Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill(),
            None => Ok(()),
        }
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.process.as_ref().map(Process::pid).context("the gateway does not run")
    }

    /// The endpoint of the server of that era.
    pub(crate) fn peer(&self, era: Era) -> Peer {
        Peer { address: self.address, path: format!("/{}/mcp", era.word()), era }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("taskgate.db")
    }
}

/// The defaults, but for limits that a closed loop of thousands of tasks would run into.
fn config(address: SocketAddr, backs: &[(Era, SocketAddr)]) -> String {
    let mut text = format!(
        "[listen]\naddress = \"{address}\"\n\n[store]\npath = \"taskgate.db\"\n\n\
         [limits]\nlive_tasks_anonymous = 10000000\nqueue = 10000000\n"
    );
    for (era, back) in backs {
        let name = era.word();
        text.push_str(&format!(
            "\n[servers.{name}]\nurl = \"http://{back}/mcp\"\nera = \"{name}\"\n\n\
             [servers.{name}.tools.small]\neffect = \"read_only\"\n\n\
             [servers.{name}.tools.big]\neffect = \"read_only\"\n"
        ));
    }
    text
}
