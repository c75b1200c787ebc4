//! What can be called.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Dialect;

/// A call, understood.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Call {
    /// Gives a text back.
    Echo { text: String },
    /// Answers at once, with nothing to think about: for measuring what is in between.
    Instant,
    /// Takes its time.
    SlowReport { title: String, time: Option<Duration> },
    /// Asks a person first.
    Deploy { version: String },
    /// Pays, and may then fail to say so.
    Payment { order: Option<String>, to: String, amount: f64, lose: Option<Lose> },
    /// Says whether an order was paid.
    PaymentStatus { order: String },
}

/// When the connection breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lose {
    /// Before anything is paid.
    Request,
    /// After it was.
    Answer,
}

/// Why a call was not understood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Misunderstood(pub(super) String);

#[derive(Deserialize)]
struct EchoArguments {
    text: String,
}

#[derive(Deserialize)]
struct ReportArguments {
    title: String,
    #[serde(default)]
    seconds: Option<f64>,
}

#[derive(Deserialize)]
struct DeployArguments {
    version: String,
}

#[derive(Deserialize)]
struct PaymentArguments {
    #[serde(default)]
    order: Option<String>,
    to: String,
    amount: f64,
    #[serde(default)]
    lose_answer: bool,
    #[serde(default)]
    lose_request: bool,
}

#[derive(Deserialize)]
struct StatusArguments {
    order: String,
}

impl Call {
    pub(super) fn parse(name: &str, arguments: Option<&RawValue>) -> Result<Call, Misunderstood> {
        // First, since it is there to be fast.
        if name == "instant" {
            return Ok(Call::Instant);
        }
        let text = arguments.map_or("{}", RawValue::get);
        Ok(match name {
            "echo" => {
                let EchoArguments { text } = read(text)?;
                Call::Echo { text }
            }
            "slow_report" => {
                let ReportArguments { title, seconds } = read(text)?;
                let time = seconds
                    .map(Duration::try_from_secs_f64)
                    .transpose()
                    .map_err(|_| Misunderstood("`seconds` is no span of time".to_owned()))?;
                Call::SlowReport { title, time }
            }
            "deploy" => {
                let DeployArguments { version } = read(text)?;
                Call::Deploy { version }
            }
            "payment" => {
                let PaymentArguments { order, to, amount, lose_answer, lose_request } = read(text)?;
                let lose = match (lose_request, lose_answer) {
                    (true, _) => Some(Lose::Request),
                    (false, true) => Some(Lose::Answer),
                    (false, false) => None,
                };
                Call::Payment { order, to, amount, lose }
            }
            "payment_status" => {
                let StatusArguments { order } = read(text)?;
                Call::PaymentStatus { order }
            }
            _ => return Err(Misunderstood(format!("Unknown tool: {name}"))),
        })
    }

    /// Whether it is worth a task.
    pub(super) fn is_long(&self) -> bool {
        match self {
            Call::SlowReport { .. } | Call::Deploy { .. } => true,
            Call::Echo { .. } | Call::Instant | Call::Payment { .. } | Call::PaymentStatus { .. } => false,
        }
    }
}

fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Misunderstood> {
    serde_json::from_str(text).map_err(|error| Misunderstood(format!("the arguments do not fit: {error}")))
}

/// `tools/list`, as this dialect shows it; the members of the result object that are its own.
pub(super) fn list(dialect: Dialect) -> Value {
    let object = |properties: Value, required: &[&str]| json!({ "type": "object", "properties": properties, "required": required });
    let mut tools = vec![
        json!({
            "name": "echo",
            "description": "Gives a text back.",
            "inputSchema": object(json!({ "text": { "type": "string" } }), &["text"]),
            "annotations": { "readOnlyHint": true },
        }),
        json!({
            "name": "instant",
            "description": "Answers at once.",
            "inputSchema": { "type": "object" },
            "annotations": { "readOnlyHint": true },
        }),
        json!({
            "name": "slow_report",
            "description": "Writes a report, which takes a while.",
            "inputSchema": object(
                json!({ "title": { "type": "string" }, "seconds": { "type": "number", "minimum": 0 } }),
                &["title"],
            ),
        }),
        json!({
            "name": "deploy",
            "description": "Deploys a version once a person has approved it.",
            "inputSchema": object(json!({ "version": { "type": "string" } }), &["version"]),
        }),
        json!({
            "name": "payment",
            "description": "Pays an amount, for an order if one is named. With `lose_answer` the connection breaks after the payment was made, with `lose_request` before it is.",
            "inputSchema": object(
                json!({
                    "order": { "type": "string" },
                    "to": { "type": "string" },
                    "amount": { "type": "number" },
                    "lose_answer": { "type": "boolean" },
                    "lose_request": { "type": "boolean" },
                }),
                &["to", "amount"],
            ),
            "annotations": { "destructiveHint": true },
        }),
        json!({
            "name": "payment_status",
            "description": "Says whether an order was paid.",
            "inputSchema": object(json!({ "order": { "type": "string" } }), &["order"]),
            "annotations": { "readOnlyHint": true },
        }),
    ];
    if dialect == Dialect::A {
        for tool in &mut tools {
            if matches!(tool["name"].as_str(), Some("slow_report" | "deploy")) {
                tool["execution"] = json!({ "taskSupport": "optional" });
            }
        }
    }
    json!({ "tools": tools })
}

/// What a person is asked before a deployment: the `params` of `elicitation/create`.
pub(super) fn approval(version: &str) -> Value {
    json!({
        "mode": "form",
        "message": format!("Deploy version {version} to production?"),
        "requestedSchema": {
            "type": "object",
            "properties": { "approve": { "type": "boolean", "title": "Approve" } },
            "required": ["approve"],
        },
    })
}
