//! The servers of attachments: added when the first host of a key comes, taken out when nothing of them lives.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use taskgate_client::config::{EraChoice, InheritEnv, ServerConfig, Sharing, Transport};
use taskgate_client::{Hears, Secret, ServerEvent};
use taskgate_core::gate::ToolMode;
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::Millis;
use taskgate_engine::back::BackKey;
use taskgate_engine::recover::Recovered;
use taskgate_gateway::config::{Sees, ServerPolicy, ToolPolicy};
use taskgate_wire::offers::Offers;
use taskgate_wire::text::SafeText;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::attachment::{self, Asked, Attachment, Declared, Era, Reach, Tool, Treatment};
use crate::keeper::{Attached, Keeper, Line, Presence, State};
use crate::key::{self, Key};
use crate::workflows::{Bringing, Equipment};

/// Unfinished records that are looked at in one go.
const LOOK_PAGE: usize = 256;

/// How long a name that another command has is waited for: a host that was just closed, to have its server's command
/// changed, may still be going.
const NAME: Duration = Duration::from_secs(6);
/// How often it is looked whether the name is free.
const NAME_LOOK: Duration = Duration::from_millis(50);

/// How long the session with a server is waited for before it is used to ask something.
const OPENED: Duration = Duration::from_secs(5);

