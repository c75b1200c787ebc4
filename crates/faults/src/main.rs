//! The parts of a fault campaign, for use by hand: `taskgate-faults bank`, `server`, `bridge`.

use std::process::ExitCode;

fn main() -> ExitCode {
    taskgate_faults::parts::main(std::env::args_os())
}
