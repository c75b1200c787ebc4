//! Nobody else gets in, and nothing secret gets out.
//!
//! As root other users can be played; CI is root. Anyone else is told that these tests need it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::scene::{Scene, holds, processes, until};

const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    assert!(root || std::env::var("CI").is_err(), "CI must be root, or other users cannot be played");
    if !root {
        println!("this test plays another user, for which it must be run as root: nothing was checked");
    }
    root
}

/// Runs a command as another user, with access to nothing of ours.
fn as_nobody(script: &str) -> std::process::Output {
    Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c", script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn r6_2_another_local_user_can_neither_connect_nor_read() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    // Whoever may enter what is above it still may not enter the keeper's own folder.
    fs::set_permissions(scene.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    let _host = scene.host(&[]).opened();
    let folder = scene.keeper_folder();
    for parent in [scene.path("state"), scene.path("state/taskgate")] {
        fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let script = format!(
        r#"
import os, socket
folder = {:?}
for attempt in (
    lambda: os.listdir(folder),
    lambda: open(folder + "/tasks.db"),
    lambda: open(folder + "/log/keeper.log"),
    lambda: socket.socket(socket.AF_UNIX).connect(folder + "/sock"),
):
    try:
        attempt()
        print("IN")
    except PermissionError:
        print("out")
"#,
        folder.display().to_string()
    );
    let said = as_nobody(&script);
    let text = String::from_utf8_lossy(&said.stdout);
    assert_eq!(text, "out\nout\nout\nout\n", "{}", String::from_utf8_lossy(&said.stderr));
    for (path, _) in scene.files("state") {
        let Ok(found) = fs::metadata(&path) else { continue };
        assert_eq!(found.mode() & 0o077, 0, "{}", path.display());
    }
}

#[test]
fn r6_2_a_connection_of_another_user_is_closed_at_once() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let _host = scene.host(&[]).opened();
    // Somebody opened the folders and the socket to everybody: who connects is still looked at.
    let folder = scene.keeper_folder();
    let open =
        |path: std::path::PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    for path in [scene.path("."), scene.path("state"), scene.path("state/taskgate"), folder.clone()] {
        open(path, 0o755);
    }
    open(folder.join("sock"), 0o777);
    let script = format!(
        r#"
import socket
s = socket.socket(socket.AF_UNIX)
s.connect({:?})
try:
    s.sendall(b'{{"taskgate":{{"protocol":1,"version":"0.1.0","kind":"control"}}}}\n')
    print(s.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b'')
"#,
        folder.join("sock").display().to_string()
    );
    let said = as_nobody(&script);
    assert_eq!(
        String::from_utf8_lossy(&said.stdout).trim(),
        "b''",
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    until("it is in the log", || scene.log().contains("another user").then_some(()));
    open(folder, 0o700);
}

#[test]
fn r6_2_a_socket_that_is_not_ours_is_not_talked_to() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    // A trap: a folder of ours, and in it a socket at which another user listens.
    let folder = scene.keeper_folder();
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    for path in [scene.path("."), scene.path("state"), scene.path("state/taskgate")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let trap = scene.path("trap");
    fs::create_dir(&trap).unwrap();
    std::os::unix::fs::chown(&trap, Some(NOBODY), Some(NOBODY)).unwrap();
    let script = format!(
        r#"
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind({:?})
s.listen()
print("ready", flush=True)
while True:
    c, _ = s.accept()
    print(len(c.recv(10000)), flush=True)
"#,
        trap.join("sock").display().to_string()
    );
    let mut listener = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "python3", "-c", &script])
        .env_clear()
        .env("PATH", "/usr/bin:/bin:/usr/local/bin")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(listener.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    fs::rename(trap.join("sock"), folder.join("sock")).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    let mut host = scene.host(&[]);
    let refused = host.open();
    assert!(refused["error"]["message"].as_str().unwrap().contains("user 65534"), "{refused}");
    // It heard nothing of us.
    line.clear();
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    assert_eq!(line, "0\n");
    let _ = listener.kill();
    let _ = listener.wait();
}

#[test]
fn a_folder_that_is_not_ours_alone_is_refused_with_what_to_do() {
    let scene = Scene::new();
    let folder = scene.keeper_folder();
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let trap = UnixListener::bind(folder.join("sock")).unwrap();
    let mut host = scene.host(&[]);
    let refused = host.open();
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("chmod 700"), "{said}");
    // It was not even connected to.
    trap.set_nonblocking(true).unwrap();
    assert!(trap.accept().is_err());
    drop(trap);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    // The next request finds it in order.
    assert!(host.open()["result"].is_object());
}

#[test]
fn r6_5_environment_values_stand_in_no_file_no_log_and_no_process_list() {
    const PLANTED: &str = "planted-secret-0123456789";
    let mut scene = Scene::new();
    scene.environment.push(("API_TOKEN".into(), PLANTED.into()));
    scene.environment.push(("TASKGATE_LOG".into(), "trace".into()));
    let mut host = scene.host(&[]).opened();
    // The server itself prints it.
    host.text("whisper", json!({ "text": "API_TOKEN" }));
    host.wait_for_stderr("the value is [API_TOKEN] indeed");
    let lists = processes(|process| holds(process.command.as_bytes(), PLANTED));
    assert!(lists.is_empty(), "{lists:?}");
    assert_eq!(host.close(), Some(0));
    assert!(scene.output(&["keeper", "stop"]).status.success());
    let files = scene.files("state");
    assert!(files.len() >= 4, "{files:?}");
    for (path, bytes) in files {
        assert!(!holds(&bytes, PLANTED), "{}", path.display());
    }
    let logs = scene.output(&["keeper", "logs", "server"]);
    let logs = String::from_utf8_lossy(&logs.stdout).into_owned();
    assert!(logs.contains("the value is [API_TOKEN] indeed"), "{logs}");
}
