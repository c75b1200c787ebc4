//! What a pipe asks for when it attaches: which server, and how its calls are treated.
//!
//! It goes over the socket once, as JSON, in the first frame. It holds the whole environment of the host's process, so
//! no part of it is ever logged and `Debug` shows no values.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use data_encoding::{BASE64, HEXLOWER};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest attachment taken. Environments are bounded by the kernel: a few MiB with the arguments.
pub const BYTES_MAX: usize = 16 << 20;

/// The id of an attachment: one pipe's life, also over several connections.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttachmentId(pub [u8; 16]);

impl AttachmentId {
    /// As people and logs see it.
    #[must_use]
    pub fn short(&self) -> String {
        HEXLOWER.encode(self.0.get(..4).unwrap_or_default())
    }
}

impl fmt::Debug for AttachmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttachmentId({}…)", self.short())
    }
}

impl Serialize for AttachmentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&HEXLOWER.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for AttachmentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AttachmentId, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(AttachmentId).ok_or_else(|| serde::de::Error::custom("an id is 32 hexadecimal digits"))
    }
}

/// Bytes that are nearly always text: a path, an argument, an environment value.
///
/// # Shape
/// A JSON string, or `{"base64": …}` where the bytes are no UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(pub OsString);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form<'a> {
    Plain(std::borrow::Cow<'a, str>),
    Bytes { base64: String },
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => Form::Plain(text.into()),
            None => Form::Bytes { base64: BASE64.encode(self.0.as_bytes()) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Plain(text) => Ok(Text(text.into_owned().into())),
            Form::Bytes { base64 } => {
                let bytes = BASE64.decode(base64.as_bytes()).map_err(serde::de::Error::custom)?;
                Ok(Text(OsString::from_vec(bytes)))
            }
        }
    }
}

impl From<&OsStr> for Text {
    fn from(text: &OsStr) -> Text {
        Text(text.to_owned())
    }
}

// It may be a secret.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({} bytes)", self.0.len())
    }
}

/// How the server is reached.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// A command, started by the keeper.
    Command {
        /// The program and its arguments.
        command: Vec<Text>,
        /// Its folder.
        folder: Text,
        /// Its whole environment.
        environment: Vec<(Text, Text)>,
    },
    /// Streamable HTTP: a server of a configuration.
    Http {
        /// The endpoint.
        url: String,
        /// What is sent with every request.
        headers: Vec<(String, Text)>,
    },
}

/// Which era to speak with the server; a configuration may say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Era {
    /// Ask the server.
    #[default]
    Auto,
    /// `initialize` at once.
    Legacy,
    /// The stateless protocol.
    Modern,
}

/// How calls are treated.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Treatment {
    /// Whether `readOnlyHint` of a tool that nobody spoke for is believed.
    #[serde(default)]
    pub trust_annotations: bool,
    /// How long a plain call is waited for; the keeper's own limit where there is none.
    #[serde(default)]
    pub answer_within_ms: Option<u64>,
    /// For a tool that nobody spoke for.
    #[serde(default)]
    pub default: Tool,
    /// For the others, by name.
    #[serde(default)]
    pub tools: BTreeMap<String, Tool>,
}

/// How the calls of one tool are treated; the meanings are those of the configuration's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Tool {
    /// What it does to the world.
    #[serde(default)]
    pub effect: Effect,
    /// How it is answered.
    #[serde(default)]
    pub mode: Mode,
    /// Whether it may be sent again though its outcome is unknown.
    #[serde(default)]
    pub replay: Replay,
}

/// See `effect` in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Nothing.
    ReadOnly,
    /// Something that can be undone.
    Reversible,
    /// Something that cannot.
    #[default]
    Consequential,
}

/// See `mode` in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Inline if it ends in time.
    #[default]
    Auto,
    /// Always a task or a handle.
    Task,
    /// Inline, or stopped.
    Sync,
}

