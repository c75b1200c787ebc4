//! The first words with a server: which era it speaks, and the handshake.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use taskgate_wire::handshake::{BackSelf, initialize_params};
use taskgate_wire::json;
use taskgate_wire::message::{self, Message, Response};
use taskgate_wire::meta::modern::{self, ModernMeta};
use taskgate_wire::probe::{self, Verdict};
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::text::SafeText;
use taskgate_wire::{Era, RequestId, Version};
use tokio::time::timeout;

use crate::config::{EraChoice, Options, ServerConfig};
use crate::guard::Guard;
use crate::heard::Heard;
use crate::hears::Voice;
use crate::http::{Care, Endpoint, mirrored};
use crate::link::{HttpLink, Link, Posting};
use crate::manifest::{Evidence, Manifest};
use crate::stdio::{Process, Waiting};
use crate::traffic::Traffic;

/// How long the end of a process that has closed its input is waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What an opening needs.
pub(crate) struct Opening<'a> {
    pub(crate) config: &'a ServerConfig,
    pub(crate) options: &'a Options,
    pub(crate) traffic: &'a Arc<Traffic>,
    pub(crate) guard: &'a Arc<Guard>,
    pub(crate) voice: &'a Arc<Voice>,
    /// What an earlier opening found (B-030).
    pub(crate) known: Option<Era>,
}

/// What an opening gives.
pub(crate) struct Opened {
    pub(crate) link: Link,
    pub(crate) manifest: Manifest,
}

