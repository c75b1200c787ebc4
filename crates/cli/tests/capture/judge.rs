//! Judges conversations: each message by its own type, each answer by its request, and what must not be there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::http::Document;
use super::schema::{self, File, Type, Version};
use super::tap::{Exchange, Pipe};

/// Where the line is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Side {
    /// To a client: what goes towards it is ours.
    Front,
    /// To a server: what goes towards it is ours.
    Back,
}

/// Where a message went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Towards {
    Server,
    Client,
}

/// What is wrong with a message.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// Whether taskgate sent it.
    pub(crate) ours: bool,
    pub(crate) what: String,
    /// The message, or its beginning.
    pub(crate) message: String,
}

/// What came of one line.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Messages that were checked.
    pub(crate) checked: usize,
    /// How often each type of message was seen.
    pub(crate) seen: BTreeMap<(Towards, String), usize>,
    pub(crate) faults: Vec<Fault>,
}

const RELATED: &str = "io.modelcontextprotocol/related-task";
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Members of `_meta` that only the modern era has.
const MODERN_META: [&str; 4] =
    [VERSION, CAPABILITIES, "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/subscriptionId"];

/// The version that a message of the modern era names.
pub(crate) fn modern(message: &Value) -> Option<&str> {
    message["params"]["_meta"][VERSION].as_str()
}

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

fn is_response(message: &Value) -> bool {
    message.get("method").is_none()
}

/// Members that are there and that this type does not name.
fn strangers(value: &Value, known: &BTreeSet<String>) -> Option<String> {
    let strange: Vec<_> = value.as_object()?.keys().filter(|name| !known.contains(*name)).cloned().collect();
    (!strange.is_empty()).then(|| format!("members of another dialect: {}", strange.join(", ")))
}

/// What must not be in `_meta` in this era.
fn foreign_meta(version: Version, meta: &Value) -> Option<String> {
    let foreign: &[&str] = if version == Version::V28 { &[RELATED] } else { &MODERN_META };
    let found = foreign.iter().find(|name| meta.get(**name).is_some())?;
    Some(format!("{found} in the `_meta` of {}", version.name()))
}

/// What is wrong with a request or notification that goes this way.
pub(crate) fn asked(version: Version, towards: Towards, message: &Value, ours: bool) -> Vec<String> {
    let method = message["method"].as_str().unwrap_or_default();
    let of = if is_request(message) {
        if schema::is_servers(method) != (towards == Towards::Client) {
            return vec![format!("{method} is not asked of this side")];
        }
        if version == Version::V28 && towards == Towards::Client {
            return vec![format!("{method}: a server of {} asks nothing", version.name())];
        }
        schema::request(version, method).map(|(request, _)| request)
    } else {
        schema::notification(version, method)
    };
    let Some(of) = of else { return vec![format!("{} has no {method}", version.name())] };
    let mut wrong = schema::errors(of, message);
    if version == Version::V28 && is_request(message) {
        // The extension's types leave that out.
        wrong.extend(schema::errors((File::Core(version), "RequestParams"), &message["params"]));
    }
    if ours {
        wrong.extend(foreign_meta(version, &message["params"]["_meta"]));
        let mut known = schema::params(of);
        known.insert("_meta".to_owned());
        if method == "subscriptions/listen" || method == "notifications/subscriptions/acknowledged" {
            known.insert("taskIds".to_owned());
        }
        wrong.extend(strangers(&message["params"], &known));
        let envelope = ["jsonrpc", "id", "method", "params"].map(str::to_owned).into();
        wrong.extend(strangers(message, &envelope));
    }
    wrong
}

/// What is wrong with the answer to a request.
pub(crate) fn answered(version: Version, request: &Value, message: &Value, ours: bool) -> Vec<String> {
    let method = request["method"].as_str().unwrap_or_default();
    let core = File::Core(version);
    if message.get("error").is_some() {
        return refused(version, message);
    }
    let mut wrong = Vec::new();
    let envelope = if version == Version::V18 { "JSONRPCResponse" } else { "JSONRPCResultResponse" };
    wrong.extend(schema::errors((core, envelope), message));
    let Some((_, of)) = schema::request(version, method) else {
        wrong.push(format!("a result of {method}, which {} has not", version.name()));
        return wrong;
    };
    let result = &message["result"];
    let of = of_result(version, request, result, of, &mut wrong);
    wrong.extend(schema::errors(of, result));
    if version == Version::V28 && method == "tasks/get" && result["status"] == "completed" {
        inlined(&result["result"], ours, &mut wrong);
    }
    if version == Version::V25 && method == "tasks/result" {
        let meta = &result["_meta"][RELATED]["taskId"];
        if *meta != request["params"]["taskId"] {
            wrong.push("no related-task of the task in the result (A-062)".to_owned());
        }
    }
    if ours {
        let mut known = schema::members(of);
        known.insert("_meta".to_owned());
        wrong.extend(strangers(result, &known));
        wrong.extend(foreign_meta(version, &result["_meta"]));
        if matches!(method, "tasks/get" | "tasks/cancel" | "tasks/list")
            && result["_meta"].get(RELATED).is_some()
        {
            wrong.push(format!("related-task in the result of {method} (A-054)"));
        }
    }
    wrong
}

