//! How fast the disk makes a page durable. Everything that is durable waits for it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::load::Times;

const PAGE_BYTES: u64 = 4096;

const FILE_BYTES: u64 = 16 << 20;

/// What one sync took, in the middle, on the disk that the marks were set on.
const MARKS_DISK_MILLIS: f64 = 0.32;

/// Syncs of one thread into a file of fixed size and into one that grows.
#[derive(Debug)]
pub(crate) struct Disk {
    fixed: Times,
    growing: Times,
}

impl Disk {
    /// Measures in `folder`, for `span` each.
    pub(crate) fn measure(folder: &Path, span: Duration) -> Result<Disk> {
        Ok(Disk { fixed: syncs(folder, span, true)?, growing: syncs(folder, span, false)? })
    }

    /// How much slower than the disk that the marks were set on; 1 if it is faster.
    pub(crate) fn slowness(&self) -> f64 {
        (self.fixed.millis(0.5) / MARKS_DISK_MILLIS).max(1.0)
    }

    pub(crate) fn line(&self) -> String {
        let part = |times: &Times| {
            format!(
                "{:.0}/s, p50 {:.2} ms, p99 {:.2} ms",
                times.rate(),
                times.millis(0.5),
                times.millis(0.99)
            )
        };
        format!("{}; into a growing file {}", part(&self.fixed), part(&self.growing))
    }

    pub(crate) fn json(&self) -> Value {
        let part = |times: &Times| json!({"per_second": times.rate(), "p50_ms": times.millis(0.5), "p99_ms": times.millis(0.99)});
        json!({"fixed": part(&self.fixed), "growing": part(&self.growing)})
    }
}

fn syncs(folder: &Path, span: Duration, is_fixed: bool) -> Result<Times> {
    let path = folder.join("sync.probe");
    let file = File::create(&path)?;
    if is_fixed {
        file.write_all_at(&vec![1; usize::try_from(FILE_BYTES)?], 0)?;
        file.sync_all()?;
    }
    let page = vec![2; usize::try_from(PAGE_BYTES)?];
    let mut times = Times::new(span)?;
    let end = Instant::now() + span;
    let mut offset = 0;
    let mut started = Instant::now();
    while started < end {
        file.write_all_at(&page, offset)?;
        file.sync_data()?;
        offset += PAGE_BYTES;
        if is_fixed {
            offset %= FILE_BYTES;
        }
        let done = Instant::now();
        times.note(done - started);
        started = done;
    }
    std::fs::remove_file(path)?;
    Ok(times)
}
