//! Who is there: every process of one play, known by the home folder that all of them inherit.

use std::fmt;
use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    argv: Vec<String>,
}

/// The processes of one play at one moment.
#[derive(Debug)]
pub(crate) struct Crowd {
    all: Vec<Process>,
    /// Dead children of theirs that nobody has waited for.
    pub(crate) zombies: usize,
}

impl Crowd {
    pub(crate) fn of(home: &Path) -> Crowd {
        let mark = format!("HOME={}", home.display()).into_bytes();
        let pids = || {
            let entries = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
            entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        };
        let is_ours = |pid: i32| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark)
        };
        let all: Vec<Process> = pids()
            .filter(|pid| is_ours(*pid))
            .map(|pid| {
                let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                let argv =
                    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
                Process { pid, argv: argv.collect() }
            })
            .collect();
        let zombies = pids()
            .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).ok())
            .filter(|stat| {
                let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
                let (state, parent) = (fields.next(), fields.next());
                state == Some("Z") && all.iter().any(|process| Some(&*process.pid.to_string()) == parent)
            })
            .count();
        Crowd { all, zombies }
    }

    pub(crate) fn keepers(&self) -> Vec<&Process> {
        self.those(|process| process.is_ours() && process.has("__keeper"))
    }

    /// `taskgate run`, one for each session of a host.
    pub(crate) fn pipes(&self) -> Vec<&Process> {
        self.those(|process| process.is_ours() && process.argv.get(1).is_some_and(|word| word == "run"))
    }

    /// The servers themselves, without what is around them.
    pub(crate) fn servers(&self) -> Vec<&Process> {
        const SCRIPTS: [&str; 3] = ["node_plain.mjs", "python_plain.py", "taskgate-peer-plain"];
        self.those(|process| {
            let runs = |words: &[&str]| words.iter().any(|word| process.program().starts_with(word));
            let script = process.argv.get(1).map_or("", String::as_str);
            runs(&["node", "python"])
                && !script.contains("/hosts/")
                && SCRIPTS.iter().any(|name| script.ends_with(name))
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// `SIGKILL` to each.
    pub(crate) fn kill(&self) {
        for process in &self.all {
            process.kill();
        }
    }

    fn those(&self, which: impl Fn(&Process) -> bool) -> Vec<&Process> {
        self.all.iter().filter(|process| which(process)).collect()
    }
}

impl Process {
    pub(crate) fn kill(&self) {
        // It may have ended meanwhile.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }

    fn program(&self) -> &str {
        self.argv.first().and_then(|path| path.rsplit('/').next()).unwrap_or_default()
    }

    fn is_ours(&self) -> bool {
        self.program() == "taskgate"
    }

    fn has(&self, word: &str) -> bool {
        self.argv.iter().any(|other| other == word)
    }
}

/// For the words of a play that failed.
impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} processes, {} zombies", self.all.len(), self.zombies)?;
        self.all.iter().try_for_each(|process| writeln!(f, "  {} {}", process.pid, process.argv.join(" ")))
    }
}
