//! The front over real HTTP and pipes, in front of a scripted server.

mod attached;
mod bad_input;
mod calls;
mod dialect_a;
mod dialect_b;
mod http_client;
mod passing;
mod pipe;
mod plain;
mod rig;
mod schema;
mod sessions;
