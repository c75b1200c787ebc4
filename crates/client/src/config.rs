//! How a server is reached, and what is kept to while talking with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use taskgate_core::id::ServerName;
use taskgate_engine::clock::{Clock, SystemClock};
use taskgate_engine::ids::{Random, SystemRandom};

use crate::hears::Hears;
use crate::secret::Secret;

/// One configured server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Its name in logs, errors and keys.
    pub name: ServerName,
    /// How it is reached.
    pub transport: Transport,
    /// Which era to speak with it.
    pub era: EraChoice,
    /// Who uses one session with it.
    pub sharing: Sharing,
    /// For connecting, and for starting and opening a session (design 10: 30 s).
    pub open_timeout: Duration,
    /// For a TCP and TLS connection.
    pub connect_timeout: Duration,
    /// For requests that are answered at once: a status read, a listing, a cancellation (design 10: 10 s).
    pub read_timeout: Duration,
    /// For the answer to `server/discover` over stdio (D-022 suggests 5 s).
    pub probe_timeout: Duration,
    /// The longest message taken from it (design 10: 64 MiB).
    pub message_bytes_max: usize,
    /// Sessions with it at one time.
    pub sessions_max: usize,
    /// A session that nobody used for this long, and that watches no task, is closed.
    pub idle: Duration,
    /// How long a process has to end after its stdin was closed, and again after SIGTERM.
    pub grace: Duration,
    /// How long to wait before a server that failed is started again.
    pub restart: Restart,
    /// By tool: the HTTP header in which it takes a call's idempotency key. The key is the call's own, or what stands in
    /// its `_meta["taskgate/idempotency-key"]`.
    pub key_headers: BTreeMap<String, String>,
    /// Who hears what it prints, and of its starts and ends.
    pub hears: Option<Arc<dyn Hears>>,
}

impl ServerConfig {
    /// The server with the defaults for everything else.
    #[must_use]
    pub fn new(name: &str, transport: Transport) -> ServerConfig {
        ServerConfig {
            name: ServerName(name.to_owned()),
            transport,
            era: EraChoice::Auto,
            sharing: Sharing::Apart,
            open_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(5),
            message_bytes_max: 64 << 20,
            sessions_max: 256,
            idle: Duration::from_secs(600),
            grace: Duration::from_secs(2),
            restart: Restart::default(),
            key_headers: BTreeMap::new(),
            hears: None,
        }
    }
}

/// How a server is reached.
#[derive(Clone)]
pub enum Transport {
    /// A child process, spoken to over its stdin and stdout.
    Stdio {
        /// The program.
        command: OsString,
        /// Its arguments.
        args: Vec<OsString>,
        /// What is set in its environment.
        env: Vec<(String, Secret)>,
        /// Its folder; ours if there is none.
        cwd: Option<PathBuf>,
        /// What it gets of our own environment.
        inherit_env: InheritEnv,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// What is sent with every request, credentials among it.
        headers: Vec<(String, Secret)>,
    },
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Arguments and URLs may hold credentials: only what names the server is shown.
            Transport::Stdio { command, args, .. } => {
                write!(f, "Stdio({}, {} arguments)", command.to_string_lossy(), args.len())
            }
            Transport::Http { url, .. } => write!(f, "Http({})", origin_of(url)),
        }
    }
}

/// Scheme, host and port of `url`; nothing that may be secret.
pub(crate) fn origin_of(url: &str) -> String {
    url.parse::<http::Uri>()
        .ok()
        .and_then(|uri| {
            let host = uri.host()?;
            let port = uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
            Some(format!("{}://{host}{port}", uri.scheme_str()?))
        })
        .unwrap_or_else(|| String::from("a malformed URL"))
}

/// What a child process gets of our environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InheritEnv {
    /// Everything.
    #[default]
    All,
    /// Nothing: what it needs, `PATH` among it, is set for it.
    Nothing,
}

/// Who uses one session with a server, and what the server may ask (design 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// One session for each principal and set of offers.
    #[default]
    Apart,
    /// One for all, opened with what its first user offers. Others use it whatever they offer; what it asks during
    /// the call of one who cannot be asked is a question of that call's task.
    First,
    /// One for all, which is offered no elicitation, sampling or roots.
    Nobody,
}

/// Which era to speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EraChoice {
    /// Ask the server (D-014 to D-023).
    #[default]
    Auto,
    /// `initialize` at once.
    Legacy,
    /// The stateless protocol, with no way back.
    Modern,
}

/// Waiting between starts of a server that fails: doubling from `first` to `max`, forgotten once it ran for `calm`.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    /// After the second failure in a row; the first is followed by a start at once.
    pub first: Duration,
    /// At most.
    pub max: Duration,
    /// A session that lived this long proves the server sound.
    pub calm: Duration,
}

impl Default for Restart {
    fn default() -> Restart {
        Restart {
            first: Duration::from_millis(500),
            max: Duration::from_secs(30),
            calm: Duration::from_secs(10),
        }
    }
}

/// What all servers share.
#[derive(Clone)]
pub struct Options {
    /// The command that runs [`crate::guard::main`]: this binary and its hidden argument. Without it, a server
    /// process outlives us if we are killed and it does not end at the end of its stdin.
    pub guard: Option<Vec<OsString>>,
    /// Stamps what a manifest says was heard.
    pub clock: Arc<dyn Clock>,
    /// For jitter.
    pub random: Arc<dyn Random>,
    /// Our version, as `clientInfo` gives it.
    pub version: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            guard: None,
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("guard", &self.guard).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_credentials() {
        let stdio = Transport::Stdio {
            command: "npx".into(),
            args: vec!["--token=hunter2".into()],
            env: vec![("KEY".to_owned(), Secret::new("hunter2"))],
            cwd: None,
            inherit_env: InheritEnv::All,
        };
        let http = Transport::Http {
            url: "https://user:hunter2@example.com:8443/mcp?key=hunter2".to_owned(),
            headers: vec![("authorization".to_owned(), Secret::new("hunter2"))],
        };
        let shown = format!("{:?} {:?}", ServerConfig::new("a", stdio), ServerConfig::new("b", http));
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("https://example.com:8443"), "{shown}");
    }
}
