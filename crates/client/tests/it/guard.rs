//! No server process outlives us.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use taskgate_client::{Options, Servers};

use crate::support::{key, legacy, python};

/// Plays the guard: the command line's hidden argument does the same.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn as_guard() {
    taskgate_client::guard::main();
}

/// Plays a gateway that holds a session, until it is killed.
#[test]
#[ignore = "run by other tests, in a process of its own"]
fn as_gateway() {
    #[expect(clippy::disallowed_methods, reason = "handed over by the test that starts this process")]
    let fifo = std::env::var("TASKGATE_TEST_FIFO").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let me = std::env::current_exe().unwrap();
        let guard: Vec<OsString> = std::iter::once(me.into_os_string())
            .chain(["--exact", "guard::as_guard", "--ignored", "--nocapture"].map(OsString::from))
            .collect();
        let options = Options { guard: Some(guard), ..Options::default() };
        let config = legacy(python(&[&format!("fifo={fifo}"), "stubborn"]));
        let servers = Servers::new(vec![config], options);
        let _session = servers.session(&key("{}")).await.unwrap();
        println!("ready");
        std::future::pending::<()>().await;
    });
}

#[test]
fn design_4_child_and_grandchild_go_when_we_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("alive");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut gateway = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "guard::as_gateway", "--ignored", "--nocapture"])
        .env("TASKGATE_TEST_FIFO", &fifo)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Opening waits for the server to open the other end.
    let mut alive = std::fs::OpenOptions::new().read(true).custom_flags(0).open(&fifo).unwrap();
    let mut said = Vec::new();
    let stdout = gateway.stdout.as_mut().unwrap();
    while !said.ends_with(b"ready\n") {
        let mut byte = [0];
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
    // Both hold the pipe: its end is the end of both.
    let mut rest = Vec::new();
    alive.read_to_end(&mut rest).unwrap();
}
