//! One keeper, one server for each key, and nothing that is left behind.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::host::Host;
use crate::scene::{Scene, is_alive, kill_9, until};

#[test]
fn design_4_a_plain_session_goes_through_pipe_and_keeper() {
    let scene = Scene::new();
    let mut host = scene.host(&[]);
    let opened = host.open();
    assert_eq!(opened["result"]["serverInfo"]["name"], "scripted", "{opened}");
    assert_eq!(opened["result"]["instructions"], "Be kind.", "{opened}");
    let tools = host.request("tools/list", json!({}));
    let names: Vec<_> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert!(names.contains(&json!("work")) && names.contains(&json!("taskgate_task")), "{names:?}");
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a by "));
    assert_eq!(host.close(), Some(0));
    let status = scene.status();
    assert_eq!(status["running"], true, "{status}");
    // Nobody is attached and nothing lives, so the server has ended; the keeper stays a while.
    until("the server has ended", || (scene.count("server.py") == 0).then_some(()));
    assert_eq!(scene.journal("start").len(), 1);
}

#[test]
fn design_4_twenty_hosts_at_once_start_one_keeper_and_one_server() {
    let scene = Scene::new();
    let mut hosts: Vec<Host> = (0..20).map(|_| scene.host(&[])).collect();
    for host in &mut hosts {
        host.open();
    }
    scene.has_one_keeper();
    assert_eq!(scene.journal("start").len(), 1);
    let status = scene.status();
    assert_eq!(status["hosts"].as_array().unwrap().len(), 20);
    assert_eq!(status["servers"].as_array().unwrap().len(), 1);
    assert_eq!(status["servers"][0]["hosts"], 20);
    for host in hosts {
        assert_eq!(host.close(), Some(0));
    }
}

#[test]
fn design_4_the_keeper_is_nobodys_child_and_has_nothing_of_its_first_host() {
    let mut scene = Scene::new();
    scene.environment.push(("SECRET_OF_THE_HOST".into(), "a-value-that-is-planted".into()));
    let mut host = scene.host(&[]).opened();
    let keeper = scene.keeper_pid();
    let process = scene.processes().into_iter().find(|process| process.pid == keeper).unwrap();
    assert_ne!(process.parent, host.pid());
    assert_ne!(process.parent, i32::try_from(std::process::id()).unwrap());
    let environ = fs::read(format!("/proc/{keeper}/environ")).unwrap();
    assert!(!crate::scene::holds(&environ, "SECRET_OF_THE_HOST"));
    for stream in 0..=2 {
        let at = fs::read_link(format!("/proc/{keeper}/fd/{stream}")).unwrap();
        assert_eq!(at.to_str(), Some("/dev/null"));
    }
    assert_eq!(fs::read_link(format!("/proc/{keeper}/cwd")).unwrap().to_str(), Some("/"));
    // The server has it.
    assert_eq!(host.text("environment", json!({ "text": "SECRET_OF_THE_HOST" })), "a-value-that-is-planted");
}

#[test]
fn design_4_fifty_starts_kills_and_timeouts_leave_one_keeper_and_nothing_else() {
    let scene = Scene::new();
    // Something stands before it begins, so that what is counted is what grows.
    let mut first = scene.host_of("child", &[]).opened();
    first.text("look", json!({}));
    let keeper = scene.keeper_pid();
    let count = |what: &str| fs::read_dir(format!("/proc/{keeper}/{what}")).unwrap().count();
    let (files, threads) = (count("fd"), count("task"));
    for number in 0..50 {
        let mut host = scene.host_of("child", &[]);
        match number % 5 {
            // Killed before it said a word.
            0 => kill_9(host.pid()),
            // Killed in the middle of a call.
            1 => {
                host.open();
                host.call("work", json!({ "text": number.to_string(), "seconds": 0.2 }));
                scene.wait_for_journal(&format!("begin work {number}"), 1);
                kill_9(host.pid());
            }
            // Given up on by its host in the middle of a call.
            2 => {
                host.open();
                let id = host.call("look", json!({ "text": number.to_string(), "seconds": 0.2 }));
                host.send(&json!({
                    "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
                }));
                assert_eq!(host.close(), Some(0));
            }
            3 => {
                host.open();
                host.signal(Signal::SIGTERM);
                assert_eq!(host.code(), Some(0));
            }
            _ => {
                host.open();
                host.text("work", json!({ "text": number.to_string() }));
                assert_eq!(host.close(), Some(0));
            }
        }
    }
    until("all hosts are gone", || (scene.status()["hosts"].as_array().unwrap().len() == 1).then_some(()));
    assert_eq!(scene.keeper_pid(), keeper);
    scene.has_one_keeper();
    assert_eq!(scene.journal("start").len(), 1, "one server for all of them");
    until("its child is the only one", || (scene.count("sleep 1000") == 1).then_some(()));
    until("nothing has grown", || (count("fd") <= files + 2 && count("task") <= threads + 4).then_some(()));
    until("nobody is left dead", || {
        crate::scene::processes(|process| process.state == 'Z' && process.parent == keeper)
            .is_empty()
            .then_some(())
    });
    assert_eq!(first.close(), Some(0));
    until("the server and its child are gone", || {
        (scene.count("server.py") == 0 && scene.count("sleep 1000") == 0).then_some(())
    });
}

#[test]
fn design_4_no_server_outlives_a_killed_keeper_its_children_included() {
    let scene = Scene::new();
    // Behind a shell, as `npx` would be.
    let server = scene.server("child").join(" ");
    let host = scene.host_running(&["sh", "-c", &format!("{server}; true")], &[]).opened();
    let keeper = scene.keeper_pid();
    let child: i32 = scene.journal("child")[0].split(' ').nth(1).unwrap().parse().unwrap();
    assert!(is_alive(child));
    // The pipe would start the next one, and that the server.
    kill_9(host.pid());
    kill_9(keeper);
    until("the server's child is gone", || (!is_alive(child)).then_some(()));
    until("everything is gone", || scene.processes().is_empty().then_some(()));
}

#[test]
fn a_host_that_does_not_read_stops_nobody_else() {
    let scene = Scene::new();
    let mut other = scene.host(&[]).opened();
    let server = scene.server("good");
    let args = [&["run", "--"], server.iter().map(String::as_str).collect::<Vec<_>>().as_slice()].concat();
    let mut stuck = scene.taskgate(&args);
    let mut stuck = stuck.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = stuck.stdin.take().unwrap();
    // More answers than all buffers between hold; at some point it can write no more either.
    let (sender, written) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for id in 0..20_000 {
            let ping = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "pad": "x".repeat(500) } });
            if writeln!(stdin, "{ping}").is_err() || sender.send(id).is_err() {
                return;
            }
        }
    });
    let mut last = 0;
    while let Ok(id) = written.recv_timeout(std::time::Duration::from_secs(2)) {
        last = id;
    }
    assert!(last < 19_999, "the keeper took everything, which must be kept somewhere");
    let keeper = scene.keeper_pid();
    let status = fs::read_to_string(format!("/proc/{keeper}/status")).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    let kib: u64 = resident.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 200_000, "{resident}");
    for round in 0..20 {
        assert!(other.text("work", json!({ "text": round.to_string() })).starts_with("work"));
    }
    stuck.kill().unwrap();
    stuck.wait().unwrap();
    until("it is gone", || (scene.status()["hosts"].as_array().unwrap().len() == 1).then_some(()));
    assert!(scene.output(&["keeper", "stop"]).status.success());
}
