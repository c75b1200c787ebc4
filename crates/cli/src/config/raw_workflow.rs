//! `[workflows.NAME]` as it is written.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raw::{RawEffect, RawMode, RawReplay};
use super::units::{Size, Span};

/// Policy for some tools of one server. What is left out is as `[limits]` and the first values have it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawWorkflow {
    /// The server whose tools these are, by its name under `[servers]`.
    #[schemars(extend("x-default" = "none; must be given"))]
    pub(crate) server: String,
    /// The tools. A tool belongs to one workflow at most, and then has no section of its own under its server.
    #[schemars(extend("x-default" = "none; must be given"))]
    pub(crate) tools: Vec<String>,
    /// The name under which its operations, keys and objects are kept. They are found by it again, so a workflow that is
    /// renamed in this file goes on under its old name here. No two workflows have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the name of its section"))]
    pub(crate) recorded_as: Option<String>,
    /// What they do to the world: see `effect` of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`consequential`"))]
    pub(crate) effect: Option<RawEffect>,
    /// How their calls are answered: see `mode` of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`auto`"))]
    pub(crate) mode: Option<RawMode>,
    /// How long the work may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) deadline: Option<Span>,
    /// Longest lifetime of a task; no longer than the one of `[limits]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) ttl_max: Option<Span>,
    /// Calls of this workflow that are sent and not yet answered, counted apart from those of its server's other tools.
    /// Further calls wait for their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "counted with its server's other tools"))]
    pub(crate) running: Option<usize>,
    /// Connecting to the server and creating work there: time for all tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) create_time: Option<Span>,
    /// Connecting to the server and creating work there: tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) create_attempts: Option<u32>,
    /// Status reads that fail in a row: time for all tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) status_read_time: Option<Span>,
    /// Status reads that fail in a row: tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) status_read_attempts: Option<u32>,
    /// Fetching a result once there is one: time for all tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) result_time: Option<Span>,
    /// Fetching a result once there is one: tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "as in `[limits]`"))]
    pub(crate) result_attempts: Option<u32>,
    /// How long results are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) results: Option<RawResults>,
    /// Where a call's idempotency key comes from, and how the server gets it.
    pub(crate) idempotency: RawIdempotency,
    /// What a call is about, such as `'invoice/' + args.invoice_id`. An expression that gives a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "CEL"))]
    pub(crate) object: Option<String>,
    /// Which version of the object. An expression that gives a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "CEL"))]
    pub(crate) version: Option<String>,
    /// What a call is meant to do, in words for the one who looks after it later. An expression that gives a text; a call
    /// for which it gives none is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "CEL"))]
    pub(crate) intended_effect: Option<String>,
    /// What happens to a call about an object while an earlier one about it is open: under way, of an unknown outcome, or
    /// only assumed not to have been done, which is so until it is confirmed or a person decides (`taskgate resolve`).
    /// `allow`: nothing. `refuse`: it is refused. `queue`: it waits for the earlier one.
    pub(crate) on_conflict: RawConflict,
    /// How a receipt of the system of record is found in a tool's result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) receipt: Option<RawReceipt>,
    /// How the system of record is asked whether an effect was made, when an answer was lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) probe: Option<RawProbe>,
    /// How long after the end of an attempt's connection its request may still arrive at the system of record. Once
    /// this has passed, a negative answer of the probe is certain. Without it, and without a `fence`, a negative
    /// answer is only assumed, and a person decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) settle: Option<Span>,
    /// How the system of record is told to void the requests of this call that were sent so far. Once it agreed, a
    /// negative answer of the probe is certain. It must not refuse the key itself for good: `resend`, and the next call
    /// that has the key since it was given free, send it again. Use `settle` with a system that can only do that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fence: Option<RawFence>,
    /// Whether the same call may be sent again though its outcome is unknown: see `replay` of a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`never`"))]
    pub(crate) replay: Option<RawReplay>,
    /// With `replay = "keyed"`: how long after the first dispatch the server still honours the key. Declare less than it
    /// promises, by as long as a request may be under way and this machine suspended or its clock set back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) replay_window: Option<Span>,
    /// Whether a call that is confirmed not applied is sent again by itself, under the same key, while its task is not
    /// over.
    pub(crate) resend: bool,
    /// Who decides when nothing else can tell what happened: names of people or teams, for those who read the list.
    #[schemars(extend("x-default" = "`[\"operator\"]`"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) owners: Option<Vec<String>>,
    /// Who is told when a person is to decide: by a POST of one JSON object with `id` (the same each time the notice is
    /// sent), `event` (`operation.waiting`), `operation`, `workflow`, `server`, `tool`, `object` (`name` and `version`, or
    /// null), `outcome`, `reason`, `why`, `since` and `owners`. It holds no arguments and no results. Any 2xx
    /// acknowledges it; until then it is sent again, also after a restart, so it may come twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) webhook: Option<RawWebhook>,
}

