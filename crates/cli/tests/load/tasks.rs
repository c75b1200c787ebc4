//! What clients play that know tasks, in either dialect.

use serde_json::{Value, json};

use crate::capture::schema::Version;
use crate::plain::followed;
use crate::player::{Kind, Player};
use crate::stage::Place;

/// One play of dialect A.
pub(crate) fn a(player: &mut Player, place: &Place) {
    match player.pick() {
        0..=5 => quick(player),
        6 | 7 => {
            let id = begin(player, "slow_report", 4);
            until_over(player, &id, "completed");
            let result = player.ask("tasks/result", json!({ "taskId": id }));
            player.is_report(&result["result"]);
            player.played("a task, read until it is over");
        }
        8 | 9 => {
            let id = begin(player, "slow_report", 8);
            let result = player.ask("tasks/result", json!({ "taskId": id }));
            player.is_report(&result["result"]);
            player.played("a task, waited for");
        }
        10..=12 => {
            let id = begin(player, "deploy", 0);
            let result = player.ask("tasks/result", json!({ "taskId": id }));
            player.is_settled(&result["result"]);
            // a tool error is a task that failed.
            let due = if player.agrees { "completed" } else { "failed" };
            let said = player.ask("tasks/get", json!({ "taskId": id }));
            assert_eq!(said["result"]["status"], due, "{said}");
            player.played(if player.agrees { "a question, yes" } else { "a question, no: a tool error" });
        }
        13 | 14 => {
            let id = begin(player, "slow_report", 300);
            let said = player.ask("tasks/cancel", json!({ "taskId": id }));
            assert_eq!(said["result"]["status"], "cancelled", "{said}");
            let said = player.ask("tasks/get", json!({ "taskId": id }));
            assert_eq!(said["result"]["status"], "cancelled", "{said}");
            let said = player.ask("tasks/result", json!({ "taskId": id }));
            assert!(said.get("error").is_some(), "the result of what was cancelled: {said}");
            let said = player.ask("tasks/cancel", json!({ "taskId": id }));
            assert_eq!(said["error"]["code"], -32602, "cancelled twice: {said}");
            player.played("a cancel");
        }
        15 | 16 => {
            let id = begin(player, "slow_report", 8);
            player.reconnect(place);
            let result = player.ask("tasks/result", json!({ "taskId": id }));
            player.is_report(&result["result"]);
            player.played("a task, after a new connection");
        }
        17 => {
            let nobodys = unknown(player);
            refused(player, "tasks/get", json!({ "taskId": nobodys }), -32602);
            refused(player, "tasks/result", json!({ "taskId": nobodys }), -32602);
            // Of the other dialect.
            refused(player, "tasks/update", json!({ "taskId": nobodys, "inputResponses": {} }), -32601);
            refused(player, "server/discover", json!({}), -32601);
            player.played("errors");
        }
        18 => lists(player),
        _ => ping(player),
    }
}

/// One play of dialect B.
pub(crate) fn b(player: &mut Player, place: &Place) {
    match player.pick() {
        0..=5 => quick(player),
        6..=9 => {
            let said = call(player, "slow_report", 6);
            let result = match task(player, &said) {
                Some(id) => until_over(player, &id, "completed")["result"].clone(),
                None => said["result"].clone(),
            };
            player.is_report(&result);
            player.played("a task, read until it is over");
        }
        10..=12 => {
            let said = call(player, "deploy", 0);
            let result = match task(player, &said) {
                Some(id) => settled_b(player, &id),
                None => answered_at_once(player, &said),
            };
            player.is_settled(&result);
            player.played(if player.agrees { "a question, yes" } else { "a question, no: a tool error" });
        }
        13 | 14 => {
            let said = call(player, "slow_report", 300);
            let id = task(player, &said).expect("half a minute is worth a task");
            let said = player.ask("tasks/cancel", json!({ "taskId": id }));
            assert_eq!(said["result"]["resultType"], "complete", "{said}");
            until_over(player, &id, "cancelled");
            player.played("a cancel");
        }
        15 | 16 => {
            let said = call(player, "slow_report", 8);
            if let Some(id) = task(player, &said) {
                player.reconnect(place);
                let over = until_over(player, &id, "completed");
                player.is_report(&over["result"]);
                player.played("a task, after a new connection");
            }
        }
        17 => {
            let nobodys = unknown(player);
            refused(player, "tasks/get", json!({ "taskId": nobodys }), -32602);
            refused(player, "tasks/update", json!({ "taskId": nobodys, "inputResponses": {} }), -32602);
            // Of the other dialect.
            refused(player, "tasks/result", json!({ "taskId": nobodys }), -32601);
            refused(player, "ping", json!({}), -32601);
            player.played("errors");
        }
        18 => lists(player),
        _ => listen(player),
    }
}

/// An answer at once, which is one's own; on a machine that is too busy for that, a task.
pub(crate) fn quick(player: &mut Player) {
    let token = player.token.clone();
    let said = player.quick(json!({ "name": "echo", "arguments": { "text": token } }));
    let result = match player.kind {
        Kind::B => match task(player, &said) {
            Some(id) => until_over(player, &id, "completed")["result"].clone(),
            None => said["result"].clone(),
        },
        Kind::A | Kind::Legacy | Kind::Modern => followed(player, said),
    };
    assert_eq!(result["content"][0]["text"], token.as_str(), "{result}");
    assert!(result.get("task").is_none() && result.get("taskId").is_none(), "{result}");
    let is_modern = matches!(player.kind, Kind::B | Kind::Modern);
    assert_eq!(result["resultType"] == "complete", is_modern, "{result}");
    player.played("a quick call");
}

