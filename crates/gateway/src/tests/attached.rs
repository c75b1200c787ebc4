//! Clients on pipes that somebody else carries: frames, results that wait, and what a client sees that comes back.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use taskgate_core::gate::{BackTasks, ToolMode};
use taskgate_core::id::{Principal, ServerName, TaskId};
use taskgate_core::time::Millis;
use taskgate_store::record::Frame;
use taskgate_store::{Store, Whose};
use taskgate_wire::version::Version;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rig::{Fake, Rig, config, hasty, modern_body, redact, with_tasks};
use super::schema::is_a;
use crate::config::{GatewayConfig, Sees, ServerPolicy, ToolPolicy};
use crate::pipe::{Attached, Incoming, Outgoing};

/// One client.
struct Client {
    to: Option<mpsc::Sender<Incoming>>,
    from: mpsc::Receiver<Outgoing>,
    serving: JoinHandle<std::io::Result<()>>,
    shutdown: CancellationToken,
    /// When it says that it sent what it sends.
    since: Instant,
}

fn agent() -> Principal {
    Principal::stored("local:agent-0123456789ab".to_owned())
}

fn fake() -> ServerName {
    ServerName("fake".to_owned())
}

fn frame(sequence: u64) -> Option<Frame> {
    Some(Frame { attachment: [7; 16], sequence })
}

/// As the keeper configures a server.
fn kept(mut config: GatewayConfig) -> GatewayConfig {
    config.servers[0].sees = Sees::Principal;
    config
}

impl Client {
    fn at(rig: &Rig, server: ServerName) -> Client {
        let (to, incoming) = mpsc::channel(16);
        let (outgoing, from) = mpsc::channel(64);
        let shutdown = CancellationToken::new();
        let (gateway, stop) = (rig.gateway.clone(), shutdown.clone());
        let attached = Attached { server, principal: agent() };
        let serving =
            tokio::spawn(async move { gateway.serve_pipe(attached, incoming, outgoing, stop).await });
        Client { to: Some(to), from, serving, shutdown, since: Instant::now() }
    }

    fn start(rig: &Rig) -> Client {
        Client::at(rig, fake())
    }

    async fn open(rig: &Rig, capabilities: Value) -> (Client, Value) {
        let mut client = Client::start(rig);
        let opened = client.initialize("2025-11-25", capabilities).await;
        (client, opened)
    }

    async fn bytes(&self, message: &[u8], frame: Option<Frame>) {
        let message = Bytes::copy_from_slice(message);
        self.to
            .as_ref()
            .unwrap()
            .send(Incoming { message, frame, since: self.since, is_again: false })
            .await
            .unwrap();
    }

    async fn say(&self, message: Value, frame: Option<Frame>) {
        self.bytes(message.to_string().as_bytes(), frame).await;
    }

    async fn hear(&mut self) -> (Value, Option<TaskId>) {
        let Outgoing { message, delivers } = self.from.recv().await.expect("a message");
        assert!(!message.contains(&b'\n') && !message.contains(&b'\r'), "A-121");
        (serde_json::from_slice(&message).unwrap(), delivers)
    }

    /// The answer to a request, and what it delivers; what comes before it is put aside.
    async fn ask(&mut self, message: Value, frame: Option<Frame>) -> (Value, Option<TaskId>) {
        let id = message["id"].clone();
        self.say(message, frame).await;
        loop {
            let heard = self.hear().await;
            if heard.0["id"] == id && heard.0.get("method").is_none() {
                return heard;
            }
        }
    }

    async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"}});
        let opening = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params});
        let (opened, _) = self.ask(opening, frame(0)).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), frame(1)).await;
        opened["result"].clone()
    }

    async fn tool(&mut self, name: &str, arguments: Value, frame: Option<Frame>) -> (Value, Option<TaskId>) {
        let (said, delivers) = self.ask(call(9, name, arguments), frame).await;
        assert!(said.get("result").is_some(), "{said}");
        (said["result"].clone(), delivers)
    }

    /// Waits until everything that was sent has been taken, by a question behind it.
    async fn settle(&mut self) {
        self.ask(json!({"jsonrpc": "2.0", "id": "settle", "method": "ping"}), None).await;
    }

    /// The host goes.
    async fn leave(mut self) {
        self.to = None;
        self.from.close();
        self.serving.await.unwrap().unwrap();
    }
}

