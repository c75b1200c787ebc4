//! One server process: started in a group of its own, watched, and ended with its group.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use taskgate_wire::message::{self, Malformed, Message};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::input::{Input, Read};
use super::lines::Lines;
use super::pending::{Pending, Waiting};
use super::stderr::Stderr;
use crate::config::{InheritEnv, ServerConfig, Transport};
use crate::gather::Gathering;
use crate::guard::{self, Guard};
use crate::heard::Heard;
use crate::hears::{ServerEvent, Voice};
use crate::traffic::{Origin, Traffic};

/// Lines in a row that are no messages, after which a server is given up: it does not speak MCP.
const RUBBISH_MAX: u32 = 1_000;
/// How many of them are told.
const RUBBISH_TOLD: u32 = 3;
/// How long the last output of a process that is gone is waited for.
const DRAIN: Duration = Duration::from_millis(500);

/// A running server. Dropped, it is ended.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    said: Stderr,
    lines: Arc<Lines>,
    pending: Arc<Pending>,
    closing: CancellationToken,
    ended: CancellationToken,
    _close_on_drop: DropGuard,
}

impl Process {
    /// Starts the server of `config`, whose transport is stdio.
    pub(crate) fn start(
        config: &ServerConfig,
        guard: &Arc<Guard>,
        traffic: &Arc<Traffic>,
        voice: &Arc<Voice>,
    ) -> Result<Process, String> {
        guard.prepare();
        let mut child = spawn(config)?;
        let pid = child.id().ok_or("it ended at once")?;
        let id = i32::try_from(pid).map_err(|_| "its process id is out of range")?;
        let group = Group { id, guard: guard.clone() };
        guard.add(group.id);
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(String::from("its pipes are missing"));
        };
        let writer = stdin.into_owned_fd().and_then(pipe::Sender::from_owned_fd);
        let lines = Lines::new(writer.map_err(|error| format!("its input cannot be used: {error}"))?);
        let pending = Arc::new(Pending::default());
        let said = Stderr::default();

        voice.event(&ServerEvent::Started { pid });
        let stderr = tokio::spawn({
            let (voice, said) = (voice.clone(), said.clone());
            async move { said.read(&voice, stderr).await }
        });
        let reader = Reader {
            voice: voice.clone(),
            said: said.clone(),
            input: Input::new(stdout, config.message_bytes_max),
            lines: lines.clone(),
            pending: pending.clone(),
            traffic: traffic.clone(),
            rubbish: 0,
        };
        let reader = tokio::spawn(reader.run());
        tokio::spawn({
            let lines = lines.clone();
            async move { lines.run().await }
        });
        let closing = CancellationToken::new();
        let ended = CancellationToken::new();
        let supervisor = Supervisor {
            pid,
            voice: voice.clone(),
            child,
            group,
            lines: lines.clone(),
            pending: pending.clone(),
            said: said.clone(),
            closing: closing.clone(),
            grace: config.grace,
        };
        let ended_guard = ended.clone().drop_guard();
        tokio::spawn(async move {
            supervisor.run(reader, stderr).await;
            drop(ended_guard);
        });
        Ok(Process {
            pid,
            said,
            lines,
            pending,
            closing: closing.clone(),
            ended,
            _close_on_drop: closing.drop_guard(),
        })
    }

    /// Its id, and its group's.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// What it last said, in words that go behind a reason; nothing if it said nothing.
    pub(crate) fn last_words(&self) -> String {
        self.said.quote()
    }

    /// Sends a request.
    pub(crate) fn ask(&self, id: u64, message: bytes::Bytes) -> Result<Waiting, Heard> {
        self.pending.send(&self.lines, id, message)
    }

    /// Sends a notification or a response.
    pub(crate) fn tell(&self, message: bytes::Bytes) -> Result<(), &'static str> {
        self.lines.send(None, message)
    }

    /// Why it can no longer be used, once that is so.
    pub(crate) fn over(&self) -> Option<String> {
        self.pending.over()
    }

    /// Resolves when it is gone.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// The same, for somebody who must not keep it.
    pub(crate) fn ending(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        self.ended.clone().cancelled_owned()
    }

    /// Whether it is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Ends it: closes its stdin, waits, then SIGTERM, then SIGKILL to its group (A-015, B-053).
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.ended.cancelled().await;
    }
}

fn spawn(config: &ServerConfig) -> Result<Child, String> {
    let Transport::Stdio { command, args, env, cwd, inherit_env } = &config.transport else {
        return Err(String::from("it is not reached over stdio"));
    };
    let mut builder = Command::new(command);
    builder
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if *inherit_env == InheritEnv::Nothing {
        builder.env_clear();
    }
    for (name, value) in env {
        builder.env(name, value.expose_os());
    }
    if let Some(cwd) = cwd {
        builder.current_dir(cwd);
    }
    builder.spawn().map_err(|error| {
        let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.expose());
        let why = why_not(command, cwd.as_deref(), path, &error);
        format!("{} does not start: {why}", command.to_string_lossy())
    })
}

