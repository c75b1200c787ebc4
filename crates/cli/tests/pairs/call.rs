//! One call that asks, as each kind of client sees it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Duration, sleep};

use crate::client::{Answer, Client, Front};

pub(crate) const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What a server asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    Form,
    Url,
    Sampling,
    Tools,
    Roots,
}

impl Kind {
    /// Those that a client with all abilities is asked.
    pub(crate) const ALL: [Kind; 4] = [Kind::Form, Kind::Url, Kind::Sampling, Kind::Roots];

    /// As `asker.py` calls it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Kind::Form => "form",
            Kind::Url => "url",
            Kind::Sampling => "sampling",
            Kind::Tools => "tools",
            Kind::Roots => "roots",
        }
    }

    /// What its client answers, written so that whoever decodes and encodes it again is caught.
    pub(crate) fn answer(self) -> &'static str {
        match self {
            Kind::Form => r#"{"action":"accept","content":{"n" : 2.50,"s":"\u00e9"}}"#,
            Kind::Url => r#"{"action" : "accept"}"#,
            Kind::Sampling | Kind::Tools => {
                r#"{"role":"assistant","content":{"type":"text","text":"\u00e9 4.0"},"model":"m-1","stopReason" : "endTurn"}"#
            }
            Kind::Roots => r#"{"roots":[{"uri":"file:\/\/\/tmp","name" : "r"}]}"#,
        }
    }

    /// An answer of the wrong shape.
    pub(crate) fn wrong(self) -> &'static str {
        match self {
            Kind::Form => r#"{"action":"accept","content":{"n":{"deep":1}}}"#,
            Kind::Url => r#"{"action":"perhaps"}"#,
            Kind::Sampling | Kind::Tools => r#"{"role":"assistant","content":{"type":"text","text":"x"}}"#,
            Kind::Roots => r#"{"roots":"none"}"#,
        }
    }
}

/// The members of an object as they came.
pub(crate) type Members = BTreeMap<String, Box<RawValue>>;

pub(crate) fn members(raw: &str) -> Members {
    serde_json::from_str(raw).unwrap_or_else(|error| panic!("{raw}: {error}"))
}

/// A question at its client.
pub(crate) struct Asked {
    /// Its params.
    pub(crate) params: Members,
    pub(crate) method: String,
    way: Way,
}

/// How it is answered.
#[derive(Clone)]
enum Way {
    /// A request with this id.
    Request(String),
    /// A key of a task.
    Key(String),
    /// A key, in a call that is made again with this state.
    Round(String, String),
}

/// One call.
pub(crate) struct Call<'c> {
    client: &'c Client,
    /// What the tool is told to ask.
    asks: &'static str,
    mark: String,
    tool: &'static str,
    pub(crate) task: Option<String>,
    /// The response that ends it.
    end: Option<Answer>,
    /// A response that was read already.
    said: Option<String>,
}

impl<'c> Call<'c> {
    /// Makes the call as `client` does: as a task, or held.
    pub(crate) async fn make(client: &'c Client, kind: Kind, mark: &str) -> Call<'c> {
        let mut call = Call::new(client, mark, kind.key(), "ask");
        call.begin().await;
        call
    }

    /// A call that wants a URL visited first.
    pub(crate) async fn first(client: &'c Client, tool: &'static str, mark: &str) -> Call<'c> {
        let mut call = Call::new(client, mark, "first", tool);
        call.begin().await;
        call
    }