/// See `replay` in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// Never.
    #[default]
    Never,
    /// The same request twice has the effect of one.
    Natural,
    /// The server honours our key for this many milliseconds.
    KeyedMs(u64),
}

/// What a pipe asks for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Attachment {
    /// Which attachment this is.
    pub id: AttachmentId,
    /// The name that the person gave, which stands for command, folder and environment.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether the host wants a server process that nobody else uses.
    #[serde(default)]
    pub apart: bool,
    /// The server.
    pub reach: Reach,
    /// Which era to speak with it.
    #[serde(default)]
    pub era: Era,
    /// How its calls are treated.
    #[serde(default)]
    pub treatment: Treatment,
    /// The workflows of its tools; none where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflows: Option<Declared>,
    /// The process of the host: the pipe's parent. For `keeper status`.
    pub host_pid: u32,
}

/// Workflows, as the pipe's configuration declares them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Declared {
    /// The file that declares them, with its whole path.
    pub file: Text,
    /// Names what is written there: two that differ have other rules. What the environment puts in does not count.
    pub written: String,
    /// What they say, for whoever understands them. Secrets are in it.
    pub sheet: Sheet,
    /// Servers beside this one that their probes and fences ask, by their names in the sheet.
    #[serde(default)]
    pub asked: BTreeMap<String, Asked>,
}

/// What workflows say: a JSON text that only its makers look into.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sheet(pub String);

// Webhooks and secrets of signatures stand there.
impl fmt::Debug for Sheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sheet({} bytes)", self.0.len())
    }
}

/// A server that is only asked what became of others' effects.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// How it is reached.
    pub reach: Reach,
    /// Which era to speak with it.
    #[serde(default)]
    pub era: Era,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Attachment {
        let text = |text: &str| Text(text.into());
        Attachment {
            id: AttachmentId([7; 16]),
            name: Some("files".into()),
            apart: false,
            reach: Reach::Command {
                command: vec![text("npx"), text("--token=hunter2")],
                folder: text("/work"),
                environment: vec![
                    (text("KEY"), text("hunter2")),
                    (text("ODD"), Text(OsString::from_vec(vec![0xff, 0xfe]))),
                ],
            },
            era: Era::Auto,
            treatment: Treatment {
                trust_annotations: true,
                answer_within_ms: Some(5_000),
                default: Tool::default(),
                tools: BTreeMap::from([(
                    "pay".into(),
                    Tool { effect: Effect::ReadOnly, mode: Mode::Task, replay: Replay::KeyedMs(9) },
                )]),
            },
            workflows: Some(Declared {
                file: text("/home/me/taskgate.toml"),
                written: "abc".into(),
                sheet: Sheet("{\"secret\":\"hunter2\"}".into()),
                asked: BTreeMap::from([(
                    "books".into(),
                    Asked {
                        reach: Reach::Http {
                            url: "http://127.0.0.1:1/mcp".into(),
                            headers: vec![("X-Token".into(), text("hunter2"))],
                        },
                        era: Era::Modern,
                    },
                )]),
            }),
            host_pid: 42,
        }
    }

    #[test]
    fn it_comes_out_as_it_went_in_bytes_that_are_no_text_included() {
        let json = serde_json::to_vec(&sample()).unwrap();
        assert_eq!(serde_json::from_slice::<Attachment>(&json).unwrap(), sample());
    }

    #[test]
    fn debug_shows_no_values() {
        let shown = format!("{:?}", sample());
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn what_an_older_pipe_does_not_say_has_its_usual_meaning() {
        let json = r#"{"id":"07070707070707070707070707070707","host_pid":1,
            "reach":{"command":{"command":["x"],"folder":"/","environment":[]}}}"#;
        let read = serde_json::from_str::<Attachment>(json).unwrap();
        assert_eq!((read.apart, read.era, read.treatment), (false, Era::Auto, Treatment::default()));
    }
}
