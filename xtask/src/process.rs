//! Processes: started, watched, killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::ops::Sub;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

/// `/proc` counts processor time in hundredths of a second on every Linux.
const TICKS_PER_SECOND: u64 = 100;

/// A process of ours, which does not outlive us.
#[derive(Debug)]
pub(crate) struct Process(Child);

/// A process whose processor time is wanted, and its name in the report.
pub(crate) type Watched<'p> = (&'p str, u32);

impl Process {
    pub(crate) fn new(child: Child) -> Process {
        Process(child)
    }

    /// Starts a hidden subcommand of this program, which says where it listens and ends when we do.
    pub(crate) fn server(args: &[&str]) -> Result<(Process, SocketAddr)> {
        let program = std::env::current_exe()?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("start {args:?}"))?;
        let stdout = child.stdout.take().context("no stdout")?;
        let process = Process(child);
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().parse().with_context(|| format!("{args:?} said {line:?}"))?;
        Ok((process, address))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// `SIGKILL`: nothing is tidied up.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.kill();
    }
}

/// Processor time of a process, by the names of its threads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cpu {
    /// All of it, also of threads that have ended.
    pub(crate) total: Duration,
    /// Threads of one name together.
    pub(crate) threads: Vec<(String, Duration)>,
}

impl Cpu {
    pub(crate) fn of(pid: u32) -> Result<Cpu> {
        let total = used(&fs::read_to_string(format!("/proc/{pid}/stat"))?)?;
        let mut threads: Vec<(String, Duration)> = Vec::new();
        for entry in fs::read_dir(format!("/proc/{pid}/task"))? {
            // A thread may end at any time.
            let Ok(stat) = fs::read_to_string(entry?.path().join("stat")) else { continue };
            let name =
                stat.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or("", |(name, _)| name);
            let time = used(&stat)?;
            match threads.iter_mut().find(|(known, _)| known == name) {
                Some((_, sum)) => *sum += time,
                None => threads.push((name.to_owned(), time)),
            }
        }
        Ok(Cpu { total, threads })
    }

    /// Of each, and of ourselves.
    pub(crate) fn of_all(watched: &[Watched<'_>]) -> Result<Vec<(String, Cpu)>> {
        let ours = ("generator", std::process::id());
        watched.iter().chain([&ours]).map(|(name, pid)| Ok(((*name).to_owned(), Cpu::of(*pid)?))).collect()
    }
}

impl Sub for Cpu {
    type Output = Cpu;

    fn sub(self, before: Cpu) -> Cpu {
        let threads = self
            .threads
            .into_iter()
            .map(|(name, time)| {
                let earlier = before.threads.iter().find(|(known, _)| *known == name);
                let earlier = earlier.map_or(Duration::ZERO, |(_, time)| *time);
                (name, time.saturating_sub(earlier))
            })
            .collect();
        Cpu { total: self.total.saturating_sub(before.total), threads }
    }
}

fn used(stat: &str) -> Result<Duration> {
    let (_, rest) = stat.rsplit_once(')').context("a line of /proc")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next().and_then(|field| field.parse::<u64>().ok()).context("a field of /proc");
    Ok(Duration::from_millis((ticks()? + ticks()?) * 1000 / TICKS_PER_SECOND))
}

/// Processor time of the whole machine, whoever used it: other machines on the same host too.
pub(crate) fn busy() -> Result<Duration> {
    busy_of(&fs::read_to_string("/proc/stat")?)
}

fn busy_of(stat: &str) -> Result<Duration> {
    let fields =
        stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("a line of /proc/stat")?;
    let ticks: Vec<u64> = fields.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    // user, nice, system, (idle, iowait,) irq, softirq, steal
    let used: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| ticks.get(*at)).sum();
    Ok(Duration::from_millis(used * 1000 / TICKS_PER_SECOND))
}

/// Memory that is really there, in bytes.
pub(crate) fn resident(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_past_odd_names() {
        let stat = "12 (a b) c) S 1 12 12 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 1 0 99 1 1 1";
        assert_eq!(used(stat).unwrap(), Duration::from_secs(3));
    }

    #[test]
    fn idle_time_is_not_busy() {
        let stat = "cpu  100 0 50 9000 70 1 2 3 0 0\ncpu0 1 2 3";
        assert_eq!(busy_of(stat).unwrap(), Duration::from_millis(1_560));
    }

    #[test]
    fn our_own_memory_is_more_than_nothing() {
        assert!(resident(std::process::id()).unwrap() > 100_000);
    }
}
