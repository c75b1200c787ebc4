//! The watchdog that kills our server processes when we die.
//!
//! One guard process stands beside us. We hold the only writing end of the pipe that is its stdin, and tell it
//! which process groups are ours. When we end, in whatever way (SIGKILL included), the pipe closes and the guard
//! ends what is still listed: grandchildren of `npx` too, since they are in their parent's group (design 4).
//!
//! It asks first, by SIGTERM: the command line of a container passes that on to the container, which would outlive a
//! killed command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use parking_lot::Mutex;

/// How long a group has to end after SIGTERM: a container is stopped within that, and nobody waits for it.
const GRACE: Duration = Duration::from_secs(2);
/// How often it is looked whether a group is gone.
const STEP: Duration = Duration::from_millis(5);

/// Runs the guard until our parent dies, then ends the process. The command line calls it for the hidden argument
/// that [`crate::Options::guard`] ends with, before it starts anything else.
pub fn main() -> ! {
    end(watch(io::stdin().lock()));
    std::process::exit(0);
}

/// Ends groups: by SIGTERM, and by SIGKILL those that are there after [`GRACE`].
fn end(mut groups: BTreeSet<i32>) {
    for group in &groups {
        signal(*group, Signal::SIGTERM);
    }
    let mut left = GRACE;
    loop {
        // A number that has become free may soon be another's: what is gone is not signalled any more.
        groups.retain(|group| is_there(*group));
        if groups.is_empty() {
            return;
        }
        if left.is_zero() {
            break;
        }
        thread::sleep(STEP);
        left = left.saturating_sub(STEP);
    }
    for group in groups {
        kill(group);
    }
}

fn is_there(group: i32) -> bool {
    killpg(Pid::from_raw(group), None) != Err(Errno::ESRCH)
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

    fn shell(script: &str) -> (Child, i32) {
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        // It says a word once its traps are set.
        let mut said = String::new();
        io::BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n");
        let group = i32::try_from(child.id()).unwrap();
        (child, group)
    }

    #[test]
    fn design_4_a_group_is_asked_to_end_before_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let asked = folder.path().join("asked");
        // Like the command line of a container: it has something to do before it ends.
        let polite = format!(
            "trap 'echo yes > {}; exit 0' TERM; echo ready; while :; do sleep 0.01; done",
            asked.display()
        );
        let (mut polite, one) = shell(&polite);
        let (mut stubborn, other) = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done");
        // Reaped as they end, as init does with those that we leave.
        let (polite, stubborn) =
            (thread::spawn(move || polite.wait().unwrap()), thread::spawn(move || stubborn.wait().unwrap()));
        end(BTreeSet::from([one, other]));
        assert!(polite.join().unwrap().success());
        assert_eq!(std::fs::read_to_string(asked).unwrap(), "yes\n");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&stubborn.join().unwrap()), Some(9));
        assert!(!is_there(one));
    }

    #[test]
    fn design_4_groups_that_end_when_asked_are_not_waited_for() {
        let (mut child, group) = shell("echo ready; exec sleep 1000");
        let reaped = thread::spawn(move || child.wait().unwrap());
        let begun = tokio::time::Instant::now();
        end(BTreeSet::from([group]));
        assert!(begun.elapsed() < GRACE, "{:?}", begun.elapsed());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&reaped.join().unwrap()), Some(15));
    }

    #[test]
    fn only_groups_that_were_not_taken_back_are_left() {
        let said = b"+100\n+200\n-100\nnonsense\n+1\n+0\n+-5\n\n+300\n";
        assert_eq!(watch(&said[..]), BTreeSet::from([200, 300]));
    }
}
