//! That the judge finds what it is there to find: each message here is right but for one thing.

use serde_json::{Value, json};

use super::judge::{self, Side, Towards, answered, asked};
use super::schema::Version::{self, V18, V25, V28};
use super::tap::{Exchange, Pipe};

const TASK: &str = "t1";
const RELATED: &str = "io.modelcontextprotocol/related-task";

fn request(version: Version, method: &str, mut params: Value) -> Value {
    if version == V28 {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "extensions": { "io.modelcontextprotocol/tasks": {} } },
        });
    }
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

fn result(result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "result": result })
}

/// A task as each dialect shows it, flat.
fn task(version: Version) -> Value {
    let time = "2026-11-30T12:00:00Z";
    let mut task = json!({ "taskId": TASK, "status": "working", "createdAt": time, "lastUpdatedAt": time });
    if version == V28 {
        task["ttlMs"] = json!(1000);
        task["resultType"] = json!("complete");
    } else {
        task["ttl"] = json!(1000);
    }
    task
}

/// Passes as it is, and is found out as soon as it is changed.
#[track_caller]
fn is_found(version: Version, asked: &Value, right: &Value, change: impl Fn(&mut Value)) {
    let wrong = answered(version, asked, &result(right), true);
    assert!(wrong.is_empty(), "this is right: {wrong:?}");
    let mut changed = right.clone();
    change(&mut changed);
    let wrong = answered(version, asked, &result(&changed), true);
    assert!(!wrong.is_empty(), "not found: {changed}");
}

#[test]
fn a_shape_of_the_other_dialect_is_found() {
    let get = request(V25, "tasks/get", json!({ "taskId": TASK }));
    is_found(V25, &get, &task(V25), |task| task["ttlMs"] = json!(1));
    is_found(V25, &get, &task(V25), |task| task["resultType"] = json!("complete"));
    is_found(V25, &get, &task(V25), |task| task["_meta"] = json!({ RELATED: { "taskId": TASK } }));
    is_found(V25, &get, &task(V25), |task| *task = json!({ "task": task }));
    let get = request(V28, "tasks/get", json!({ "taskId": TASK }));
    is_found(V28, &get, &task(V28), |task| task["ttl"] = json!(1));
    is_found(V28, &get, &task(V28), |task| drop(task.as_object_mut().unwrap().remove("resultType")));
    is_found(V28, &get, &task(V28), |task| task["_meta"] = json!({ RELATED: { "taskId": TASK } }));

    let call = request(V25, "tools/call", json!({ "name": "x", "task": {} }));
    is_found(V25, &call, &json!({ "task": task(V25) }), |said| *said = said["task"].clone());
    let plain = request(V25, "tools/call", json!({ "name": "x" }));
    is_found(V25, &plain, &json!({ "content": [] }), |said| *said = json!({ "task": task(V25) }));
    is_found(V25, &plain, &json!({ "content": [] }), |said| said["resultType"] = json!("complete"));
    is_found(V18, &plain, &json!({ "content": [] }), |said| said["task"] = task(V25));
    let call = request(V28, "tools/call", json!({ "name": "x" }));
    let done = json!({ "resultType": "complete", "content": [] });
    is_found(V28, &call, &done, |said| drop(said.as_object_mut().unwrap().remove("resultType")));
    is_found(V28, &call, &done, |said| *said = json!({ "resultType": "task", "task": task(V25) }));
}

