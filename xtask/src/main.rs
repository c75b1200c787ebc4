//! taskgate's own chores.
//!
//! - [`bench`]: the figures of `docs/benchmarks.md`, as ratios to references taken in the same run
//! - [`conformance`]: the official conformance suite, and `docs/conformance.md`
//! - [`faults`]: the fault campaign, long or again
//! - [`load`]: the load generator
//! - [`matrix`]: every client with every server, `docs/matrix.md` and `docs/captures.md`
//! - [`crowd`]: clients of every kind at once, each message checked
//! - [`serve`]: what it is pointed at besides the gateway: an instant MCP server, a thin proxy, a bare answer
//! - [`sqlite`]: bare durable group commit
//! - [`report`]: figures, marks, the table
//! - [`page`]: what chores share that play with peers and keep a page
//! - [`seeded`]: bugs that the tests must find
//! - [`rows`]: which rows of the specification have a test, and what is read leniently
#![expect(clippy::print_stdout, reason = "a chore's output is its purpose")]

mod args;
mod bench;
mod conformance;
mod crowd;
mod disk;
mod faults;
mod gateway;
mod load;
mod machine;
mod matrix;
mod page;
mod process;
mod report;
mod rows;
mod seeded;
mod serve;
mod sqlite;

use clap::Parser;

use crate::args::{Chore, Xtask};

fn main() -> anyhow::Result<()> {
    match Xtask::parse().chore {
        Chore::Bench(options) => bench::run(&options),
        Chore::Rows { rows } => rows::run(&rows),
        Chore::SeededBugs { bugs } => seeded::run(&bugs),
        Chore::Leniency { write } => rows::leniency::run(write),
        Chore::Matrix(options) => matrix::run(&options),
        Chore::Faults(options) => faults::run(&options),
        Chore::Load(options) => crowd::run(&options),
        Chore::Conformance(options) => conformance::run(&options),
        Chore::Back { era } => serve::back::run(era),
        Chore::Thin { upstream } => serve::thin::run(upstream),
        Chore::Stdio { .. } => serve::stdio::run(),
        Chore::Bare { store } => serve::bare::run(store.as_deref()),
    }
}