/// How long results are answered.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawResults {
    /// Longest result of these tools that is answered in whole: all of its JSON, images and structured content included.
    /// A longer one is answered by its beginning and a handle, by which it is had until its task expires. Since
    /// structured content may then be left out, the tools are listed without their `outputSchema`. At least 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`result_inline` of `[limits]`"))]
    pub(crate) inline_max: Option<Size>,
}

/// Where a call's idempotency key comes from, and how the server gets it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawIdempotency {
    /// `per_request`: the caller may send one in `_meta["taskgate/idempotency-key"]`. `required`: it must. `derived`: it
    /// follows from the arguments by `key`, and is unique over all callers.
    pub(crate) mode: RawKeying,
    /// With `mode = "derived"`: the business key, such as `args.order_id`. An expression over `args` and `tool` that
    /// gives a text or a whole number; anything else refuses the call. Under another expression no call made before is found
    /// again, so that it would be made again: change it only when none can come again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "CEL"))]
    pub(crate) key: Option<String>,
    /// How the server gets the key. With `replay = "keyed"` it also stands in `_meta["taskgate/idempotency-key"]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forward: Option<RawForward>,
}

/// How the server gets the key. One of the three.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawForward {
    /// In an argument of this name. A call that has it already, with another value, is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) argument: Option<String>,
    /// In a member of `_meta` of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) meta: Option<String>,
    /// In an HTTP header of this name; for servers with `url`. A key that is not visible ASCII is refused then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) header: Option<String>,
}

/// How a receipt of the system of record is found in a tool's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawReceipt {
    /// Says that the result holds a receipt of the effect, such as `data.status == 'paid' && data.order == key`. It must
    /// name something of this very call: `key`, `operation`, `object` or `args`.
    #[schemars(extend("x-unit" = "CEL", "x-default" = "none; must be given"))]
    pub(crate) when: String,
    /// Says that it holds a receipt that nothing was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "CEL"))]
    pub(crate) not_applied_when: Option<String>,
    /// The system of record's own name for the effect, such as `data.transaction_id`.
    #[schemars(extend("x-unit" = "CEL", "x-default" = "none; must be given"))]
    pub(crate) reference: String,
    /// How it is known who issued it. `server`: you declare that this server speaks as the system of record.
    /// `signature`: its signature is checked. `unknown`: it is not known, and the receipt is kept as evidence that
    /// confirms nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none; must be given"))]
    pub(crate) issued_by: Option<RawIssuer>,
    /// With `issued_by = "signature"`: how the signature is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signature: Option<RawSignature>,
}

