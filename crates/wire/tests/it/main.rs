//! Everything we write against the official schemas, everything they allow against our readers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod bridging;
mod examples;
mod json_text;
mod messages;
mod placing;
mod schema;
mod streams;
mod tasks;
mod versions;