/// A server that somebody attached to.
pub(crate) struct Known {
    /// What its name stands for.
    meaning: [u8; 32],
    /// What is started, for people.
    command: String,
    /// Servers that only its workflows ask.
    asides: Vec<ServerName>,
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
    /// Another host of this server has other workflows, or none. Two rules at once would give one payment two keys.
    #[error(
        "another host (process {host}) uses the server {server:?} with other workflows, or with none: what must not happen twice would have two keys; give all hosts of it the same --config, and start those anew that run since before it was changed"
    )]
    OtherWorkflows {
        /// The server.
        server: String,
        /// The other host.
        host: u32,
    },
    /// Its workflows are refused, and why.
    #[error("{0}")]
    Workflows(String),
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
        let (number, notices) = loop {
            let admitting = self.admitting.lock().await;
            // A process of the same key that is just ending must not run beside its successor.
            let closing = self.state.lock().known.get(&key.server).and_then(|known| known.closing.clone());
            if let Some(closing) = closing {
                // Hosts of other servers need not wait for that.
                drop(admitting);
                closing.cancelled().await;
                continue;
            }
            if self.leaving.is_cancelled() {
                return Err(NotServed::Leaving);
            }
            match self.hindrance(attachment, &key, meaning).await {
                None => break self.enter(attachment, &key, meaning, &lines).await?,
                Some(hindrance) if begun.elapsed() >= NAME => return Err(hindrance),
                Some(_) => {}
            }
            drop(admitting);
            tokio::time::sleep(NAME_LOOK).await;
        };
        let presence = Presence { keeper: self.clone(), number };
        for notice in notices {
            tracing::warn!(server = %key.server, "{notice}");
            // One whose host does not read it stands in the log.
            let _ = lines.try_send(Line::Notice(notice));
        }
        match self.parts.engine.take_up(&key.server).await {
            Ok(found) if found == Recovered::default() => {}
            Ok(found) => {
                tracing::info!(server = %key.server, ?found, "took up the work that waited for a server")
            }
            Err(error) => {
                tracing::error!(server = %key.server, %error, "the work that waits for a server could not be taken up")
            }
        }
        if attachment.workflows.is_some() {
            self.ask_soon(&key.server);
        }
        Ok(Admitted { key, number, presence })
    }

    /// What stands against serving an attachment, and may be over in a moment.
    async fn hindrance(&self, attachment: &Attachment, key: &Key, meaning: [u8; 32]) -> Option<NotServed> {
        if let Some(other) = self.other_command(&key.server, meaning) {
            if self.is_attached(&key.server) || self.lives(&key.server).await {
                let name = attachment.name.clone().unwrap_or_else(|| key.server.0.clone());
                return Some(NotServed::NameTaken { name, other });
            }
            self.take_out(&key.server).await;
        }
        let written = attachment.workflows.as_ref().map(|declared| declared.written.as_str());
        let state = self.state.lock();
        let mut of_scope = state.attached.values().filter(|attached| attached.key.scope == key.scope);
        let other = of_scope.find(|attached| attached.written.as_deref() != written)?;
        Some(NotServed::OtherWorkflows { server: key.base.clone(), host: other.host_pid })
    }

    /// Takes what an attachment brings, and notes that it is there; its number, and what is to be told to its host.
    async fn enter(
        self: &Arc<Self>,
        attachment: &Attachment,
        key: &Key,
        meaning: [u8; 32],
        lines: &mpsc::Sender<Line>,
    ) -> Result<(u64, Vec<String>), NotServed> {
        let declared = attachment.workflows.as_ref();
        let mut policy = policy(&attachment.treatment, &key.server);
        let mut config = config(attachment, key, self);
        let mut asides = Vec::new();
        let mut notices = Vec::new();
        // Whoever has none is told of those that there were.
        if declared.is_some() || self.parts.workflows.knows(&key.base) {
            let held = self.parts.engine.store().held().await;
            let held = held.map_err(|error| NotServed::Workflows(error.to_string()))?;
            let asked = asked_names(declared, &key.server);
            let bringing =
                Bringing { declared, server: &key.server, base: &key.base, asked: &asked, held: &held };
            let is_live = self.lives(&key.server).await;
            let Equipment { equip, hold, own, notices: told } =
                self.parts.workflows.bring(&bringing).map_err(NotServed::Workflows)?;
            equip(&mut policy, &mut config);
            notices = told;
            let before = self.parts.servers.config(&key.server);
            if before.is_some_and(|before| before.key_headers != config.key_headers) {
                if self.is_attached(&key.server) || is_live {
                    let words = format!(
                        "the header in which {:?} gets its keys was changed while calls of it are under way; start this again when they are over (`taskgate tasks` shows them)",
                        key.base
                    );
                    return Err(NotServed::Workflows(words));
                }
                self.take_out(&key.server).await;
            }
            hold();
            self.parts.engine.limits().brought.put(&key.server, own, is_live);
            for (name, server) in asked {
                let Some(asked) = declared.and_then(|declared| declared.asked.get(&name)) else { continue };
                // It may be reached in another way by now; nobody waits for anything but a look, which is made again.
                self.parts.servers.remove(&server).await;
                self.parts.servers.add(aside(asked, &server, self.voice(&server)));
                asides.push(server);
            }
        }
        let mut state = self.state.lock();
        self.parts.servers.add(config);
        self.parts.gateway.add_server(policy);
        state.known.insert(
            key.server.clone(),
            Known {
                meaning,
                command: command_words(attachment),
                asides,
                closing: None,
                is_looked_after: false,
            },
        );
        let number = state.enter(Attached {
            id: attachment.id,
            key: key.clone(),
            host_pid: attachment.host_pid,
            since: self.parts.engine.clock().now(),
            written: declared.map(|declared| declared.written.clone()),
            client: None,
            lines: lines.clone(),
        });
        Ok((number, notices))
    }

    /// Ends a server that nobody uses, with those that only it asked.
    async fn take_out(&self, server: &ServerName) {
        let asides =
            self.state.lock().known.get(server).map(|known| known.asides.clone()).unwrap_or_default();
        for name in [server].into_iter().chain(&asides) {
            self.parts.servers.remove(name).await;
        }
    }

    /// Has systems of record asked once the session with a server is open: it is opened with what its host can be asked,
    /// so a look-up must not be the first to use it. A host that never uses it holds them up for a moment only.
    fn ask_soon(self: &Arc<Self>, server: &ServerName) {
        let (keeper, server) = (self.clone(), server.clone());
        tokio::spawn(async move {
            if !keeper.parts.servers.running().iter().any(|running| running.server == server) {
                tokio::select! {
                    () = tokio::time::sleep(OPENED) => {}
                    () = keeper.leaving.cancelled() => return,
                }
            }
            keeper.ask_now(&server).await;
        });
    }

    async fn ask_now(&self, server: &ServerName) {
        let workflows = self.parts.workflows.open(server);
        if let Err(error) = self.parts.engine.rules_came(&workflows).await {
            tracing::warn!(%server, %error, "it could not be looked who is to be told of operations that wait");
        }
    }

    /// The session with a server was opened.
    async fn opened(self: Arc<Self>, server: ServerName) {
        if self.parts.workflows.of(&server).is_empty() {
            return;
        }
        self.ask_now(&server).await;
        let offers = Offers::none().to_stored();
        let key = BackKey { server: server.clone(), principal: Principal::gateway(), offers };
        let Ok(session) = self.parts.servers.session(&key).await else { return };
        // A server that does not say what it has is told of where it is asked.
        let Ok(tools) = session.tools().await else { return };
        for line in self.parts.workflows.missing(&server, &|tool| tools.get(tool).is_some()) {
            tracing::warn!(%server, "{line}");
            self.tell(&server, &Line::Notice(line));
        }
    }

    /// Whether the system of record of one of these servers' workflows is asked after something.
    pub(crate) fn asks_after_any(&self) -> bool {
        let known: Vec<ServerName> = self.state.lock().known.keys().cloned().collect();
        known.iter().any(|server| self.asks_after(server))
    }

    fn asks_after(&self, server: &ServerName) -> bool {
        let workflows = self.parts.workflows.of(server);
        workflows.iter().any(|workflow| self.parts.engine.asks_after(workflow))
    }

    fn voice(self: &Arc<Self>, server: &ServerName) -> Arc<Voice> {
        Arc::new(Voice { server: server.clone(), keeper: Arc::downgrade(self) })
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
            if page.iter().any(|summary| summary.server() == server) {
                return true;
            }
            let last = page.last().map(|summary| summary.id().clone());
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
        let lives = self.lives(&server).await || self.asks_after(&server);
        let mut state = self.state.lock();
        let is_attached = state.attached.values().any(|attached| attached.key.server == server);
        let Some(known) = state.known.get_mut(&server) else { return };
        known.is_looked_after = false;
        if lives || is_attached || known.closing.is_some() {
            return;
        }
        // It is taken out of the list now, before anybody can attach to it again; its end is waited for elsewhere.
        let mut removal = Box::pin({
            let (keeper, server, asides) = (self.clone(), server.clone(), known.asides.clone());
            async move {
                for server in [server].into_iter().chain(asides) {
                    keeper.parts.servers.remove(&server).await;
                }
            }
        });
        let mut context = Context::from_waker(Waker::noop());
        if removal.as_mut().poll(&mut context).is_ready() {
            self.forget_in(&mut state, &server);
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
            self.forget_in(&mut state, server);
        }
    }

    fn forget_in(&self, state: &mut State, server: &ServerName) {
        state.known.remove(server);
        self.parts.gateway.remove_server(server);
        self.parts.workflows.leave(server);
        self.parts.engine.limits().brought.remove(server);
    }
}