/// How the signature of a receipt is checked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawSignature {
    /// `hmac_sha256`, with a `secret`, or `ed25519`, with a `public_key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "none; must be given"))]
    pub(crate) algorithm: Option<RawAlgorithm>,
    /// The secret that the system of record signs with: `${NAME}` takes it from the environment. Never shown or logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<String>,
    /// The key that its signatures are checked with: 32 bytes in hexadecimal or base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) public_key: Option<String>,
    /// The text that was signed, such as `data.transaction_id + '|' + key + '|' + data.status`.
    #[schemars(extend("x-unit" = "CEL", "x-default" = "none; must be given"))]
    pub(crate) over: String,
    /// The signature in the result, in hexadecimal or base64.
    #[schemars(extend("x-unit" = "CEL", "x-default" = "none; must be given"))]
    pub(crate) given: String,
}

/// How the system of record is asked: either `tool` or `get`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawProbe {
    /// Whose tool is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the workflow's own"))]
    pub(crate) server: Option<String>,
    /// A tool that looks and does nothing. It must be declared `effect = "read_only"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// The tool's arguments, by name: expressions.
    #[schemars(extend("x-unit" = "names to CEL"))]
    pub(crate) arguments: BTreeMap<String, String>,
    /// A URL to look at, with expressions in braces: `https://bank.example/payments/{key}`. What they give is
    /// percent-encoded. `https://`, or a loopback address. Redirects are not followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "URL with CEL in braces"))]
    pub(crate) get: Option<String>,
    /// What is sent with a `get`: `${NAME}` takes it from the environment. Never shown or logged.
    pub(crate) headers: BTreeMap<String, String>,
    /// Says that the effect was made, such as `data.status == 'paid'`.
    #[schemars(extend("x-unit" = "CEL", "x-default" = "none; must be given"))]
    pub(crate) applied_when: String,
    /// Says that the system of record does not have it, such as `status == 404`. If neither this nor `applied_when` holds,
    /// or both do, the answer counts for nothing. An error (a status other than 2xx, or `isError`) is looked at only
    /// by a rule that names `status` or `answer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "CEL"))]
    pub(crate) not_applied_when: Option<String>,
    /// Wait before the first look.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`\"2s\"`"))]
    pub(crate) first: Option<Span>,
    /// Wait before the second look. It doubles from there, to `lookup_ceiling` of `[limits]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`\"30s\"`"))]
    pub(crate) every: Option<Span>,
    /// Time for all looks after one operation. Then a person decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`reconcile_time` of `[limits]`"))]
    pub(crate) budget_time: Option<Span>,
    /// Looks after one operation. Then a person decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`reconcile_attempts` of `[limits]`"))]
    pub(crate) budget_attempts: Option<u32>,
}

/// How the system of record is told to void the requests of this call that were sent so far.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawFence {
    /// Whose tool it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the workflow's own"))]
    pub(crate) server: Option<String>,
    /// The tool, such as one that cancels by key. It is called without a record, so it belongs to no workflow.
    #[schemars(extend("x-default" = "none; must be given"))]
    pub(crate) tool: String,
    /// Its arguments, by name: expressions.
    #[schemars(extend("x-unit" = "names to CEL"))]
    pub(crate) arguments: BTreeMap<String, String>,
    /// Says that it agreed.
    #[schemars(extend("x-unit" = "CEL", "x-default" = "none; must be given"))]
    pub(crate) fenced_when: String,
}

/// Who is told when a person is to decide.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawWebhook {
    /// Where a POST goes: `https://`, or a loopback address. In it, `${NAME}` stands for a variable of the environment.
    #[schemars(extend("x-unit" = "URL", "x-default" = "none; must be given"))]
    pub(crate) url: String,
    /// What is sent with it: `${NAME}` takes it from the environment. Never shown or logged.
    pub(crate) headers: BTreeMap<String, String>,
}

/// Where a key comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawKeying {
    #[default]
    PerRequest,
    Required,
    Derived,
}

/// What happens to a second open call about the same object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawConflict {
    #[default]
    Allow,
    Refuse,
    Queue,
}

/// How it is known who issued a receipt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawIssuer {
    Server,
    Signature,
    Unknown,
}

/// How receipts are signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RawAlgorithm {
    HmacSha256,
    Ed25519,
}
