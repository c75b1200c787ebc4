//! The servers of attachments: added when the first host of a key comes, taken out when nothing of them lives.

use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use taskgate_client::config::{EraChoice, InheritEnv, ServerConfig, Sharing, Transport};
use taskgate_client::{Hears, Secret, ServerEvent};
use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::Millis;
use taskgate_engine::recover::Recovered;
use taskgate_gateway::config::{Sees, ServerPolicy, ToolPolicy};
use taskgate_wire::text::SafeText;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::attachment::{self, Attachment, Era, Reach, Tool, Treatment};
use crate::keeper::{Attached, Keeper, Line, Presence};
use crate::key::{self, Key};

/// Unfinished records that are looked at in one go.
const LOOK_PAGE: usize = 256;

/// How long a name that another command has is waited for: a host that was just closed, to have its server's command
/// changed, may still be going.
const NAME: Duration = Duration::from_secs(6);
/// How often it is looked whether the name is free.
const NAME_LOOK: Duration = Duration::from_millis(50);

/// A server that somebody attached to.
pub(crate) struct Known {
    /// What its name stands for.
    meaning: [u8; 32],
    /// What is started, for people.
    command: String,
    /// Its last sessions are closing; cancelled when they are closed.
    closing: Option<CancellationToken>,
    /// It is being looked whether something of it lives.
    is_looked_after: bool,
}

/// A pipe that is served.
pub(crate) struct Admitted {
    pub(crate) key: Key,
    /// Its number on the list of attached pipes.
    pub(crate) number: u64,
    /// It stays on the list as long as this lives.
    pub(crate) presence: Presence,
}

/// Why an attachment is not served, in words.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotServed {
    /// The name is another command's.
    #[error(
        "the name {name:?} stands for another command ({other}), which a host uses or which still has work under way; give this one another name with --name, or end the other first"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// What it stands for.
        other: String,
    },
    /// We are going.
    #[error("the keeper is ending")]
    Leaving,
}

