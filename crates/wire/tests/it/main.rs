//! Everything we write against the official schemas, everything they allow against our readers.

mod bridging;
mod examples;
mod json_text;
mod messages;
mod placing;
mod schema;
mod streams;
mod tasks;