/// The tools; the one that stands for tasks is there for all who may call without one.
pub(crate) fn lists(player: &mut Player) {
    let said = player.ask("tools/list", json!({}));
    let tools = said["result"]["tools"].as_array().unwrap_or_else(|| panic!("{said}"));
    let has = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    assert!(has("slow_report") && has("deploy"), "{said}");
    assert_eq!(has("taskgate_task"), player.kind != Kind::B, "{:?}: {said}", player.kind);
    let speaks_of_tasks = tools.iter().any(|tool| tool.get("execution").is_some());
    assert_eq!(speaks_of_tasks, player.version == Version::V25, "{:?}: {said}", player.kind);
    player.played("a list of tools");
}

pub(crate) fn ping(player: &mut Player) {
    let said = player.ask("ping", json!({}));
    assert_eq!(said["result"], json!({}), "{said}");
    player.played("a ping");
}

/// Something that has to be refused just so.
pub(crate) fn refused(player: &mut Player, method: &'static str, params: Value, code: i64) {
    let said = player.ask(method, params);
    assert_eq!(said["error"]["code"], code, "{:?} {method}: {said}", player.kind);
}

/// An id that no task has.
pub(crate) fn unknown(player: &mut Player) -> String {
    format!("t{:026x}", player.dice.roll(u64::MAX))
}

/// The arguments of a tool, with one's token in them.
pub(crate) fn arguments(player: &mut Player, tool: &str, tenths: u64) -> Value {
    let seconds = f64::from(u32::try_from(tenths + player.dice.roll(3)).unwrap()) / 10.0;
    match tool {
        "deploy" => json!({ "version": player.token }),
        _ => json!({ "title": player.token, "seconds": seconds }),
    }
}

fn begin(player: &mut Player, tool: &str, tenths: u64) -> String {
    let arguments = arguments(player, tool, tenths);
    let said =
        player.ask("tools/call", json!({ "name": tool, "arguments": arguments, "task": { "ttl": 60_000 } }));
    said["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned()
}

fn call(player: &mut Player, tool: &str, tenths: u64) -> Value {
    let arguments = arguments(player, tool, tenths);
    player.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
}

fn task(player: &Player, said: &Value) -> Option<String> {
    let id = said["result"]["taskId"].as_str().map(str::to_owned);
    assert_eq!(id.is_some(), said["result"]["resultType"] == "task", "{:?}: {said}", player.kind);
    id
}

fn until_over(player: &mut Player, id: &str, due: &str) -> Value {
    loop {
        let said = player.ask("tasks/get", json!({ "taskId": id }));
        let task = &said["result"];
        assert_eq!(task["taskId"], id, "another's task: {said}");
        if task["status"] == "working" {
            player.rest();
            continue;
        }
        assert_eq!(task["status"], due, "{said}");
        return task.clone();
    }
}

/// Answers what a task of dialect B asks, and gives its result.
fn settled_b(player: &mut Player, id: &str) -> Value {
    let mut answers = 0;
    loop {
        let said = player.ask("tasks/get", json!({ "taskId": id }));
        let task = &said["result"];
        match task["status"].as_str() {
            Some("working") => player.rest(),
            Some("input_required") if answers == 0 => {
                let questions = task["inputRequests"].as_object().unwrap_or_else(|| panic!("{said}"));
                let (key, question) = questions.iter().next().unwrap_or_else(|| panic!("{said}"));
                assert!(question.to_string().contains(&player.token), "{said}");
                let responses = json!({ key: player.consent() });
                let taken = player.ask("tasks/update", json!({ "taskId": id, "inputResponses": responses }));
                assert_eq!(taken["result"]["resultType"], "complete", "{taken}");
                answers += 1;
            }
            Some("completed") => return task["result"].clone(),
            _ => panic!("{said}"),
        }
    }
}

/// Answers what a call of the modern era asks before there is a task, until there is a result.
pub(crate) fn answered_at_once(player: &mut Player, said: &Value) -> Value {
    let mut said = said.clone();
    while said["result"]["resultType"] == "input_required" {
        let questions = said["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{said}"));
        let mut responses = json!({});
        for (key, question) in questions {
            assert!(question.to_string().contains(&player.token), "{said}");
            responses[key] = player.consent();
        }
        let mut again = json!({
            "name": "deploy", "arguments": { "version": player.token }, "inputResponses": responses,
        });
        if let Some(state) = said["result"].get("requestState") {
            again["requestState"] = state.clone();
        }
        said = player.ask("tools/call", again);
    }
    match task(player, &said) {
        Some(id) => settled_b(player, &id),
        None => said["result"].clone(),
    }
}

/// Follows a task by what is pushed.
fn listen(player: &mut Player) {
    let said = call(player, "slow_report", 8);
    let Some(id) = task(player, &said) else { return };
    let mut heard = Vec::new();
    let params = json!({ "notifications": { "taskIds": [id] } });
    player.ask_until("subscriptions/listen", params, |message| {
        if message["method"] == "notifications/tasks" {
            assert_eq!(message["params"]["taskId"], id.as_str(), "another's task: {message}");
            heard.push(message["params"]["status"].as_str().unwrap_or_default().to_owned());
        } else {
            assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message}");
            assert!(heard.is_empty(), "acknowledged after it began: {message}");
        }
        message["params"]["status"] == "completed"
    });
    assert_eq!(heard.last().map(String::as_str), Some("completed"), "{heard:?}");
    player.played("a task, listened to");
}
