//! What the SDKs' clients of the matrix do not say: every other method there is, said by hand to a server that has
//! them all, in both eras, so that these messages are captured as well.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cast::{SERVERS, Server, Via};
use crate::stage::{Stage, with_us};
use crate::wire::Wire;

/// The clients' names on the page.
pub(crate) const LEGACY: &str = "by hand, 2025-11-25";
pub(crate) const MODERN: &str = "by hand, 2026-07-28";
pub(crate) const BY_HAND: [&str; 2] = [LEGACY, MODERN];

/// How long what comes by itself may take: the server speaks every five seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server that has everything.
pub(crate) fn server() -> &'static Server {
    SERVERS.iter().find(|server| server.name == "everything").expect("it is in the list")
}

/// Says it all.
pub(crate) fn say(stage: &Stage) {
    Hand::over_http(stage, LEGACY).all();
    Hand::over_http(stage, MODERN).all();
    over_stdio(stage);
}

struct Hand {
    is_modern: bool,
    place: (String, String),
    main: Wire,
    side: Wire,
    session: Option<String>,
    ids: u64,
}

fn offers() -> Value {
    json!({
        "sampling": {},
        "roots": { "listChanged": true },
        "elicitation": { "form": {}, "url": {} },
        "tasks": { "list": {}, "cancel": {} },
    })
}

/// The answer to a question of the server.
fn reply(method: &str) -> Value {
    match method {
        "elicitation/create" => json!({ "action": "accept" }),
        "roots/list" => json!({ "roots": [{ "uri": "file:///srv/here", "name": "here" }] }),
        "sampling/createMessage" => json!({
            "role": "assistant", "model": "none", "content": { "type": "text", "text": "so be it" },
        }),
        other => panic!("asked for {other}"),
    }
}

impl Hand {
    fn over_http(stage: &Stage, name: &'static str) -> Hand {
        let job = stage.over_http(name, server(), Via::Http);
        let url = job["http"].as_str().unwrap().strip_prefix("http://").unwrap();
        let (address, path) = url.split_at(url.find('/').unwrap());
        Hand {
            is_modern: name == MODERN,
            place: (address.to_owned(), path.to_owned()),
            main: Wire::to(address, path),
            side: Wire::to(address, path),
            session: None,
            ids: 0,
        }
    }

