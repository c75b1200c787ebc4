//! The two processes of the play, and that neither is ever left behind.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use crate::args::GUARD;

/// The guard: it kills what we told it about once we are gone, however we go.
pub(super) struct Guard {
    // Its stdin; it ends when this closes.
    told: ChildStdin,
    process: Child,
}

impl Guard {
    pub(super) fn start() -> anyhow::Result<Guard> {
        let mut process = me()?
            .arg(GUARD)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("could not start the guard")?;
        let told = process.stdin.take().context("the guard has no stdin")?;
        Ok(Guard { told, process })
    }

    async fn tell(&mut self, sign: char, group: i32) -> anyhow::Result<()> {
        self.told.write_all(format!("{sign}{group}\n").as_bytes()).await.context("the guard is gone")
    }

    /// Ends it; whatever it still watches is killed.
    pub(super) async fn end(self) {
        let Guard { told, mut process } = self;
        drop(told);
        // It ends by itself once its stdin is closed.
        let _ = process.wait().await;
    }
}

/// One process in a group of its own, so that Ctrl-C reaches us alone.
pub(super) struct Process {
    child: Child,
    group: i32,
    /// Kept open: the process ends when it closes.
    _stdin: Option<ChildStdin>,
    /// The first line of its stdout, in JSON.
    pub(super) said: Value,
}

fn me() -> anyhow::Result<Command> {
    Ok(Command::new(std::env::current_exe().context("could not find out where this program is")?))
}

impl Process {
    /// Starts `taskgate ARGS…` and waits until it says, in a line of JSON, that it is ready.
    pub(super) async fn start(guard: &mut Guard, args: &[&str], log: &Path) -> anyhow::Result<Process> {
        let stderr = std::fs::OpenOptions::new().create(true).append(true).open(log)?;
        let mut child = me()?
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("could not start taskgate {}", args.join(" ")))?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).context("it ended at once")?;
        guard.tell('+', group).await?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("it has no stdout")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).await?;
        if line.is_empty() {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            bail!("taskgate {} did not start:\n{}", args.join(" "), log.trim_end());
        }
        let said = serde_json::from_str(&line).with_context(|| format!("it said {line:?}"))?;
        Ok(Process { child, group, _stdin: stdin, said })
    }

    pub(super) fn id(&self) -> i32 {
        self.group
    }

    /// `kill -9`: no signal handler, no goodbye.
    pub(super) async fn kill(mut self, guard: &mut Guard) -> anyhow::Result<()> {
        killpg(Pid::from_raw(self.group), Signal::SIGKILL).context("could not kill the process")?;
        self.child.wait().await?;
        guard.tell('-', self.group).await
    }

    /// SIGTERM, and the time to end in good order; SIGKILL if that is not enough.
    pub(super) async fn end(mut self) {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(8);
        // It may have ended already.
        let _ = killpg(Pid::from_raw(self.group), Signal::SIGTERM);
        if tokio::time::timeout(PATIENCE, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
