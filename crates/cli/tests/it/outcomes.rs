//! What became of payments whose answers were lost, found out by the whole binary. The bank keeps its own books.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_core::operation::{Inquiry, Operation, Outcome, Stage, Verdict};
use taskgate_faults::books::{Account, Books};
use taskgate_faults::proxy::{Armed, Close, Fault, Framing, Proxy, Rule, Side};
use taskgate_faults::server::{Kind, Server};
use taskgate_store::Store;
use taskgate_store::ledger::{LedgerEntry, Which};
use taskgate_store_sqlite::SqliteStore;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::support::{Gateway, folder, modern, run_in, said};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bank, a server that pays through it, a line that can be broken, and the gateway on the other side of that.
struct Town {
    gateway: Gateway,
    proxy: Proxy,
    folder: TempDir,
    runtime: Runtime,
}

fn workflows(bank: SocketAddr, hook: &str) -> String {
    let by_tool = r#"tool = "payment_status"
arguments = { key = "key" }
applied_when = "data.key == key && data.applied"
not_applied_when = "data.key == key && !data.applied"
first = "100ms"
every = "1s""#;
    format!(
        r#"
[servers.shop.tools.payment_status]
effect = "read_only"
[workflows.looked_up]
server = "shop"
tools = ["pay_probe"]
idempotency = {{ mode = "derived", key = "args.key" }}
[workflows.looked_up.probe]
{by_tool}

[workflows.got]
server = "shop"
tools = ["pay_get"]
idempotency = {{ mode = "derived", key = "args.key" }}
probe = {{ get = "http://{bank}/effects/{{key}}", applied_when = "status == 200 && data.applied", first = "100ms" }}

[workflows.fenced]
server = "shop"
tools = ["pay_fence"]
idempotency = {{ mode = "derived", key = "args.key" }}
[workflows.fenced.probe]
{by_tool}
[workflows.fenced.fence]
tool = "fence_payment"
arguments = {{ key = "key" }}
fenced_when = "data.key == key && data.fenced"

[workflows.handed]
server = "shop"
tools = ["pay_person"]
object = "args.object"
owners = ["treasury"]
webhook = {{ url = "{hook}", headers = {{ X-Token = "hush" }} }}
[workflows.handed.probe]
get = "http://127.0.0.1:1/{{operation}}"
applied_when = "status == 200"
first = "100ms"
every = "1s"
budget_attempts = 2
"#
    )
}

impl Town {
    fn open(hook: &str) -> Town {
        let folder = folder(&[]);
        let runtime = Runtime::new().unwrap();
        let (bank, proxy) = runtime.block_on(async {
            let (bank, serving) = taskgate_faults::bank::open(&folder.path().join("books"), 0).await.unwrap();
            tokio::spawn(serving);
            let shop = Server::new(Kind::PlainModern, bank, None, None).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let shop_at = listener.local_addr().unwrap();
            tokio::spawn(async move { shop.http(listener).await });
            (bank, Proxy::start(Framing::Http, Some(shop_at)).await.unwrap())
        });
        let config = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"taskgate.db\"\n[servers.shop]\nurl = \
             \"http://{}/mcp\"\n{}",
            proxy.address(),
            workflows(bank, hook)
        );
        std::fs::write(folder.path().join("taskgate.toml"), config).unwrap();
        let gateway = Gateway::start(folder.path());
        Town { gateway, proxy, folder, runtime }
    }

    /// The next call of `tool` loses what stands on `side`.
    fn loses(&self, tool: &str, side: Side) -> Armed {
        let cut = Fault::Cut { side, after: 20, how: Close::Reset };
        self.proxy.arm(Rule::first("tools/call", cut).and(format!("\"{tool}\"")))
    }

    /// Pays, and gives what the client hears in the end: a result or an error.
    fn pays(&self, tool: &str, key: &str) -> Value {
        let params = json!({ "name": tool, "arguments": { "key": key, "object": "invoice-1", "amount": 3 } });
        let said = modern(&self.gateway.url, "tools/call", tool, params);
        let Some(id) = said["result"]["taskId"].as_str() else {
            return if said["error"].is_null() { said["result"].clone() } else { said["error"].clone() };
        };
        let by = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < by, "{tool} does not end");
            let task = modern(&self.gateway.url, "tasks/get", id, json!({ "taskId": id }))["result"].clone();
            match task["status"].as_str() {
                Some("working") => std::thread::sleep(Duration::from_millis(50)),
                Some("completed") => return task["result"].clone(),
                Some(_) | None => return task["error"].clone(),
            }
        }
    }

    fn account(&self, key: &str) -> Account {
        Books::read(&self.folder.path().join("books")).unwrap().account(key)
    }

    /// Ends the gateway and reads its ledger.
    fn ledger(self) -> Vec<LedgerEntry> {
        let Town { mut gateway, folder, runtime, .. } = self;
        drop(gateway.running.stdin.take());
        assert_eq!(gateway.running.code(), Some(0));
        runtime.block_on(async {
            let store = SqliteStore::open(&folder.path().join("taskgate.db")).unwrap();
            store.operations(Which::All, None, 99).await.unwrap()
        })
    }
}

