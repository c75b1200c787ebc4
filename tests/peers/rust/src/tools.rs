//! What the three servers have in common: the tools, what they do, and the journal.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The question of `confirm_deploy` goes under this key.
pub const KEY: &str = "approval";
/// The code of the error with which `refuse` answers.
pub const REFUSED: i32 = -32050;

pub struct Spec {
    pub name: &'static str,
    pub about: &'static str,
    pub schema: Value,
    pub read_only: bool,
    /// Whether it can run as a task, and whether only so.
    pub tasks: Option<bool>,
}

fn schema(properties: &[(&str, &str)]) -> Value {
    let names: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
    let kinds: serde_json::Map<_, _> =
        properties.iter().map(|(name, kind)| ((*name).to_owned(), json!({ "type": kind }))).collect();
    json!({ "type": "object", "properties": kinds, "required": names })
}

pub fn specs() -> Vec<Spec> {
    let slow = [("seconds", "number"), ("label", "string")];
    let spec = |name, about, schema, read_only, tasks| Spec { name, about, schema, read_only, tasks };
    vec![
        spec("slow_report", "Takes its time over a report.", schema(&slow), true, Some(false)),
        spec(
            "charge",
            "Charges an order, slowly. Must not happen twice.",
            schema(&[("seconds", "number"), ("order", "string")]),
            false,
            Some(false),
        ),
        spec("confirm_deploy", "Deploys after asking.", schema(&[("target", "string")]), false, Some(false)),
        spec("fail", "Always fails.", schema(&[("message", "string")]), false, Some(false)),
        spec(
            "refuse",
            "Is always refused, by an error of the protocol.",
            schema(&[("message", "string")]),
            false,
            Some(false),
        ),
        spec(
            "big_report",
            "A long text.",
            schema(&[("kib", "integer"), ("label", "string"), ("seconds", "number")]),
            true,
            Some(false),
        ),
        spec("echo", "Says it again.", schema(&[("text", "string")]), true, None),
        spec("nightly_audit", "Runs only as a task.", schema(&slow), true, Some(true)),
    ]
}

/// How a call ended.
pub enum End {
    Text(String),
    ToolError(String),
    Refused(String),
}

/// Every tool but `confirm_deploy`, which asks by means of its SDK.
pub async fn run(name: &str, args: &Value) -> End {
    let mut call = Call::begin(name, args);
    let text = |key: &str| args[key].as_str().unwrap_or_default().to_owned();
    tokio::time::sleep(Duration::from_secs_f64(args["seconds"].as_f64().unwrap_or(0.0).max(0.0))).await;
    call.ended();
    match name {
        "echo" => End::Text(text("text")),
        "fail" => End::ToolError(text("message")),
        "refuse" => End::Refused(text("message")),
        "charge" => End::Text(format!("charged {}", text("order"))),
        "slow_report" => End::Text(format!("report {} ready", text("label"))),
        "nightly_audit" => End::Text(format!("audit {} ready", text("label"))),
        "big_report" => End::Text(big(args["kib"].as_u64().unwrap_or(1), &text("label"))),
        _ => End::Refused(format!("unknown tool {name}")),
    }
}

/// As many KiB of text, with the label at both ends.
fn big(kib: u64, label: &str) -> String {
    let length = usize::try_from(kib).unwrap_or(1) * 1024;
    let filling = length.saturating_sub(2 * label.len() + 2);
    format!("{label} {} {label}", "x".repeat(filling))
}

pub fn question(target: &str) -> String {
    format!("Deploy {target}?")
}

pub fn form() -> Value {
    json!({ "type": "object", "properties": { "approve": { "type": "boolean" } }, "required": ["approve"] })
}

/// What `confirm_deploy` says after this answer to its question.
pub fn verdict(answer: &Value, target: &str) -> String {
    let yes = answer["action"] == "accept" && answer["content"]["approve"] == true;
    format!("{}deployed {target}", if yes { "" } else { "not " })
}

/// One line in the journal when a call begins, and one when it ends; one that is dropped before was cancelled.
pub struct Call {
    name: String,
    args: Value,
    phase: &'static str,
}

impl Call {
    pub fn begin(name: &str, args: &Value) -> Call {
        note(name, args, "start");
        Call { name: name.to_owned(), args: args.clone(), phase: "cancelled" }
    }

    pub fn ended(&mut self) {
        self.phase = "end";
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        note(&self.name, &self.args, self.phase);
    }
}

fn note(name: &str, args: &Value, phase: &str) {
    let Ok(path) = std::env::var("PEER_JOURNAL") else { return };
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    // Spaced as Python writes it, so that one search finds the lines of every fixture.
    let line =
        format!("{{\"tool\": {}, \"args\": {args}, \"at\": {at}, \"phase\": \"{phase}\"}}\n", json!(name));
    let opened = OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) =
        opened.and_then(|mut file| file.write_all(line.as_bytes()).and_then(|()| file.sync_data()))
    {
        eprintln!("journal: {error}");
    }
}
