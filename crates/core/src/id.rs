//! Names of things, each its own type.

use alloc::string::String;
use core::fmt;

/// Why a text cannot be an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id is 1 to {max} of the characters A-Z a-z 0-9 - _", max = TaskId::BYTES_MAX)]
pub struct MalformedId;

/// The id of a task, as clients see it.
///
/// It may work as a password (A-097, B-070), so `Debug` shows only its first characters; [`TaskId::expose`]
/// gives the whole.
///
/// # Shape
/// 1 to 64 of `A-Z a-z 0-9 - _`, which keeps `Mcp-Name` plain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(String);

impl TaskId {
    const BYTES_MAX: usize = 64;

    /// Takes `text` as an id.
    ///
    /// # Errors
    /// [`MalformedId`]: no task of ours can have that name.
    pub fn parse(text: &str) -> Result<TaskId, MalformedId> {
        let fits = (1..=Self::BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if fits { Ok(TaskId(String::from(text))) } else { Err(MalformedId) }
    }

    /// The whole id. Call it to answer the task's own principal or to reach the store, never to log.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskId({}…)", self.0.get(..6).unwrap_or_default())
    }
}

/// The id of an operation in the ledger. Unlike a task's it opens nothing, so it may be shown and logged.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OperationId(pub String);

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whose a record is. It stands in the key of every row (R6.1), though today there are few of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Principal(String);

impl Principal {
    /// The person at this machine, over stdio.
    #[must_use]
    pub fn local() -> Principal {
        Principal(String::from("local"))
    }

    /// Anyone who reaches the loopback listener. Such callers cannot be told apart (R6.2).
    #[must_use]
    pub fn anonymous() -> Principal {
        Principal(String::from("anonymous"))
    }

    /// The gateway itself, when it asks a system of record. It makes no tasks.
    #[must_use]
    pub fn gateway() -> Principal {
        Principal(String::from("gateway"))
    }

    /// A principal read back from a store.
    #[must_use]
    pub fn stored(text: String) -> Principal {
        Principal(text)
    }

    /// The text that stores keep.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether several callers may hide behind this principal, so that nothing may be listed to it (R6.2).
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.0 == "anonymous"
    }
}

/// The name of a configured server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerName(pub String);

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a configured workflow: policy for one or more tools (design 2).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WorkflowName(pub String);

impl fmt::Display for WorkflowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_010_ids_keep_to_the_safe_alphabet() {
        assert!(TaskId::parse("aZ09-_").is_ok());
        for bad in ["", "a b", "a:b", "ä", &"x".repeat(65)] {
            assert_eq!(TaskId::parse(bad), Err(MalformedId), "{bad}");
        }
    }

    #[test]
    fn b_070_debug_does_not_give_the_whole_id_away() {
        let id = TaskId::parse("abcdefghijklmnop").unwrap();
        assert_eq!(alloc::format!("{id:?}"), "TaskId(abcdef…)");
    }
}