#[test]
fn what_a_task_must_carry_and_must_not_is_found() {
    let fetch = request(V25, "tasks/result", json!({ "taskId": TASK }));
    let right = json!({ "content": [], "_meta": { RELATED: { "taskId": TASK } } });
    is_found(V25, &fetch, &right, |said| said["_meta"][RELATED]["taskId"] = json!("t2"));
    is_found(V25, &fetch, &right, |said| drop(said.as_object_mut().unwrap().remove("_meta")));

    let get = request(V28, "tasks/get", json!({ "taskId": TASK }));
    let mut right = task(V28);
    right["status"] = json!("completed");
    right["result"] = json!({ "resultType": "complete", "content": [] });
    is_found(V28, &get, &right, |said| said["result"]["_meta"] = json!({ RELATED: { "taskId": TASK } }));
    is_found(V28, &get, &right, |said| said["result"]["content"] = json!("text"));

    let mut plain = request(V28, "tools/call", json!({ "name": "x" }));
    plain["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let mut made = task(V28);
    made["resultType"] = json!("task");
    assert!(!answered(V28, &plain, &result(&made), true).is_empty(), "B-058");
}

#[test]
fn requests_and_notifications_are_found_that_their_version_has_not() {
    let good =
        |version, method, params| asked(version, Towards::Server, &request(version, method, params), true);
    assert!(good(V25, "tasks/list", json!({})).is_empty());
    assert!(!good(V18, "tasks/list", json!({})).is_empty());
    assert!(!good(V28, "tasks/list", json!({})).is_empty());
    assert!(!good(V25, "tasks/update", json!({ "taskId": TASK, "inputResponses": {} })).is_empty());
    assert!(good(V28, "tasks/update", json!({ "taskId": TASK, "inputResponses": {} })).is_empty());
    assert!(!good(V28, "tasks/update", json!({ "taskId": TASK })).is_empty());
    assert!(!good(V28, "tools/call", json!({ "name": "x", "task": {} })).is_empty(), "a member of dialect A");
    assert!(!good(V25, "elicitation/create", json!({})).is_empty(), "no client asks that");
    let question = request(V28, "elicitation/create", json!({ "message": "?", "requestedSchema": {} }));
    assert!(!asked(V28, Towards::Client, &question, true).is_empty(), "B-050");
    let mut bare = request(V28, "tasks/get", json!({ "taskId": TASK }));
    bare["params"]["_meta"] = json!({});
    assert!(!asked(V28, Towards::Server, &bare, true).is_empty(), "the extension's own type lets that pass");
}

fn exchange() -> Exchange {
    let headers = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let done = json!({ "resultType": "complete", "content": [] });
    Exchange {
        method: "POST".to_owned(),
        path: "/mcp".to_owned(),
        sent: headers(&[
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", "x"),
        ]),
        body: Some(Ok(request(V28, "tools/call", json!({ "name": "x" })))),
        status: 200,
        headers: headers(&[("content-type", "text/event-stream"), ("x-accel-buffering", "no")]),
        messages: vec![Ok(result(&done))],
        odd: Vec::new(),
        is_over: true,
    }
}

#[test]
fn a_breach_of_the_rules_of_http_is_found() {
    let faults = |change: &dyn Fn(&mut Exchange)| {
        let mut one = exchange();
        change(&mut one);
        judge::over_http(Side::Back, &[one]).faults
    };
    assert!(faults(&|_| ()).is_empty(), "{:?}", faults(&|_| ()));
    let changes: [&dyn Fn(&mut Exchange); 12] = [
        &|one| drop(one.sent.remove("mcp-name")),
        &|one| drop(one.sent.insert("mcp-method".to_owned(), "tools/list".to_owned())),
        &|one| drop(one.sent.insert("mcp-protocol-version".to_owned(), "2025-11-25".to_owned())),
        &|one| drop(one.sent.insert("accept".to_owned(), "application/json".to_owned())),
        &|one| drop(one.sent.insert("content-type".to_owned(), "text/plain".to_owned())),
        &|one| drop(one.headers.insert("content-type".to_owned(), "text/plain".to_owned())),
        &|one| drop(one.headers.remove("x-accel-buffering")),
        &|one| drop(one.headers.insert("mcp-session-id".to_owned(), "s".to_owned())),
        &|one| one.messages.push(one.messages[0].clone()),
        &|one| one.messages.clear(),
        &|one| {
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": "no" } });
            one.messages = vec![Ok(error)];
        },
        &|one| one.messages = vec![Ok(json!({ "jsonrpc": "2.0", "id": 2, "result": {} }))],
    ];
    for (at, change) in changes.iter().enumerate() {
        assert!(!faults(change).is_empty(), "change {at} is not found");
    }
}

#[test]
fn what_is_no_message_on_a_pipe_is_found_and_whose_fault_it_is() {
    let opened = json!({
        "jsonrpc": "2.0", "id": 1,
        "result": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "s", "version": "1" },
        },
    });
    let open = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" },
        },
    });
    let mut pipe = Pipe { sent: vec![Ok(open)], said: vec![Ok(opened)] };
    for side in [Side::Front, Side::Back] {
        assert!(judge::over_pipe(side, &pipe).faults.is_empty());
    }
    pipe.said.push(Err("no JSON: starting up".to_owned()));
    let ours = |side| judge::over_pipe(side, &pipe).faults.iter().map(|fault| fault.ours).collect::<Vec<_>>();
    assert_eq!(ours(Side::Front), [true]);
    assert_eq!(ours(Side::Back), [false]);
}