fn call(id: u64, name: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}

fn modern(id: u64, method: &str, capabilities: Value, params: Value) -> Value {
    let (body, _) = modern_body(method, capabilities, params);
    let mut body: Value = serde_json::from_str(&body).unwrap();
    body["id"] = json!(id);
    body
}

fn text_of(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn handle(result: &Value) -> String {
    result["structuredContent"]["taskgate"]["taskId"]
        .as_str()
        .unwrap_or_else(|| panic!("{result}"))
        .to_owned()
}

async fn over(rig: &Rig, id: &str) {
    let id = TaskId::parse(id).unwrap();
    rig.gateway.engine.find(&agent(), &id).await.unwrap().expect("a task").over().await;
}

#[tokio::test]
async fn r3_3_a_frame_that_is_sent_again_is_one_call_and_nobody_is_told() {
    let rig = Rig::with(kept(config())).await;
    let (first, _) = Client::open(&rig, json!({})).await;
    first.say(call(1, "slow", json!({"n": 1})), frame(2)).await;
    rig.fake.has_called(1).await;
    drop(first);
    // The pipe comes back and sends again what was not answered.
    let (mut second, _) = Client::open(&rig, json!({})).await;
    second.say(call(1, "slow", json!({"n": 1})), frame(2)).await;
    second.settle().await;
    rig.fake.gate.open();
    let (said, delivers) = second.hear().await;
    assert_eq!(said["result"], json!({"content": [{"type": "text", "text": "done"}]}));
    assert!(delivers.is_some());
    assert_eq!(rig.fake.calls.lock().len(), 1);
    // Other arguments under the same frame make no other call either, and another frame makes one.
    let (_, again) = second.tool("slow", json!({"n": 1}), frame(2)).await;
    assert_eq!(again, delivers);
    assert_eq!(rig.fake.calls.lock().len(), 1);
}

#[tokio::test]
async fn r2_6_a_call_that_is_sent_again_is_answered_in_the_time_of_its_first_sending() {
    let rig = Rig::with(kept(config())).await;
    let (mut client, _) = Client::open(&rig, json!({})).await;
    // The gateway before this one died while the client waited for it; the client's own limit runs on.
    client.since = Instant::now() - Duration::from_secs(60);
    let (stands_in, _) = client.tool("slow", json!({"n": 1}), frame(2)).await;
    let words = stands_in["content"][0]["text"].as_str().unwrap();
    assert!(words.contains("goes on in the background"), "{words}");
    let id = &stands_in["structuredContent"]["taskgate"]["taskId"];
    let (waited, _) = client.tool("taskgate_task", json!({"action": "wait", "taskId": id}), None).await;
    assert_eq!(&waited["structuredContent"]["taskgate"]["taskId"], id, "nor does the wait begin anew");
}

#[tokio::test]
async fn r4_5_a_call_repeated_though_nobody_knows_is_not_sent_and_its_caller_hears_what_can_be_done() {
    let rig = Rig::with(kept(config())).await;
    let (mut client, _) = Client::open(&rig, json!({})).await;
    let (first, _) = client.ask(call(1, "lose", json!({"n": 1})), frame(2)).await;
    assert_eq!(first["error"]["data"]["outcome"], "unknown", "{first}");
    let (again, _) = client.ask(call(2, "lose", json!({"n": 1})), frame(3)).await;
    let words = again["error"]["message"].as_str().unwrap();
    assert!(
        words.contains("This repeated call was not sent") && words.contains("other arguments"),
        "{words}"
    );
    assert_eq!(rig.fake.calls.lock().len(), 1);
    client.ask(call(3, "lose", json!({"n": 2})), frame(4)).await;
    assert_eq!(rig.fake.calls.lock().len(), 2);
}

#[tokio::test]
async fn r3_3_each_call_of_a_batch_is_known_again_by_its_place() {
    let rig = Rig::with(kept(config())).await;
    rig.fake.gate.open();
    let batch = json!([call(1, "slow", json!({"n": 1})), call(2, "slow", json!({"n": 2}))]);
    for _ in 0..2 {
        let mut client = Client::start(&rig);
        client.initialize("2025-03-26", json!({})).await;
        client.say(batch.clone(), frame(2)).await;
        let (answers, delivers) = client.hear().await;
        assert_eq!((answers.as_array().unwrap().len(), delivers), (2, None), "{answers}");
        assert_eq!(rig.fake.calls.lock().len(), 2);
        client.leave().await;
    }
    let left = rig.gateway.engine.unfetched(&agent()).await.unwrap();
    assert_eq!((left.running, left.ended), (0, 0), "both results were delivered together");
}

#[tokio::test]
async fn design_4_a_result_that_nobody_fetched_answers_the_same_call_once() {
    let rig = Rig::with(kept(config())).await;
    let (host, _) = Client::open(&rig, json!({})).await;
    host.say(call(1, "slow", json!({"n": 1})), frame(2)).await;
    rig.fake.has_called(1).await;
    host.leave().await;
    rig.fake.gate.open();
    let listed = rig.store.list(Whose::Principal(&agent()), None, 9).await.unwrap();
    over(&rig, listed[0].id().expose()).await;

    let (mut host, _) = Client::open(&rig, json!({})).await;
    let (result, delivers) = host.tool("slow", json!({"n": 1}), frame(12)).await;
    assert_eq!(result["content"][0]["text"], "done");
    let words = result["content"][1]["text"].as_str().unwrap();
    assert!(words.starts_with("This call was made before at 20"), "{words}");
    assert!(
        words.ends_with("nothing was started a second time. To have it done again, call again."),
        "{words}"
    );
    assert_eq!(result["_meta"]["taskgate/joined"], listed[0].id().expose());
    assert_eq!(delivers.as_ref(), Some(listed[0].id()));
    assert_eq!(rig.fake.calls.lock().len(), 1);

    // The message arrived: from now on it is done again.
    rig.gateway.fetched(&agent(), &delivers.unwrap()).await;
    let (result, _) = host.tool("slow", json!({"n": 1}), frame(13)).await;
    assert_eq!(result, json!({"content": [{"type": "text", "text": "done"}]}));
    assert_eq!(rig.fake.calls.lock().len(), 2);
}

#[tokio::test]
async fn design_4_each_message_with_a_final_result_says_whose_it_is() {
    let rig = Rig::with(kept(hasty())).await;
    let (mut host, _) = Client::open(&rig, json!({})).await;
    let (still, nothing) = host.tool("slow", json!({}), frame(2)).await;
    assert_eq!(nothing, None, "a handle is no result");
    let id = handle(&still);
    let (_, nothing) = host.tool("taskgate_task", json!({"action": "wait", "taskId": id}), frame(3)).await;
    assert_eq!(nothing, None);
    rig.fake.gate.open();
    over(&rig, &id).await;
    let task = TaskId::parse(&id).unwrap();
    for action in ["wait", "result", "cancel"] {
        let (_, delivers) =
            host.tool("taskgate_task", json!({"action": action, "taskId": id}), frame(4)).await;
        assert_eq!(delivers.as_ref(), Some(&task), "{action}");
    }
    let (_, nothing) = host.tool("taskgate_task", json!({"action": "list"}), frame(5)).await;
    assert_eq!(nothing, None);
    let get = |method: &str| json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": {"taskId": id}});
    assert_eq!(host.ask(get("tasks/get"), frame(6)).await.1, None, "A-047: it has no payload");
    assert_eq!(host.ask(get("tasks/result"), frame(7)).await.1.as_ref(), Some(&task));
    let get = modern(6, "tasks/get", with_tasks(), json!({"taskId": id}));
    assert_eq!(host.ask(get, frame(8)).await.1.as_ref(), Some(&task));
    let (failed, nothing) = host.ask(call(7, "raise", json!({})), frame(9)).await;
    assert_eq!((failed["error"]["code"].clone(), nothing), (json!(-32050), None), "an error is no result");
    let (_, delivers) = host.tool("echo", json!({}), frame(10)).await;
    assert_eq!(delivers, None, "a read that was answered at once has no task");
}

#[tokio::test]
async fn design_4_a_client_that_comes_back_is_told_what_is_there_and_finds_it_in_the_list() {
    let rig = Rig::with(kept(hasty())).await;
    let (mut host, opened) = Client::open(&rig, json!({})).await;
    assert_eq!(opened["instructions"], "Be kind.", "there is nothing from before");
    let id = handle(&host.tool("slow", json!({}), frame(2)).await.0);
    host.leave().await;

    let (mut host, opened) = Client::open(&rig, json!({})).await;
    is_a("InitializeResult", &opened);
    assert_eq!(
        opened["instructions"],
        "Be kind.\n\nCalls made before: 1 still running; taskgate_task with {\"action\":\"list\"} shows them."
    );
    rig.fake.gate.open();
    over(&rig, &id).await;
    let discover = |capabilities| modern(4, "server/discover", capabilities, json!({}));
    let (plain, _) = host.ask(discover(json!({})), frame(3)).await;
    let told = "Be kind.\n\nCalls made before: 1 with a result that was not fetched yet; taskgate_task with \
                {\"action\":\"list\"} shows them.";
    assert_eq!(plain["result"]["instructions"], told);
    let (knows_tasks, _) = host.ask(discover(with_tasks()), frame(4)).await;
    assert_eq!(knows_tasks["result"]["instructions"], "Be kind.", "it has no such tool");

    let (list, _) = host.tool("taskgate_task", json!({"action": "list"}), frame(5)).await;
    let text = text_of(&list);
    assert!(text.starts_with(&format!("{id} completed, its result has not been fetched, 20")), "{text}");
    assert!(text.ends_with("Z slow"), "{text}");
    insta::assert_snapshot!(redact(list["structuredContent"].clone()));
    let (_, delivers) = host.tool("taskgate_task", json!({"action": "wait", "taskId": id}), frame(6)).await;
    rig.gateway.fetched(&agent(), &delivers.unwrap()).await;
    let (list, _) = host.tool("taskgate_task", json!({"action": "list"}), frame(7)).await;
    assert!(!text_of(&list).contains("not been fetched"), "{list}");
    assert_eq!(list["structuredContent"]["taskgate"]["tasks"][0]["fetched"], true);
    let (_, opened) = Client::open(&rig, json!({})).await;
    assert_eq!(opened["instructions"], "Be kind.");
}

#[tokio::test]
async fn design_4_one_agents_tasks_are_seen_at_each_of_its_servers_and_at_nobody_elses() {
    let rig = Rig::with(kept(hasty())).await;
    let (mut host, _) = Client::open(&rig, json!({})).await;
    let id = handle(&host.tool("slow", json!({}), frame(2)).await.0);
    let named = |name: &str, sees| {
        let mut policy = ServerPolicy::new(ServerName(name.to_owned()));
        policy.sees = sees;
        policy
    };
    rig.gateway.add_server(named("fake-2", Sees::Principal));
    rig.gateway.add_server(named("other", Sees::Server));
    for (server, sees) in [("fake-2", true), ("other", false)] {
        let mut host = Client::at(&rig, ServerName(server.to_owned()));
        host.initialize("2025-11-25", json!({})).await;
        let get = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": id}});
        assert_eq!(host.ask(get, None).await.0.get("result").is_some(), sees, "{server}");
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/list"});
        let (listed, _) = host.ask(list, None).await;
        assert_eq!(listed["result"]["tasks"].as_array().unwrap().len(), usize::from(sees), "{server}");
    }
    // Another agent on the same server.
    let (to, incoming) = mpsc::channel(4);
    let (outgoing, from) = mpsc::channel(4);
    let attached = Attached { server: fake(), principal: Principal::stored("local:other".to_owned()) };
    let (gateway, shutdown) = (rig.gateway.clone(), CancellationToken::new());
    let stop = shutdown.clone();
    let serving = tokio::spawn(async move { gateway.serve_pipe(attached, incoming, outgoing, stop).await });
    let mut stranger = Client { to: Some(to), from, serving, shutdown, since: Instant::now() };
    let opened = stranger.initialize("2025-11-25", json!({})).await;
    assert_eq!(opened["instructions"], "Be kind.");
    let (said, _) = stranger.tool("taskgate_task", json!({"action": "wait", "taskId": id}), None).await;
    assert_eq!(said["isError"], true, "R6.1");
}

#[tokio::test]
async fn a_server_is_served_from_when_it_is_added_until_it_is_removed() {
    let rig = Rig::start().await;
    let at = |path: &'static str| {
        let addr = rig.addr;
        let headers = [("content-type", "application/json")];
        let ping = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#;
        async move {
            super::http_client::open(addr, "POST", path, &headers, Some(ping)).await.finish().await.status
        }
    };
    assert_eq!((at("/mcp").await, at("/new/mcp").await), (200, 404));
    rig.gateway.add_server(ServerPolicy::new(ServerName("new".to_owned())));
    assert_eq!((at("/mcp").await, at("/new/mcp").await), (404, 200), "there is more than one");
    assert!(rig.gateway.remove_server(&fake()));
    assert!(!rig.gateway.remove_server(&fake()));
    assert_eq!((at("/mcp").await, at("/fake/mcp").await), (200, 404), "there is one again");
    let refused = Client::start(&rig).serving.await.unwrap().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::NotFound);
    assert!(refused.to_string().contains("\"fake\" is not configured"), "{refused}");
}

