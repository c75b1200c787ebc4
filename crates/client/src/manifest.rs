//! What one session announced (R2.3).

use taskgate_core::gate::BackTasks;
use taskgate_core::id::ServerName;
use taskgate_core::time::UnixMillis;
use taskgate_wire::handshake::BackSelf;
use taskgate_wire::json;
use taskgate_wire::text::SafeText;
use taskgate_wire::{Era, Version};

use crate::config::{ServerConfig, Transport};

/// Characters kept of what a server calls itself.
const NAME_CHARS_MAX: usize = 80;

/// What a server said of itself at the opening of a session, and nothing that it did not say.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// The server's name in the configuration.
    pub server: ServerName,
    /// Capabilities, implementation, instructions, and the version that is spoken.
    pub back: BackSelf,
    /// The version as the server named it.
    pub protocol_version: String,
    /// What it can do with tasks, by what its own era counts (R2.1).
    pub tasks: BackTasks,
    /// Whether its tasks can be listed: for people to see, never to decide.
    pub has_list: bool,
    /// Whether its tasks can be cancelled.
    pub has_cancel: bool,
    /// Whether arguments that its tools mark are mirrored into headers: over HTTP, and not before 2026-07-28 (B-045).
    pub mirrors: bool,
    /// What was said, and when.
    pub evidence: Vec<Evidence>,
}

/// One thing that a server said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// When it was heard.
    pub at: UnixMillis,
    /// In answer to which request.
    pub method: &'static str,
    /// The result object as it came.
    pub said: String,
}

impl Manifest {
    /// Its era.
    #[must_use]
    pub fn era(&self) -> Era {
        self.back.version.era()
    }

    /// The version that is spoken.
    #[must_use]
    pub fn version(&self) -> Version {
        self.back.version
    }

    /// What it calls itself.
    #[must_use]
    pub fn called(&self) -> Option<SafeText> {
        let info = self.back.server_info.as_deref()?;
        let name = json::at(info, &["name"]).and_then(json::string)?;
        Some(SafeText::new(&name, NAME_CHARS_MAX))
    }

    pub(crate) fn new(
        config: &ServerConfig,
        back: BackSelf,
        protocol_version: String,
        heard: Evidence,
    ) -> Manifest {
        let is_http = matches!(config.transport, Transport::Http { .. });
        Manifest {
            server: config.name.clone(),
            mirrors: is_http && back.version.is_modern(),
            tasks: back.tasks(),
            has_list: back.can_list(),
            has_cancel: back.can_cancel(),
            back,
            protocol_version,
            evidence: vec![heard],
        }
    }
}
