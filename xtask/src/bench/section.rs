//! What one measurement came to: its figures, and where the processor time went.

use serde_json::{Value, json};

use crate::load::Measured;
use crate::process::Cpu;
use crate::report::{Figure, lay_out, median};

/// The process between client and server: the gateway, or what is measured in its stead.
pub(crate) const MIDDLE: &str = "middle";

/// The server behind it.
pub(crate) const SERVER: &str = "server";

/// Figures with what they were made from.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) figures: Vec<Figure>,
    /// Each run, for the file.
    pub(crate) measured: Vec<Value>,
    costs: Vec<Cost>,
    /// The share of the processors that others used in each run.
    others: Vec<f64>,
}

/// Processor time for one call, in microseconds.
#[derive(Debug)]
struct Cost {
    what: String,
    processes: Vec<(String, f64)>,
    threads: Vec<(String, f64)>,
}

impl Section {
    /// Keeps a run.
    pub(crate) fn keep(&mut self, what: &str, measured: &Measured) {
        let times = &measured.times;
        let each = |cpu: std::time::Duration| cpu.as_secs_f64() * 1e6 / times.calls.max(1) as f64;
        let cost = Cost {
            what: what.to_owned(),
            processes: measured.cpu.iter().map(|(name, cpu)| (name.clone(), each(cpu.total))).collect(),
            threads: measured
                .cpu
                .iter()
                .filter(|(name, _)| name == MIDDLE)
                .flat_map(|(_, Cpu { threads, .. })| threads)
                .map(|(name, time)| (name.clone(), each(*time)))
                .filter(|(_, micros)| *micros >= 0.05)
                .collect(),
        };
        self.others.push(measured.others);
        self.measured.push(json!({
            "what": what,
            "others": measured.others,
            "calls": times.calls,
            "per_second": times.rate(),
            "p50_ms": times.millis(0.5),
            "p90_ms": times.millis(0.9),
            "p99_ms": times.millis(0.99),
            "p999_ms": times.millis(0.999),
            "cpu_us_per_call": cost.processes.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
            "middle_threads_us_per_call": cost.threads.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
        }));
        // Of several runs the last one stands for all in the table; the file has each.
        self.costs.retain(|other| other.what != cost.what);
        self.costs.push(cost);
    }

    /// Processor time as a table; empty if none was watched.
    pub(crate) fn costs(&self) -> String {
        if self.costs.is_empty() {
            return String::new();
        }
        let heading = ["processor time a call, µs", "middle", "server", "client", "threads in the middle"];
        let mut rows = vec![heading.map(String::from)];
        for cost in &self.costs {
            let of = |wanted: &str| {
                let found = cost.processes.iter().find(|(name, _)| name == wanted);
                found.map_or_else(String::new, |(_, micros)| format!("{micros:.1}"))
            };
            let threads: Vec<_> =
                cost.threads.iter().map(|(name, micros)| format!("{name} {micros:.1}")).collect();
            rows.push([cost.what.clone(), of(MIDDLE), of(SERVER), of("generator"), threads.join(", ")]);
        }
        let most = self.others.iter().copied().fold(0.0, f64::max);
        let middle = median(self.others.clone());
        format!(
            "{}\nProcessors used by others meanwhile: {:.0} % in the middle, {:.0} % at most.\n",
            lay_out(&rows),
            middle * 100.0,
            most * 100.0
        )
    }
}
