//! Oddities of servers over HTTP: rows 2 to 6, 8, 10 to 12 and 15.

use serde_json::{Value, json};

use crate::peer::{EXTENSION, Legacy, Server, modern, url};
use crate::support;
use crate::tap::Tap;
use crate::through::{Through, text};

fn report(seconds: u64) -> Value {
    json!({ "seconds": seconds, "label": "x" })
}

#[test]
fn peers_02_b_116_a_034_rmcp_answers_a_2025_client_by_the_shape_of_2026() {
    let server = Server::start("rmcp_b");
    let alone = Legacy::open(&server.url(), json!({ "extensions": { EXTENSION: {} } }));
    let said = alone.augmented("slow_report", report(1), json!({}));
    assert_eq!(said["result"]["resultType"], "task", "rmcp keeps the eras apart by now: {said}");
    assert!(said["result"]["taskId"].is_string() && said["result"].get("task").is_none(), "{said}");

    // Asked for 2025-11-25 and for 2026-07-28.
    for era in ["legacy", "auto"] {
        let through = Through::before(&format!("url = {:?}\nera = {era:?}\n", server.url()));
        let client = Legacy::open(through.url(), json!({ "extensions": { EXTENSION: {} } }));
        let said = client.augmented("slow_report", report(1), json!({}));
        assert!(said["result"].get("resultType").is_none(), "{era}: {said}");
        assert!(said["result"]["task"]["taskId"].is_string(), "{era}: {said}");
        let (_, _, result) = through.task_a("slow_report", report(1));
        assert_eq!(text(&result["result"]), "report x ready", "{era}");
        assert_eq!(text(&through.plain("slow_report", report(0))), "report x ready", "{era}");
    }
}

#[test]
fn peers_03_a_038_python_1_30_leaves_out_the_ttl_of_a_task_that_wished_for_none() {
    let server = Server::start("python_a");
    let alone = Legacy::open(&server.url(), json!({}));
    let said = alone.augmented("slow_report", report(1), json!({}));
    let task = said["result"]["task"].as_object().unwrap_or_else(|| panic!("{said}"));
    assert!(!task.contains_key("ttl"), "it has one by now: {said}");

    let through = Through::http(&server.url());
    let (task, got, result) = through.task_a("slow_report", report(1));
    for shown in [&task, &got] {
        assert!(shown["ttl"].is_u64(), "A-038: {shown}");
    }
    assert_eq!(text(&result["result"]), "report x ready");
    let (created, _) = through.task_b("slow_report", report(1));
    assert!(created["ttlMs"].is_u64(), "{created}");
}