#[tokio::test]
async fn a_servers_own_budget_takes_the_place_of_the_limit() {
    let mut slow = kept(config());
    slow.servers[0].sync_budget = Some(Millis(50));
    let rig = Rig::with(slow).await;
    let (mut host, _) = Client::open(&rig, json!({})).await;
    let id = handle(&host.tool("slow", json!({}), frame(2)).await.0);
    let (still, _) = host.tool("taskgate_task", json!({"action": "wait", "taskId": id}), frame(3)).await;
    assert_eq!(still["structuredContent"]["taskgate"]["status"], "working");
}

#[tokio::test]
async fn what_a_shared_server_asks_of_a_client_that_cannot_be_asked_comes_with_its_handle_at_once() {
    let rig = Rig::before(Fake::new(Version::V2025_11_25, BackTasks::None), kept(config())).await;
    let (mut host, _) = Client::open(&rig, json!({"roots": {}})).await;
    let (said, _) = host.tool("ask", json!({}), frame(2)).await;
    assert!(text_of(&said).contains("It waits for an answer to question in-1: \"Which colour?\"."), "{said}");
    let (said, _) = host.ask(modern(3, "tools/call", json!({}), json!({"name": "ask"})), frame(3)).await;
    assert_eq!(said["result"]["resultType"], "complete", "{said}");
    let id = handle(&said["result"]);
    let reply = json!({"action": "accept", "content": {"colour": "blue"}});
    let answer = json!({"action": "answer", "taskId": id, "key": "in-1", "reply": reply});
    host.tool("taskgate_task", answer, frame(4)).await;
    let (done, _) = host.tool("taskgate_task", json!({"action": "wait", "taskId": id}), frame(5)).await;
    assert!(text_of(&done).contains("blue"), "{done}");
    // One that can be asked is asked.
    let (asker, _) = Client::open(&rig, json!({"elicitation": {}})).await;
    let mut asker = asker;
    asker.say(call(1, "ask", json!({})), frame(12)).await;
    assert_eq!(asker.hear().await.0["method"], "elicitation/create");
}