impl Opening<'_> {
    /// Over stdio. The era of some servers is pinned by the first message (peers.md row 9), so a process that was
    /// greeted in the wrong one is not talked to further than D-022 has it.
    pub(crate) async fn stdio(&self) -> Result<Opened, String> {
        let process = Process::start(self.config, self.guard, self.traffic, self.voice)?;
        let manifest = match self.era() {
            Some(Era::Legacy) => self.initialize_stdio(&process).await?,
            Some(Era::Modern) => {
                let heard = self.discover_stdio(&process).await?;
                let heard = timeout(self.config.open_timeout, heard).await;
                let heard = heard.map_err(|_| self.silence_of(&process, "server/discover"))?;
                self.modern_or_nothing(heard)?
            }
            None => match self.probe_stdio(&process).await? {
                Some(manifest) => manifest,
                None if process.over().is_some() => {
                    // D-023: it does not survive a message that it does not know.
                    let process = Process::start(self.config, self.guard, self.traffic, self.voice)?;
                    let manifest = self.initialize_stdio(&process).await?;
                    return Ok(Opened { link: Link::Pipe(process), manifest });
                }
                None => return Err(String::from("it answers neither server/discover nor initialize")),
            },
        };
        Ok(Opened { link: Link::Pipe(process), manifest })
    }

    /// Over HTTP.
    pub(crate) async fn http(&self) -> Result<Opened, String> {
        let endpoint = Endpoint::new(self.config)?;
        let link = HttpLink::new(endpoint);
        let manifest = match self.era() {
            Some(Era::Legacy) => self.greet(&link).await?,
            Some(Era::Modern) => {
                let heard = self.discover_http(&link).await;
                self.modern_or_nothing(heard)?
            }
            None => {
                let heard = self.discover_http(&link).await;
                match self.judge(heard)? {
                    Some(manifest) => manifest,
                    None => self.greet(&link).await?,
                }
            }
        };
        Ok(Opened { link: Link::Http(link), manifest })
    }

    /// `initialize` over HTTP; the link carries the session from then on.
    pub(crate) async fn greet(&self, link: &HttpLink) -> Result<Manifest, String> {
        let (id, body) = self.initialize();
        let posting = Posting {
            mirrored: Vec::new(),
            key: None,
            session: None,
            care: Care::Again,
            patience: Some(self.config.open_timeout),
            is_resumable: true,
            trace: None,
        };
        let exchange = link.exchange(self.traffic, id, body, posting);
        let answered = timeout(self.config.open_timeout, exchange).await;
        let (heard, session) = answered.map_err(|_| self.silence("initialize", self.config.open_timeout))?;
        let manifest = self.legacy(heard)?;
        self.traffic.speak(Era::Legacy);
        let version = manifest.version();
        link.tell(initialized(), mirrored(version, "notifications/initialized", None), session.clone())
            .await?;
        link.opened(self.traffic, session, version);
        Ok(manifest)
    }

    fn era(&self) -> Option<Era> {
        match self.config.era {
            EraChoice::Auto => self.known,
            EraChoice::Legacy => Some(Era::Legacy),
            EraChoice::Modern => Some(Era::Modern),
        }
    }

    async fn initialize_stdio(&self, process: &Process) -> Result<Manifest, String> {
        let (id, body) = self.initialize();
        let waiting = self.ask(process, id, body).await?;
        let heard = timeout(self.config.open_timeout, waiting).await;
        let heard = heard.map_err(|_| self.silence_of(process, "initialize"))?;
        let manifest = self.legacy(heard)?;
        self.enter_stdio(process)?;
        Ok(manifest)
    }

    fn enter_stdio(&self, process: &Process) -> Result<(), String> {
        self.traffic.speak(Era::Legacy);
        process.tell(initialized()).map_err(String::from)
    }

    /// D-021, D-022. `None` if the process is gone.
    async fn probe_stdio(&self, process: &Process) -> Result<Option<Manifest>, String> {
        let mut discovered = self.discover_stdio(process).await?;
        let early = timeout(self.config.probe_timeout, &mut discovered).await.ok();
        let is_silent = early.is_none();
        match early {
            Some(Heard::NeverSent(_) | Heard::Lost(_)) => {
                process.ended().await;
                return Ok(None);
            }
            Some(heard) => {
                if let Some(manifest) = self.judge(heard)? {
                    return Ok(Some(manifest));
                }
            }
            None => {}
        }
        let (id, body) = self.initialize();
        let waiting = self.ask(process, id, body).await?;
        let heard = timeout(self.config.open_timeout, waiting).await;
        let heard = heard.map_err(|_| self.silence_of(process, "initialize"))?;
        if is_silent && matches!(heard, Heard::Error(_)) {
            // It was only slow to start, and its era is pinned by what it read first (peers.md row 9).
            if let Ok(late) = timeout(self.config.probe_timeout, discovered).await
                && let Some(manifest) = self.judge(late)?
            {
                return Ok(Some(manifest));
            }
        }
        let manifest = self.legacy(heard)?;
        self.enter_stdio(process)?;
        Ok(Some(manifest))
    }

    async fn discover_stdio(&self, process: &Process) -> Result<Waiting, String> {
        let (id, body) = self.discover()?;
        self.ask(process, id, body).await
    }

    /// Sends a request. A server that ends at once has closed its input a moment before it is known to be gone, and how
    /// it ended and what it said last is what helps a person.
    async fn ask(&self, process: &Process, id: u64, body: Bytes) -> Result<Waiting, String> {
        match process.ask(id, body) {
            Ok(waiting) => Ok(waiting),
            Err(heard) => {
                let _ = timeout(LAST_WORDS, process.ended()).await;
                Err(process.over().unwrap_or_else(|| self.trouble(heard)))
            }
        }
    }

    async fn discover_http(&self, link: &HttpLink) -> Heard {
        let (id, body) = match self.discover() {
            Ok(discover) => discover,
            Err(why) => return Heard::NeverSent(why),
        };
        let posting = Posting {
            mirrored: mirrored(Version::MODERN, "server/discover", None),
            key: None,
            session: None,
            care: Care::Again,
            patience: Some(self.config.open_timeout),
            is_resumable: false,
            trace: None,
        };
        let exchange = link.exchange(self.traffic, id, body, posting);
        match timeout(self.config.open_timeout, exchange).await {
            Ok((heard, _)) => heard,
            Err(_) => Heard::Lost(self.silence("server/discover", self.config.open_timeout)),
        }
    }

    /// The manifest of a modern server; `None` if `initialize` is to be tried.
    fn judge(&self, heard: Heard) -> Result<Option<Manifest>, String> {
        let (verdict, result) = match &heard {
            Heard::Result(result) => {
                (probe::judge_http(200, as_response(message_of(result, true)).as_ref()), Some(result))
            }
            Heard::Error(error) => {
                (probe::judge_http(200, as_response(message_of(error, false)).as_ref()), None)
            }
            // Says nothing about the era, or the legacy side will say it (D-016 to D-018).
            Heard::Refused(status) => (probe::judge_http(*status, None), None),
            Heard::Nonsense(_) | Heard::SessionGone => (Verdict::TryInitialize, None),
            Heard::NeverSent(_) | Heard::Lost(_) => (Verdict::Later, None),
        };
        match verdict {
            Verdict::Modern { versions }
                if versions.iter().any(|version| version == Version::MODERN.as_str()) =>
            {
                self.modern(result.unwrap_or(&Bytes::new())).map(Some)
            }
            // Legacy dates in the list mean "through initialize" (D-014).
            Verdict::Modern { versions }
                if versions.iter().any(|version| Version::parse(version).is_some()) =>
            {
                Ok(None)
            }
            Verdict::Modern { versions } => Err(no_version_in_common(&versions)),
            Verdict::CorrectAndRetry(error) => {
                let listed = error.supported_versions();
                if listed.iter().any(|version| version.as_str() < Version::MODERN.as_str()) {
                    return Ok(None);
                }
                Err(if listed.is_empty() {
                    raised("server/discover", &error)
                } else {
                    no_version_in_common(&listed)
                })
            }
            Verdict::TryInitialize => Ok(None),
            Verdict::Authorize | Verdict::Later => Err(self.trouble(heard)),
        }
    }

    fn modern_or_nothing(&self, heard: Heard) -> Result<Manifest, String> {
        match heard {
            Heard::Result(_) => {
                self.judge(heard)?.ok_or_else(|| String::from("it does not speak 2026-07-28"))
            }
            Heard::Error(error) => Err(raised("server/discover", &read_error(&error))),
            Heard::NeverSent(_)
            | Heard::Lost(_)
            | Heard::Nonsense(_)
            | Heard::Refused(_)
            | Heard::SessionGone => Err(self.trouble(heard)),
        }
    }

    fn modern(&self, result: &Bytes) -> Result<Manifest, String> {
        let text = std::str::from_utf8(result).unwrap_or_default();
        let back = BackSelf::read_discover(text, Version::MODERN).map_err(|fault| fault.to_string())?;
        self.traffic.speak(Era::Modern);
        Ok(self.manifest(back, Version::MODERN.as_str(), "server/discover", text))
    }

    fn legacy(&self, heard: Heard) -> Result<Manifest, String> {
        let result = match heard {
            Heard::Result(result) => result,
            Heard::Error(error) => return Err(raised("initialize", &read_error(&error))),
            Heard::NeverSent(_)
            | Heard::Lost(_)
            | Heard::Nonsense(_)
            | Heard::Refused(_)
            | Heard::SessionGone => {
                return Err(self.trouble(heard));
            }
        };
        let text = std::str::from_utf8(&result).unwrap_or_default();
        let said = json::at(text, &["protocolVersion"]).and_then(json::string).unwrap_or_default();
        let back = BackSelf::read_initialize(text).map_err(|fault| {
            if said.is_empty() { fault.to_string() } else { format!("{fault}: {}", SafeText::new(&said, 40)) }
        })?;
        Ok(self.manifest(back, &said, "initialize", text))
    }

    fn manifest(&self, back: BackSelf, version: &str, method: &'static str, said: &str) -> Manifest {
        let heard = Evidence { at: self.options.clock.now(), method, said: said.to_owned() };
        Manifest::new(self.config, back, SafeText::new(version, 40).into_string(), heard)
    }

    fn initialize(&self) -> (u64, Bytes) {
        let id = self.traffic.next_id();
        let params =
            initialize_params(Version::NEWEST_LEGACY, self.traffic.offers(), &client_info(self.options));
        (id, message::request(&RequestId::from_u64(id), "initialize", Some(&params)))
    }

    fn discover(&self) -> Result<(u64, Bytes), String> {
        let id = self.traffic.next_id();
        let info = client_info(self.options);
        let capabilities = self.traffic.offers().capabilities_json(Version::MODERN);
        let ours = ModernMeta {
            version: Version::MODERN,
            capabilities: &capabilities,
            client_info: Some(&info),
            progress_token: None,
            log_level: None,
        };
        let params = modern::add(None, &ours).map_err(|error| error.to_string())?;
        let params = std::str::from_utf8(&params).unwrap_or("{}");
        Ok((id, message::request(&RequestId::from_u64(id), "server/discover", Some(params))))
    }

    fn silence(&self, method: &str, limit: Duration) -> String {
        format!("it did not answer {method} within {} s", limit.as_secs_f32())
    }

    /// The same of a process, which may have said elsewhere why: that it wants a terminal, or a key.
    fn silence_of(&self, process: &Process, method: &str) -> String {
        self.silence(method, self.config.open_timeout) + &process.last_words()
    }

    /// What is wrong, in words.
    fn trouble(&self, heard: Heard) -> String {
        match heard {
            Heard::NeverSent(why) | Heard::Lost(why) | Heard::Nonsense(why) => why,
            Heard::Refused(status @ (401 | 403)) => {
                format!("it answered HTTP {status}: it wants credentials, or others than it got")
            }
            Heard::Refused(status) => format!("it answered HTTP {status}: no MCP server speaks there"),
            Heard::SessionGone => String::from("it does not know its own session"),
            Heard::Error(error) => raised("the opening", &read_error(&error)),
            Heard::Result(_) => String::from("it answered what makes no sense"),
        }
    }
}

/// Our own implementation object.
pub(crate) fn client_info(options: &Options) -> String {
    format!("{{\"name\":\"taskgate\",\"version\":{}}}", json::string_literal(&options.version))
}

pub(crate) fn read_error(error: &Bytes) -> RpcError {
    RpcError::read(std::str::from_utf8(error).unwrap_or_default())
}

fn initialized() -> Bytes {
    message::notification("notifications/initialized", None)
}

fn raised(what: &str, error: &RpcError) -> String {
    format!("it answered {what} with error {}: {}", error.code, SafeText::status(&error.message))
}

fn no_version_in_common(versions: &[String]) -> String {
    format!("no protocol version in common; it speaks {}", SafeText::new(&versions.join(", "), 120))
}

/// The probe judges responses.
fn message_of(body: &Bytes, is_result: bool) -> Bytes {
    let id = RequestId::from_u64(0);
    let text = std::str::from_utf8(body).unwrap_or("{}");
    if is_result { message::success(&id, text) } else { message::error_raw(Some(&id), text) }
}

fn as_response(message: Bytes) -> Option<Response> {
    match message::parse(message) {
        Ok(Message::Response(response)) => Some(response),
        Ok(Message::Request(_) | Message::Notification(_)) | Err(_) => None,
    }
}