/// The type of a result, where that depends on more than the method.
fn of_result(
    version: Version,
    request: &Value,
    result: &Value,
    usual: Type,
    wrong: &mut Vec<String>,
) -> Type {
    let method = request["method"].as_str().unwrap_or_default();
    let params = &request["params"];
    let core = File::Core(version);
    match (version, method) {
        (Version::V28, "tools/call" | "prompts/get" | "resources/read") => {
            match result["resultType"].as_str() {
                Some("task") => {
                    if params["_meta"][CAPABILITIES]["extensions"].get(EXTENSION).is_none() {
                        wrong.push("a task for who did not declare tasks (B-058)".to_owned());
                    }
                    (File::Tasks, "CreateTaskResult")
                }
                Some("input_required") => (core, "InputRequiredResult"),
                Some("complete") => usual,
                other => {
                    wrong.push(format!("resultType is {other:?}"));
                    usual
                }
            }
        }
        (Version::V25, "tools/call") if params.get("task").is_some() => {
            if result.get("task").is_none() {
                wrong.push("no task for a call that asked for one".to_owned());
            }
            (core, "CreateTaskResult")
        }
        (Version::V25, "tasks/result") => (core, "CallToolResult"),
        _ => usual,
    }
}

/// The result inside a task of the modern era. Without `resultType` it is what the examples show, too.
fn inlined(result: &Value, ours: bool, wrong: &mut Vec<String>) {
    let mut result = result.clone();
    if !ours && let Some(result) = result.as_object_mut() {
        result.entry("resultType").or_insert_with(|| "complete".into());
    }
    wrong.extend(schema::errors((File::Core(Version::V28), "CallToolResult"), &result));
    wrong.extend(foreign_meta(Version::V28, &result["_meta"]));
}

/// What is wrong with an error.
fn refused(version: Version, message: &Value) -> Vec<String> {
    let core = File::Core(version);
    let name = match (version, message["error"]["code"].as_i64()) {
        (Version::V18, _) => "JSONRPCError",
        (Version::V25, Some(-32042)) => "URLElicitationRequiredError",
        (Version::V28, Some(-32020)) => "HeaderMismatchError",
        (Version::V28, Some(-32021)) => "MissingRequiredClientCapabilityError",
        (Version::V28, Some(-32022)) => "UnsupportedProtocolVersionError",
        (Version::V25 | Version::V28, _) => "JSONRPCErrorResponse",
    };
    let mut wrong = schema::errors((core, name), message);
    let envelope = ["jsonrpc", "id", "error"].map(str::to_owned).into();
    wrong.extend(strangers(message, &envelope));
    wrong
}

/// What a message is called in the table of what was seen.
fn label(request: Option<&Value>, message: &Value) -> String {
    let Some(request) = request else {
        return message["method"].as_str().unwrap_or("a response to nothing").to_owned();
    };
    let method = request["method"].as_str().unwrap_or_default();
    if let Some(error) = message.get("error") {
        return format!("{method} → error {}", error["code"]);
    }
    let result = &message["result"];
    let what = match method {
        "tasks/get" | "tasks/cancel" => result["status"].as_str(),
        "tools/call" if result.get("task").is_some() => Some("task"),
        "tools/call" => match result["resultType"].as_str() {
            Some("complete") | None => (result["isError"] == true).then_some("tool error"),
            Some(other) => Some(other),
        },
        "elicitation/create" => result["action"].as_str(),
        _ => None,
    };
    format!("{method} → {}", what.unwrap_or("result"))
}

/// A conversation under judgement.
struct Court {
    side: Side,
    report: Report,
}

impl Court {
    fn ours(&self, towards: Towards) -> bool {
        (self.side == Side::Front) == (towards == Towards::Client)
    }

    fn charge(&mut self, towards: Towards, wrong: impl IntoIterator<Item = String>, message: &dyn ToString) {
        let ours = self.ours(towards);
        for what in wrong {
            let message = message.to_string().chars().take(600).collect();
            self.report.faults.push(Fault { ours, what, message });
        }
    }

    fn message(
        &mut self,
        version: Option<Version>,
        towards: Towards,
        request: Option<&Value>,
        message: &Value,
    ) {
        // A version of which there is no schema here.
        let Some(version) = version else { return };
        let ours = self.ours(towards);
        self.report.checked += 1;
        *self.report.seen.entry((towards, label(request, message))).or_default() += 1;
        let wrong = match (is_response(message), request) {
            (true, Some(request)) => answered(version, request, message, ours),
            (true, None) if message.get("error").is_some() => refused(version, message),
            (true, None) => vec!["a response to nothing".to_owned()],
            (false, _) => asked(version, towards, message, ours),
        };
        self.charge(towards, wrong, message);
    }
}

