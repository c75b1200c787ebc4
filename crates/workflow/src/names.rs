//! What expressions can name.

/// Which data an expression is about; this decides the names that it knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// A call that was just made: its key is computed.
    Call,
    /// The same, with its key.
    Keyed,
    /// A recorded operation: what is asked about it.
    Operation,
    /// A recorded operation and the result of its tool.
    Receipt,
    /// A recorded operation and a tool's answer about it.
    ToolAnswer,
    /// A recorded operation and an HTTP answer about it.
    WebAnswer,
}

/// The names, each with what it stands for.
pub const NAMES: [(&str, &str); 10] = [
    ("args", "the arguments of the call"),
    ("tool", "the tool that was called"),
    ("key", "the idempotency key, or null"),
    ("object", "what the operation is about, or null"),
    ("version", "which version of it, or null"),
    ("operation", "the id of the operation in the ledger"),
    ("created", "when the call was recorded, in milliseconds since 1970"),
    ("answer", "the whole answer: a tool's result, or the body of an HTTP response"),
    (
        "data",
        "what the answer says: a tool's structured content, or its first text, read as JSON if it is JSON; the body",
    ),
    ("status", "the status of an HTTP response"),
];

impl Scope {
    /// The names that are known.
    #[must_use]
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Scope::Call => &["args", "tool"],
            Scope::Keyed => &["args", "tool", "key"],
            Scope::Operation => &["args", "tool", "key", "object", "version", "operation", "created"],
            Scope::Receipt | Scope::ToolAnswer => {
                &["args", "tool", "key", "object", "version", "operation", "created", "answer", "data"]
            }
            Scope::WebAnswer => &[
                "args",
                "tool",
                "key",
                "object",
                "version",
                "operation",
                "created",
                "answer",
                "data",
                "status",
            ],
        }
    }

    pub(crate) fn listed(self) -> String {
        self.names().join(", ")
    }
}

/// Functions of CEL that are known, macros apart.
pub(crate) const FUNCTIONS: [&str; 12] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "endsWith",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
];

/// Macros, as they are written.
pub(crate) const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];

/// Names of types, for comparisons with `type(x)`.
pub(crate) const TYPES: [&str; 10] =
    ["bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"];