    fn headers(&self, method: &str, params: &Value) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if self.is_modern {
            headers.push(("mcp-method", method.to_owned()));
            headers.push(("mcp-protocol-version", "2026-07-28".to_owned()));
            if let Some(name) = params["name"].as_str().or(params["uri"].as_str()) {
                headers.push(("mcp-name", name.to_owned()));
            }
        } else if let Some(session) = &self.session {
            headers.push(("mcp-session-id", session.clone()));
            headers.push(("mcp-protocol-version", "2025-11-25".to_owned()));
        }
        headers
    }

    /// Sends a message and hears it out; `enough` may end that. Gives the response.
    fn send(&mut self, message: &Value, enough: impl Fn(&Value) -> bool) -> Option<Value> {
        let headers = self.headers(message["method"].as_str().unwrap_or_default(), &message["params"]);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut main = std::mem::replace(&mut self.main, Wire::to("", ""));
        let mut response = None;
        {
            let mut answer = main.send("POST", &headers, &message.to_string()).unwrap();
            self.session = self.session.take().or(answer.headers.get("mcp-session-id").cloned());
            while let Some(said) = answer.next().unwrap() {
                if said.get("method").is_none() {
                    response = Some(said);
                } else if enough(&said) {
                    break;
                } else if let Some(id) = said.get("id") {
                    let result = reply(said["method"].as_str().unwrap());
                    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
                    let headers = self.headers("", &Value::Null);
                    let headers: Vec<_> =
                        headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
                    let taken = self.side.send("POST", &headers, &answer.to_string()).unwrap();
                    assert_eq!(taken.status, 202, "{answer}");
                }
            }
        }
        self.main = main;
        response
    }

    fn ask(&mut self, method: &str, mut params: Value) -> Value {
        self.ids += 1;
        if self.is_modern {
            let mut offers = offers();
            offers.as_object_mut().unwrap().remove("tasks");
            offers["roots"] = json!({});
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = offers;
        }
        let message = json!({ "jsonrpc": "2.0", "id": self.ids, "method": method, "params": params });
        self.send(&message, |_| false).unwrap_or_else(|| panic!("no answer to {message}"))
    }

    /// The same, of what has to be there.
    fn get(&mut self, method: &str, params: Value) -> Value {
        let said = self.ask(method, params);
        assert!(said.get("result").is_some(), "{method}: {said}");
        said
    }

    /// Calls a tool that asks, and answers.
    fn call(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({
            "name": name, "arguments": arguments, "_meta": { "progressToken": format!("{name}-p") },
        });
        let mut said = self.ask("tools/call", params.clone());
        while said["result"]["resultType"] == "input_required" {
            let mut again = params.clone();
            for (key, question) in said["result"]["inputRequests"].as_object().unwrap() {
                again["inputResponses"][key] = reply(question["method"].as_str().unwrap());
            }
            if let Some(state) = said["result"].get("requestState") {
                again["requestState"] = state.clone();
            }
            said = self.ask("tools/call", again);
        }
        said
    }

    fn all(&mut self) {
        if self.is_modern {
            self.get("server/discover", json!({}));
        } else {
            let client = json!({ "name": "hand", "version": "1" });
            self.get(
                "initialize",
                json!({ "protocolVersion": "2025-11-25", "capabilities": offers(), "clientInfo": client }),
            );
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }), |_| false);
            self.get("ping", json!({}));
            self.get("logging/setLevel", json!({ "level": "debug" }));
        }
        self.get("tools/list", json!({}));
        self.get("resources/list", json!({}));
        self.get("resources/templates/list", json!({}));
        let uri = "demo://resource/dynamic/text/1";
        self.get("resources/read", json!({ "uri": uri }));
        self.get("prompts/list", json!({}));
        self.get("prompts/get", json!({ "name": "simple-prompt" }));
        self.get(
            "completion/complete",
            json!({
                "ref": { "type": "ref/prompt", "name": "completable-prompt" },
                "argument": { "name": "department", "value": "E" },
            }),
        );
        let said = self.call("trigger-sampling-request", json!({ "prompt": "why" }));
        assert!(said.to_string().contains("so be it"), "{said}");
        // The server asks for these once, when its session opens, and so on nobody's behalf.
        self.call("get-roots-list", json!({}));
        let url = json!({ "url": "https://example.org/yes", "message": "please" });
        let said = self.call("trigger-url-elicitation", url);
        assert!(said.to_string().contains("completed"), "{said}");
        // Not the same call for both: it outlasts its wait, and a result that nobody fetched would answer the second.
        let steps = if self.is_modern { 9 } else { 10 };
        self.call("trigger-long-running-operation", json!({ "duration": 1, "steps": steps }));
        if self.is_modern {
            // It is acknowledged, and then left.
            self.ids += 1;
            let mut params = json!({ "notifications": { "toolsListChanged": true } });
            params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
            let listen = json!({
                "jsonrpc": "2.0", "id": self.ids, "method": "subscriptions/listen", "params": params,
            });
            self.send(&listen, |said| said["method"] == "notifications/subscriptions/acknowledged");
        } else {
            let said = self.call(
                "trigger-url-elicitation",
                json!({ "url": "https://example.org/first", "message": "please", "errorPath": true }),
            );
            assert!(said["error"]["code"] == -32042 || said.get("result").is_some(), "{said}");
            self.get("resources/subscribe", json!({ "uri": uri }));
            self.get("resources/unsubscribe", json!({ "uri": uri }));
            self.logs();
        }
    }

    /// Has the server speak by itself, and hears that on the session's own stream.
    fn logs(&mut self) {
        self.call("toggle-simulated-logging", json!({}));
        let mut own = Wire::to(&self.place.0, &self.place.1);
        let headers = self.headers("", &Value::Null);
        let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut stream = own.send("GET", &headers, "").unwrap();
        let until = std::time::Instant::now() + PATIENCE;
        while let Some(said) = stream.next().unwrap() {
            if said["method"] == "notifications/message" {
                break;
            }
            assert!(std::time::Instant::now() < until, "the server does not log");
        }
        drop(stream);
        self.call("toggle-simulated-logging", json!({}));
    }
}

/// The tasks of one caller are listed where callers can be told apart, as on a pipe of their own.
fn over_stdio(stage: &Stage) {
    let job = stage.over_stdio(LEGACY, server());
    let words: Vec<&str> = job["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    let mut child =
        with_us(&command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ids = 0;
    let mut ask = |method: &str, params: Value| -> Value {
        ids += 1;
        let message = json!({ "jsonrpc": "2.0", "id": ids, "method": method, "params": params });
        writeln!(stdin, "{message}").unwrap();
        if method == "initialize" {
            return lines.by_ref().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).next().unwrap();
        }
        loop {
            let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            if said.get("method").is_none() && said["id"] == ids {
                return said;
            }
            if let Some(id) = said.get("id") {
                let result = reply(said["method"].as_str().unwrap());
                writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": id, "result": result })).unwrap();
            }
        }
    };
    let client = json!({ "name": "hand", "version": "1" });
    ask(
        "initialize",
        json!({ "protocolVersion": "2025-11-25", "capabilities": offers(), "clientInfo": client }),
    );
    ask("ping", json!({}));
    let call = json!({ "name": "simulate-research-query", "arguments": { "topic": "owls" }, "task": {} });
    let made = ask("tools/call", call);
    let id = made["result"]["task"]["taskId"].clone();
    let listed = ask("tasks/list", json!({}));
    assert_eq!(listed["result"]["tasks"][0]["taskId"], id, "{listed}");
    let result = ask("tasks/result", json!({ "taskId": id }));
    assert!(result.get("result").is_some(), "{result}");
    drop(stdin);
    let _ = child.wait();
}
