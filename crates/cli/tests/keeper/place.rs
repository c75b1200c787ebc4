//! Where a keeper lives when its usual place cannot be had.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::host::Host;
use crate::scene::{Scene, until};

/// A host in a mount namespace of its own, in which `mount` was done. It needs root.
pub(crate) fn host_in(scene: &Scene, mount: &str) -> Host {
    let binary = env!("CARGO_BIN_EXE_taskgate");
    let server = scene.server("good").join(" ");
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &format!("{mount} && exec {binary} run -- {server}")]);
    command.env_clear().envs(scene.environment.iter().cloned()).current_dir(scene.path("."));
    Host::start(command)
}

pub(crate) fn is_root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    assert!(root || std::env::var("CI").is_err(), "CI must be root, or nothing can be mounted");
    if !root {
        println!("this test mounts file systems, for which it must be run as root: nothing was checked");
    }
    root
}

#[test]
fn a_read_only_state_folder_is_replaced_and_it_is_said() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let (state, run) = (scene.path("state"), scene.path("run"));
    fs::create_dir(&state).unwrap();
    fs::create_dir(&run).unwrap();
    let mut host = host_in(&scene, &format!("mount -t tmpfs -o ro none {}", state.display())).opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    host.wait_for_stderr("survive every process, but perhaps no reboot");
    assert!(run.join("taskgate/tasks.db").exists());
    let status = scene.status();
    assert_eq!((&status["running"], &status["is_fallback"]), (&json!(true), &json!(true)), "{status}");
    // Another host finds it there, though it could write in the state folder.
    let mut other = scene.host(&[]).opened();
    assert!(other.text("look", json!({})).starts_with("look"));
    scene.has_one_keeper();
    let log = || fs::read_to_string(run.join("taskgate/log/keeper.log")).unwrap();
    until("it is in the log", || log().contains("perhaps survive no reboot").then_some(()));
}

#[test]
fn a_full_state_folder_is_replaced_too() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let (state, run) = (scene.path("state"), scene.path("run"));
    fs::create_dir(&state).unwrap();
    fs::create_dir(&run).unwrap();
    let mount = format!(
        "mount -t tmpfs -o size=64k none {state} && (head -c 100000 /dev/zero > {state}/ballast; true)",
        state = state.display()
    );
    let mut host = host_in(&scene, &mount).opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    assert!(run.join("taskgate/tasks.db").exists());
}

#[test]
fn a_disk_that_fills_refuses_calls_in_words_and_takes_them_again_when_there_is_room() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let state = scene.path("state");
    fs::create_dir(&state).unwrap();
    let mount = format!("mount -t tmpfs -o size=4m none {}", state.display());
    let mut host = host_in(&scene, &mount).opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    // The mount is the host's own; through its process it can be reached.
    let inside = format!("/proc/{}/root{}", host.pid(), state.display());
    fill(&format!("{inside}/ballast"));
    let said = until("a call is refused", || {
        let said = host.text("work", json!({ "text": "b", "pad": "x".repeat(100_000) }));
        (!said.starts_with("work")).then_some(said)
    });
    assert!(said.contains("is full"), "{said}");
    // What needs no record goes on.
    assert!(host.request("tools/list", json!({}))["result"].is_object());
    fs::remove_file(format!("{inside}/ballast")).unwrap();
    until("calls are taken again", || {
        host.text("work", json!({ "text": "c" })).starts_with("work c").then_some(())
    });
}

fn fill(path: &str) {
    let mut file = fs::File::create(path).unwrap();
    let piece = [0_u8; 4096];
    while std::io::Write::write_all(&mut file, &piece).is_ok() {}
}

#[test]
fn no_place_at_all_is_told_to_the_host_and_nothing_hangs() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let (state, run) = (scene.path("state"), scene.path("run"));
    fs::create_dir(&state).unwrap();
    fs::create_dir(&run).unwrap();
    // The scene itself is below /tmp, so what is needed of it is bound before that goes.
    let mount = format!(
        "mount -t tmpfs -o ro none {} && mount -t tmpfs -o ro none {} && mkdir -p /mnt && \
         mount --rbind {} /mnt && mount -t tmpfs -o ro none /tmp",
        state.display(),
        run.display(),
        scene.path(".").display()
    );
    let mut host = host_in(&scene, &mount);
    let refused = host.open();
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("no place to keep tasks") && said.contains("XDG_STATE_HOME"), "{said}");
    // Every further request is answered too.
    let again = host.request("tools/list", json!({}));
    assert!(again["error"]["message"].as_str().unwrap().contains("no place"), "{again}");
    assert_eq!(host.close(), Some(0));
}

#[test]
fn a_state_folder_with_a_long_path_gets_a_socket_elsewhere() {
    let mut scene = Scene::new();
    let long = scene.path("state").join("x".repeat(120));
    scene.environment.iter_mut().find(|(name, _)| name == "XDG_STATE_HOME").unwrap().1 =
        long.display().to_string();
    let mut host = scene.host(&[]).opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    assert!(!long.join("taskgate/keeper/sock").exists());
    assert!(long.join("taskgate/keeper/tasks.db").exists());
    assert_eq!(host.close(), Some(0));
    assert!(scene.output(&["keeper", "stop"]).status.success());
}

#[test]
fn a_host_that_passes_no_home_gets_the_same_keeper() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    // As the TypeScript SDK does it, but for the home, which here is not the account's.
    let mut bare = scene.taskgate(&["run", "--", "x"]);
    bare.env_clear().env("XDG_STATE_HOME", scene.path("state"));
    let mut other = Host::start(bare);
    let refused = other.open();
    assert!(refused["error"]["message"].as_str().unwrap().contains("does not start"), "{refused}");
    scene.has_one_keeper();
    assert!(host.text("look", json!({})).starts_with("look"));
}
