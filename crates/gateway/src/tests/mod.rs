//! The front over real HTTP and pipes, in front of a scripted server.

mod apart;
mod attached;
mod bad_clients;
mod bad_input;
mod calls;
mod dialect_a;
mod dialect_b;
mod fetched;
mod http_client;
mod ledger;
mod legacy;
mod lost;
mod modern;
mod old_versions;
mod passing;
mod pipe;
mod plain;
mod questions;
mod results;
mod rig;
mod schema;
mod sessions;
mod workflows;