/// Why a program does not start, for a person: the system says the same of a program, its folder and its interpreter
/// that are missing.
fn why_not(command: &OsStr, cwd: Option<&Path>, path: Option<&str>, error: &io::Error) -> String {
    if let Some(cwd) = cwd.filter(|cwd| !cwd.is_dir()) {
        return format!("there is no folder {}, in which it is to run", cwd.display());
    }
    let program = cwd.map_or_else(|| PathBuf::from(command), |cwd| cwd.join(command));
    let is_path = Path::new(command).components().count() > 1;
    let kind = error.kind();
    if kind == io::ErrorKind::NotFound && !is_path {
        return match path {
            Some(path) => format!("no such command was found in PATH, which is {path}"),
            None => String::from("no such command was found in PATH"),
        };
    }
    if kind == io::ErrorKind::NotFound && program.exists() {
        return String::from("the interpreter that its first line names is missing");
    }
    if kind == io::ErrorKind::NotFound {
        return String::from("there is no such file");
    }
    if kind == io::ErrorKind::PermissionDenied && program.is_file() {
        return String::from("the file may not be executed; `chmod +x` allows it");
    }
    error.to_string()
}

/// Its process group, killed when this goes.
#[derive(Debug)]
struct Group {
    id: i32,
    guard: Arc<Guard>,
}

impl Drop for Group {
    fn drop(&mut self) {
        guard::kill(self.id);
        self.guard.remove(self.id);
    }
}

/// Waits for the end, or brings it about.
struct Supervisor {
    pid: u32,
    voice: Arc<Voice>,
    child: Child,
    group: Group,
    lines: Arc<Lines>,
    pending: Arc<Pending>,
    said: Stderr,
    closing: CancellationToken,
    grace: Duration,
}

impl Supervisor {
    async fn run(mut self, mut reader: JoinHandle<&'static str>, stderr: JoinHandle<()>) {
        let mut output_over = false;
        let what = tokio::select! {
            status = self.child.wait() => Ended::By(status.ok()),
            reason = &mut reader => {
                output_over = true;
                let reason = reason.unwrap_or(CLOSED_OUTPUT);
                match reason {
                    // Its output closes a moment before it is gone.
                    CLOSED_OUTPUT => match timeout(DRAIN, self.child.wait()).await {
                        Ok(status) => Ended::By(status.ok()),
                        Err(_) => Ended::Unfit(reason),
                    },
                    _ => Ended::Unfit(reason),
                }
            }
            () = self.lines.broken() => match timeout(DRAIN, self.child.wait()).await {
                Ok(status) => Ended::By(status.ok()),
                Err(_) => Ended::Unfit("it closed its input"),
            },
            () = self.closing.cancelled() => Ended::Closed,
        };
        match &what {
            Ended::By(_) => {}
            Ended::Closed => {
                // Nobody can be answered any more, and nothing new is taken.
                self.pending.end(&self.lines, "it was closed");
                self.wind_down().await;
            }
            Ended::Unfit(reason) => {
                self.pending.end(&self.lines, &(String::from(*reason) + &self.said.quote()));
                self.wind_down().await;
            }
        }
        // Grandchildren may hold the pipes open.
        guard::kill(self.group.id);
        self.lines.close();
        if !output_over && timeout(DRAIN, &mut reader).await.is_err() {
            reader.abort();
        }
        let abort = stderr.abort_handle();
        if timeout(DRAIN, stderr).await.is_err() {
            abort.abort();
        }
        let reason = what.words() + &self.said.quote();
        let server = &self.voice.server;
        let is_wanted = match what {
            Ended::Closed => {
                tracing::debug!(server, "a server was closed");
                true
            }
            Ended::By(_) | Ended::Unfit(_) => {
                tracing::warn!(server, reason, "a server ended");
                false
            }
        };
        self.pending.end(&self.lines, &reason);
        self.voice.event(&ServerEvent::Ended { pid: self.pid, reason, is_wanted });
    }

    async fn wind_down(&mut self) {
        self.lines.close();
        if timeout(self.grace, self.child.wait()).await.is_ok() {
            return;
        }
        guard::signal(self.group.id, Signal::SIGTERM);
        if timeout(self.grace, self.child.wait()).await.is_ok() {
            return;
        }
        guard::kill(self.group.id);
        let _ = self.child.wait().await;
    }
}

const CLOSED_OUTPUT: &str = "it closed its output";

