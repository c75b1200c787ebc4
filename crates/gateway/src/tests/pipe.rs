//! One client on a pipe, in both eras at once.

use serde_json::{Value, json};
use taskgate_core::id::ServerName;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::rig::{Rig, config, modern_body, with_tasks};
use super::schema::{is_a, is_b};

pub(super) struct Piped {
    write: WriteHalf<DuplexStream>,
    read: Lines<BufReader<ReadHalf<DuplexStream>>>,
    serving: JoinHandle<std::io::Result<()>>,
    shutdown: CancellationToken,
}

impl Piped {
    pub(super) fn start(rig: &Rig) -> Piped {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (stdin, stdout) = tokio::io::split(theirs);
        let shutdown = CancellationToken::new();
        let (gateway, stop) = (rig.gateway.clone(), shutdown.clone());
        let serving = tokio::spawn(async move {
            gateway.serve_stdio(stdin, stdout, &ServerName("fake".to_owned()), stop).await
        });
        let (read, write) = tokio::io::split(ours);
        Piped { write, read: BufReader::new(read).lines(), serving, shutdown }
    }

    pub(super) async fn line(&mut self, line: &str) {
        self.write.write_all(line.as_bytes()).await.unwrap();
        self.write.write_all(b"\n").await.unwrap();
    }

    pub(super) async fn say(&mut self, message: Value) {
        self.line(&message.to_string()).await;
    }

    pub(super) async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.read.next_line().await.unwrap().expect("a line")).unwrap()
    }

    /// The answer to a request; what comes before it is put aside.
    pub(super) async fn ask(&mut self, message: Value) -> Value {
        let id = message["id"].clone();
        self.say(message).await;
        loop {
            let heard = self.hear().await;
            if heard["id"] == id && heard.get("method").is_none() {
                return heard;
            }
        }
    }

    pub(super) async fn initialize(&mut self, capabilities: Value) -> Value {
        self.initialize_at("2025-11-25", capabilities).await
    }

    pub(super) async fn initialize_at(&mut self, version: &str, capabilities: Value) -> Value {
        let opened = self
            .ask(json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
                "protocolVersion": version, "capabilities": capabilities,
                "clientInfo": {"name": "t", "version": "1"},
            }}))
            .await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        opened
    }
}

pub(super) fn modern(id: u64, method: &str, params: Value) -> Value {
    let (body, _) = modern_body(method, with_tasks(), params);
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["id"] = json!(id);
    body
}

#[tokio::test]
async fn b_025_d_010_to_d_013_both_eras_share_a_pipe() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    let early = pipe.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
    assert_eq!(early["error"]["code"], -32602, "D-013");
    assert!(early["error"]["message"].as_str().unwrap().contains("2026-07-28"));
    assert_eq!(pipe.ask(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await["result"], json!({}));
    let discovered = pipe.ask(modern(3, "server/discover", json!({}))).await;
    is_b("DiscoverResult", &discovered["result"]);
    let opened = pipe.initialize(json!({})).await;
    is_a("InitializeResult", &opened["result"]);
    assert!(
        opened["result"]["capabilities"]["tasks"]["list"].is_object(),
        "A-024: on a pipe the caller is known"
    );
    let legacy = pipe.ask(json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"})).await;
    assert!(legacy["result"].get("resultType").is_none());
    let modern = pipe.ask(modern(5, "tools/list", json!({}))).await;
    assert_eq!(modern["result"]["resultType"], "complete", "B-025");
    pipe.line("{nope").await;
    assert_eq!(pipe.hear().await["error"]["code"], -32700);
}

#[tokio::test]
async fn a_080_to_a_085_x_022_tasks_are_listed_page_by_page_on_a_pipe() {
    let mut config = config();
    config.limits.page_tasks = 2;
    let rig = Rig::with(config).await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    let mut made = Vec::new();
    for id in 0..5 {
        let params = json!({"name": "slow", "arguments": {"n": id}, "task": {}});
        let created =
            pipe.ask(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})).await;
        made.push(created["result"]["task"]["taskId"].clone());
    }
    // Another caller's tasks are not among them.
    rig.session("2025-11-25", json!({})).await.task("slow").await;
    let mut listed = Vec::new();
    let mut cursor: Option<Value> = None;
    for page in 10.. {
        let params = cursor.as_ref().map_or(json!({}), |cursor| json!({"cursor": cursor}));
        let said =
            pipe.ask(json!({"jsonrpc": "2.0", "id": page, "method": "tasks/list", "params": params})).await;
        is_a("ListTasksResult", &said["result"]);
        listed.extend(said["result"]["tasks"].as_array().unwrap().iter().map(|task| task["taskId"].clone()));
        cursor = said["result"].get("nextCursor").cloned();
        if cursor.is_none() {
            break;
        }
    }
    listed.reverse();
    let (mut listed_sorted, mut made_sorted) = (listed.clone(), made.clone());
    listed_sorted.sort_by_key(Value::to_string);
    made_sorted.sort_by_key(Value::to_string);
    assert_eq!(listed_sorted, made_sorted, "A-081, A-083");
    for cursor in [json!("nope"), json!(7), json!("QUJD.QUJD")] {
        let params = json!({"cursor": cursor});
        let said =
            pipe.ask(json!({"jsonrpc": "2.0", "id": "c", "method": "tasks/list", "params": params})).await;
        assert_eq!(said["error"], json!({"code": -32602, "message": "Bad cursor"}), "A-084");
    }
    let params = json!({"name": "taskgate_task", "arguments": {"action": "list"}});
    let said = pipe.ask(json!({"jsonrpc": "2.0", "id": "l", "method": "tools/call", "params": params})).await;
    let structured = &said["result"]["structuredContent"]["taskgate"];
    assert_eq!(structured["tasks"].as_array().unwrap().len(), 2);
    assert!(structured["nextCursor"].is_string());
}

