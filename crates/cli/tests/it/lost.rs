//! A disk that loses what it was given: a sync fails, and the process ends itself (notes 2.7).
//!
//! The sync is made to fail below the binary, by a layer before the C library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    DemoServer, Gateway, Legacy, Running, config, folder, modern, run_in, taskgate, wait_until,
};

/// The layer, built in `folder`.
fn layer(folder: &Path) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/failing_sync.c");
    let layer = folder.join("failing_sync.so");
    let mut build = Command::new("cc");
    build.args(["-shared", "-fPIC", "-o"]).arg(&layer).arg(source).arg("-ldl");
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    layer
}

/// `serve` in `folder`, on a disk that fails while `folder/broken` is there.
fn on_a_failing_disk(folder: &TempDir) -> Command {
    let mut command = taskgate(&["serve", "--until-stdin-ends", "--json", "--config", "taskgate.toml"]);
    command.current_dir(folder.path());
    command.env("LD_PRELOAD", layer(folder.path())).env("FAILING_SYNC", folder.path().join("broken"));
    command
}

#[test]
fn notes_2_7_r3_3_a_failed_sync_ends_serve_and_the_next_start_finds_all_that_was_acknowledged() {
    let server = DemoServer::start("plain");
    let more = "limits.task_after = \"100ms\"\nlimits.sync_budget = \"60s\"";
    let folder = folder(&[("taskgate.toml", &config(&server.url, more))]);
    let mut gateway = Gateway::run(on_a_failing_disk(&folder));
    let legacy = Legacy::open(&gateway.url);
    let pay = |to: &str| json!({ "name": "payment", "arguments": { "to": to, "amount": 5 } });
    let paid = legacy.request("tools/call", pay("X"));
    assert!(paid["result"].is_object(), "{paid}");
    let report =
        |title: &str| json!({ "name": "slow_report", "arguments": { "title": title, "seconds": 100 } });
    let created = modern(&gateway.url, "tools/call", "slow_report", report("task"));
    let task = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    // A client without tasks waits for its answer.
    let url = gateway.url.clone();
    let waiting = thread::spawn(move || {
        Legacy::open(&url).request(
            "tools/call",
            json!({ "name": "slow_report", "arguments": { "title": "held", "seconds": 100 } }),
        )
    });
    wait_until(|| server.begun("slow_report", "held") == 1);

    std::fs::write(folder.path().join("broken"), "").unwrap();
    let refused = legacy.request("tools/call", pay("Y"));
    let words = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(words.contains("could not say whether the call was recorded; it was not sent"), "{words}");
    let held = waiting.join().unwrap();
    assert_eq!(held["error"]["data"]["reason"], "store_failed", "{held}");
    assert_eq!(gateway.running.code(), Some(8));
    let said = gateway.running.stderr();
    let last: Vec<_> =
        said.lines().filter(|line| line.starts_with("error:") || line.starts_with(" help:")).collect();
    let [error, help] = last.as_slice() else { panic!("{said}") };
    assert!(error.contains("taskgate.db failed while it was used: disk I/O error"), "{error}");
    assert!(help.contains("start it again"), "{help}");
    assert_eq!(server.begun("payment", "5 to Y"), 0, "it was not sent");

    // As long as the disk fails, a start ends too, as one that cannot use its database.
    let mut again = Running::start(on_a_failing_disk(&folder));
    assert_eq!(again.code(), Some(5), "{}", again.stderr());

    std::fs::remove_file(folder.path().join("broken")).unwrap();
    let gateway = Gateway::start(folder.path());
    let found = modern(&gateway.url, "tasks/get", &task, json!({ "taskId": task }));
    assert_eq!(found["result"]["taskId"], task, "{found}");
    let entries = run_in(folder.path(), &["ops", "export", "--config", "taskgate.toml"]).stdout;
    let entries: Vec<Value> =
        String::from_utf8(entries).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |tool: &str| {
        let such = entries.iter().filter(|entry| entry["tool"] == tool);
        such.map(|entry| [&entry["stage"], &entry["outcome"], &entry["doubt"]]).collect::<Vec<_>>()
    };
    assert!(of("payment").contains(&[&json!("settled"), &json!("reported"), &Value::Null]), "{entries:#?}");
    // Their server went on, and may have made them or not; that of Y was never asked, which the next process cannot know.
    let unknown = [&json!("unknown"), &Value::Null, &json!("answer_lost")];
    assert_eq!(of("slow_report"), [unknown, unknown], "{entries:#?}");
    // Nothing that was sent is sent again.
    assert_eq!((server.begun("payment", "5 to X"), server.begun("payment", "5 to Y")), (1, 0));
    assert_eq!((server.begun("slow_report", "task"), server.begun("slow_report", "held")), (1, 1));
}