/// How the store names the servers that workflows of `server` ask. No name that a person gives has such a sign.
fn asked_names(declared: Option<&Declared>, server: &ServerName) -> BTreeMap<String, ServerName> {
    let names = declared.into_iter().flat_map(|declared| declared.asked.keys());
    names.map(|name| (name.clone(), ServerName(format!("{}+{name}", server.0)))).collect()
}

/// A server that is only asked: no host has a session with it, so nobody can be asked anything in return.
fn aside(asked: &Asked, server: &ServerName, voice: Arc<Voice>) -> ServerConfig {
    let mut config = ServerConfig::new(&server.0, transport(&asked.reach));
    config.era = era(asked.era);
    config.sharing = Sharing::Nobody;
    config.hears = Some(voice);
    config
}

fn config(attachment: &Attachment, key: &Key, keeper: &Arc<Keeper>) -> ServerConfig {
    let mut config = ServerConfig::new(&key.server.0, transport(&attachment.reach));
    config.era = era(attachment.era);
    config.sharing = Sharing::First;
    config.idle = Duration::MAX;
    config.hears = Some(keeper.voice(&key.server));
    config
}

fn transport(reach: &Reach) -> Transport {
    match reach {
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
    }
}

fn era(era: Era) -> EraChoice {
    match era {
        Era::Auto => EraChoice::Auto,
        Era::Legacy => EraChoice::Legacy,
        Era::Modern => EraChoice::Modern,
    }
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
                if let Some(keeper) = self.keeper.upgrade() {
                    tokio::spawn(keeper.opened(self.server.clone()));
                }
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