#[tokio::test]
async fn x_023_questions_news_and_results_share_the_pipe() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({"elicitation": {}})).await;
    let params = json!({"name": "ask", "task": {}});
    let created =
        pipe.ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
    let id = created["result"]["task"]["taskId"].clone();
    let asked = loop {
        let heard = pipe.hear().await;
        if heard["method"] == "elicitation/create" {
            break heard;
        }
    };
    pipe.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "cancel"}})).await;
    let got = pipe
        .ask(json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": {"taskId": id}}))
        .await;
    assert!(got["result"]["content"][0]["text"].as_str().unwrap().contains("cancel"));
}

#[tokio::test]
async fn b_052_b_137_a_request_that_is_taken_back_is_not_answered() {
    let rig = Rig::with(super::rig::config()).await;
    let mut pipe = Piped::start(&rig);
    pipe.say(modern(1, "tools/call", json!({"name": "progress"}))).await;
    rig.fake.has_called(1).await;
    pipe.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        .await;
    rig.fake.has_stopped(1).await;
    let next = pipe.ask(modern(2, "server/discover", json!({}))).await;
    assert_eq!(next["id"], 2);
}

#[tokio::test]
async fn b_136_q_028_a_subscription_on_a_pipe_ends_by_result_and_notification() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    let listen = modern(7, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    pipe.say(listen).await;
    assert_eq!(pipe.hear().await["method"], "notifications/subscriptions/acknowledged");
    pipe.shutdown.cancel();
    let closing = pipe.hear().await;
    assert_eq!((&closing["id"], &closing["result"]["resultType"]), (&json!(7), &json!("complete")));
    let cancelled = pipe.hear().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &json!(7))
    );
    pipe.serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn b_053_the_end_of_the_pipe_ends_the_serving_and_answers_what_was_asked() {
    let rig = Rig::start().await;
    let mut pipe = Piped::start(&rig);
    pipe.initialize(json!({})).await;
    pipe.say(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}})).await;
    pipe.write.shutdown().await.unwrap();
    assert_eq!(pipe.hear().await["id"], 1);
    pipe.serving.await.unwrap().unwrap();
    assert!(pipe.read.next_line().await.unwrap().is_none());
}

#[tokio::test]
async fn design_10_a_line_that_is_too_long_is_refused_and_skipped() {
    let mut config = config();
    config.limits.message_bytes_max = 300;
    let rig = Rig::with(config).await;
    let mut pipe = Piped::start(&rig);
    pipe.line(&format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(400))).await;
    assert_eq!(pipe.hear().await["error"]["code"], -32600);
    assert_eq!(pipe.ask(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await["result"], json!({}));
}
