//! The first line each way on a new connection. It is JSON and stable for ever, so that any two versions can tell each
//! other who they are; what comes after it depends on the protocol.

use std::io;

use serde::{Deserialize, Serialize};

/// The newest protocol spoken after the hello. 2: an attachment may bring workflows. A keeper that takes no notice of them
/// would make calls without their keys, so whoever brings some asks for that.
pub const PROTOCOL: u32 = 2;

/// What an attachment without workflows and a person's command need.
pub const PLAIN: u32 = 1;

/// The oldest protocol that this version still serves.
pub const OLDEST: u32 = 1;

/// Longest hello, its line end included.
pub const LINE_MAX: usize = 4 << 10;

/// What a caller wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Frames of one host's session.
    Attach,
    /// Lines of JSON for a person's command: one request, its answer.
    Control,
}

/// What a caller says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Caller {
    /// The protocol that it speaks.
    pub protocol: u32,
    /// Its version, as `taskgate --version` says it.
    pub version: String,
    /// What it wants.
    pub kind: Kind,
}

/// Whether the keeper stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It does.
    Ready,
    /// It gives way to a newer version, as soon as nothing is under way.
    Draining,
}

/// What the keeper says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// The newest protocol that it speaks.
    pub protocol: u32,
    /// The oldest.
    #[serde(default = "oldest")]
    pub oldest: u32,
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Whether it stays.
    pub state: State,
    /// How many calls are under way, which it waits for while it drains.
    #[serde(default)]
    pub calls: u64,
}

fn oldest() -> u32 {
    OLDEST
}

impl Host {
    /// Whether frames or control lines of this protocol are understood there.
    #[must_use]
    pub fn serves(&self, protocol: u32) -> bool {
        (self.oldest..=self.protocol).contains(&protocol)
    }
}

#[derive(Serialize, Deserialize)]
struct Line<T> {
    taskgate: T,
}

/// A caller's hello, with its line end.
#[must_use]
pub fn ask(kind: Kind, version: &str, protocol: u32) -> Vec<u8> {
    line(&Line { taskgate: Caller { protocol, version: version.to_owned(), kind } })
}

/// The keeper's hello, with its line end.
#[must_use]
pub fn answer(host: &Host) -> Vec<u8> {
    line(&Line { taskgate: host })
}

/// Reads a caller's hello.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`]: it is no hello.
pub fn read_caller(text: &[u8]) -> io::Result<Caller> {
    read(text)
}

/// Reads the keeper's hello.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`]: it is no hello.
pub fn read_host(text: &[u8]) -> io::Result<Host> {
    read(text)
}

/// Whether `theirs` is a newer version than `ours`. A version that is no three numbers is not.
#[must_use]
pub fn is_newer(theirs: &str, ours: &str) -> bool {
    match (numbers(theirs), numbers(ours)) {
        (Some(theirs), Some(ours)) => theirs > ours,
        (Some(_) | None, Some(_) | None) => false,
    }
}

fn numbers(version: &str) -> Option<[u64; 3]> {
    // What comes after `-` or `+` makes no keeper give way.
    let core = version.split(['-', '+']).next()?;
    let mut parts = core.split('.').map(|part| part.parse::<u64>().ok());
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Plain structs of numbers and texts always have a JSON form.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

fn read<T: for<'de> Deserialize<'de>>(text: &[u8]) -> io::Result<T> {
    serde_json::from_slice::<Line<T>>(text)
        .map(|line| line.taskgate)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the other side is no taskgate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hello_is_the_same_for_ever() {
        assert_eq!(
            ask(Kind::Attach, "0.1.0", PLAIN),
            b"{\"taskgate\":{\"protocol\":1,\"version\":\"0.1.0\",\"kind\":\"attach\"}}\n"
        );
        let host =
            Host { protocol: 1, oldest: 1, version: "0.1.0".into(), pid: 7, state: State::Ready, calls: 0 };
        assert_eq!(
            String::from_utf8(answer(&host)).unwrap(),
            "{\"taskgate\":{\"protocol\":1,\"oldest\":1,\"version\":\"0.1.0\",\"pid\":7,\"state\":\"ready\",\"calls\":0}}\n"
        );
        assert_eq!(read_host(&answer(&host)).unwrap(), host);
    }

    #[test]
    fn a_later_hello_with_more_in_it_is_read() {
        let later = br#"{"taskgate":{"protocol":9,"oldest":3,"version":"2.0.0","pid":1,"state":"ready","more":{}},"x":1}"#;
        let host = read_host(later).unwrap();
        assert!(!host.serves(PROTOCOL));
        let before = br#"{"taskgate":{"protocol":1,"oldest":1,"version":"0.1.0","pid":7,"state":"ready"}}"#;
        let host = read_host(before).unwrap();
        assert!(host.serves(PLAIN) && !host.serves(PROTOCOL), "it would take no notice of workflows");
        assert!(read_host(b"HTTP/1.1 400 Bad Request").is_err());
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(is_newer("0.10.0", "0.9.9"));
        assert!(!is_newer("0.1.0", "0.1.0"));
        assert!(!is_newer("0.1.0-dev", "0.1.0"));
        assert!(!is_newer("nightly", "0.1.0"));
    }
}