#[tokio::test]
async fn a_call_that_gets_no_handle_fails_when_its_client_cannot_be_asked() {
    let mut config = kept(config());
    let sync = ToolPolicy { mode: ToolMode::Sync, ..ToolPolicy::default() };
    config.servers[0].tools.insert("ask".to_owned(), sync);
    let rig = Rig::with(config).await;
    let (mut host, _) = Client::open(&rig, json!({})).await;
    let (said, _) = host.ask(call(1, "ask", json!({})), frame(2)).await;
    assert_eq!(
        said["error"]["message"],
        "The server asks by elicitation/create, which this client cannot be asked, so the call was asked to stop"
    );
    rig.fake.has_stopped(1).await;
}

#[tokio::test]
async fn one_of_many_shared_clients_is_asked_who_can_be() {
    use taskgate_client::{Asker, Sharing};
    let rig = Rig::with(kept(config())).await;
    let (mut able, _) = Client::open(&rig, json!({"elicitation": {}})).await;
    let (_newer, _) = Client::open(&rig, json!({"roots": {}})).await;
    let key = rig.fake.keys.lock().last().unwrap().clone();
    let gateway = std::sync::Arc::downgrade(&rig.gateway);
    let newest = crate::upstream::Newest { gateway, key, sharing: Sharing::First };
    let asking = newest.ask(super::rig::form(None));
    let answering = async {
        let (asked, _) = able.hear().await;
        assert_eq!(asked["method"], "elicitation/create");
        able.say(json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}}), None).await;
        able.settle().await;
    };
    let (reply, ()) = tokio::join!(asking, answering);
    assert!(matches!(reply, taskgate_engine::back::Reply::Result(_)), "{reply:?}");
}

