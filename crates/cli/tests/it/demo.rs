//! The demo, from end to end.

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;

use crate::support::{Running, folder, run_in, said, taskgate};

#[test]
fn all_that_the_demo_promises_holds() {
    let output = run_in(&std::env::temp_dir(), &["demo", "--exit", "--port", "0", "--report-seconds", "12"]);
    let told = said(&output);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert_eq!(told.matches("held:").count(), 8, "{told}");
    assert!(told.contains("kill -9") && told.contains("Everything held."), "{told}");
}

/// Reads until both processes run; what they are and where they listen.
fn begin(folder: &Path) -> (Running, Vec<i32>, Vec<String>) {
    let mut command = taskgate(&["demo", "--port", "0"]);
    // What a killed demo leaves in the temporary folder goes with the test.
    command.env("TMPDIR", folder);
    let mut running = Running::start(command);
    let (mut ids, mut addresses) = (Vec::new(), Vec::new());
    while ids.len() < 2 {
        let line = running.text_line();
        assert!(!line.is_empty(), "{}", running.stderr());
        if let Some((_, rest)) = line.split_once(" as process ") {
            let (id, url) = rest.split_once(": ").unwrap();
            ids.push(id.parse().unwrap());
            addresses.push(url.trim().trim_start_matches("http://").split('/').next().unwrap().to_owned());
        }
    }
    for address in &addresses {
        TcpStream::connect(address).unwrap();
    }
    (running, ids, addresses)
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let folder = folder(&[]);
    let (mut running, ids, addresses) = begin(folder.path());
    running.signal(Signal::SIGINT);
    assert_eq!(running.code(), Some(130));
    for id in ids {
        assert!(!PathBuf::from(format!("/proc/{id}")).exists(), "{id}");
    }
    for address in addresses {
        assert!(TcpStream::connect(&address).is_err(), "{address}");
    }
}

#[test]
fn a_kill_leaves_nothing_behind() {
    let folder = folder(&[]);
    let (mut running, _, addresses) = begin(folder.path());
    running.signal(Signal::SIGKILL);
    running.code();
    // The guard sees it by a closed pipe; once it has, connections fail.
    for address in addresses {
        while TcpStream::connect(&address).is_ok() {}
    }
}