    fn new(client: &'c Client, mark: &str, asks: &'static str, tool: &'static str) -> Call<'c> {
        Call { client, asks, mark: mark.to_owned(), tool, task: None, end: None, said: None }
    }

    /// All params but their closing brace.
    fn params(&self) -> String {
        let Call { tool, mark, asks, .. } = self;
        format!(r#"{{"name":"{tool}","arguments":{{"mark":"{mark}","kind":"{asks}"}}"#)
    }

    async fn begin(&mut self) {
        let params = self.params();
        match self.client.front {
            Front::A => {
                let said =
                    self.client.send("tools/call", &format!("{params},\"task\":{{}}}}")).await.unwrap();
                let said: Value = serde_json::from_str(&said).unwrap();
                let task = said["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{said}"));
                self.task = Some(task.to_owned());
                self.wait();
            }
            Front::Plain => self.end = Some(self.client.send("tools/call", &format!("{params}}}"))),
            Front::B | Front::Rounds => {
                let said = self.client.send("tools/call", &format!("{params}}}")).await.unwrap();
                self.heard(said);
            }
        }
    }

    /// A task that was made before.
    pub(crate) fn of(client: &'c Client, kind: Kind, mark: &str, task: &str) -> Call<'c> {
        let mut call = Call::new(client, mark, kind.key(), "ask");
        call.task = Some(task.to_owned());
        if client.front == Front::A {
            call.wait();
        }
        call
    }

    /// Answers a question of before by what named it.
    pub(crate) async fn late(&mut self, key: &str, answer: &str) -> i64 {
        let way = if self.client.front.is_modern() {
            Way::Key(key.to_owned())
        } else {
            Way::Request(key.to_owned())
        };
        self.answer(&Asked { params: Members::new(), method: String::new(), way }, answer).await
    }

    /// The same task, as another client sees it.
    pub(crate) fn read_by<'o>(&self, client: &'o Client) -> Call<'o> {
        let mut other = Call::new(client, &self.mark, self.asks, self.tool);
        other.task = self.task.clone();
        if client.front == Front::A {
            other.wait();
        }
        other
    }

    /// Waits for the task on a stream.
    pub(crate) fn wait(&mut self) {
        let params = json!({ "taskId": self.task.clone().unwrap() }).to_string();
        self.end = Some(self.client.send("tasks/result", &params));
    }

    fn heard(&mut self, said: String) {
        let parsed: Value = serde_json::from_str(&said).unwrap();
        if parsed["result"]["resultType"] == "task" {
            self.task = Some(parsed["result"]["taskId"].as_str().unwrap().to_owned());
        } else {
            self.said = Some(said);
        }
    }

    async fn get(&self) -> String {
        let params = json!({ "taskId": self.task.clone().unwrap() }).to_string();
        self.client.send("tasks/get", &params).await.unwrap()
    }

    /// The task as `tasks/get` has it.
    pub(crate) async fn read(&self) -> Value {
        serde_json::from_str::<Value>(&self.get().await).unwrap()["result"].clone()
    }

    /// Waits until it is asked; `None` if the call ended instead.
    pub(crate) async fn asked(&mut self) -> Option<Asked> {
        self.asked_but(&[]).await
    }

