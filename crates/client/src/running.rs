//! What there is to tell of an open session, for people.

use taskgate_core::id::ServerName;
use taskgate_core::time::UnixMillis;
use taskgate_wire::text::SafeText;

/// An open session with a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Running {
    /// The server's name in the configuration.
    pub server: ServerName,
    /// Its process, where it is one of ours; it is the id of its process group too.
    pub pid: Option<u32>,
    /// When the session was opened.
    pub since: UnixMillis,
    /// The protocol version that is spoken, as the server named it.
    pub version: String,
    /// What the server calls itself.
    pub name: Option<SafeText>,
    /// Whether somebody uses it, or it watches over a task.
    pub busy: bool,
}
