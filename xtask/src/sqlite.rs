//! Bare durable group commit: the least that any store on SQLite does before it may answer.
//!
//! One writer thread waits for one insert, takes as many more as are there up to 256, runs them in one transaction
//! and answers all of them after its `COMMIT`. WAL, `synchronous=FULL`, SQLite's own checkpoint each 1,000 pages. Its
//! clients are tasks of the same process on as many workers as there are cores, so neither HTTP nor JSON is in it.

pub(crate) mod commit;
pub(crate) mod row;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::time::Instant;

use crate::load::{Plan, Times};
use commit::Committer;
use row::Row;

/// Commits by `clients` at once for as long as planned, into a new file at `path`.
pub(crate) fn closed_loop(path: &Path, row: Row, clients: usize, plan: Plan) -> Result<Times> {
    let run = || {
        let committer = Arc::new(Committer::start(path, row)?);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(async {
            let begin = Instant::now() + plan.warm_up;
            let end = begin + plan.measured;
            let loops: Vec<_> =
                (0..clients).map(|_| tokio::spawn(one_loop(committer.clone(), begin, end))).collect();
            let mut times = Times::new(plan.measured)?;
            for one in loops {
                times.add(&one.await??)?;
            }
            Ok(times)
        })
    };
    // The caller is inside a runtime of its own, and may wait: nothing else is being measured.
    std::thread::scope(|scope| scope.spawn(run).join().ok().context("the bare commits panicked")?)
}

async fn one_loop(committer: Arc<Committer>, begin: Instant, end: Instant) -> Result<Times> {
    let mut times = Times::new(end - begin)?;
    let mut started = Instant::now();
    while started < end {
        committer.insert().await?;
        let done = Instant::now();
        if (begin..end).contains(&done) {
            times.note(done - started);
        }
        started = done;
    }
    Ok(times)
}
