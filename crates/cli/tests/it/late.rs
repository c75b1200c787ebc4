//! What becomes of payments that are answered after their deadline, or never, found out by the whole binary.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_faults::books::Books;
use taskgate_faults::proxy::{Fault, Framing, Proxy, Rule, Side};
use taskgate_faults::server::{Kind, Server};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::support::{Gateway, folder, modern, run_in, said};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bank, a server without tasks, a line that can be slow, and the gateway on the other side of that.
struct Town {
    gateway: Gateway,
    proxy: Proxy,
    folder: TempDir,
    _runtime: Runtime,
}

const WORKFLOW: &str = r#"
[servers.shop.tools.payment_status]
effect = "read_only"
[workflows.pays]
server = "shop"
tools = ["pay_settle"]
idempotency = { mode = "derived", key = "args.key" }
deadline = "1s"
[workflows.pays.probe]
tool = "payment_status"
arguments = { key = "key" }
applied_when = "data.key == key && data.applied"
not_applied_when = "data.key == key && !data.applied"
"#;

impl Town {
    /// `grace` is the time after the deadline, `more` is of the workflow, `probe` of its probe.
    fn open(grace: &str, more: &str, probe: &str) -> Town {
        let folder = folder(&[]);
        let runtime = Runtime::new().unwrap();
        let proxy = runtime.block_on(async {
            let (bank, serving): (SocketAddr, _) =
                taskgate_faults::bank::open(&folder.path().join("books"), 0).await.unwrap();
            tokio::spawn(serving);
            let shop = Server::new(Kind::Plain, bank, None, None).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let shop_at = listener.local_addr().unwrap();
            tokio::spawn(async move { shop.http(listener).await });
            Proxy::start(Framing::Http, Some(shop_at)).await.unwrap()
        });
        let config = format!(
            "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"taskgate.db\"\n[limits]\ncancel_grace = \
             {grace:?}\n[servers.shop]\nurl = \"http://{}/mcp\"\n{}{probe}",
            proxy.address(),
            WORKFLOW.replace("deadline =", &format!("{more}\ndeadline =")),
        );
        std::fs::write(folder.path().join("taskgate.toml"), config).unwrap();
        let gateway = Gateway::start(folder.path());
        Town { gateway, proxy, folder, _runtime: runtime }
    }

    fn pays(&self, key: &str) -> Value {
        let params = json!({ "name": "pay_settle", "arguments": { "key": key, "amount": 3 } });
        modern(&self.gateway.url, "tools/call", "pay_settle", params)["error"].clone()
    }

    /// What `op show` says of the operation that `error` names, once it says `words`.
    fn once(&self, error: &Value, words: &str) -> String {
        let by = Instant::now() + PATIENCE;
        let id = error["data"]["operation"].as_str().unwrap();
        loop {
            let shown = said(&run_in(self.folder.path(), &["op", "show", id, "--store", "taskgate.db"]));
            if shown.contains(words) {
                return shown;
            }
            assert!(Instant::now() < by, "{words}: {shown}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn r4_4_what_a_server_answers_after_the_deadline_is_reported_of_the_operation() {
    // The books say neither for as long as the test takes.
    let town = Town::open("60s", "", "first = \"1h\"\n");
    let armed = town
        .proxy
        .arm(Rule::first("tools/call", Fault::Stall { side: Side::Answer, after: 0 }).and("\"pay_settle\""));
    let error = town.pays("late");
    assert_eq!(error["data"]["outcome"], "unknown", "{error}");
    armed.release();
    let shown = town.once(&error, "reported: applied");
    assert!(shown.contains("the server answered too late"), "{shown}");
    assert!(shown.contains("the exchange is proved over"), "{shown}");
    assert!(shown.contains("failed"), "the task stays as it ended: {shown}");
    drop(armed);
    assert_eq!(Books::read(&town.folder.path().join("books")).unwrap().account("late").applied, 1);
}

#[test]
fn notes_3_4_what_was_never_answered_settles_once_its_connection_is_closed() {
    let town = Town::open("3s", "settle = \"2s\"", "first = \"1s\"\nevery = \"1s\"\n");
    let armed = town
        .proxy
        .arm(Rule::first("tools/call", Fault::Stall { side: Side::Request, after: 0 }).and("\"pay_settle\""));
    let began = Instant::now();
    let error = town.pays("never");
    assert_eq!(error["data"]["outcome"], "unknown", "{error}");
    let shown = town.once(&error, "confirmed: not applied");
    assert!(began.elapsed() >= Duration::from_secs(6), "deadline, farewell and settle: {shown}");
    assert!(shown.contains("its connection is proved closed since"), "{shown}");
    drop(armed);
    assert_eq!(Books::read(&town.folder.path().join("books")).unwrap().account("never").applied, 0);
}
