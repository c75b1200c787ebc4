//! What rules are told of an operation, and of what was answered about it.

use std::cell::OnceCell;

use cel::Value;
use taskgate_core::time::UnixMillis;
use taskgate_wire::json::{self, Object};

use crate::expression::{Data, Expression, Failed};
use crate::json::Unread;

const RESULT: &str = "the tool's result";

/// The largest arguments that expressions look into: as large as a client's message may be by default.
pub const ARGUMENTS_BYTES_MAX: usize = 4 << 20;

/// The largest answer that rules look into; of a tool's result, the largest `data`. A receipt is small; what is larger
/// carries something else too.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// A recorded operation, as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The tool that was called.
    pub tool: &'a str,
    /// Its arguments as JSON; `None` once payloads were deleted.
    pub arguments: Option<&'a str>,
    /// The idempotency key, if it has one.
    pub key: Option<&'a str>,
    /// What it is about, if the workflow says so.
    pub object: Option<&'a str>,
    /// Which version of that.
    pub version: Option<&'a str>,
    /// Its id in the ledger.
    pub operation: &'a str,
    /// When it was recorded.
    pub created: UnixMillis,
}

/// The arguments in a call's `params`; an empty object if it has none.
#[must_use]
pub fn arguments(params: &str) -> &str {
    match json::at(params, &["arguments"]) {
        None | Some("null") => "{}",
        Some(arguments) => arguments,
    }
}

/// What was answered.
#[derive(Clone, Copy, Debug)]
pub enum Answer<'a> {
    /// A tool's result, as JSON.
    Tool(&'a [u8]),
    /// An HTTP response.
    Web {
        /// Its status.
        status: u16,
        /// Its body.
        body: &'a [u8],
    },
}

impl Answer<'_> {
    /// Whether the one who answered calls it an error.
    #[must_use]
    pub fn is_error(&self) -> bool {
        match self {
            Answer::Tool(result) => std::str::from_utf8(result)
                .ok()
                .is_none_or(|text| json::at(text, &["isError"]).is_some_and(|flag| flag == "true")),
            Answer::Web { status, .. } => !(200..300).contains(status),
        }
    }
}

type Read = Result<Value, Failed>;

/// Facts and an answer, each read at most once, and only if an expression names it.
pub(crate) struct Table<'a> {
    facts: Facts<'a>,
    answer: Option<Answer<'a>>,
    arguments: OnceCell<Read>,
    whole: OnceCell<Read>,
    data: OnceCell<Read>,
}

impl<'a> Table<'a> {
    pub(crate) fn new(facts: Facts<'a>, answer: Option<Answer<'a>>) -> Table<'a> {
        Table { facts, answer, arguments: OnceCell::new(), whole: OnceCell::new(), data: OnceCell::new() }
    }

    fn rows(&self, expression: &Expression) -> Result<Data, Failed> {
        let mut rows = Vec::new();
        let mut bytes = 0;
        let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
        let body = match self.answer {
            // Of what is longer no more is looked into.
            Some(Answer::Tool(body) | Answer::Web { body, .. }) => body.len().min(ANSWER_BYTES_MAX),
            None => 0,
        };
        for name in
            ["args", "tool", "key", "object", "version", "operation", "created", "answer", "data", "status"]
        {
            if !expression.uses(name) {
                continue;
            }
            let value = match name {
                "args" => {
                    bytes += self.facts.arguments.map_or(0, str::len);
                    self.arguments.get_or_init(|| self.read_arguments()).clone()?
                }
                "tool" => Value::from(self.facts.tool),
                "key" => text(self.facts.key),
                "object" => text(self.facts.object),
                "version" => text(self.facts.version),
                "operation" => Value::from(self.facts.operation),
                "created" => Value::Int(self.facts.created.0),
                "answer" => {
                    bytes += body;
                    self.whole.get_or_init(|| self.read_answer()).clone()?
                }
                "data" => {
                    bytes += body;
                    self.data.get_or_init(|| self.read_data()).clone()?
                }
                _ => match self.answer {
                    Some(Answer::Web { status, .. }) => Value::Int(i64::from(status)),
                    Some(Answer::Tool(_)) | None => Value::Null,
                },
            };
            rows.push((name, value));
        }
        Ok(Data { rows, bytes })
    }

    fn read_arguments(&self) -> Read {
        let Some(arguments) = self.facts.arguments else { return Err(Failed::Gone("the call's arguments")) };
        if arguments.len() > ARGUMENTS_BYTES_MAX {
            return Err(Failed::TooLarge("the call's arguments"));
        }
        crate::json::read(arguments).map_err(unread("the call's arguments"))
    }

    fn body(&self) -> Result<&'a str, Failed> {
        let body = match self.answer {
            Some(Answer::Tool(body) | Answer::Web { body, .. }) => body,
            None => return Err(Failed::Gone("the answer")),
        };
        std::str::from_utf8(body).map_err(|_| Failed::Unreadable("the answer"))
    }

    fn read_answer(&self) -> Read {
        let body = short(self.body()?)?;
        match self.answer {
            Some(Answer::Web { .. }) => json_or_text(body),
            Some(Answer::Tool(_)) | None => crate::json::read(body).map_err(unread(RESULT)),
        }
    }

    fn read_data(&self) -> Read {
        let body = self.body()?;
        match self.answer {
            Some(Answer::Web { .. }) => json_or_text(short(body)?),
            Some(Answer::Tool(_)) | None => {
                // An image beside it may be as long as it likes.
                let unreadable = |_| Failed::Unreadable(RESULT);
                let result = Object::parse(body).map_err(unreadable)?;
                let is_twice =
                    |name: &str| result.members().filter(|member| member.name == name).nth(1).is_some();
                if ["structuredContent", "content", "isError"].into_iter().any(is_twice) {
                    return Err(Failed::Twice(RESULT));
                }
                if let Some(structured) =
                    result.get("structuredContent").filter(|value| json::is_object(value))
                {
                    return crate::json::read(short(structured)?).map_err(unread(RESULT));
                }
                let content = result.get("content").unwrap_or("[]");
                let first = json::elements(content).map_err(unreadable)?.into_iter().find_map(|item| {
                    let item = Object::parse(item).ok()?;
                    item.str("type").filter(|kind| kind == "text").and_then(|_| item.str("text"))
                });
                match first {
                    Some(text) => json_or_text(short(&text)?),
                    None => Ok(Value::Null),
                }
            }
        }
    }

    pub(crate) fn truth(&self, expression: &Expression) -> Result<bool, Failed> {
        expression.truth(self.rows(expression)?)
    }

    pub(crate) fn text(&self, expression: &Expression) -> Result<String, Failed> {
        expression.text(self.rows(expression)?)
    }

    pub(crate) fn json(&self, expression: &Expression) -> Result<String, Failed> {
        expression.json(self.rows(expression)?)
    }
}

/// What is not too long to be looked into.
fn short(text: &str) -> Result<&str, Failed> {
    if text.len() > ANSWER_BYTES_MAX { Err(Failed::TooLarge("the answer")) } else { Ok(text) }
}

fn json_or_text(text: &str) -> Read {
    match crate::json::read(text) {
        Ok(value) => Ok(value),
        Err(Unread::Syntax) => Ok(Value::from(text)),
        Err(Unread::Twice) => Err(Failed::Twice("the answer")),
    }
}

fn unread(what: &'static str) -> impl Fn(Unread) -> Failed {
    move |unread| match unread {
        Unread::Syntax => Failed::Unreadable(what),
        Unread::Twice => Failed::Twice(what),
    }
}
