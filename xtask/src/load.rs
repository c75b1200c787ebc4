//! The load generator: closed loops on one thread, since it shares the cores with what it measures.

pub(crate) mod connection;
pub(crate) mod speaker;
pub(crate) mod talk;

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use crate::process::{Cpu, Watched, busy};

/// One client of a closed loop: it does the next thing when the last is done.
pub(crate) trait Client: 'static {
    /// Does one thing and checks what came of it.
    async fn once(&mut self) -> Result<()>;
}

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

/// What a closed loop came to.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) times: Times,
    /// Processor time in the measured span, for each process that was watched; ours last.
    pub(crate) cpu: Vec<(String, Cpu)>,
    /// The share of the processors that others used meanwhile: how far the figures can be trusted.
    pub(crate) others: f64,
}

/// When things were done, and how long each took.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) calls: u64,
    pub(crate) span: Duration,
    micros: Histogram<u64>,
}

impl Times {
    pub(crate) fn new(span: Duration) -> Result<Times> {
        // 3 digits up to a minute, in tenths of a microsecond.
        Ok(Times { calls: 0, span, micros: Histogram::new_with_bounds(1, 600_000_000, 3)? })
    }

    pub(crate) fn note(&mut self, took: Duration) {
        self.calls += 1;
        self.micros.saturating_record(u64::try_from(took.as_nanos() / 100).unwrap_or(u64::MAX).max(1));
    }

    pub(crate) fn add(&mut self, other: &Times) -> Result<()> {
        self.calls += other.calls;
        self.micros.add(&other.micros).context("histograms differ")
    }

    /// Things done a second.
    pub(crate) fn rate(&self) -> f64 {
        self.calls as f64 / self.span.as_secs_f64()
    }

    /// A quantile in milliseconds.
    pub(crate) fn millis(&self, quantile: f64) -> f64 {
        self.micros.value_at_quantile(quantile) as f64 / 10_000.0
    }
}

/// Runs `clients` for as long as planned.
pub(crate) async fn closed_loop<C: Client>(
    clients: Vec<C>,
    plan: Plan,
    watched: &[Watched<'_>],
) -> Result<Measured> {
    let begin = Instant::now() + plan.warm_up;
    let end = begin + plan.measured;
    let local = LocalSet::new();
    let loops: Vec<_> =
        clients.into_iter().map(|client| local.spawn_local(one_loop(client, begin, end))).collect();
    local
        .run_until(async {
            sleep_until(begin).await;
            let before = Cpu::of_all(watched)?;
            let busy_before = busy()?;
            sleep_until(end).await;
            let busy = busy()?.saturating_sub(busy_before);
            let cpu: Vec<_> = Cpu::of_all(watched)?
                .into_iter()
                .zip(before)
                .map(|((name, after), (_, before))| (name, after - before))
                .collect();
            let mut times = Times::new(plan.measured)?;
            for one in loops {
                times.add(&one.await.context("a client panicked")??)?;
            }
            let ours: Duration = cpu.iter().map(|(_, cpu): &(_, Cpu)| cpu.total).sum();
            let cores = std::thread::available_parallelism()?.get() as f64;
            let others = busy.saturating_sub(ours).as_secs_f64() / plan.measured.as_secs_f64() / cores;
            Ok(Measured { times, cpu, others })
        })
        .await
}

async fn one_loop<C: Client>(mut client: C, begin: Instant, end: Instant) -> Result<Times> {
    let mut times = Times::new(end - begin)?;
    let mut started = Instant::now();
    while started < end {
        client.once().await?;
        let done = Instant::now();
        if (begin..end).contains(&done) {
            times.note(done - started);
        }
        started = done;
    }
    Ok(times)
}

/// Has `clients` do `total` things between them, as fast as they can.
pub(crate) async fn fixed<C: Client>(clients: Vec<C>, total: usize) -> Result<Duration> {
    let started = Instant::now();
    let left = std::rc::Rc::new(std::cell::Cell::new(total));
    let local = LocalSet::new();
    let loops: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let left = left.clone();
            local.spawn_local(async move {
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    client.once().await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    local
        .run_until(async {
            for one in loops {
                one.await.context("a client panicked")??;
            }
            Ok(started.elapsed())
        })
        .await
}