fn of<'a>(ledger: &'a [LedgerEntry], tool: &str) -> &'a Operation {
    &ledger.iter().find(|entry| entry.tool == tool).unwrap().operation
}

#[test]
fn r4_5_a_payment_whose_answer_was_lost_is_confirmed_by_a_tool_by_http_or_behind_a_fence() {
    let town = Town::open("http://127.0.0.1:1/nobody");
    for tool in ["pay_probe", "pay_get"] {
        let armed = town.loses(tool, Side::Answer);
        let error = town.pays(tool, tool);
        drop(armed);
        assert_eq!(error["data"]["outcome"], "applied", "{tool}: {error}");
        assert!(error["data"]["operation"].as_str().unwrap().starts_with("op-"), "{error}");
        assert_eq!(town.account(tool).applied, 1);
    }
    // The call itself never reached the server: a fence makes that certain.
    let armed = town.loses("pay_fence", Side::Request);
    let error = town.pays("pay_fence", "pay_fence");
    drop(armed);
    assert_eq!(error["data"]["outcome"], "not_applied", "{error}");
    let account = town.account("pay_fence");
    assert_eq!((account.applied, account.arrived, account.fenced), (0, 0, true));
    let ledger = town.ledger();
    let confirmed = |verdict| Stage::Settled(Outcome::Confirmed(verdict));
    assert_eq!(of(&ledger, "pay_probe").stage, confirmed(Verdict::Applied));
    assert_eq!(of(&ledger, "pay_get").stage, confirmed(Verdict::Applied));
    assert_eq!(of(&ledger, "pay_fence").stage, confirmed(Verdict::NotApplied));
}

#[test]
fn r4_5_what_nobody_can_find_out_goes_to_its_owners_by_webhook() {
    let (hook, heard) = listens();
    let town = Town::open(&hook);
    let armed = town.loses("pay_person", Side::Answer);
    let error = town.pays("pay_person", "hidden-key");
    drop(armed);
    assert_eq!(error["data"]["outcome"], "unknown", "{error}");
    // The first delivery is refused, and made again.
    let first = heard.recv_timeout(PATIENCE).unwrap();
    let second = heard.recv_timeout(PATIENCE).unwrap();
    assert_eq!(first.1, second.1);
    assert!(second.0.contains("x-token: hush"), "{}", second.0);
    let notice: Value = serde_json::from_str(&second.1).unwrap();
    assert_eq!(notice["operation"], error["data"]["operation"]);
    assert_eq!((&notice["workflow"], &notice["tool"]), (&json!("handed"), &json!("pay_person")));
    assert_eq!(notice["object"], json!({ "name": "invoice-1", "version": null }));
    assert_eq!((&notice["outcome"], &notice["reason"]), (&json!("unknown"), &json!("budget_spent")));
    assert_eq!(notice["owners"], json!(["treasury"]));
    assert!(!second.1.contains("hidden-key"), "{}", second.1);
    let ledger = town.ledger();
    assert!(matches!(of(&ledger, "pay_person").inquiry, Inquiry::Person { .. }));
}

/// Keys and objects belong to a workflow's name. Renaming one while its operations are open must not go unnoticed.
#[test]
fn a_workflow_that_was_renamed_while_its_operations_are_open_is_told_of_at_the_start() {
    let mut town = Town::open("http://127.0.0.1:1/nobody");
    let armed = town.loses("pay_person", Side::Answer);
    town.pays("pay_person", "renamed");
    drop(armed);
    let ends = |gateway: &mut Gateway| {
        drop(gateway.running.stdin.take());
        assert_eq!(gateway.running.code(), Some(0));
        gateway.running.stderr()
    };
    let told = "workflow=\"handed\" open=1";
    let log = ends(&mut town.gateway);
    assert!(!log.contains(told), "{log}");
    let file = town.folder.path().join("taskgate.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    // Somebody has said that it is meant as a new one; what is held under the old name is told all the same.
    let said_so = "[workflows.given]\nrecorded_as = \"given\"";
    let text = text.replace("[workflows.handed]", said_so).replace("[workflows.handed", "[workflows.given");
    std::fs::write(&file, text).unwrap();
    town.gateway = Gateway::start(town.folder.path());
    let ops = ["ops", "--waiting", "--config", "taskgate.toml"];
    let said = said(&run_in(town.folder.path(), &ops));
    assert!(said.contains("workflow   handed") && said.contains("waits      for a person"), "{said}");
    assert!(said.contains("last       a look-up failed: http://127.0.0.1:1: "), "{said}");
    let log = ends(&mut town.gateway);
    assert!(log.contains("has no workflow of this name any more") && log.contains(told), "{log}");
}

/// Somebody who takes notices: the first is answered by 503, all others are acknowledged. What was said: head and body.
fn listens() -> (String, mpsc::Receiver<(String, String)>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks/T1", listener.local_addr().unwrap());
    let (says, heard) = mpsc::channel();
    std::thread::spawn(move || {
        for (n, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert_ne!(lines.read_line(&mut head).unwrap(), 0, "{head}");
            }
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            lines.read_exact(&mut body).unwrap();
            let status = if n == 0 { "503 Later" } else { "204 Fine" };
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            if says.send((head, String::from_utf8(body).unwrap())).is_err() {
                return;
            }
        }
    });
    (url, heard)
}