#[tokio::test]
async fn g_021_the_end_of_one_pipe_is_not_the_end_of_the_others() {
    let rig = Rig::with(kept(config())).await;
    let (mut going, _) = Client::open(&rig, json!({})).await;
    let (mut staying, _) = Client::open(&rig, json!({})).await;
    let listen = |id| {
        modern(id, "subscriptions/listen", json!({}), json!({"notifications": {"toolsListChanged": true}}))
    };
    for client in [&mut going, &mut staying] {
        client.say(listen(7), None).await;
        assert_eq!(client.hear().await.0["method"], "notifications/subscriptions/acknowledged");
    }
    going.shutdown.cancel();
    assert_eq!(going.hear().await.0["result"]["resultType"], "complete");
    going.serving.await.unwrap().unwrap();
    staying.settle().await;
    assert!(!rig.gateway.stopping.is_cancelled());
}

#[tokio::test]
async fn b_053_what_was_asked_is_answered_though_the_host_has_closed_its_end() {
    let rig = Rig::with(kept(config())).await;
    let (mut host, _) = Client::open(&rig, json!({})).await;
    host.say(call(1, "slow", json!({})), frame(2)).await;
    rig.fake.has_called(1).await;
    host.to = None;
    rig.fake.gate.open();
    assert_eq!(host.hear().await.0["result"]["content"][0]["text"], "done");
    host.serving.await.unwrap().unwrap();
    assert!(host.from.recv().await.is_none());
}

