//! What clients play that know no tasks, in either era.

use serde_json::{Value, json};

use crate::player::{Kind, Player};
use crate::stage::Place;
use crate::tasks::{answered_at_once, arguments, lists, ping, quick, refused, unknown};

/// The tool by which they follow what lasts.
const HANDLE: &str = "taskgate_task";

/// One play.
pub(crate) fn plain(player: &mut Player, place: &Place) {
    match player.pick() {
        0..=6 => quick(player),
        7..=9 => {
            let said = call(player, "slow_report", 3);
            let result = followed(player, said);
            player.is_report(&result);
            player.played("a call that is waited for");
        }
        10..=12 => {
            let said = call(player, "deploy", 0);
            let result = match player.kind {
                Kind::Modern => answered_at_once(player, &said),
                Kind::A | Kind::B | Kind::Legacy => said["result"].clone(),
            };
            let result = followed(player, json!({ "result": result }));
            player.is_settled(&result);
            player.played(if player.agrees { "a question, yes" } else { "a question, no: a tool error" });
        }
        13 | 14 => {
            let said = call(player, "slow_report", 40);
            let id = handle(&said).unwrap_or_else(|| panic!("nothing stands for what lasts: {said}"));
            player.reconnect(place);
            let said = tool(player, json!({ "action": "wait", "taskId": id }));
            let result = followed(player, said);
            player.is_report(&result);
            player.played("a handle, after a new connection");
        }
        15 | 16 => {
            let said = call(player, "slow_report", 300);
            let id = handle(&said).unwrap_or_else(|| panic!("nothing stands for what lasts: {said}"));
            tool(player, json!({ "action": "cancel", "taskId": id }));
            let said = loop {
                let said = tool(player, json!({ "action": "wait", "taskId": id }));
                if standing(&said) != Some("working") {
                    break said;
                }
            };
            assert_eq!(standing(&said), Some("cancelled"), "{said}");
            assert_eq!(said["result"]["isError"], true, "{said}");
            player.played("a cancel");
        }
        17 => {
            let (nobodys, code) = (unknown(player), no_tasks(player));
            refused(player, "tasks/get", json!({ "taskId": nobodys }), code);
            refused(player, "tools/call", json!({ "name": "no_such_tool", "arguments": {} }), -32602);
            // Of the other era.
            let other = if player.kind == Kind::Modern { "ping" } else { "server/discover" };
            refused(player, other, json!({}), -32601);
            player.played("errors");
        }
        18 => lists(player),
        _ if player.kind == Kind::Modern => quick(player),
        _ => ping(player),
    }
}

/// How it is told that it has no tasks: in the modern era they are there for those who declare them.
fn no_tasks(player: &Player) -> i64 {
    match (player.kind, player.version.name()) {
        (Kind::Modern, _) => -32021,
        // Whoever speaks this version may read tasks.
        (_, "2025-11-25") => -32602,
        _ => -32601,
    }
}

fn call(player: &mut Player, name: &str, tenths: u64) -> Value {
    let arguments = arguments(player, name, tenths);
    player.ask("tools/call", json!({ "name": name, "arguments": arguments }))
}

fn tool(player: &mut Player, arguments: Value) -> Value {
    player.ask("tools/call", json!({ "name": HANDLE, "arguments": arguments }))
}

/// The id of the task that a result stands in for.
fn handle(said: &Value) -> Option<String> {
    said["result"]["structuredContent"]["taskgate"]["taskId"].as_str().map(str::to_owned)
}

fn standing(said: &Value) -> Option<&str> {
    said["result"]["structuredContent"]["taskgate"]["status"].as_str()
}

/// The result itself, where a first answer may stand in for it.
pub(crate) fn followed(player: &mut Player, mut said: Value) -> Value {
    while let Some(id) = handle(&said) {
        let asked = &said["result"]["structuredContent"]["taskgate"]["questions"];
        let key = asked.as_array().and_then(|asked| asked.first()).and_then(|asked| asked["key"].as_str());
        said = match key.map(str::to_owned) {
            Some(key) => {
                let reply = player.consent();
                let taken =
                    tool(player, json!({ "action": "answer", "taskId": id, "key": key, "reply": reply }));
                // It was asked on the call, too, and what was said there came behind the handle.
                match taken["result"]["content"][0]["text"].as_str() {
                    Some(words) if words.contains("answered already") => {
                        tool(player, json!({ "action": "wait", "taskId": id }))
                    }
                    _ => taken,
                }
            }
            None => tool(player, json!({ "action": "wait", "taskId": id })),
        };
    }
    said["result"].clone()
}