#[test]
fn peers_04_a_034_fastmcp_2_announces_a_task_beside_an_empty_result() {
    let server = Server::start("fastmcp_2");
    let alone = Legacy::open(&server.url(), json!({}));
    let said = alone.augmented("slow_report", report(1), json!({}));
    assert!(alone.opened["result"]["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object());
    let announced = &said["result"]["_meta"]["modelcontextprotocol.io/task"]["taskId"];
    assert!(announced.is_string(), "it nests its tasks by now: {said}");
    assert_eq!((&said["result"]["content"], said["result"].get("task")), (&json!([]), None));

    let through = Through::http(&server.url());
    let (task, _, result) = through.task_a("slow_report", report(1));
    assert!(task["createdAt"].is_string() && task["ttl"].is_u64(), "{task}");
    assert_eq!(text(&result["result"]), "report x ready");
    let (_, done) = through.task_b("slow_report", report(1));
    assert_eq!((&done["status"], text(&done["result"])), (&json!("completed"), "report x ready"));
}

#[test]
fn peers_05_a_057_a_062_fastmcp_2_and_3_neither_hold_results_back_nor_list_tasks() {
    for name in ["fastmcp_2", "fastmcp_a"] {
        let server = Server::start(name);
        let alone = Legacy::open(&server.url(), json!({}));
        let said = alone.augmented("slow_report", report(5), json!({}));
        let early = &said["result"]["_meta"]["modelcontextprotocol.io/task"]["taskId"];
        let id = if early.is_null() { &said["result"]["task"]["taskId"] } else { early };
        let result = alone.ask("tasks/result", json!({ "taskId": id }));
        assert_eq!(result["error"]["code"], -32602, "{name} waits by now: {result}");
        assert!(result["error"]["message"].as_str().unwrap().contains("not completed yet"), "{result}");
        let listed = alone.ask("tasks/list", json!({}));
        assert_eq!(listed["result"]["tasks"], json!([]), "{name} lists by now");

        let through = Through::http(&server.url());
        let (_, _, result) = through.task_a("slow_report", report(2));
        assert_eq!(text(&result["result"]), "report x ready", "{name}: it was waited for");
        let theirs = result["result"]["_meta"].as_object().unwrap();
        assert_eq!(theirs.len(), 1, "X-010, {name}: {result}");
        // Whose result it is stands under another name in FastMCP 2. (FastMCP 3.4.11 has the right one; earlier ones of
        // it left it out.)
        let ended = || alone.ask("tasks/get", json!({ "taskId": id }))["result"]["status"] == "completed";
        wait_for(ended);
        let theirs = alone.ask("tasks/result", json!({ "taskId": id }))["result"]["_meta"].clone();
        let (early, right) = (
            &theirs["modelcontextprotocol.io/related-task"],
            &theirs["io.modelcontextprotocol/related-task"],
        );
        assert_eq!(
            (early.is_object(), right.is_object()),
            (name == "fastmcp_2", name == "fastmcp_a"),
            "{theirs}"
        );
    }
}

/// Looks until it is so.
fn wait_for(is_so: impl Fn() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_so() {
        assert!(std::time::Instant::now() < until, "it never came about");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn peers_06_g_002_fastmcp_4_has_tools_that_a_2025_client_cannot_call() {
    let server = Server::start("fastmcp_b");
    let discovered = modern(&server.url(), "server/discover", None, json!({})).response(1);
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]), "it lists them all by now");
    let alone = Legacy::open(&server.url(), json!({}));
    assert_eq!(alone.opened["result"]["protocolVersion"], "2025-11-25", "it has a handshake all the same");
    assert!(alone.opened["result"]["capabilities"].get("tasks").is_none());
    let listed = alone.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let audit = tools.iter().find(|tool| tool["name"] == "nightly_audit").unwrap();
    assert_eq!(audit["execution"]["taskSupport"], "required", "A-025: it says so without tasks");
    let refused = alone.call("nightly_audit", report(0));
    assert_eq!(refused["error"]["code"], -32021, "a 2025 client can call it by now: {refused}");

    let through = Through::http(&server.url());
    assert_eq!(text(&through.plain("nightly_audit", report(0))), "audit x ready");
    let (_, _, result) = through.task_a("nightly_audit", report(1));
    assert_eq!(text(&result["result"]), "audit x ready");
    // Opened by its handshake there is no way to call it, and the client is told which error it met.
    let legacy = Through::at_leisure(&format!("url = {:?}\nera = \"legacy\"\n", server.url()));
    let client = Legacy::open(legacy.url(), json!({}));
    let refused = client.call("nightly_audit", report(0));
    assert_eq!(refused["error"]["code"], -32603, "E-007: {refused}");
    assert!(refused["error"].to_string().contains("tasks extension"), "{refused}");
    assert_eq!(text(&legacy.plain("slow_report", report(0))), "report x ready", "its other tools can be");
}

#[test]
fn peers_08_x_010_ids_of_python_1_30_have_colons_and_belong_to_their_session() {
    let server = Server::start("python_a");
    let alone = Legacy::open(&server.url(), json!({}));
    let said = alone.augmented("slow_report", report(60), json!({}));
    let id = &said["result"]["task"]["taskId"];
    assert!(id.as_str().unwrap().contains(':'), "its ids are plain by now: {said}");
    assert_eq!(alone.ask("tasks/get", json!({ "taskId": id }))["result"]["status"], "working");
    let another = Legacy::open(&server.url(), json!({}));
    let refused = another.ask("tasks/get", json!({ "taskId": id }));
    assert_eq!(refused["error"]["code"], -32602, "any session may read it by now: {refused}");

    let through = Through::http(&server.url());
    let one = Legacy::open(through.url(), json!({}));
    let created = one.augmented("slow_report", report(1), json!({}));
    let ours = created["result"]["task"]["taskId"].as_str().unwrap();
    assert!(ours.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{ours}");
    drop(one);
    // Another session of the gateway, and the other era.
    let other = Legacy::open(through.url(), json!({}));
    let result = other.ask("tasks/result", json!({ "taskId": ours }));
    assert_eq!(text(&result["result"]), "report x ready");
    let got = modern(through.url(), "tasks/get", Some(ours), json!({ "taskId": ours })).response(1);
    assert_eq!(got["result"]["status"], "completed", "{got}");
}

#[test]
fn peers_10_d_018_what_old_servers_answer_to_discover_over_http_tells_no_era() {
    let without_a_session = [
        ("python_a", -32600, json!("server-error"), "Missing session ID"),
        ("fastmcp_a", -32600, json!("server-error"), "Missing session ID"),
        ("everything", -32000, Value::Null, "not initialized"),
    ];
    for (name, code, id, words) in without_a_session {
        let server = Server::start(name);
        let said = modern(&server.url(), "server/discover", None, json!({}));
        assert_eq!(said.status, 400, "{said:?}");
        let body = said.json();
        assert_eq!((&body["error"]["code"], &body["id"]), (&json!(code), &id), "{name}: {body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(words), "{body}");

        let through = Through::at_leisure(&format!("url = {:?}\n", server.url()));
        let client = Legacy::open(through.url(), json!({}));
        let (tool, arguments, answer) = match name {
            "everything" => ("echo", json!({ "message": "hello" }), "Echo: hello"),
            _ => ("echo", json!({ "text": "hello" }), "hello"),
        };
        let said = client.call(tool, arguments);
        assert_eq!(text(&said["result"]), answer, "{name}: {said}");
    }
}

#[test]
fn peers_11_b_081_x_052_servers_give_one_error_with_different_statuses() {
    for (name, status) in [("rmcp_b", 200), ("tower_odd", 200), ("fastmcp_b", 400), ("pmcp_odd", 400)] {
        let server = Server::start(name);
        let unknown = modern(&server.url(), "tasks/get", Some("none"), json!({ "taskId": "none" }));
        assert_eq!(
            (unknown.status, &unknown.response(1)["error"]["code"]),
            (status, &json!(-32602)),
            "{name}"
        );
        let no_method = modern(&server.url(), "prompts/nope", None, json!({}));
        assert_eq!((no_method.status, &no_method.json()["error"]["code"]), (404, &json!(-32601)), "{name}");

        let through = Through::http(&server.url());
        // Neither status is taken for the end of a session, nor for a server that is gone.
        let get = |url: &str| {
            modern(url, "prompts/get", Some("p"), json!({ "name": "p" })).response(1)["error"].clone()
        };
        assert_eq!(get(through.url())["code"], get(&server.url())["code"], "{name}");
        let refused = modern(
            through.url(),
            "tools/call",
            Some("refuse"),
            json!({ "name": "refuse", "arguments": { "message": "not today" } }),
        );
        let refused = refused.response(1);
        let ended = match refused["result"]["taskId"].as_str() {
            Some(id) => ended(&through, id)["error"].clone(),
            None => refused["error"].clone(),
        };
        assert!(ended.to_string().contains("not today"), "{name}: {refused} {ended}");
        assert_eq!(
            text(&through.plain("slow_report", report(0))),
            "report x ready",
            "{name} is still served"
        );
    }
}

fn ended(through: &Through, id: &str) -> Value {
    let look = || {
        modern(through.url(), "tasks/get", Some(id), json!({ "taskId": id })).response(1)["result"].clone()
    };
    wait_for(|| look()["status"] != "working");
    look()
}

#[test]
fn peers_12_b_042_the_typescript_sdk_2_has_no_tasks_but_knows_their_header() {
    let server = Server::start("ts_plain");
    let discovered = modern(&server.url(), "server/discover", None, json!({})).response(1);
    assert!(discovered["result"]["capabilities"].get("extensions").is_none(), "it has tasks by now");
    let with_name = modern(&server.url(), "tasks/get", Some("none"), json!({ "taskId": "none" }));
    assert_eq!((with_name.status, &with_name.json()["error"]["code"]), (404, &json!(-32601)));
    let without = modern(&server.url(), "tasks/get", None, json!({ "taskId": "none" }));
    assert_eq!((without.status, &without.json()["error"]["code"]), (400, &json!(-32020)));
    // Its handshake gives no session: each request stands for itself.
    let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } } });
    let opened = support::post(&server.url(), &[], &message);
    assert_eq!((opened.status, opened.header("mcp-session-id")), (200, None), "it has sessions by now");

    for era in ["auto", "legacy"] {
        let through = Through::before(&format!("url = {:?}\nera = {era:?}\n", server.url()));
        let (created, done) = through.task_b("slow_report", report(1));
        assert_eq!(created["resultType"], "task", "{era}");
        assert_eq!(text(&done["result"]), "report x ready", "{era}");
        let (_, _, result) = through.task_a("slow_report", report(1));
        assert_eq!(text(&result["result"]), "report x ready", "{era}");
    }
}