    /// The same, of a question of another key.
    pub(crate) async fn asked_but(&mut self, keys: &[String]) -> Option<Asked> {
        #[derive(serde::Deserialize)]
        struct Request {
            method: String,
            #[serde(default)]
            params: Option<Box<RawValue>>,
            id: Option<Box<RawValue>>,
        }
        if matches!(self.client.front, Front::A | Front::Plain) {
            loop {
                let raw = tokio::select! {
                    raw = self.client.heard() => raw,
                    said = self.end.as_mut().unwrap() => {
                        self.said = said.ok();
                        self.end = None;
                        return None;
                    }
                };
                let Request { method, params, id: Some(id) } = serde_json::from_str(&raw).unwrap() else {
                    continue;
                };
                let params = params.map_or("{}".to_owned(), |params| params.get().to_owned());
                if params.contains(&self.mark) {
                    return Some(Asked {
                        params: members(&params),
                        method,
                        way: Way::Request(id.get().to_owned()),
                    });
                }
            }
        }
        loop {
            let (raw, is_task) = match &self.said {
                Some(said) => (said.clone(), false),
                None => (self.get().await, true),
            };
            let parsed: Value = serde_json::from_str(&raw).unwrap();
            let result = members(&raw).remove("result").map(|result| members(result.get()));
            let requests = result.as_ref().and_then(|result| result.get("inputRequests"));
            let requests = requests.map(|requests| members(requests.get())).unwrap_or_default();
            if let Some((key, entry)) = requests.into_iter().find(|(key, _)| !keys.contains(key)) {
                let Request { method, params, .. } = serde_json::from_str(entry.get()).unwrap();
                let params = params.map_or("{}".to_owned(), |params| params.get().to_owned());
                let way = match parsed["result"]["requestState"].as_str() {
                    Some(state) if !is_task => Way::Round(key, state.to_owned()),
                    _ => Way::Key(key),
                };
                return Some(Asked { params: members(&params), method, way });
            }
            let status = parsed["result"]["status"].as_str();
            if !is_task || !matches!(status, Some("working" | "input_required")) {
                self.said = Some(raw);
                return None;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Answers. What came of it: an HTTP status, or the error's code.
    pub(crate) async fn answer(&mut self, asked: &Asked, answer: &str) -> i64 {
        match &asked.way {
            Way::Request(id) => {
                let answer = match &self.task {
                    // A-069
                    Some(task) => format!(
                        "{},\"_meta\":{}}}",
                        &answer[..answer.len() - 1],
                        json!({ RELATED: { "taskId": task } })
                    ),
                    None => answer.to_owned(),
                };
                let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{answer}}}");
                i64::from(self.client.say(&message).await)
            }
            Way::Key(key) => {
                let task = self.task.clone().unwrap();
                let params = format!("{{\"taskId\":\"{task}\",\"inputResponses\":{{\"{key}\":{answer}}}}}");
                let said = self.client.send("tasks/update", &params).await.unwrap();
                let said: Value = serde_json::from_str(&said).unwrap();
                said["error"]["code"].as_i64().unwrap_or(200)
            }
            Way::Round(key, state) => {
                let params = format!(
                    "{},\"inputResponses\":{{\"{key}\":{answer}}},\"requestState\":{}}}",
                    self.params(),
                    json!(state)
                );
                let said = self.client.send("tools/call", &params).await.unwrap();
                let parsed: Value = serde_json::from_str(&said).unwrap();
                let code = parsed["error"]["code"].as_i64().unwrap_or(200);
                if code != -32602 {
                    self.heard_again(said);
                }
                code
            }
        }
    }

    /// Makes a call again that was asked something, and answers nothing: it is asked again as long as it is open (B-130).
    pub(crate) async fn answer_nothing(&self, asked: &Asked) -> i64 {
        let Way::Round(_, state) = &asked.way else { panic!("it is no round") };
        let params = format!("{},\"inputResponses\":{{}},\"requestState\":{}}}", self.params(), json!(state));
        let said = self.client.send("tools/call", &params).await.unwrap();
        let said: Value = serde_json::from_str(&said).unwrap();
        said["error"]["code"].as_i64().unwrap_or(200)
    }

    fn heard_again(&mut self, said: String) {
        self.said = None;
        self.heard(said);
    }

    /// Refuses by an error, where the client's dialect has one.
    pub(crate) async fn refuse(&mut self, asked: &Asked, code: i64) {
        let Way::Request(id) = &asked.way else { panic!("there is no form for it") };
        let error = json!({ "code": code, "message": "not now" });
        self.client.say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")).await;
    }

    /// How it ends: the text of its result, or the error.
    pub(crate) async fn end(&mut self) -> String {
        if let Some(end) = self.end.take() {
            self.said = end.await.ok();
        }
        if self.said.is_none() {
            assert!(self.task.is_some(), "the connection broke");
            loop {
                let raw = self.get().await;
                let task: Value = serde_json::from_str(&raw).unwrap();
                if !matches!(task["result"]["status"].as_str(), Some("working" | "input_required")) {
                    self.said = Some(raw);
                    break;
                }
                sleep(Duration::from_millis(10)).await;
            }
        }
        tell(self.said.as_deref().unwrap())
    }

    /// The id of the request that asks.
    pub(crate) fn key(asked: &Asked) -> &str {
        match &asked.way {
            Way::Request(id) => id,
            Way::Key(key) | Way::Round(key, _) => key,
        }
    }
}

/// The end of a call in a few words.
pub(crate) fn tell(raw: &str) -> String {
    let said: Value = serde_json::from_str(raw).unwrap();
    let error = |error: &Value| {
        let mut words = format!("{}: {}", error["code"], error["message"].as_str().unwrap_or_default());
        // The operation's id is another each time.
        let mut data = error["data"].clone();
        if let Some(operation) = data.get_mut("operation") {
            *operation = "OPERATION".into();
        }
        if !data.is_null() {
            words.push_str(&format!(" {data}"));
        }
        words
    };
    let result = &said["result"];
    if !said["error"].is_null() {
        return error(&said["error"]);
    }
    if !result["error"].is_null() {
        return error(&result["error"]);
    }
    let inner = if result["result"].is_object() { &result["result"] } else { result };
    match inner["content"][0]["text"].as_str() {
        Some(text) => text.to_owned(),
        None => said.to_string(),
    }
}
