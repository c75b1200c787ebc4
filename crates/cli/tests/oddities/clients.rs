//! Oddities of clients: rows 1, 13 and 14.

use std::process::{Command, Stdio};

use serde_json::json;

use crate::peer::{Server, peers, url};
use crate::tap::Tap;
use crate::through::{Through, drive};

const SLOW: [&str; 4] = ["--tool", "slow_report", "--args", r#"{"seconds":2,"label":"x"}"#];

#[test]
fn peers_01_b_042_g_018_fastmcp_4_leaves_out_mcp_name_and_rmcp_insists_on_it() {
    let server = Server::start("rmcp_b");
    let alone = drive("fastmcp_b", &server.url(), "run", &SLOW);
    assert_eq!(alone["ok"], false, "FastMCP and rmcp get along by now: {alone}");
    assert!(alone["error"].to_string().contains("Mcp-Name"), "{alone}");

    let back = Tap::before(server.port);
    let through = Through::http(&url(back.port));
    let front = Tap::before(through.port());
    let said = drive("fastmcp_b", &through.url_by(front.port), "run", &SLOW);
    assert_eq!(said["ok"], true, "{said}");
    let polls = front.of("tasks/get");
    assert!(!polls.is_empty(), "it was a task");
    assert!(polls.iter().all(|poll| poll.header("mcp-name").is_none()), "FastMCP sends it by now");
    assert!(front.of("tools/call").iter().all(|call| call.header("mcp-name") == Some("slow_report")));
    let ours = back.of("tasks/get");
    assert!(!ours.is_empty());
    for poll in ours {
        assert_eq!(poll.header("mcp-name"), poll.body["params"]["taskId"].as_str(), "{poll:?}");
    }
}

#[test]
fn peers_13_b_055_ext_tasks_speaks_to_a_modern_server_only_by_a_dispatcher_of_its_hosts() {
    let server = Server::start("fastmcp_b");
    let through = Through::http(&server.url());
    for target in [server.url(), through.url().to_owned()] {
        let alone = Command::new(peers().join("clients/ext_alone.sh"))
            .arg(&target)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&alone.stdout);
        assert!(!alone.status.success(), "ext-tasks needs no dispatcher by now: {words}");
        assert!(words.contains("rawDispatch"), "{words}{}", String::from_utf8_lossy(&alone.stderr));
    }
    let said = drive("ext_b", through.url(), "run", &SLOW);
    assert_eq!(said["ok"], true, "{said}");
    assert!(said["task_id"].is_string(), "{said}");
}

#[test]
fn peers_14_b_083_g_010_fastmcp_4_polls_faster_than_it_is_told_and_the_server_does_not_notice() {
    let server = Server::start("fastmcp_b");
    let back = Tap::before(server.port);
    let through = Through::http(&url(back.port));
    let front = Tap::before(through.port());
    let said = drive("fastmcp_b", &through.url_by(front.port), "run", &SLOW);
    assert_eq!(said["ok"], true, "{said}");
    // From when one was answered until the next one comes, which is never less than the client waited, however long either
    // takes to pass.
    let gaps = |tap: &Tap| -> Vec<u128> {
        let polls = tap.of("tasks/get");
        polls.windows(2).filter_map(|two| Some((two[1].at - two[0].answered()?).as_millis())).collect()
    };
    // What the gateway tells it, it tells everybody.
    let (created, _) = through.task_b("slow_report", json!({ "seconds": 1, "label": "y" }));
    let told = u128::from(created["pollIntervalMs"].as_u64().unwrap());
    let theirs = gaps(&front);
    assert!(theirs.iter().any(|gap| *gap + 50 < told), "it keeps to {told} ms by now: {theirs:?}");
    // The server's own hint; a timer may be a little early.
    let ours = gaps(&back);
    let hint = 200;
    assert!(ours.iter().all(|gap| *gap + 20 >= hint), "{ours:?}");
}
