//! SIGTERM and SIGINT end the pipe at once: all that goes on goes on in the keeper.

use std::io;

use nix::sys::signal::{SigSet, Signal};

/// Exit codes: those of `taskgate`.
const TERMINATED: i32 = 0;
const INTERRUPTED: i32 = 130;

/// Call it before any other thread is begun: they take over which signals wait.
pub(super) fn exit_on_signals() -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block()?;
    super::spawn("signals", move || {
        if let Ok(signal) = signals.wait() {
            let code = if signal == Signal::SIGINT { INTERRUPTED } else { TERMINATED };
            std::process::exit(code);
        }
    })
}
