//! The same peers with taskgate in between.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::peer::{Legacy, modern, peers};
use crate::support::{Gateway, folder};

/// A gateway before one server.
pub(crate) struct Through {
    _folder: TempDir,
    gateway: Gateway,
}

impl Through {
    /// Before a server over HTTP.
    pub(crate) fn http(url: &str) -> Through {
        Through::before(&format!("url = {url:?}\n"))
    }

    /// Before a server over stdio.
    pub(crate) fn stdio(name: &str) -> Through {
        let serve = peers().join("serve");
        Through::before(&format!("command = {:?}\nargs = [{name:?}]\n", serve.to_str().unwrap()))
    }

    /// Before a server that is configured by these lines.
    pub(crate) fn before(server: &str) -> Through {
        Through::within("1s", server)
    }

    /// The same, for clients without tasks that are to be answered on their call, however busy the machine is.
    pub(crate) fn at_leisure(server: &str) -> Through {
        Through::within("5m", server)
    }

    fn within(sync_budget: &str, server: &str) -> Through {
        let config = format!(
            // A server that is slow to start is no other one for that.
            "[limits]\nserver_open = \"4m\"\ncreate_time = \"4m\"\nserver_probe = \"3m\"\nsync_budget = {sync_budget:?}\n\
             task_after = \"0s\"\n[listen]\naddress = \"127.0.0.1:0\"\n\
             [store]\npath = \"tasks.db\"\n[servers.peer]\n{server}"
        );
        let folder = folder(&[("taskgate.toml", &config)]);
        let gateway = Gateway::start(folder.path());
        Through { _folder: folder, gateway }
    }

    pub(crate) fn url(&self) -> &str {
        &self.gateway.url
    }

    pub(crate) fn port(&self) -> u16 {
        let rest = self.url().strip_prefix("http://127.0.0.1:").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// The address by way of a tap.
    pub(crate) fn url_by(&self, port: u16) -> String {
        self.url().replace(&format!(":{}/", self.port()), &format!(":{port}/"))
    }

    /// An augmented call of a 2025-11-25 client: the task as it was told, as `tasks/get` tells it, and the response to
    /// `tasks/result`.
    pub(crate) fn task_a(&self, tool: &str, arguments: Value) -> (Value, Value, Value) {
        let client = Legacy::open(self.url(), json!({}));
        let created = client.augmented(tool, arguments, json!({}));
        let task = created["result"]["task"].clone();
        assert_eq!(task["status"], "working", "A-036: {created}");
        let id = json!({ "taskId": task["taskId"] });
        let got = client.ask("tasks/get", id.clone())["result"].clone();
        let result = client.ask("tasks/result", id.clone());
        let related = &result["result"]["_meta"]["io.modelcontextprotocol/related-task"];
        if result.get("error").is_none() {
            assert_eq!(*related, id, "A-062: {result}");
        }
        (task, got, result)
    }

    /// A call of a client without tasks, followed by its handle to its end.
    pub(crate) fn plain(&self, tool: &str, arguments: Value) -> Value {
        let client = Legacy::open_at(self.url(), "2025-06-18", json!({}));
        let mut said = client.call(tool, arguments);
        loop {
            let handle = &said["result"]["structuredContent"]["taskgate"];
            if handle["status"] != "working" {
                return said["result"].clone();
            }
            let wait = json!({ "action": "wait", "taskId": handle["taskId"] });
            said = client.call("taskgate_task", wait);
        }
    }

    /// A call of a 2026-07-28 client that takes tasks: what it was answered, and its task once it is over.
    pub(crate) fn task_b(&self, tool: &str, arguments: Value) -> (Value, Value) {
        let params = json!({ "name": tool, "arguments": arguments });
        let created = modern(self.url(), "tools/call", Some(tool), params).response(1)["result"].clone();
        let id = created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        loop {
            let got = modern(self.url(), "tasks/get", Some(&id), json!({ "taskId": id })).response(1);
            let task = got["result"].clone();
            if task["status"] != "working" {
                return (created, task);
            }
            // By the poll interval, as a client should.
            let poll = task["pollIntervalMs"].as_u64().unwrap_or(200);
            std::thread::sleep(std::time::Duration::from_millis(poll));
        }
    }
}

/// The text of a tool result's first block.
pub(crate) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text in {result}"))
}

/// Has one of the client drivers play one scenario; gives what it says of it.
pub(crate) fn drive(client: &str, url: &str, scenario: &str, more: &[&str]) -> Value {
    let output = Command::new(peers().join("drive"))
        .args([client, "--http", url, "--scenario", scenario, "--timeout", "60"])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(said.lines().last().unwrap_or_default())
        .unwrap_or_else(|_| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)))
}