/// The members of a batch, or the message alone.
fn items(document: &Value) -> &[Value] {
    match document {
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            std::slice::from_ref(document)
        }
    }
}

fn good(documents: &[Document]) -> impl Iterator<Item = &Value> {
    documents.iter().filter_map(|document| document.as_ref().ok()).flat_map(items)
}

/// Judges what passed over HTTP.
pub(crate) fn over_http(side: Side, exchanges: &[Exchange]) -> Report {
    let mut court = Court { side, report: Report::default() };
    let mut versions: BTreeMap<String, Version> = BTreeMap::new();
    // What the server asked, by session and id.
    let mut questions: BTreeMap<(String, String), &Value> = BTreeMap::new();
    for exchange in exchanges {
        let session = session(exchange);
        for message in good(&exchange.messages) {
            if let Some(version) = message["result"]["protocolVersion"].as_str().and_then(Version::named) {
                versions.insert(session.clone(), version);
            }
            if is_request(message) {
                questions.insert((session.clone(), message["id"].to_string()), message);
            }
        }
    }
    for exchange in exchanges {
        let session = session(exchange);
        let body = exchange.body.as_ref();
        if let Some(Err(what)) = body {
            court.charge(Towards::Server, [what.clone()], &"");
        }
        let sent = body.and_then(|body| body.as_ref().ok()).map(items).unwrap_or_default();
        let version = version_of(exchange, sent, versions.get(&session).copied());
        for message in sent {
            let request = is_response(message)
                .then(|| questions.get(&(session.clone(), message["id"].to_string())).copied())
                .flatten();
            court.message(version, Towards::Server, request, message);
        }
        for document in &exchange.messages {
            match document {
                Ok(message) => {
                    for message in items(message) {
                        let request = sent.iter().find(|request| request.get("id") == message.get("id"));
                        let request = request.filter(|_| is_response(message));
                        court.message(version, Towards::Client, request, message);
                    }
                }
                Err(what) => court.charge(Towards::Client, [what.clone()], &""),
            }
        }
        super::rules::exchange(exchange, sent, version, |towards, what| {
            court.charge(towards, [what], &format!("{exchange:?}"));
        });
    }
    court.report
}

fn session(exchange: &Exchange) -> String {
    let of = |headers: &super::http::Headers| headers.get("mcp-session-id").cloned();
    of(&exchange.sent).or_else(|| of(&exchange.headers)).unwrap_or_default()
}

fn version_of(exchange: &Exchange, sent: &[Value], session: Option<Version>) -> Option<Version> {
    let header = exchange.sent.get("mcp-protocol-version").and_then(|name| Version::named(name));
    match sent.first() {
        Some(message) if modern(message).is_some() => Some(Version::V28),
        Some(message) if message["method"] == "initialize" => {
            let chosen = good(&exchange.messages).find_map(|said| said["result"]["protocolVersion"].as_str());
            chosen.or(message["params"]["protocolVersion"].as_str()).and_then(Version::named)
        }
        _ if header == Some(Version::V28) => header,
        _ => session.or(header),
    }
}

/// Judges what passed over stdin and stdout of one process.
pub(crate) fn over_pipe(side: Side, pipe: &Pipe) -> Report {
    let mut court = Court { side, report: Report::default() };
    let by_id = |documents: &'_ [Document]| -> BTreeMap<String, Value> {
        let requests = good(documents).filter(|message| is_request(message));
        requests.map(|message| (message["id"].to_string(), message.clone())).collect()
    };
    let (asked, questions) = (by_id(&pipe.sent), by_id(&pipe.said));
    let opened = good(&pipe.said).find_map(|message| message["result"]["protocolVersion"].as_str());
    let session = match opened {
        Some(name) => Version::named(name),
        None => Some(Version::V28),
    };
    let of = |request: &Value| {
        if modern(request).is_some() {
            Some(Version::V28)
        } else if opened.is_none() {
            // An `initialize` that was refused, or not answered.
            request["params"]["protocolVersion"].as_str().and_then(Version::named)
        } else {
            session
        }
    };
    for (towards, documents, requests) in
        [(Towards::Server, &pipe.sent, &questions), (Towards::Client, &pipe.said, &asked)]
    {
        for document in documents {
            match document {
                Ok(message) => {
                    for message in items(message) {
                        let request =
                            is_response(message).then(|| requests.get(&message["id"].to_string())).flatten();
                        let version = match request {
                            Some(request) => of(request),
                            None if is_request(message) => of(message),
                            None => session,
                        };
                        court.message(version, towards, request, message);
                    }
                }
                Err(what) => court.charge(towards, [what.clone()], &""),
            }
        }
    }
    court.report
}
