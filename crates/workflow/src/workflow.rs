//! A workflow, and what it says of a call before anything is recorded.

use taskgate_core::budget::Allowance;
use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::{Millis, UnixMillis};

use crate::expression::Expression;
use crate::facts::{Facts, Table};
use crate::probe::{Ask, Fence, Probe, ToolAsk};
use crate::receipt::ReceiptRule;
use crate::rule::{Hidden, RuleError};

/// Longest idempotency key, object and version, in bytes. A UUID has 36 characters, and names of people's making are
/// rarely longer than a path.
pub const NAME_BYTES_MAX: usize = 255;

/// Policy for some tools of one server (design 2).
#[derive(Debug)]
pub struct Workflow {
    /// The name under which its operations, keys and objects are kept: that of its section, unless another is written.
    pub name: String,
    /// Whose tools these are.
    pub server: ServerName,
    /// The tools.
    pub tools: Vec<String>,
    /// What they do to the world.
    pub effect: Effect,
    /// How their calls are answered.
    pub mode: ToolMode,
    /// Whether a call in doubt may be sent again.
    pub replay: Replay,
    /// Whether a call that is confirmed not applied is sent again by itself, while its task is not over.
    pub resend: bool,
    /// What bounds their calls, where it differs from the limits.
    pub bounds: Bounds,
    /// Longest result that is answered in whole, in bytes; `None`: as the limits say (R5.7).
    pub inline_max: Option<usize>,
    /// Where a call's idempotency key comes from.
    pub keying: Keying,
    /// How the key is given to the server, beside the `_meta` member of our own.
    pub forward: Option<Forward>,
    /// What a call is about.
    pub object: Option<Expression>,
    /// Which version of it.
    pub version: Option<Expression>,
    /// What it is meant to do, in words for people.
    pub intended_effect: Option<Expression>,
    /// What happens to a second open call about the same object.
    pub conflict: Conflict,
    /// How a receipt is found in a result.
    pub receipt: Option<ReceiptRule>,
    /// How the system of record is asked.
    pub probe: Option<Probe>,
    /// How long after the end of an attempt's connection its request may still arrive at the system of record.
    pub settle: Option<Millis>,
    /// How the system of record is told to take the request no more.
    pub fence: Option<Fence>,
    /// Who is asked when nothing else can tell.
    pub owners: Vec<String>,
    /// Who is told when a person is to decide.
    pub webhook: Option<Webhook>,
}

/// What bounds a workflow's calls; `None`: as the limits say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// How long the work may take.
    pub deadline: Option<Millis>,
    /// The longest lifetime of a task.
    pub ttl_max: Option<Millis>,
    /// Calls sent and not yet answered.
    pub running: Option<usize>,
    /// Connecting and creating.
    pub create: Option<Allowance>,
    /// Status reads that fail in a row.
    pub status_read: Option<Allowance>,
    /// Fetching a result.
    pub result: Option<Allowance>,
}

/// Where a call's idempotency key comes from.
#[derive(Debug)]
pub enum Keying {
    /// The caller must give it.
    Required,
    /// It is a business key in the arguments, unique over all callers.
    Derived(Expression),
    /// The caller may give it.
    PerRequest,
}

/// How a key is given to a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Forward {
    /// In an argument of this name.
    Argument(String),
    /// In a member of `_meta`.
    Meta(String),
    /// In an HTTP header.
    Header(String),
}

/// What happens to a second open call about the same object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Conflict {
    /// Nothing.
    #[default]
    Allow,
    /// It is refused.
    Refuse,
    /// It waits for the first.
    Queue,
}

/// Who is told when a person is to decide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    /// Where.
    pub url: String,
    /// What is sent with it.
    pub headers: Vec<(String, Hidden)>,
}

/// What is recorded with a call beside the call itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Admission {
    /// The key.
    pub key: Option<Key>,
    /// What the call is about.
    pub object: Option<Object>,
    /// What it is meant to do.
    pub effect_text: Option<String>,
}

/// An idempotency key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// 1 to [`NAME_BYTES_MAX`] bytes.
    pub text: String,
    /// Whether it names a piece of business, and so is unique over all callers; a key that a caller gave is unique among
    /// that caller's own.
    pub is_business: bool,
}