#[tokio::test]
async fn bad_messages_are_answered_in_words_or_dropped_and_the_next_is_served() {
    let mut config = kept(config());
    config.limits.message_bytes_max = 400;
    let rig = Rig::with(config).await;
    let mut host = Client::start(&rig);
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{}\"}}", "x".repeat(500));
    let deep = "[".repeat(300);
    let messages: [(&str, &[u8]); 12] = [
        ("nothing", b""),
        ("blanks", b" \t\r"),
        ("rubbish", b"Listening on port 8080"),
        ("half a message", b"{\"jsonrpc\":\"2.0\",\"id\":1,"),
        ("no UTF-8", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}"),
        ("too long", long.as_bytes()),
        ("too deep", deep.as_bytes()),
        ("no version", b"{\"id\":1,\"method\":\"ping\"}"),
        ("a batch before the opening", b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]"),
        ("an answer to nothing", b"{\"jsonrpc\":\"2.0\",\"id\":\"tg-00000000-1\",\"result\":{}}"),
        ("a request before the opening", b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}"),
        ("line ends inside", b"{\"jsonrpc\":\"2.0\",\n\"id\":1,\r\n\"method\":\"ping\"}"),
    ];
    let mut out = String::new();
    for (name, message) in messages {
        host.bytes(message, frame(1)).await;
        host.say(json!({"jsonrpc": "2.0", "id": "next", "method": "ping"}), None).await;
        let mut answers = Vec::new();
        loop {
            let (heard, _) = host.hear().await;
            if heard["id"] == "next" {
                break;
            }
            answers.push(heard.to_string());
        }
        out.push_str(&format!(
            "{name}: {}\n",
            if answers.is_empty() { "-".to_owned() } else { answers.join(" ") }
        ));
    }
    insta::assert_snapshot!(out);
}
