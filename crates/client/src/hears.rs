//! What servers say and do, for people: cleaned, without our secrets, logged, and handed to whoever hears it.

use std::fmt;
use std::sync::Arc;

use taskgate_wire::text::SafeText;

use crate::conceal::Conceal;
use crate::config::ServerConfig;

/// Characters kept of a line that a server prints.
const LINE_CHARS: usize = 300;

/// Hears what a server prints, and of its starts and ends. Our secrets are taken out of everything before.
///
/// It is called on the tasks that serve the server, so it must not wait.
pub trait Hears: Send + Sync {
    /// A line that it wrote to stderr: free text, and no sign of failure.
    fn stderr(&self, line: &SafeText);

    /// Something happened to it.
    fn event(&self, what: &ServerEvent);
}

impl fmt::Debug for dyn Hears {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hears")
    }
}

/// What happened to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerEvent {
    /// A process was started.
    Started {
        /// Its id, and its group's.
        pid: u32,
    },
    /// A session was opened: it can be used.
    Opened {
        /// The protocol version that is spoken.
        version: String,
        /// What it calls itself.
        name: Option<SafeText>,
    },
    /// No session could be opened.
    Failed {
        /// Why.
        reason: String,
    },
    /// It printed a line to stdout that is no MCP message. After some in a row no more are told.
    Rubbish {
        /// The line.
        line: SafeText,
    },
    /// A process is gone.
    Ended {
        /// Its id, and its group's.
        pid: u32,
        /// How that came, and what it last said.
        reason: String,
        /// Whether we ended it because it was no longer needed.
        is_wanted: bool,
    },
}

/// One server's voice.
#[derive(Debug)]
pub(crate) struct Voice {
    pub(crate) server: String,
    conceal: Conceal,
    hears: Option<Arc<dyn Hears>>,
}

impl Voice {
    pub(crate) fn new(config: &ServerConfig) -> Arc<Voice> {
        Arc::new(Voice {
            server: config.name.0.clone(),
            conceal: Conceal::new(&config.transport),
            hears: config.hears.clone(),
        })
    }

    /// A line that it printed, fit to be shown.
    pub(crate) fn line(&self, line: &[u8]) -> SafeText {
        SafeText::new(&self.hide(String::from_utf8_lossy(line).into_owned()), LINE_CHARS)
    }

    /// Words that may quote it, without our secrets.
    pub(crate) fn hide(&self, words: String) -> String {
        self.conceal.hide(words)
    }

    pub(crate) fn stderr(&self, line: &SafeText) {
        tracing::debug!(server = self.server, stderr = line.as_str(), "a server wrote to stderr");
        if let Some(hears) = &self.hears {
            hears.stderr(line);
        }
    }

    pub(crate) fn event(&self, what: &ServerEvent) {
        if let Some(hears) = &self.hears {
            hears.event(what);
        }
    }
}