/// What an operation is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its name, 1 to [`NAME_BYTES_MAX`] bytes.
    pub name: String,
    /// Which version of it.
    pub version: Option<String>,
}

/// Why a call was refused before anything was recorded. In words for the caller.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The workflow demands a key.
    #[error(
        "this tool needs an idempotency key: send one in _meta[\"taskgate/idempotency-key\"], the same one for a repetition"
    )]
    KeyMissing,
    /// The caller gave a key, and it is another than the arguments give.
    #[error(
        "the idempotency key of this tool follows from its arguments, and the one that was sent is another: leave it out"
    )]
    KeyDiffers,
    /// A value has no length that can be kept.
    #[error("the {what} of this call must have 1 to {NAME_BYTES_MAX} bytes")]
    Length {
        /// Which value.
        what: &'static str,
    },
    /// An expression of the workflow cannot be evaluated on these arguments.
    #[error("the {what} of this call cannot be told from its arguments: {}", error.why)]
    Rule {
        /// Which value.
        what: &'static str,
        /// Why.
        error: RuleError,
    },
}

const KEY: &str = "idempotency key";

/// What is known of a call that nothing was recorded of.
fn unrecorded<'a>(tool: &'a str, arguments: &'a str, key: Option<&'a str>) -> Table<'a> {
    let created = UnixMillis(0);
    let arguments = Some(arguments);
    let facts = Facts { tool, arguments, key, object: None, version: None, operation: "", created };
    Table::new(facts, None)
}

impl Workflow {
    /// What to record with a call, computed from its arguments (JSON) and the key that its caller gave.
    ///
    /// # Errors
    /// [`Refused`]: the call may not be made. An expression that fails refuses it too, since a call without its key or
    /// object would escape the rules that hang on them (design 7).
    pub fn admit(&self, tool: &str, arguments: &str, given: Option<&str>) -> Result<Admission, Refused> {
        let read = |expression: &Expression, key: Option<&str>, rule: &str, what: &'static str| {
            let text = unrecorded(tool, arguments, key).text(expression);
            text.map_err(|why| Refused::Rule { what, error: RuleError { rule: rule.to_owned(), why } })
        };
        let name = |text: String, what: &'static str| {
            if (1..=NAME_BYTES_MAX).contains(&text.len()) { Ok(text) } else { Err(Refused::Length { what }) }
        };
        let key = match &self.keying {
            Keying::Required => {
                Some(Key { text: given.ok_or(Refused::KeyMissing)?.to_owned(), is_business: false })
            }
            Keying::PerRequest => given.map(|text| Key { text: text.to_owned(), is_business: false }),
            Keying::Derived(expression) => {
                let text = name(read(expression, None, "idempotency.key", KEY)?, KEY)?;
                if given.is_some_and(|given| given != text) {
                    return Err(Refused::KeyDiffers);
                }
                Some(Key { text, is_business: true })
            }
        };
        if let Some(key) = &key {
            name(key.text.clone(), KEY)?;
        }
        let key_text = key.as_ref().map(|key| key.text.as_str());
        let object = match &self.object {
            Some(expression) => {
                let object = name(read(expression, key_text, "object", "object")?, "object")?;
                let version = match &self.version {
                    Some(expression) => {
                        Some(name(read(expression, key_text, "version", "version")?, "version")?)
                    }
                    None => None,
                };
                Some(Object { name: object, version })
            }
            None => None,
        };
        let effect_text = match &self.intended_effect {
            Some(expression) => Some(read(expression, key_text, "intended_effect", "intended effect")?),
            None => None,
        };
        Ok(Admission { key, object, effect_text })
    }

    /// The tools that it asks, of its own server and of others, each with the rule that asks it.
    pub fn asked_tools(&self) -> impl Iterator<Item = (&'static str, &ToolAsk)> {
        let probe = self.probe.as_ref().and_then(|probe| match &probe.ask {
            Ask::Tool(ask) => Some(("probe", ask)),
            Ask::Get { .. } => None,
        });
        probe.into_iter().chain(self.fence.as_ref().map(|fence| ("fence", &fence.ask)))
    }

    /// Whether anything but a person can still tell what happened after an answer was lost.
    #[must_use]
    pub fn can_find_out(&self) -> bool {
        self.probe.is_some()
    }
}
