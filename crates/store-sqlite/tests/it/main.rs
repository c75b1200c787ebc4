//! What the store on SQLite promises, with real files and real processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod conforms;
