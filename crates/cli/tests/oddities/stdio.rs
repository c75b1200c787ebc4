//! Oddities that show over stdio: rows 7, 9 and 10.

use serde_json::{Value, json};

use crate::peer::{Legacy, Pipe, modern_request, serve};
use crate::through::{Through, text};

const RESEARCH: &str = "simulate-research-query";

fn everything() -> Pipe {
    let mut pipe = Pipe::start(&serve("everything"));
    let opened = pipe.open("2025-11-25", &json!({ "elicitation": { "form": {} } }));
    assert_eq!(opened["result"]["protocolVersion"], "2025-11-25");
    pipe
}

fn research(ambiguous: bool, task: Option<Value>) -> Value {
    let mut params = json!({ "name": RESEARCH, "arguments": { "topic": "owls", "ambiguous": ambiguous } });
    if let Some(task) = task {
        params["task"] = task;
    }
    params
}

#[test]
fn peers_07_a_039_server_everything_raises_the_ttl_and_tells_of_a_task_before_it_names_it() {
    let mut alone = everything();
    let (before, created) = alone.ask(1, "tools/call", research(false, Some(json!({ "ttl": 60_000 }))));
    let task = &created["result"]["task"];
    assert_eq!(task["ttl"], 300_000, "it grants what it is asked for by now: {created}");
    let told = |message: &Value| {
        message["method"] == "notifications/tasks/status" && message["params"]["taskId"] == task["taskId"]
    };
    assert!(before.iter().any(told), "it names its task first by now: {before:?}");
    drop(alone);

    let through = Through::stdio("everything");
    let client = Legacy::open(through.url(), json!({}));
    let created = client.augmented(RESEARCH, json!({ "topic": "owls" }), json!({ "ttl": 60_000 }));
    let id = json!({ "taskId": created["result"]["task"]["taskId"] });
    assert!(id["taskId"].is_string(), "{created}");
    let result = client.ask("tasks/result", id);
    assert!(text(&result["result"]).contains("owls"), "{result}");
}

#[test]
fn peers_07_a_028_a_031_e_004_server_everything_refuses_a_wrong_form_in_words_of_its_own() {
    let mut alone = everything();
    let mut echo = json!({ "name": "echo", "arguments": { "message": "hi" } });
    echo["task"] = json!({});
    let (_, refused) = alone.ask(1, "tools/call", echo);
    assert_eq!(refused["error"]["code"], -32602, "it says -32601 by now: {refused}");
    let words = refused["error"]["message"].as_str().unwrap();
    assert!(words.contains("code") && words.contains("path"), "no dump of a schema any more: {words}");
    let (_, refused) = alone.ask(2, "tools/call", research(false, None));
    assert_eq!(refused["result"]["isError"], true, "it is an error of the protocol by now: {refused}");
    assert!(text(&refused["result"]).contains("-32601"), "{refused}");
    drop(alone);

    let through = Through::stdio("everything");
    // As a task what it has none for, and plainly what it has only as one.
    let (_, _, result) = through.task_a("echo", json!({ "message": "hi" }));
    assert_eq!(text(&result["result"]), "Echo: hi");
    let said = through.plain(RESEARCH, json!({ "topic": "owls" }));
    assert!(text(&said).contains("owls") && said["isError"] != true, "{said}");
}

