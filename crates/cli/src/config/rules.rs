//! The rules of a workflow: receipt, probe, fence, and how a key is handed on.

use std::collections::BTreeMap;

use taskgate_core::budget::Allowance;
use taskgate_core::id::ServerName;
use taskgate_core::time::Millis;
use taskgate_workflow::{
    Ask, Expression, Fence, Forward, Hidden, Issuer, Pace, Probe, ReceiptRule, Scheme, Scope, Signature,
    Template, ToolAsk, Want,
};

use super::raw::RawEffect;
use super::raw_workflow::{RawAlgorithm, RawIssuer, RawProbe, RawSignature};
use super::units::Span;
use super::workflow::{EVERY, FIRST, Reader};

/// Headers that are ours, the transport's, or somebody's credentials.
const RESERVED_HEADERS: [&str; 12] = [
    "accept",
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "last-event-id",
    "origin",
    "proxy-authorization",
    "te",
    "transfer-encoding",
];

/// Shortest secret that proves anything.
const SECRET_BYTES_MIN: usize = 16;

const BINDING: &str = "compare something of the answer with `key`, `operation`, `object` or `args`";

impl Reader<'_> {
    pub(super) fn forward(&mut self) -> Option<Forward> {
        let raw = self.raw.idempotency.forward.as_ref()?;
        let at = ["idempotency", "forward"];
        match (&raw.argument, &raw.meta, &raw.header) {
            (Some(name), None, None) if !name.is_empty() => Some(Forward::Argument(name.clone())),
            (None, Some(name), None) if !name.is_empty() => {
                let prefix = name.split('/').next().unwrap_or_default();
                let is_reserved = name == "progressToken"
                    || name.contains('/')
                        && prefix.split('.').any(|label| label == "mcp" || label == "modelcontextprotocol");
                if is_reserved {
                    let help = "use a name of the server's own, such as \"example.com/idempotency-key\"";
                    self.fault(&[at[0], at[1], "meta"], format!("{name:?} belongs to the protocol"), help);
                }
                Some(Forward::Meta(name.clone()))
            }
            (None, None, Some(name)) => {
                let lower = name.to_ascii_lowercase();
                let is_reserved = RESERVED_HEADERS.contains(&lower.as_str()) || lower.starts_with("mcp-");
                if http::HeaderName::from_bytes(name.as_bytes()).is_err() || is_reserved {
                    let help = "use a header of the server's own, such as \"Idempotency-Key\"";
                    self.fault(
                        &[at[0], at[1], "header"],
                        format!("a key cannot be sent in the header {name:?}"),
                        help,
                    );
                }
                let has_url =
                    self.around.servers.get(&self.raw.server).is_none_or(|server| server.url.is_some());
                if !has_url {
                    let what = format!(
                        "server {:?} speaks over its stdin, where there are no headers",
                        self.raw.server
                    );
                    self.fault(&[at[0], at[1], "header"], what, "use `argument` or `meta`");
                }
                Some(Forward::Header(name.clone()))
            }
            _ => {
                let what = "`forward` is one of `argument`, `meta` and `header`";
                self.fault(&at, what, "name one: forward = { argument = \"idempotency_key\" }");
                None
            }
        }
    }

    pub(super) fn receipt(&mut self) -> Option<ReceiptRule> {
        let raw = self.raw.receipt.as_ref()?;
        let when = self.expression(&["receipt", "when"], &raw.when, Scope::Receipt, Want::Bool);
        let not_applied_when = self.given(
            &["receipt", "not_applied_when"],
            raw.not_applied_when.as_deref(),
            Scope::Receipt,
            Want::Bool,
        );
        let reference =
            self.expression(&["receipt", "reference"], &raw.reference, Scope::Receipt, Want::Text);
        if raw.signature.is_some() && raw.issued_by != Some(RawIssuer::Signature) {
            let what = "`signature` goes with `issued_by = \"signature\"` only";
            self.fault(
                &["receipt", "signature"],
                what,
                "use issued_by = \"signature\", or take `signature` away",
            );
        }
        let issuer = match (raw.issued_by, &raw.signature) {
            (Some(RawIssuer::Server), _) => Some(Issuer::Server),
            (Some(RawIssuer::Unknown), _) => Some(Issuer::Unknown),
            (Some(RawIssuer::Signature), Some(raw)) => {
                self.signature(raw).map(|signature| Issuer::Signer(Box::new(signature)))
            }
            (Some(RawIssuer::Signature), None) => {
                let help = "say how it is checked: [workflows.NAME.receipt.signature]";
                self.fault(
                    &["receipt", "issued_by"],
                    "`issued_by = \"signature\"` needs a `signature`",
                    help,
                );
                None
            }
            (None, _) => {
                let what = "the receipt does not say how it is known who issued it";
                let help = "issued_by = \"server\" if this server speaks as the system of record, \"signature\" if \
                            receipts are signed, or \"unknown\" to keep them as evidence that confirms nothing";
                self.fault(&["receipt"], what, help);
                None
            }
        };
        let rule = ReceiptRule { when: when?, not_applied_when, reference: reference?, issuer: issuer? };
        self.judges(&["receipt", "when"], &rule.when);
        if let Some(not_applied) = &rule.not_applied_when {
            self.judges(&["receipt", "not_applied_when"], not_applied);
        }
        if !rule.is_bound() {
            let what =
                "the receipt rule names nothing of this very call: the receipt of another would confirm it";
            self.fault(&["receipt", "when"], what, BINDING);
        }
        Some(rule)
    }

    fn signature(&mut self, raw: &RawSignature) -> Option<Signature> {
        let at = |key| ["receipt", "signature", key];
        let over = self.expression(&at("over"), &raw.over, Scope::Receipt, Want::Text);
        let given = self.expression(&at("given"), &raw.given, Scope::Receipt, Want::Text);
        let scheme = match (raw.algorithm, &raw.secret, &raw.public_key) {
            (Some(RawAlgorithm::HmacSha256), Some(secret), None) => {
                let before = self.faults.len();
                let secret = self.value(&at("secret"), secret);
                if self.faults.len() == before && secret.len() < SECRET_BYTES_MIN {
                    let what = format!("the secret has fewer than {SECRET_BYTES_MIN} bytes");
                    self.fault(
                        &at("secret"),
                        what,
                        "use a long random one; whoever guesses it can make receipts",
                    );
                }
                Some(Scheme::HmacSha256(Hidden::new(secret)))
            }
            (Some(RawAlgorithm::Ed25519), None, Some(key)) => {
                let key = self.value(&at("public_key"), key);
                let scheme = Scheme::ed25519(&key);
                if scheme.is_none() {
                    let help = "write the 32 bytes of the key in hexadecimal or base64, without anything around them";
                    self.fault(&at("public_key"), "`public_key` is no Ed25519 key", help);
                }
                scheme
            }
            _ => {
                let what = "a signature has an `algorithm`, and the key that belongs to it";
                let help = "hmac_sha256 goes with `secret`, ed25519 with `public_key`";
                self.fault(&["receipt", "signature"], what, help);
                None
            }
        };
        let signature = Signature { scheme: scheme?, over: over?, given: given? };
        self.judges(&at("over"), &signature.over);
        self.judges(&at("given"), &signature.given);
        Some(signature)
    }

    pub(super) fn probe(&mut self) -> Option<Probe> {
        let raw = self.raw.probe.as_ref()?;
        let (ask, scope) = match (&raw.tool, &raw.get) {
            (Some(tool), None) => {
                if !raw.headers.is_empty() {
                    self.fault(&["probe", "headers"], "`headers` go with `get` only", "take them away");
                }
                let ask = self.tool("probe", raw.server.as_deref(), tool, &raw.arguments);
                if let Some(ask) = &ask {
                    self.looks_only(&ask.server, tool);
                }
                (ask.map(Ask::Tool), Scope::ToolAnswer)
            }
            (None, Some(get)) => (self.get(raw, get), Scope::WebAnswer),
            (Some(_), Some(_)) => {
                self.fault(
                    &["probe", "get"],
                    "a probe has either `tool` or `get`",
                    "take one of the two away",
                );
                return None;
            }
            (None, None) => {
                let help =
                    "name a read-only tool: tool = \"find_payment\", or a URL: get = \"https://…/{key}\"";
                self.fault(&["probe"], "the probe has neither `tool` nor `get`", help);
                return None;
            }
        };
        let applied_when = self.expression(&["probe", "applied_when"], &raw.applied_when, scope, Want::Bool);
        let not_applied_when =
            self.given(&["probe", "not_applied_when"], raw.not_applied_when.as_deref(), scope, Want::Bool);
        let budget = self.budget(raw);
        let (ask, applied_when) = (ask?, applied_when?);
        let names = ["key", "operation", "object", "args"];
        let is_bound = names.iter().any(|name| {
            applied_when.uses(name)
                || match &ask {
                    Ask::Tool(tool) => tool.arguments.iter().any(|(_, value)| value.uses(name)),
                    Ask::Get { url, .. } => url.uses(name),
                }
        });
        if !is_bound {
            let what =
                "the probe asks about nothing of this very call: the effect of another would confirm it";
            self.fault(&["probe"], what, "ask by `key`, `operation`, `object` or `args`");
        }
        self.judges(&["probe", "applied_when"], &applied_when);
        if let Some(not_applied) = &not_applied_when {
            self.judges(&["probe", "not_applied_when"], not_applied);
        }
        if raw.not_applied_when.as_deref().map(str::trim) == Some(raw.applied_when.trim()) {
            let what =
                "`applied_when` and `not_applied_when` are the same, so each answer would count for nothing";
            self.fault(&["probe", "not_applied_when"], what, "say how the two answers differ");
        }
        let pace = Pace {
            first: raw.first.map_or(FIRST, |span| span.0),
            every: raw.every.map_or(EVERY, |span| span.0),
            budget,
        };
        Some(Probe { ask, applied_when, not_applied_when, pace })
    }

    fn budget(&mut self, raw: &RawProbe) -> Option<Allowance> {
        let limits = self.around.limits;
        let time = raw.budget_time.unwrap_or(limits.reconcile_time);
        if raw.budget_attempts == Some(0) {
            self.fault(
                &["probe", "budget_attempts"],
                "`budget_attempts` is 0, which lets nothing through",
                "use 1 or more",
            );
        }
        if let Some(every) = raw.every.filter(|every| every.0 < Millis(1_000)) {
            let what = format!("`every` is {every}, which keeps the system of record busy for nothing");
            self.fault(&["probe", "every"], what, "use \"1s\" or more");
        }
        let first = raw.first.unwrap_or(Span(FIRST));
        if first.0 >= time.0 {
            let what = format!("`first` is {first}, and the budget for all looks is {time}");
            self.fault(&["probe", "first"], what, "shorten `first`, or lengthen `budget_time`");
        }
        (raw.budget_time.is_some() || raw.budget_attempts.is_some()).then(|| Allowance {
            time: time.0,
            attempts: raw.budget_attempts.unwrap_or(limits.reconcile_attempts),
        })
    }

    fn get(&mut self, raw: &RawProbe, get: &str) -> Option<Ask> {
        for (key, is_there) in [("arguments", !raw.arguments.is_empty()), ("server", raw.server.is_some())] {
            if is_there {
                self.fault(&["probe", key], format!("`{key}` goes with `tool` only"), "take it away");
            }
        }
        let headers = self.headers(&["probe", "headers"], &raw.headers);
        let url = match Template::compile(get) {
            Ok(url) => url,
            Err(bad) => {
                self.bad(&["probe", "get"], bad);
                return None;
            }
        };
        if !Reader::is_private(url.prefix()) {
            let what = "the URL is neither https:// nor at this machine";
            let help = "use https://: an answer that anybody on the way could make confirms nothing";
            self.fault(&["probe", "get"], what, help);
        }
        Some(Ask::Get { url, headers })
    }

    fn tool(
        &mut self,
        section: &str,
        server: Option<&str>,
        tool: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Option<ToolAsk> {
        let server = match server {
            Some(name) => self.server(&[section, "server"], name),
            // An unknown one was told where it stands.
            None => Some(ServerName(self.raw.server.clone()))
                .filter(|server| self.around.servers.contains_key(&server.0)),
        };
        if tool.is_empty() {
            self.fault(&[section, "tool"], "`tool` is empty", "name a tool of the server");
        }
        let mut compiled = Vec::new();
        for (name, source) in arguments {
            let at = [section, "arguments", name.as_str()];
            compiled.extend(
                self.expression(&at, source, Scope::Operation, Want::Json).map(|value| (name.clone(), value)),
            );
        }
        Some(ToolAsk { server: server?, tool: tool.to_owned(), arguments: compiled })
    }

    /// The effect that a tool outside workflows is declared to have.
    fn declared(&self, server: &ServerName, tool: &str) -> Option<RawEffect> {
        let raw = self.around.servers.get(&server.0)?;
        raw.tools.get(tool).and_then(|tool| tool.effect).or(raw.default.effect)
    }

    /// A look that changes something would make what it asks about.
    fn looks_only(&mut self, server: &ServerName, tool: &str) {
        let of_workflow = self
            .around
            .workflows
            .values()
            .find(|other| other.server == server.0 && other.tools.iter().any(|name| name == tool))
            .map(|other| other.effect);
        let declared = of_workflow.unwrap_or_else(|| self.declared(server, tool));
        if declared != Some(RawEffect::ReadOnly) {
            let what = format!("the tool {tool:?} of server {:?} is not declared read_only", server.0);
            let help = format!(
                "if it only looks, say so: [servers.{}.tools.{tool}] effect = \"read_only\"; else ask by another tool",
                server.0
            );
            self.fault(&["probe", "tool"], what, help);
        }
    }

    pub(super) fn fence(&mut self) -> Option<Fence> {
        let raw = self.raw.fence.as_ref()?;
        let ask = self.tool("fence", raw.server.as_deref(), &raw.tool, &raw.arguments);
        let fenced_when =
            self.expression(&["fence", "fenced_when"], &raw.fenced_when, Scope::ToolAnswer, Want::Bool);
        let ask = ask?;
        let names = ["key", "operation", "object", "args"];
        if !ask.arguments.iter().any(|(_, value)| names.iter().any(|name| value.uses(name))) {
            let what = "the fence names nothing of this very call: it would stop others, or none";
            self.fault(&["fence"], what, "give the tool `key`, `operation`, `object` or something of `args`");
        }
        self.only_stops(&ask.server, &ask.tool);
        let fenced_when = fenced_when?;
        self.judges(&["fence", "fenced_when"], &fenced_when);
        Some(Fence { ask, fenced_when })
    }

    /// A rule that looks at nothing of the answer says the same whatever the system of record says.
    fn judges(&mut self, keys: &[&str], rule: &Expression) {
        if !["answer", "data", "status"].iter().any(|name| rule.uses(name)) {
            let what = "this looks at nothing of the answer, and would hold whatever that says";
            self.fault(keys, what, "look at something in `data` or `answer`: data.status == \"paid\"");
        }
    }

    /// A fence is called without a record of its own. So it is no tool that a workflow records, and none that only looks.
    fn only_stops(&mut self, server: &ServerName, tool: &str) {
        let of_workflow = self
            .around
            .workflows
            .iter()
            .find(|(_, other)| other.server == server.0 && other.tools.iter().any(|name| name == tool));
        if let Some((name, _)) = of_workflow {
            let what = format!(
                "the fence's tool {tool:?} belongs to workflow {name:?}: a fence is called without a record"
            );
            self.fault(
                &["fence", "tool"],
                what,
                "name a tool that only stops requests, such as one that cancels by key",
            );
            return;
        }
        let declared = self.declared(server, tool);
        if declared == Some(RawEffect::ReadOnly) {
            let what = format!(
                "the tool {tool:?} of server {:?} is declared read_only, and can stop nothing",
                server.0
            );
            self.fault(
                &["fence", "tool"],
                what,
                "name the tool that stops requests, such as one that cancels by key",
            );
        }
    }

    /// Whether what is declared can ever make a negative answer certain, and what hangs on that.
    pub(super) fn certainty(&mut self) {
        let raw = self.raw;
        for (key, is_there) in [("settle", raw.settle.is_some()), ("fence", raw.fence.is_some())] {
            if is_there && raw.probe.as_ref().is_none_or(|probe| probe.not_applied_when.is_none()) {
                let what = format!(
                    "`{key}` makes a negative answer certain, and there is none without `probe.not_applied_when`"
                );
                self.fault(&[key], what, "add a probe with `not_applied_when`, or take it away");
            }
        }
        if raw.settle.is_some_and(|settle| settle.0 == Millis(0)) {
            let what = "`settle` is 0s: a request that is on its way when its connection ends would count as never arriving";
            self.fault(&["settle"], what, "say how long one may be on its way, such as settle = \"10m\"");
        }
        if let (Some(settle), Some(probe)) = (raw.settle, &raw.probe) {
            let budget = probe.budget_time.unwrap_or(self.around.limits.reconcile_time);
            if settle.0 >= budget.0 {
                let what = format!("`settle` is {settle}, and looking ends after {budget}");
                self.fault(&["settle"], what, "shorten `settle`, or lengthen `probe.budget_time`");
            }
        }
        let by_probe = raw.probe.as_ref().is_some_and(|probe| probe.not_applied_when.is_some())
            && (raw.settle.is_some() || raw.fence.is_some());
        if raw.resend && !by_probe {
            let what = "`resend` needs something that can confirm that nothing was done";
            let help = "add a probe with `not_applied_when`, and `settle` or a `fence`";
            self.fault(&["resend"], what, help);
        }
    }
}