#[test]
fn peers_15_a_037_times_are_written_in_four_ways() {
    // How many digits stand behind the second, and what ends them.
    for (name, digits, zone) in [
        ("everything", 3, "Z"),
        ("python_a", 6, "Z"),
        ("fastmcp_b", 6, "+00:00"),
        ("rmcp_b", 9, "+00:00"),
        ("pmcp_odd", 9, "+00:00"),
    ] {
        let server = Server::start(name);
        let (tool, arguments) = match name {
            "everything" => ("simulate-research-query", json!({ "topic": "owls" })),
            _ => ("slow_report", report(1)),
        };
        let params = json!({ "name": tool, "arguments": arguments });
        let time = match name {
            "everything" | "python_a" => Legacy::open(&server.url(), json!({})).augmented(
                tool,
                arguments.clone(),
                json!({ "ttl": 60_000 }),
            )["result"]["task"]["createdAt"]
                .clone(),
            _ => modern(&server.url(), "tools/call", Some(tool), params).response(1)["result"]["createdAt"]
                .clone(),
        };
        let time = time.as_str().unwrap();
        let (_, fraction) = time.split_once('.').unwrap();
        // A clock that happens to be at a round moment may say less.
        assert!(fraction.ends_with(zone), "{name} writes {time} by now");
        assert!(
            fraction.len() - zone.len() <= digits && digits < fraction.len() - zone.len() + 4,
            "{name}: {time}"
        );

        let through = Through::http(&server.url());
        let (task, _, result) = through.task_a(tool, arguments);
        assert!(result.get("error").is_none(), "{name}: {result}");
        for time in [&task["createdAt"], &task["lastUpdatedAt"]] {
            let time = time.as_str().unwrap();
            assert!(time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z'), "{time}");
        }
    }
}

#[test]
fn peers_17_a_134_server_everything_answers_400_for_a_session_that_is_gone() {
    let server = Server::start("everything");
    // It comes back at the same address, whoever has its port by then.
    let line = Tap::before(server.port);
    let through = Through::at_leisure(&format!("url = {:?}\n", url(line.port)));
    let client = Legacy::open(through.url(), json!({}));
    let echo = || client.call("echo", json!({ "message": "hi" }));
    assert_eq!(text(&echo()["result"]), "Echo: hi");
    let alone = Legacy::open(&url(line.port), json!({}));
    drop(server);
    let again = Server::start("everything");
    line.lead_to(again.port);
    let said = alone.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    assert_eq!(
        (said.status, &said.json()["error"]["code"]),
        (400, &json!(-32000)),
        "it says 404 by now: {said:?}"
    );
    // The client's own session, and its call, know nothing of it.
    assert_eq!(text(&echo()["result"]), "Echo: hi");
}
