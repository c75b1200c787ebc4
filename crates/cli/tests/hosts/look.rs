//! What a host sees of the server through taskgate: the server itself.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::home::{Home, Launch};
use crate::host::{Client, Report};
use crate::speech::{Speech, elements, members};

/// Members of a tool that are ours to change: whether it can run as a task, and a schema that a handle would break.
const OURS: [&str; 2] = ["execution", "outputSchema"];

const HANDLE_TOOL: &str = "taskgate_task";

/// Name, title, version, instructions and tools are those of a direct connection, however the server is started.
pub(crate) fn sees(client: Client, launches: &[Launch]) -> String {
    let mut figures = Vec::new();
    for launch in launches {
        let home = Home::new();
        let direct = home.host(client, &[], &home.server(*launch)).report();
        let through = home.host(client, &[], &home.run(&[], *launch)).report();
        for member in ["server", "instructions"] {
            assert_eq!(through.0[member], direct.0[member], "{launch:?}: {}", through.summary());
        }
        assert_eq!(tools(&through, true), tools(&direct, false), "{launch:?}");
        home.empties();
        let opened = |report: &Report| report.0["opened_ms"].to_string();
        figures.push(format!("{launch:?} opened in {} ms, directly {}", opened(&through), opened(&direct)));
    }
    figures.join("; ")
}

/// Without what is ours.
fn tools(report: &Report, has_ours: bool) -> Vec<Value> {
    let mut tools = report.0["tools"].as_array().cloned().unwrap_or_default();
    assert!(!tools.is_empty(), "{}", report.summary());
    if has_ours {
        let last = tools.pop().unwrap();
        assert_eq!(last["name"], HANDLE_TOOL);
    }
    for tool in &mut tools {
        for member in OURS {
            tool.as_object_mut().unwrap().remove(member);
        }
    }
    tools
}

/// The same below any SDK: what is not ours has the same bytes in the same order. The server knows one era only, so it
/// says the same to us and to a client of its own.
pub(crate) fn bytes() -> String {
    let mut compared = 0;
    for version in ["2025-11-25", "2025-06-18"] {
        let home = Home::new();
        let (mut direct, theirs) = Speech::open(&home, &home.server(Launch::Node), version);
        let (mut through, ours) = Speech::open(&home, &home.run(&[], Launch::Node), version);
        let (theirs, ours) = (members(&theirs), members(&ours));
        for member in ["protocolVersion", "serverInfo", "instructions"] {
            assert_eq!(ours[member].get(), theirs[member].get(), "{version} {member}");
            compared += 1;
        }
        let (theirs, mut ours) = (listed(&mut direct), listed(&mut through));
        assert_eq!(ours.pop().and_then(|tool| tool.get("name").cloned()), Some(format!("{HANDLE_TOOL:?}")));
        assert_eq!(ours, theirs, "{version}");
        compared += theirs.iter().map(BTreeMap::len).sum::<usize>();
        for call in [
            json!({ "name": "echo", "arguments": { "text": "tabs\tand \u{1F980}" } }),
            json!({ "name": "slow_sum", "arguments": { "seconds": 0, "a": 0.1, "b": 0.2 } }),
            json!({ "name": "fail", "arguments": { "message": "out of paper" } }),
        ] {
            let [ours, theirs] = [&mut through, &mut direct].map(|speech| speech.ask("tools/call", &call));
            assert_eq!(ours, theirs, "{version}");
            compared += 1;
        }
        direct.close();
        through.close();
        home.empties();
    }
    format!("{compared} pieces are the same")
}

/// Each tool's members as they are written, without what is ours to change.
fn listed(speech: &mut Speech) -> Vec<BTreeMap<String, String>> {
    let listed = members(&speech.ask("tools/list", &json!({})));
    let tools = elements(listed["tools"].get());
    let tools = tools.iter().map(|tool| members(tool).into_iter());
    tools
        .map(|tool| {
            let theirs = tool.filter(|(name, _)| !OURS.contains(&name.as_str()));
            theirs.map(|(name, raw)| (name, raw.get().to_owned())).collect()
        })
        .collect()
}

/// The server gets the environment, the folder and the arguments that its host gave.
pub(crate) fn surroundings() -> String {
    let names =
        ["HOME", "PATH", "SHELL", "LICENCE", "EMPTY", "FROM_SCRIPT", "TASKGATE_STATE", "XDG_STATE_HOME"];
    let args = json!({ "names": names }).to_string();
    let licence = "LICENCE=a key, \"quoted\" = ü";
    for launch in [Launch::Node, Launch::Script] {
        let home = Home::new();
        let options = ["--tool", "where", "--args", &args, "--env", licence, "--env", "EMPTY="];
        let own = ["an argument", "", "--flag=ü"].map(String::from);
        let look = |server: Vec<String>| {
            let report = home.host(Client::TypeScript, &options, &[server, own.to_vec()].concat()).report();
            let mut seen: Value =
                serde_json::from_str(&report.last_words()).unwrap_or_else(|_| panic!("{}", report.summary()));
            seen["pid"] = Value::Null;
            seen
        };
        let direct = look(home.server(launch));
        assert_eq!(look(home.run(&[], launch)), direct, "{launch:?}");
        assert_eq!(direct["cwd"], home.work().to_str().unwrap());
        assert_eq!(direct["env"]["LICENCE"], "a key, \"quoted\" = ü");
        home.empties();
    }
    "the same".to_owned()
}

/// A server that ends before it is up: what it said reaches the host's own error, in each client's words, and the
/// host's stderr. So does a command that is not there.
pub(crate) fn last_words() -> String {
    let mut said = Vec::new();
    for client in [Client::TypeScript, Client::PythonA, Client::PythonPlain, Client::Inspector] {
        let home = Home::new();
        let run = |command: &[&str]| {
            let words =
                [env!("CARGO_BIN_EXE_taskgate"), "run", "--"].into_iter().chain(command.iter().copied());
            let server: Vec<String> = words.map(String::from).collect();
            home.host(client, &["--tool", "echo", "--args", "{\"text\":\"x\"}"], &server).report()
        };
        let report = run(&["sh", "-c", "echo 'no licence: see licence(7)' >&2; exit 3"]);
        assert_eq!(report.0["ok"], false);
        let words = report.0["error"].to_string();
        assert!(words.contains("no licence: see licence(7)"), "{client:?}: {words}");
        said.push(format!("{client:?}: {words}"));
        let stderr = std::fs::read_to_string(home.file("stderr")).unwrap();
        assert!(stderr.contains("no licence: see licence(7)"), "{client:?}: {stderr}");
        let report = run(&["no-such-server", "--port", "1"]);
        let words = report.0["error"].to_string();
        assert!(report.0["ok"] == false && words.contains("no-such-server"), "{client:?}: {words}");
        said.push(words);
        home.empties();
    }
    said.join("; ")
}
