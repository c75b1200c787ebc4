//! What real peers do against the specification, or beside it: that they still do, and that taskgate copes.
//!
//! One test for each oddity. Each first meets the peer itself, over the wire and without taskgate in between, and fails
//! on the day on which the peer has mended its ways; then it shows that the same thing works through taskgate. Names
//! begin with the oddity's number, and cite what it breaks. `docs/leniency.md` lists what is read leniently for them.
//!
//! The peers must be installed (`tests/peers/install`).
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that meets what it does not expect fails; this one takes real time"
)]

#[allow(dead_code, reason = "shared with the tests of the binary, which need more of it")]
#[path = "../it/support.rs"]
mod support;

mod clients;
mod peer;
mod servers;
mod stdio;
mod tap;
mod through;
