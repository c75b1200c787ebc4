//! A client that starts a server and speaks with it over its stdin and stdout.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, timeout};

/// How long an answer may take before something is wrong.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A server's command, with all that it needs.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) words: Vec<String>,
    /// The whole environment.
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) folder: PathBuf,
    /// What it says on stderr goes to the end of this file.
    pub(crate) log: PathBuf,
}

/// One session.
#[derive(Debug)]
pub(crate) struct Talk {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
    request: Vec<u8>,
    answer: String,
}

impl Talk {
    /// Starts it, opens a session and lists the tools, as a host does; and how long that took.
    pub(crate) async fn open(line: &Line) -> Result<(Talk, Duration)> {
        let log = std::fs::File::options().create(true).append(true).open(&line.log)?;
        let (program, args) = line.words.split_first().context("no command")?;
        let started = Instant::now();
        let mut child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(line.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(&line.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let stdin = child.stdin.take().context("no stdin")?;
        let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut talk = Talk { child, stdin, stdout, next: 0, request: Vec::new(), answer: String::new() };
        let hello = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\
            \"clientInfo\":{\"name\":\"bench\",\"version\":\"1\"}}";
        let opened = async {
            talk.ask("initialize", hello, "\"serverInfo\"").await?;
            let opened = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
            talk.stdin.write_all(opened).await?;
            talk.ask("tools/list", "{}", "\"inputSchema\"").await
        };
        let opened = opened.await;
        opened.with_context(|| format!("see {}", line.log.display()))?;
        Ok((talk, started.elapsed()))
    }

    /// Asks, and checks that the answer is ours and has `needle` in it.
    pub(crate) async fn ask(&mut self, method: &str, params: &str, needle: &str) -> Result<()> {
        self.next += 1;
        self.request.clear();
        writeln!(
            self.request,
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\",\"params\":{params}}}",
            self.next
        )?;
        self.stdin.write_all(&self.request).await?;
        // Servers write it first or last.
        let ids = [",", "}"].map(|after| format!("\"id\":{}{after}", self.next));
        loop {
            self.answer.clear();
            let read = timeout(ANSWER_MAX, self.stdout.read_line(&mut self.answer)).await;
            ensure!(read.with_context(|| format!("no answer to {method}"))?? > 0, "it ended");
            if ids.iter().any(|id| self.answer.contains(id)) {
                break;
            }
            // A notification is nothing to us, a question would be.
            ensure!(!self.answer.contains("\"id\":"), "not an answer to {method}: {}", self.answer);
        }
        if !self.answer.contains(needle) {
            bail!("{method} was answered by {}", self.answer);
        }
        Ok(())
    }

    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("it has ended")
    }

    /// Closes its stdin and waits for its end.
    pub(crate) async fn close(self) -> Result<()> {
        let Talk { mut child, stdin, stdout, .. } = self;
        drop((stdin, stdout));
        timeout(ANSWER_MAX, child.wait()).await.context("it does not end with its stdin")??;
        Ok(())
    }
}
