//! On what the figures were taken.

use std::fs;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::disk::Disk;

/// The machine, and the day.
#[derive(Debug)]
pub(crate) struct Machine {
    date: String,
    cores: usize,
    processor: String,
    memory_gib: f64,
    kernel: String,
    disk: Disk,
}

impl Machine {
    pub(crate) fn state(date: Option<&str>, disk: Disk) -> Result<Machine> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let processor = field(&cpuinfo, "model name").unwrap_or("unknown").to_owned();
        let meminfo = fs::read_to_string("/proc/meminfo")?;
        let kib: f64 = field(&meminfo, "MemTotal")
            .and_then(|text| text.trim_end_matches("kB").trim().parse().ok())
            .context("no MemTotal")?;
        Ok(Machine {
            date: date.map_or_else(today, str::to_owned),
            cores: std::thread::available_parallelism()?.get(),
            processor,
            memory_gib: kib / f64::from(1 << 20),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            disk,
        })
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(crate) fn lines(&self) -> String {
        format!(
            "{}: {} cores ({}), {:.0} GiB, Linux {}; client, gateway and server share them\n\
             sync of a 4 KiB page: {}",
            self.date,
            self.cores,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.disk.line()
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "date": self.date,
            "cores": self.cores,
            "processor": self.processor,
            "memory_gib": self.memory_gib,
            "kernel": self.kernel,
            "sync": self.disk.json(),
        })
    }
}

fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, v)| v.trim())
}

#[expect(clippy::disallowed_methods, reason = "the report states its day, and nothing is decided by it")]
fn today() -> String {
    let now = jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or_default();
    now.to_string().chars().take(10).collect()
}