/// How it came to its end.
#[derive(Debug)]
enum Ended {
    /// By itself or by somebody's signal.
    By(Option<ExitStatus>),
    /// By us, because it could not be talked with.
    Unfit(&'static str),
    /// By us, because it is no longer needed.
    Closed,
}

impl Ended {
    fn words(&self) -> String {
        match self {
            Ended::By(Some(status)) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("its process exited with status {code}"),
                (None, Some(signal)) => format!("its process was killed by signal {signal}"),
                (None, None) => String::from("its process ended"),
            },
            Ended::By(None) => String::from("its process ended"),
            Ended::Unfit(reason) => String::from(*reason),
            Ended::Closed => String::from("it was closed"),
        }
    }
}

/// Reads what the server says.
struct Reader {
    voice: Arc<Voice>,
    said: Stderr,
    input: Input<tokio::process::ChildStdout>,
    lines: Arc<Lines>,
    pending: Arc<Pending>,
    traffic: Arc<Traffic>,
    rubbish: u32,
}

impl Reader {
    /// Until the end of the output, or until the server proves that it speaks no MCP. Gives the reason.
    async fn run(mut self) -> &'static str {
        loop {
            match self.input.next().await {
                Read::Line(line) if line.iter().all(u8::is_ascii_whitespace) => {}
                Read::Line(line) => match message::parse(line.clone()) {
                    Ok(message) => self.hear(message, None),
                    Err(Malformed::Batch) => self.hear_batch(&line),
                    Err(malformed) => {
                        // The answer to a request of ours, and no such thing: whoever waits need not wait on.
                        if let Some(id) = malformed.id().and_then(taskgate_wire::RequestId::as_u64) {
                            let why = format!("its answer cannot be read: {malformed}");
                            self.pending.resolve(id, Heard::Nonsense(why));
                        }
                        if !self.skip(&line, &malformed) {
                            return "it floods its output with what is no MCP message";
                        }
                    }
                },
                Read::TooLong { head, tail } => {
                    let mine = id_within(&head, &self.pending).or_else(|| id_within(&tail, &self.pending));
                    let Some(id) = mine else { return "it sent a message longer than the limit" };
                    self.pending
                        .resolve(id, Heard::Nonsense(String::from("its answer is longer than the limit")));
                }
                Read::End => return CLOSED_OUTPUT,
            }
        }
    }

    /// `batch` is what it came in, if not alone.
    fn hear(&mut self, message: Message, batch: Option<&Arc<Gathering>>) {
        self.rubbish = 0;
        match message {
            Message::Response(response) => {
                let id = response.id().and_then(taskgate_wire::RequestId::as_u64);
                let was_awaited = id.is_some_and(|id| self.pending.resolve(id, Heard::response(&response)));
                if !was_awaited {
                    // Late, or to nothing we asked.
                    tracing::debug!(server = self.voice.server, "an answer that nobody waits for");
                    if let Some(id) = id {
                        self.traffic.answered_late(id);
                    }
                }
            }
            Message::Notification(notification) => self.traffic.notified(&Origin::Pipe, &notification),
            Message::Request(request) => match batch {
                Some(batch) => self.traffic.asked(&Origin::Pipe, &request, batch.slot()),
                None => {
                    let lines = self.lines.clone();
                    self.traffic.asked(&Origin::Pipe, &request, move |reply| {
                        // The process may be gone, and the question with it.
                        let _ = lines.send(None, reply);
                    });
                }
            },
        }
    }

    /// Only 2025-03-26 has batches (D-005); they are taken from whoever sends one. Replies go back together.
    ///
    /// Leniency: batch-of-any-server
    fn hear_batch(&mut self, line: &bytes::Bytes) {
        let lines = self.lines.clone();
        let batch = Gathering::new(move |replies| {
            let _ = lines.send(None, replies);
        });
        for message in message::parse_batch(line).unwrap_or_default().into_iter().flatten() {
            self.hear(message, Some(&batch));
        }
    }

    /// `false` once it is too much.
    ///
    /// Leniency: rubbish-between-messages
    fn skip(&mut self, line: &[u8], malformed: &Malformed) -> bool {
        self.rubbish += 1;
        if self.rubbish <= RUBBISH_TOLD {
            let server = &self.voice.server;
            tracing::warn!(server, %malformed, "a line of a server's output is no MCP message");
            let line = self.voice.line(line);
            self.said.keep(line.clone());
            self.voice.event(&ServerEvent::Rubbish { line });
        }
        self.rubbish < RUBBISH_MAX
    }
}

/// The id of a request that waits, as it stands in a part of a message that was too long to keep.
fn id_within(part: &[u8], pending: &Pending) -> Option<u64> {
    let text = String::from_utf8_lossy(part);
    text.match_indices("\"id\":").find_map(|(at, key)| {
        let rest = text.get(at + key.len()..)?.trim_start();
        let digits = rest.split(|char: char| !char.is_ascii_digit()).next()?;
        digits.parse().ok().filter(|id| pending.awaits(*id))
    })
}
