//! A keeper whose disk breaks: it ends, the next one reads what was kept, and nothing is done twice (notes 2.7, R3.3).
//!
//! A disk breaks here by a limit on the size of files: a write above it fails, and by another error than that of a full disk.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::host::{Host, text};
use crate::place::{host_in, is_root};
use crate::scene::{Scene, is_alive, kill_9, until};

/// A host whose keepers are told that a file may not grow, and not killed for it. `limits` are set in its shell.
fn host_with(scene: &Scene, limits: &str) -> Host {
    let (binary, server) = (env!("CARGO_BIN_EXE_taskgate"), scene.server("good").join(" "));
    let mut command = Command::new("sh");
    command.args(["-c", &format!("trap '' XFSZ; {limits} exec {binary} run -- {server}")]);
    command.env_clear().envs(scene.environment.iter().cloned()).current_dir(scene.path("."));
    Host::start(command)
}

/// From now on no file of this process can become longer than the log of its database is.
fn break_disk_of(keeper: i32, scene: &Scene) {
    let log = fs::metadata(scene.keeper_folder().join("tasks.db-wal")).unwrap().len();
    let mut limit = Command::new("prlimit");
    limit.args(["--pid", &keeper.to_string(), &format!("--fsize={log}:{log}")]);
    assert!(limit.status().unwrap().success());
}

#[test]
fn notes_2_7_r3_3_a_keeper_whose_disk_breaks_ends_and_its_host_is_answered_by_the_next() {
    let scene = Scene::new();
    let mut host = host_with(&scene, "").opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    let before = scene.keeper_pid();
    let sent = host.call("work", json!({ "text": "b", "seconds": 100 }));
    scene.wait_for_journal("begin work b", 1);
    break_disk_of(before, &scene);
    let called = host.call("work", json!({ "text": "c" }));
    // It was not sent before it was recorded, and nobody but the next keeper could record it.
    assert!(text(&host.answer(called)).starts_with("work c"));
    let said = text(&host.answer(sent));
    assert!(said.contains("unknown") || said.contains("may or may not"), "{said}");
    for call in ["a", "b", "c"] {
        assert_eq!(scene.journal(&format!("begin work {call}")).len(), 1, "{call}");
    }
    until("the keeper has ended", || (!is_alive(before)).then_some(()));
    assert_ne!(scene.keeper_pid(), before);
    assert!(scene.log().contains("tasks.db failed while it was used"), "{}", scene.log());
    assert_eq!(host.close(), Some(0));
}

#[test]
fn notes_2_7_a_call_at_which_the_disk_breaks_each_time_is_given_up_after_some_keepers() {
    let scene = Scene::new();
    // 2048 blocks of 512 bytes.
    let mut host = host_with(&scene, "ulimit -f 2048;").opened();
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
    let said = host.text("work", json!({ "text": "b", "pad": "x".repeat(3 << 20) }));
    assert!(said.contains("ended 5 times in a row"), "{said}");
    assert_eq!(scene.journal("begin work b").len(), 0, "it was never recorded, and so never sent");
    let keepers = scene.log().matches("the keeper is ready").count();
    assert!((5..=6).contains(&keepers), "{keepers}");
    // What the disk can take is served.
    assert!(host.text("work", json!({ "text": "c" })).starts_with("work c"));
    assert_eq!(host.close(), Some(0));
}

#[test]
fn r3_3_what_may_have_been_sent_is_not_asked_of_a_keeper_in_another_place() {
    if !is_root() {
        return;
    }
    let scene = Scene::new();
    let (state, run) = (scene.path("state"), scene.path("run"));
    fs::create_dir(&state).unwrap();
    fs::create_dir(&run).unwrap();
    let mut host = host_in(&scene, "true").opened();
    let id = host.call("work", json!({ "text": "a", "seconds": 100 }));
    scene.wait_for_journal("begin work a", 1);
    let keeper = scene.keeper_pid();
    // The state folder as the host sees it can be written no longer, and the fallback could.
    let mut mount = Command::new("nsenter");
    mount.args(["-t", &host.pid().to_string(), "-m", "mount", "-t", "tmpfs", "-o", "ro", "none"]).arg(&state);
    assert!(mount.status().unwrap().success());
    kill_9(keeper);
    let said = text(&host.answer(id));
    assert!(said.contains("no place to keep tasks"), "{said}");
    assert_eq!(scene.journal("begin work a").len(), 1, "{said}");
    assert!(!run.join("taskgate/tasks.db").exists());
}
