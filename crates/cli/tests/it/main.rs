//! The binary, as people and hosts use it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

mod config;
mod demo;
mod guide;
mod import;
mod late;
mod ledger;
mod lost;
mod ops;
mod outcomes;
mod pages;
mod probe;
mod renamed;
mod results;
mod run;
mod serve;
mod support;
mod workflows;
