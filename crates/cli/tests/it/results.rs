//! Five mebibytes by a tool with a workflow, with the real binary and a real server: a handle on every front and path, by
//! which every byte is had (R5.7).

use std::path::Path;
use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::run::{ask, open};
use crate::support::{
    Answer, Gateway, Legacy, Running, folder, get, get_with, modern, run_in, said, taskgate,
};

const MIB: usize = 1024 * 1024;

/// What is in every large result, and may be nowhere else.
const MARK: &str = "MARK-7f3a";

/// A server of one tool, whose results are as large as they can be. It has no resources.
const SERVER: &str = r#"
import base64, json, sys, time
MARK, SIZE = "MARK-7f3a", 5 * 1024 * 1024
def result(kind):
    if kind == "text":
        return {"content": [{"type": "text", "text": (MARK + " line\n") * (SIZE // 15)}]}
    if kind == "structured":
        rows = [{"row": n, "mark": MARK} for n in range(SIZE // 40)]
        return {"content": [{"type": "text", "text": "the rows are in the structured content"}], "structuredContent": {"rows": rows}}
    if kind == "receipt":
        rows = [{"row": n, "mark": MARK} for n in range(15000)]
        image = {"type": "image", "data": base64.b64encode(b"x" * SIZE).decode(), "mimeType": "image/png"}
        return {"content": [image], "structuredContent": {"rows": rows, "status": "exported", "export": "x-1"}}
    image = base64.b64encode((MARK + "-pixel").encode() * (SIZE // 15)).decode()
    return {"content": [{"type": "image", "data": image, "mimeType": "image/png"}], "isError": True}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "large", "version": "1"}}
    elif method == "tools/list":
        answer = {"tools": [{"name": "large", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        answer = result(params["arguments"]["kind"])
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"#;

fn place(more: &str) -> TempDir {
    let config = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"taskgate.db\"\n\
         [servers.store]\ncommand = \"/usr/bin/python3\"\nargs = [\"server.py\"]\n\
         [workflows.exports]\nserver = \"store\"\ntools = [\"large\"]\neffect = \"reversible\"\n{more}"
    );
    folder(&[("taskgate.toml", &config), ("server.py", SERVER)])
}

/// What is said in the place of a result of five mebibytes.
fn told(result: &Value) -> Told {
    let text = result.to_string();
    assert!(text.len() < 64 * 1024, "{} bytes were answered", text.len());
    let told = &result["_meta"]["taskgate/result"];
    let part = &told["parts"][0];
    let words = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
    assert!(told["bytes"].as_u64().unwrap() as usize > 4 * MIB, "{told}");
    Told {
        task: words(&told["taskId"]),
        uri: words(&told["uri"]),
        url: told["url"].as_str().map(str::to_owned),
        digest: words(&told["sha256"]),
        part: words(&part["uri"]),
        part_digest: words(&part["sha256"]),
    }
}

struct Told {
    task: String,
    uri: String,
    url: Option<String>,
    digest: String,
    part: String,
    part_digest: String,
}

fn digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

/// The bytes of a resource, piece by piece.
fn pieces(uri: &str, mut read: impl FnMut(&str) -> Value) -> Vec<u8> {
    let (mut uri, mut all) = (uri.to_owned(), Vec::new());
    loop {
        let result = read(&uri);
        assert!(result.to_string().len() < 300 * 1024, "a piece is no longer than results may be");
        let first = &result["contents"][0];
        match first["text"].as_str() {
            Some(text) => all.extend_from_slice(text.as_bytes()),
            None => all.extend(BASE64.decode(first["blob"].as_str().unwrap().as_bytes()).unwrap()),
        }
        match result["_meta"]["taskgate/piece"]["next"].as_str() {
            Some(next) => next.clone_into(&mut uri),
            None => return all,
        }
    }
}

fn read(url: &str, uri: &str) -> Value {
    modern(url, "resources/read", uri, json!({ "uri": uri }))["result"].clone()
}

fn ended(url: &str, id: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let task = modern(url, "tasks/get", id, json!({ "taskId": id }));
        if task["result"]["status"] != "working" {
            return task["result"].clone();
        }
        assert!(Instant::now() < deadline, "{task}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn r5_7_five_mebibytes_are_a_handle_on_every_front_and_over_a_kill_every_byte_is_had() {
    let folder = place("");
    let mut gateway = Gateway::start(folder.path());
    let url = gateway.url.clone();
    let client = Legacy::open(&url);
    let listed = client.request("tools/list", json!({}));
    assert!(listed["result"]["tools"][0].get("outputSchema").is_none(), "{listed}");
    let mut all = Vec::new();
    for kind in ["text", "structured", "image"] {
        let call = json!({ "name": "large", "arguments": { "kind": kind } });
        // A client that knows no tasks.
        let plain = client.request("tools/call", call.clone());
        let plain = told(&plain["result"]);
        // One of 2025-11-25 with tasks.
        let mut as_task = call.clone();
        as_task["task"] = json!({});
        let created = client.request("tools/call", as_task);
        let id = created["result"]["task"]["taskId"].clone();
        let of_a = client.request("tasks/result", json!({ "taskId": id }));
        assert_eq!(of_a["result"]["isError"], kind == "image");
        let of_a = told(&of_a["result"]);
        assert_eq!(of_a.digest, plain.digest, "{kind}");
        // One of 2026-07-28 with tasks: at once or by its task.
        let of_b = modern(&url, "tools/call", "large", call);
        let of_b = match of_b["result"]["taskId"].as_str() {
            Some(id) => told(&ended(&url, id)["result"]),
            None => told(&of_b["result"]),
        };
        assert_eq!(told(&ended(&url, &of_b.task)["result"]).digest, plain.digest, "{kind}");
        let page = json!({ "action": "result", "taskId": of_b.task, "page": 1 });
        let page = client.request("tools/call", json!({ "name": "taskgate_task", "arguments": page }));
        assert!(page.to_string().len() < 64 * 1024, "{kind}: a page of {} bytes", page.to_string().len());
        all.push(plain);
    }
    gateway.running.signal(Signal::SIGKILL);
    gateway.running.code();
    let gateway = Gateway::start(folder.path());
    for told in &all {
        // The port is another one; the path is the same.
        let path = told.url.as_deref().unwrap().splitn(4, '/').nth(3).unwrap();
        let base = gateway.url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let whole = get(&format!("{base}/{path}"));
        assert_eq!((whole.status, digest(whole.body.as_bytes())), (200, told.digest.clone()));
        assert!(whole.body.len() > 4 * MIB);
        let range = |range: &str| -> Answer { get_with(&format!("{base}/{path}"), &[("range", range)]) };
        let part = range("bytes=1000000-1999999");
        assert_eq!((part.status, part.body.as_str()), (206, &whole.body[1_000_000..2_000_000]));
        assert_eq!(range("bytes=99999999-").status, 416);
    }
    // As a resource, the picture: every piece of another one is read on the pipe below.
    let picture = &all[2];
    let first = read(&gateway.url, &picture.part);
    let pixels = BASE64.decode(first["contents"][0]["blob"].as_str().unwrap().as_bytes()).unwrap();
    assert!(pixels.len() > 128 * 1024 && pixels.starts_with(MARK.as_bytes()));
    assert_eq!(first["_meta"]["taskgate/piece"]["to"], pixels.len());
    assert_eq!(picture.part_digest, digest(format!("{MARK}-pixel").repeat(5 * MIB / 15).as_bytes()));
    // Nothing of it is in the ledger, which outlives it (R5.5).
    let exported = run_in(folder.path(), &["ops", "export", "--store", "taskgate.db"]);
    assert_eq!(exported.status.code(), Some(0), "{}", said(&exported));
    let exported = String::from_utf8(exported.stdout).unwrap();
    assert!(exported.contains("\"large\"") && !exported.contains(MARK), "{exported:.2000}");
}

#[test]
fn r5_7_r6_1_an_expired_result_is_gone_from_every_way_and_from_the_file() {
    // The call has no longer than this either, so it is not as short as could be.
    let folder = place("ttl_max = \"8s\"\n[limits]\nlinger = \"1s\"\n");
    let gateway = Gateway::start(folder.path());
    let call = json!({ "name": "large", "arguments": { "kind": "text" } });
    let told = told(&Legacy::open(&gateway.url).request("tools/call", call)["result"]);
    let url = told.url.unwrap();
    let unknown = get(&format!("{url}x"));
    assert_eq!(unknown.status, 404);
    let deadline = Instant::now() + Duration::from_secs(60);
    while get(&url).status == 200 {
        assert!(Instant::now() < deadline, "it never expires");
        std::thread::sleep(Duration::from_millis(100));
    }
    let gone = get(&url);
    assert_eq!((gone.status, gone.body), (404, unknown.body));
    let error = |uri: &str| {
        let said = modern(&gateway.url, "resources/read", uri, json!({ "uri": uri }));
        (said["error"]["code"].clone(), said["error"]["message"].clone())
    };
    assert_eq!(error(&told.uri), error(&format!("{}x", told.uri)));
    assert_eq!(error(&told.uri), (json!(-32602), json!("Resource not found")));
}

#[test]
fn r5_7_on_a_pipe_a_long_result_is_a_handle_that_is_read_on_that_pipe() {
    let folder = place("");
    let mut command = taskgate(&["run", "--foreground", "--config", "taskgate.toml", "--name", "store"]);
    command.current_dir(folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
    let mut host = Running::start(command);
    open(&mut host);
    let call = json!({ "name": "large", "arguments": { "kind": "structured" } });
    let answer = ask(&mut host, 1, "tools/call", call);
    let told = told(&answer["result"]);
    // Nobody serves HTTP here, so none is named.
    assert_eq!(told.url, None);
    let mut id = 1;
    let whole = pieces(&told.uri, |uri| {
        id += 1;
        ask(&mut host, id, "resources/read", json!({ "uri": uri }))["result"].clone()
    });
    assert_eq!(digest(&whole), told.digest);
}

#[test]
fn r5_7_a_receipt_rule_sees_the_whole_of_what_is_shown_by_its_beginning() {
    let folder = place(
        "[workflows.exports.receipt]\nwhen = \"data.status == 'exported' && data.export == args.export\"\n\
         reference = \"data.export\"\nissued_by = \"server\"\n",
    );
    let gateway = Gateway::start(folder.path());
    let call = json!({ "name": "large", "arguments": { "kind": "receipt", "export": "x-1" } });
    let answer = Legacy::open(&gateway.url).request("tools/call", call);
    // Its proof is behind what is shown.
    let shown = answer["result"]["content"].to_string();
    assert!(shown.contains(MARK) && !shown.contains("exported"), "{answer:.2000}");
    told(&answer["result"]);
    let ops = run_in(folder.path(), &["ops", "--store", "taskgate.db"]);
    assert!(String::from_utf8_lossy(&ops.stdout).contains("confirmed: applied"), "{}", said(&ops));
}

#[test]
fn r5_7_a_bound_that_no_handle_fits_into_is_told_where_it_stands() {
    let check = |folder: &Path| said(&run_in(folder, &["config", "check", "taskgate.toml"]));
    let small = place("results = { inline_max = \"1KiB\" }\n[limits]\nresult_inline = \"15KiB\"\n");
    insta::assert_snapshot!(check(small.path()));
    let sound = place("results = { inline_max = \"16KiB\" }\n");
    assert!(check(sound.path()).starts_with("exit 0"), "{}", check(sound.path()));
}
