//! The watchdog that kills our server processes when we die.
//!
//! One guard process stands beside us. We hold the only writing end of the pipe that is its stdin, and tell it
//! which process groups are ours. When we end, in whatever way (SIGKILL included), the pipe closes and the guard
//! kills what is still listed: grandchildren of `npx` too, since they are in their parent's group (design 4).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;

/// Runs the guard until our parent dies, then ends the process. The command line calls it for the hidden argument
/// that [`crate::Options::guard`] ends with, before it starts anything else.
pub fn main() -> ! {
    let groups = watch(io::stdin().lock());
    for group in groups {
        kill(group);
    }
    std::process::exit(0);
}

/// Reads `+group` and `-group` lines until the end, and gives the groups that are left.
fn watch(lines: impl BufRead) -> BTreeSet<i32> {
    let mut groups = BTreeSet::new();
    for line in lines.lines().map_while(Result::ok) {
        let number = line.get(1..).and_then(|rest| rest.parse::<i32>().ok()).filter(|group| *group > 1);
        match (line.as_bytes().first(), number) {
            (Some(b'+'), Some(group)) => {
                groups.insert(group);
            }
            (Some(b'-'), Some(group)) => {
                groups.remove(&group);
            }
            (Some(_) | None, Some(_) | None) => {}
        }
    }
    groups
}

/// Kills a process group. That it is gone already is no error.
pub(crate) fn kill(group: i32) {
    signal(group, Signal::SIGKILL);
}

/// Signals a process group. That it is gone already is no error.
pub(crate) fn signal(group: i32, signal: Signal) {
    match killpg(Pid::from_raw(group), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => tracing::warn!(group, %errno, "a server's process group could not be signalled"),
    }
}

/// Our end: starts the guard, tells it what to watch, and starts it again should it die.
#[derive(Debug)]
pub(crate) struct Guard {
    command: Option<Vec<OsString>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    groups: BTreeSet<i32>,
    running: Option<(Child, ChildStdin)>,
}

impl Guard {
    pub(crate) fn new(command: Option<Vec<OsString>>) -> Guard {
        Guard { command: command.filter(|command| !command.is_empty()), state: Mutex::default() }
    }

    /// Starts the guard, so that nothing stands between a server's start and its being watched.
    pub(crate) fn prepare(&self) {
        let mut state = self.state.lock();
        self.ensure(&mut state);
    }

    /// Watches `group` from now on.
    pub(crate) fn add(&self, group: i32) {
        let mut state = self.state.lock();
        state.groups.insert(group);
        self.tell(&mut state, &format!("+{group}\n"));
    }

    /// `group` is gone.
    pub(crate) fn remove(&self, group: i32) {
        let mut state = self.state.lock();
        state.groups.remove(&group);
        self.tell(&mut state, &format!("-{group}\n"));
    }

    fn tell(&self, state: &mut State, line: &str) {
        if let Some((_, stdin)) = &mut state.running
            && stdin.write_all(line.as_bytes()).is_ok()
        {
            return;
        }
        // It died. The new one is told everything, this line's effect included.
        if let Some((mut dead, _)) = state.running.take() {
            let _ = dead.wait();
        }
        self.ensure(state);
    }

    fn ensure(&self, state: &mut State) {
        if state.running.is_some() {
            return;
        }
        let Some((program, args)) = self.command.as_deref().and_then(|command| command.split_first()) else {
            return;
        };
        let started = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match started {
            Ok(mut child) => {
                if let Some(mut stdin) = child.stdin.take() {
                    let all: String = state.groups.iter().map(|group| format!("+{group}\n")).collect();
                    if stdin.write_all(all.as_bytes()).is_ok() {
                        state.running = Some((child, stdin));
                        return;
                    }
                }
                let _ = child.kill();
                let _ = child.wait();
                tracing::error!(
                    "the guard of server processes ended at once: a crash of ours may leave orphans"
                );
            }
            Err(error) => {
                tracing::error!(%error, "the guard of server processes did not start: a crash of ours may leave orphans");
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some((mut child, stdin)) = self.state.get_mut().running.take() {
            drop(stdin);
            let _ = child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_groups_that_were_not_taken_back_are_left() {
        let said = b"+100\n+200\n-100\nnonsense\n+1\n+0\n+-5\n\n+300\n";
        assert_eq!(watch(&said[..]), BTreeSet::from([200, 300]));
    }
}