impl Keeper {
    /// Finds or adds the server of an attachment, and notes that it is there. What waited for the server is taken up.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        attachment: &Attachment,
        lines: mpsc::Sender<Line>,
    ) -> Result<Admitted, NotServed> {
        let key = Key::of(attachment, &self.parts.engine.store().secret());
        let meaning = key::meaning(attachment);
        let begun = Instant::now();
        while let Some(other) = self.other_command(&key.server, meaning) {
            if !self.is_attached(&key.server) && !self.lives(&key.server).await {
                self.parts.servers.remove(&key.server).await;
                break;
            }
            if begun.elapsed() >= NAME {
                let name = attachment.name.clone().unwrap_or_else(|| key.server.0.clone());
                return Err(NotServed::NameTaken { name, other });
            }
            tokio::time::sleep(NAME_LOOK).await;
        }
        // A process of the same key that is just ending must not run beside its successor.
        let closing = self.state.lock().known.get(&key.server).and_then(|known| known.closing.clone());
        if let Some(closing) = closing {
            closing.cancelled().await;
        }
        if self.leaving.is_cancelled() {
            return Err(NotServed::Leaving);
        }
        let number = {
            let mut state = self.state.lock();
            self.parts.servers.add(config(attachment, &key, self));
            self.parts.gateway.add_server(policy(&attachment.treatment, &key.server));
            state.known.insert(
                key.server.clone(),
                Known { meaning, command: command_words(attachment), closing: None, is_looked_after: false },
            );
            state.enter(Attached {
                id: attachment.id,
                key: key.clone(),
                host_pid: attachment.host_pid,
                since: self.parts.engine.clock().now(),
                client: None,
                lines,
            })
        };
        let presence = Presence { keeper: self.clone(), number };
        match self.parts.engine.take_up(&key.server).await {
            Ok(found) if found == Recovered::default() => {}
            Ok(found) => {
                tracing::info!(server = %key.server, ?found, "took up the work that waited for a server")
            }
            Err(error) => {
                tracing::error!(server = %key.server, %error, "the work that waits for a server could not be taken up")
            }
        }
        Ok(Admitted { key, number, presence })
    }

    fn is_attached(&self, server: &ServerName) -> bool {
        self.state.lock().attached.values().any(|attached| attached.key.server == *server)
    }

    /// The command that a server's name stands for, if that is another.
    fn other_command(&self, server: &ServerName, meaning: [u8; 32]) -> Option<String> {
        let state = self.state.lock();
        let known = state.known.get(server).filter(|known| known.meaning != meaning)?;
        Some(known.command.clone())
    }

    /// Whether a call of a server is under way or waits for its turn.
    async fn lives(&self, server: &ServerName) -> bool {
        if self.parts.engine.live() == 0 {
            return false;
        }
        let mut after = None;
        loop {
            let Ok(page) = self.parts.engine.store().unfinished(after, LOOK_PAGE).await else {
                // Nobody knows: it is asked again.
                return true;
            };
            if page.iter().any(|record| record.call.server == *server) {
                return true;
            }
            let last = page.last().map(|record| record.id.clone());
            if page.len() < LOOK_PAGE || last.is_none() {
                return false;
            }
            after = last;
        }
    }

    /// Ends the processes that nobody is attached to and of which nothing lives. At once: a developer who starts the
    /// server again in the host gets the new program.
    pub(crate) fn look_after_servers(self: &Arc<Self>) {
        let idle: Vec<ServerName> = {
            let mut state = self.state.lock();
            let attached: Vec<ServerName> =
                state.attached.values().map(|attached| attached.key.server.clone()).collect();
            let idle = state.known.iter_mut().filter(|(name, known)| {
                !known.is_looked_after && known.closing.is_none() && !attached.contains(name)
            });
            idle.map(|(name, known)| {
                known.is_looked_after = true;
                name.clone()
            })
            .collect()
        };
        for server in idle {
            let keeper = self.clone();
            tokio::spawn(async move { keeper.retire(server).await });
        }
    }

    pub(crate) async fn retire(self: Arc<Self>, server: ServerName) {
        let lives = self.lives(&server).await;
        let mut state = self.state.lock();
        let is_attached = state.attached.values().any(|attached| attached.key.server == server);
        let Some(known) = state.known.get_mut(&server) else { return };
        known.is_looked_after = false;
        if lives || is_attached || known.closing.is_some() {
            return;
        }
        // It is taken out of the list now, before anybody can attach to it again; its end is waited for elsewhere.
        let mut removal = Box::pin({
            let (keeper, server) = (self.clone(), server.clone());
            async move {
                keeper.parts.servers.remove(&server).await;
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        if removal.as_mut().poll(&mut context).is_ready() {
            state.known.remove(&server);
            self.parts.gateway.remove_server(&server);
            return;
        }
        let closed = CancellationToken::new();
        known.closing = Some(closed.clone());
        let keeper = self.clone();
        self.removals.spawn(async move {
            removal.await;
            keeper.forget(&server);
            closed.cancel();
            keeper.changed.notify_one();
        });
    }

    /// A server that is closed; unless somebody came meanwhile, who waits for just that.
    fn forget(&self, server: &ServerName) {
        let mut state = self.state.lock();
        if state.known.get(server).is_some_and(|known| known.closing.is_some()) {
            state.known.remove(server);
            self.parts.gateway.remove_server(server);
        }
    }
}

fn config(attachment: &Attachment, key: &Key, keeper: &Arc<Keeper>) -> ServerConfig {
    let transport = match &attachment.reach {
        Reach::Command { command, folder, environment } => {
            let mut words = command.iter().map(|word| word.0.clone());
            Transport::Stdio {
                command: words.next().unwrap_or_default(),
                args: words.collect(),
                env: environment.iter().filter_map(|(name, value)| variable(&name.0, &value.0)).collect(),
                cwd: Some(PathBuf::from(&folder.0)),
                inherit_env: InheritEnv::Nothing,
            }
        }
        Reach::Http { url, headers } => Transport::Http {
            url: url.clone(),
            headers: headers.iter().filter_map(|(name, value)| variable(name.as_ref(), &value.0)).collect(),
        },
    };
    let mut config = ServerConfig::new(&key.server.0, transport);
    config.era = match attachment.era {
        Era::Auto => EraChoice::Auto,
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    };
    config.sharing = Sharing::First;
    config.idle = Duration::MAX;
    config.hears = Some(Arc::new(Voice { server: key.server.clone(), keeper: Arc::downgrade(keeper) }));
    config
}

/// Values may be any bytes. A name that is no text cannot be asked for by any program that we know of.
fn variable(name: &std::ffi::OsStr, value: &OsString) -> Option<(String, Secret)> {
    Some((name.to_str()?.to_owned(), Secret::new(value.clone())))
}

/// How the calls of one attachment are treated.
fn policy(treatment: &Treatment, server: &ServerName) -> ServerPolicy {
    let mut policy = ServerPolicy::new(server.clone());
    policy.trust_annotations = treatment.trust_annotations;
    policy.sync_budget = treatment.answer_within_ms.map(Millis);
    policy.sees = Sees::Principal;
    policy.default = tool(treatment.default);
    policy.tools = treatment.tools.iter().map(|(name, own)| (name.clone(), tool(*own))).collect();
    policy
}

fn tool(own: Tool) -> ToolPolicy {
    ToolPolicy {
        effect: match own.effect {
            attachment::Effect::ReadOnly => Effect::ReadOnly,
            attachment::Effect::Reversible => Effect::Reversible,
            attachment::Effect::Consequential => Effect::Consequential,
        },
        mode: match own.mode {
            attachment::Mode::Auto => ToolMode::Auto,
            attachment::Mode::Task => ToolMode::Task,
            attachment::Mode::Sync => ToolMode::Sync,
        },
        replay: match own.replay {
            attachment::Replay::Never => Replay::Never,
            attachment::Replay::Natural => Replay::Natural,
            attachment::Replay::KeyedMs(window) => Replay::Keyed { window: Millis(window) },
        },
    }
}

/// The program, for people: arguments may hold secrets.
fn command_words(attachment: &Attachment) -> String {
    match &attachment.reach {
        Reach::Command { command, .. } => {
            let program = command.first().map_or("?".into(), |word| word.0.to_string_lossy());
            match command.len() {
                0 | 1 => format!("`{program}`"),
                2 => format!("`{program}` with an argument"),
                more => format!("`{program}` with {} arguments", more - 1),
            }
        }
        Reach::Http { .. } => String::from("an HTTP server"),
    }
}

/// What a server says, on its way to its log and to the hosts' stderr.
struct Voice {
    server: ServerName,
    keeper: Weak<Keeper>,
}

impl Voice {
    fn log(&self, line: &str) -> Option<Arc<Keeper>> {
        let keeper = self.keeper.upgrade()?;
        keeper.logs.line(&self.server.0, keeper.parts.engine.clock().now(), line);
        Some(keeper)
    }
}

impl Hears for Voice {
    fn stderr(&self, line: &SafeText) {
        if let Some(keeper) = self.log(&format!("stderr: {}", line.as_str())) {
            keeper.tell(&self.server, &Line::Server(line.as_str().to_owned()));
        }
    }

    fn event(&self, what: &ServerEvent) {
        let (line, notice) = match what {
            ServerEvent::Started { pid } => (format!("started: process {pid}"), None),
            ServerEvent::Opened { version, name } => {
                let name = name.as_ref().map_or("a server without a name", |name| name.as_str());
                (format!("opened: {name}, protocol {version}"), None)
            }
            ServerEvent::Failed { reason } => {
                let words = format!("failed: {reason}");
                (words, Some(format!("the server could not be opened: {reason}")))
            }
            ServerEvent::Rubbish { line } => {
                let words = format!("it printed a line that is no MCP message: {}", line.as_str());
                (format!("rubbish: {}", line.as_str()), Some(words))
            }
            ServerEvent::Ended { pid, reason, is_wanted } => (
                format!("ended: process {pid}, {reason}"),
                (!is_wanted).then(|| format!("the server ended: {reason}")),
            ),
        };
        if let (Some(keeper), Some(notice)) = (self.log(&line), notice) {
            keeper.tell(&self.server, &Line::Notice(notice));
        }
    }
}