#[test]
fn peers_07_a_068_x_026_server_everything_asks_only_while_somebody_waits_for_the_result() {
    let mut alone = everything();
    let (_, created) = alone.ask(1, "tools/call", research(true, Some(json!({}))));
    let id = json!({ "taskId": created["result"]["task"]["taskId"] });
    for n in 2.. {
        let (before, got) = alone.ask(n, "tasks/get", id.clone());
        assert!(
            before.iter().all(|message| message["method"] != "elicitation/create"),
            "it asks at once by now"
        );
        if got["result"]["status"] == "input_required" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    alone.say(&json!({ "jsonrpc": "2.0", "id": 1000, "method": "tasks/result", "params": id }));
    let asked = loop {
        let heard = alone.hear();
        if heard["method"] == "elicitation/create" {
            break heard;
        }
    };
    let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
    assert_eq!(*related, id["taskId"], "A-066");
    drop(alone);

    // A client of 2026-07-28, who never asks for a result, finds the question in its task.
    let through = Through::stdio("everything");
    let asks = json!({ "elicitation": { "form": {} }, "extensions": { crate::peer::EXTENSION: {} } });
    let post = |method: &str, name: &str, params: Value| {
        let mut request = modern_request(1, method, params);
        request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = asks.clone();
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", name)];
        crate::support::post(through.url(), &headers, &request).response(1)["result"].clone()
    };
    let arguments = json!({ "topic": "owls", "ambiguous": true });
    let created = post("tools/call", RESEARCH, json!({ "name": RESEARCH, "arguments": arguments }));
    let id = created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let until = |status: &str| loop {
        let task = post("tasks/get", &id, json!({ "taskId": id }));
        if task["status"] == status {
            return task;
        }
        assert!(["working", "input_required"].contains(&task["status"].as_str().unwrap()), "{task}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let asked = until("input_required");
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let schema = &question["params"]["requestedSchema"]["properties"]["interpretation"];
    let first = schema["oneOf"][0]["const"].as_str().or(schema["enum"][0].as_str());
    let content = json!({ "interpretation": first.unwrap_or_else(|| panic!("{question}")) });
    let answers = json!({ key.as_str(): { "action": "accept", "content": content } });
    post("tasks/update", &id, json!({ "taskId": id, "inputResponses": answers }));
    assert!(text(&until("completed")["result"]).contains("owls"));
}

#[test]
fn peers_09_d_021_python_2_3_keeps_to_the_era_of_the_first_message() {
    let mut alone = Pipe::start(&serve("python_plain"));
    alone.say(&modern_request(1, "server/discover", json!({})));
    let (_, discovered) = alone.answer(1);
    assert_eq!(discovered["result"]["supportedVersions"], json!(["2026-07-28"]), "{discovered}");
    let refused = alone.open("2025-11-25", &json!({}));
    assert_eq!(refused["error"]["code"], -32022, "it speaks both in one process by now: {refused}");
    drop(alone);
    let mut fresh = Pipe::start(&serve("python_plain"));
    assert_eq!(fresh.open("2025-11-25", &json!({}))["result"]["protocolVersion"], "2025-11-25");
    drop(fresh);

    // One process serves clients of both eras, whichever comes first.
    let through = Through::stdio("python_plain");
    let report = json!({ "seconds": 0.1, "label": "x" });
    assert_eq!(text(&through.plain("slow_report", report.clone())), "report x ready");
    let (_, _, result) = through.task_a("slow_report", report);
    assert_eq!(text(&result["result"]), "report x ready");
    let (_, done) = through.task_b("slow_report", json!({ "seconds": 1, "label": "x" }));
    assert_eq!(text(&done["result"]), "report x ready");
    for era in ["legacy", "modern"] {
        let serve = crate::peer::peers().join("serve");
        let server =
            format!("command = {:?}\nargs = [\"python_plain\"]\nera = {era:?}\n", serve.to_str().unwrap());
        let said = Through::before(&server).plain("slow_report", json!({ "seconds": 0, "label": "x" }));
        assert_eq!(text(&said), "report x ready", "{era}");
    }
}

#[test]
fn peers_10_b_026_b_027_d_022_what_old_servers_answer_to_discover_over_stdio_tells_no_era() {
    for (name, code) in [("node_plain", -32601), ("everything", -32601), ("python_a", -32602)] {
        let mut alone = Pipe::start(&serve(name));
        alone.say(&modern_request(1, "server/discover", json!({})));
        let (_, said) = alone.answer(1);
        assert_eq!(said["error"]["code"], code, "{name} answers otherwise by now: {said}");
        let opened = alone.open("2025-11-25", &json!({}));
        assert_eq!(opened["result"]["protocolVersion"], "2025-11-25", "{name}: the same process goes on");
        drop(alone);

        let through = Through::stdio(name);
        let client = Legacy::open(through.url(), json!({}));
        let listed = client.ask("tools/list", json!({}));
        let echo = |tool: &Value| tool["name"] == "echo";
        assert!(listed["result"]["tools"].as_array().unwrap().iter().any(echo), "{name}: {listed}");
    }
}

/// A task of a server over stdio, once it has left `working`.
fn task(alone: &mut Pipe, tool: &str, arguments: Value) -> Value {
    let (_, created) = alone.ask(
        1,
        "tools/call",
        json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60_000 } }),
    );
    let id = created["result"]["task"]["taskId"].clone();
    for n in 2.. {
        let (_, got) = alone.ask(n, "tasks/get", json!({ "taskId": id }));
        let got = got["result"].clone();
        let status =
            got["status"].as_str().or(got["task"]["status"].as_str()).unwrap_or_else(|| panic!("{got}"));
        if status != "working" {
            return json!({ "id": id, "got": got });
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    unreachable!()
}

#[test]
fn peers_16_a_047_a_051_pmcp_nests_what_is_flat_and_has_codes_of_its_own() {
    let mut alone = Pipe::start(&serve("pmcp_odd"));
    alone.open("2025-11-25", &json!({}));
    let failed = task(&mut alone, "refuse", json!({ "message": "not today" }));
    assert_eq!(failed["got"]["task"]["status"], "failed", "its tasks are flat by now: {failed}");
    let (_, result) = alone.ask(900, "tasks/result", json!({ "taskId": failed["id"] }));
    assert_eq!(result["error"]["code"], -32002, "A-060: it says why by now: {result}");
    let (_, unknown) = alone.ask(901, "tasks/get", json!({ "taskId": "none" }));
    assert_eq!(unknown["error"]["code"], -32603, "A-051: {unknown}");
    drop(alone);

    let through = Through::stdio("pmcp_odd");
    let (_, _, result) = through.task_a("slow_report", json!({ "seconds": 1, "label": "x" }));
    assert_eq!(text(&result["result"]), "report x ready");
    let (_, failed) = through.task_b("refuse", json!({ "message": "not today" }));
    assert_eq!(failed["status"], "failed", "{failed}");
    let words = failed["error"]["message"].as_str().unwrap();
    assert!(words.contains("does not say why"), "{failed}");
}

#[test]
fn peers_18_a_060_python_1_30_keeps_no_error_of_a_task_that_failed() {
    let mut alone = Pipe::start(&serve("python_a"));
    alone.open("2025-11-25", &json!({}));
    let failed = task(&mut alone, "refuse", json!({ "message": "not today" }));
    assert_eq!(failed["got"]["status"], "failed", "{failed}");
    let (_, result) = alone.ask(900, "tasks/result", json!({ "taskId": failed["id"] }));
    assert!(
        result.get("error").is_none() && result["result"].get("content").is_none(),
        "it is kept by now: {result}"
    );
    drop(alone);

    let through = Through::stdio("python_a");
    let (_, failed) = through.task_b("refuse", json!({ "message": "not today" }));
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(failed["error"]["message"].as_str().unwrap().contains("not today"), "{failed}");
    let (_, _, result) = through.task_a("refuse", json!({ "message": "not today" }));
    assert!(result["error"]["message"].as_str().unwrap().contains("not today"), "{result}");
}

#[test]
fn peers_19_a_066_fastmcp_3_asks_without_saying_for_which_task() {
    let mut alone = Pipe::start(&serve("fastmcp_a"));
    alone.open("2025-11-25", &json!({ "elicitation": { "form": {} } }));
    let call = json!({ "name": "confirm_deploy", "arguments": { "target": "x" }, "task": {} });
    alone.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call }));
    let asked = loop {
        let heard = alone.hear();
        if heard["method"] == "elicitation/create" {
            break heard;
        }
    };
    let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert!(related.is_null(), "it says so by now: {asked}");
    drop(alone);

    let through = Through::stdio("fastmcp_a");
    let args = ["--tool", "confirm_deploy", "--args", r#"{"target":"x"}"#, "--expect", "deployed x"];
    let said = crate::through::drive("fastmcp_b", through.url(), "input", &args);
    assert_eq!(said["ok"], true, "{said}");
}
