//! One workflow, understood: its expressions compiled, and what contradicts itself told.

use std::collections::BTreeMap;

use taskgate_core::budget::Allowance;
use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};
use taskgate_core::time::Millis;
use taskgate_gateway::INLINE_MIN;
use taskgate_workflow::{
    Bad, Bounds, Conflict, Expression, Hidden, Keying, NAMES, Scope, Want, Webhook, Workflow,
};

use super::expand::expand;
use super::raw::{RawEffect, RawLimits, RawMode, RawReplay, RawServer};
use super::raw_workflow::{RawConflict, RawKeying, RawWorkflow};
use super::understand::Fault;
use super::units::Size;
use super::unknown::nearest;
use crate::environment::Environment;

/// What is wrong with a bound on results under which not even a handle fits.
pub(crate) fn too_short(key: &str, given: Size) -> (String, String) {
    let what = format!("`{key}` is {given}, less than what stands for a long result may take");
    (what, format!("use {} or more", Size(INLINE_MIN)))
}

/// What all workflows are read with.
pub(crate) struct Around<'a> {
    pub(crate) servers: &'a BTreeMap<String, RawServer>,
    pub(crate) workflows: &'a BTreeMap<String, RawWorkflow>,
    pub(crate) limits: &'a RawLimits,
    pub(crate) environment: &'a Environment,
    /// Names under which operations are kept have a server's name before them.
    pub(crate) is_handed: bool,
}

/// Reads all workflows; what is wrong goes to `faults`.
pub(crate) fn understand(around: &Around<'_>, faults: &mut Vec<Fault>) -> Vec<Workflow> {
    let mut owners: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    recorded_apart(around, faults);
    let mut understood = Vec::new();
    for (name, raw) in around.workflows {
        for tool in &raw.tools {
            if let Some(other) = owners.insert((&raw.server, tool), name) {
                let what = if other == name {
                    format!("the tool {tool:?} stands here twice")
                } else {
                    format!("the tool {tool:?} of server {:?} is in workflow {other:?} too", raw.server)
                };
                faults.push(Fault::new(&["workflows", name, "tools"], what, "leave it in one workflow only"));
            }
        }
        let before = faults.len();
        let workflow = Reader { name, raw, around, faults }.workflow();
        if faults.len() == before {
            understood.extend(workflow);
        }
    }
    understood
}

/// Under which name the operations of a workflow are kept.
pub(crate) fn recorded_as<'a>(section: &'a str, raw: &'a RawWorkflow) -> &'a str {
    raw.recorded_as.as_deref().unwrap_or(section)
}

/// Two workflows under one name would share keys and objects.
fn recorded_apart(around: &Around<'_>, faults: &mut Vec<Fault>) {
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    // Those that say nothing keep their own names.
    let (said, plain): (Vec<_>, Vec<_>) =
        around.workflows.iter().partition(|(_, raw)| raw.recorded_as.is_some());
    for (section, raw) in plain.into_iter().chain(said) {
        let name = recorded_as(section, raw);
        if let Some(other) = taken.insert(name, section) {
            let what = format!("the operations of workflow {other:?} are kept as {name:?} already");
            let help = "give each workflow a name of its own to be recorded under";
            faults.push(Fault::new(&["workflows", section, "recorded_as"], what, help));
        }
    }
}

/// Reads one workflow.
pub(crate) struct Reader<'a> {
    pub(crate) name: &'a str,
    pub(crate) raw: &'a RawWorkflow,
    pub(crate) around: &'a Around<'a>,
    pub(crate) faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    pub(crate) fn fault(&mut self, keys: &[&str], what: impl Into<String>, help: impl Into<String>) {
        let mut path = vec!["workflows", self.name];
        path.extend(keys);
        self.faults.push(Fault::new(&path, what, help));
    }

    pub(crate) fn bad(&mut self, keys: &[&str], bad: Bad) {
        let mut path = vec!["workflows", self.name];
        path.extend(keys);
        self.faults.push(Fault { inside: Some(bad.at), ..Fault::new(&path, bad.what, bad.help) });
    }

    pub(crate) fn expression(
        &mut self,
        keys: &[&str],
        source: &str,
        scope: Scope,
        want: Want,
    ) -> Option<Expression> {
        if source.is_empty()
            && let Some(key) = keys.last()
        {
            let what = format!("`{key}` is missing, or empty");
            let help = format!(
                "write an expression in CEL; these names are known here: {}",
                scope.names().join(", ")
            );
            self.fault(keys, what, help);
            return None;
        }
        Expression::compile(source, scope, want).map_err(|bad| self.bad(keys, bad)).ok()
    }

    pub(crate) fn given(
        &mut self,
        keys: &[&str],
        source: Option<&str>,
        scope: Scope,
        want: Want,
    ) -> Option<Expression> {
        source.and_then(|source| self.expression(keys, source, scope, want))
    }

    /// A value with `${NAME}` in it.
    pub(crate) fn value(&mut self, keys: &[&str], text: &str) -> String {
        expand(text, self.around.environment).unwrap_or_else(|incomplete| {
            self.fault(keys, incomplete.to_string(), incomplete.help());
            String::new()
        })
    }

    pub(crate) fn headers(&mut self, keys: &[&str], raw: &BTreeMap<String, String>) -> Vec<(String, Hidden)> {
        let mut headers = Vec::new();
        for (name, text) in raw {
            let at: Vec<&str> = keys.iter().copied().chain([name.as_str()]).collect();
            let value = self.value(&at, text);
            let fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(&value).is_ok();
            if !fits {
                let help = "names are letters, digits and `-`; values are one line";
                self.fault(&at, format!("the header {name:?} cannot be sent"), help);
            }
            headers.push((name.clone(), Hidden::new(value)));
        }
        headers
    }

    /// A server that is there.
    pub(crate) fn server(&mut self, keys: &[&str], name: &str) -> Option<ServerName> {
        if self.around.servers.contains_key(name) {
            return Some(ServerName(name.to_owned()));
        }
        let names: Vec<&str> = self.around.servers.keys().map(String::as_str).collect();
        let help = match nearest(name, &names) {
            Some(near) => format!("did you mean {near:?}?"),
            None => format!("servers here: {}", names.join(", ")),
        };
        self.fault(keys, format!("there is no server {name:?}"), help);
        None
    }

    /// Where a person's or a secret's data may go: over TLS, or to this machine.
    pub(crate) fn is_private(url: &str) -> bool {
        let Ok(uri) = url.parse::<http::Uri>() else { return false };
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let is_loopback = host == "localhost"
            || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
        match uri.scheme_str() {
            Some("https") => !host.is_empty(),
            Some("http") => is_loopback,
            Some(_) | None => false,
        }
    }

    fn workflow(mut self) -> Option<Workflow> {
        let raw = self.raw;
        if self.name.is_empty() || self.name.len() > 64 || self.name.chars().any(char::is_control) {
            self.fault(
                &[],
                "a workflow needs a name of 1 to 64 bytes, without control characters",
                "name it by what it does: [workflows.payments]",
            );
        }
        if let (Some(name), false) = (&raw.recorded_as, self.around.is_handed)
            && (name.is_empty() || name.len() > 64 || name.chars().any(char::is_control))
        {
            let help = "write the name that it had before, as it stood in its section";
            self.fault(&["recorded_as"], "`recorded_as` needs a name of 1 to 64 bytes", help);
        }
        let server = if raw.server.is_empty() {
            self.fault(
                &[],
                format!("workflow {:?} has no `server`", self.name),
                "name the server whose tools it is for",
            );
            None
        } else {
            self.server(&["server"], &raw.server)
        };
        self.tools();
        let effect = match raw.effect {
            Some(RawEffect::ReadOnly) => Effect::ReadOnly,
            Some(RawEffect::Reversible) => Effect::Reversible,
            Some(RawEffect::Consequential) | None => Effect::Consequential,
        };
        let mode = match raw.mode {
            Some(RawMode::Task) => ToolMode::Task,
            Some(RawMode::Sync) => ToolMode::Sync,
            Some(RawMode::Auto) | None => ToolMode::Auto,
        };
        if effect == Effect::ReadOnly {
            self.read_only();
        }
        let replay = self.replay();
        let bounds = self.bounds();
        let inline_max = self.inline_max();
        let keying = self.keying();
        let forward = self.forward();
        let object = self.given(&["object"], raw.object.as_deref(), Scope::Keyed, Want::Text);
        let version = self.given(&["version"], raw.version.as_deref(), Scope::Keyed, Want::Text);
        let intended_effect =
            self.given(&["intended_effect"], raw.intended_effect.as_deref(), Scope::Keyed, Want::Text);
        let conflict = match raw.on_conflict {
            RawConflict::Allow => Conflict::Allow,
            RawConflict::Refuse => Conflict::Refuse,
            RawConflict::Queue => Conflict::Queue,
        };
        if conflict != Conflict::Allow && raw.object.is_none() {
            let help = "say what a call is about: object = \"'invoice/' + args.invoice_id\"";
            self.fault(&["on_conflict"], "`on_conflict` needs an `object`", help);
        }
        if raw.version.is_some() && raw.object.is_none() {
            self.fault(
                &["version"],
                "`version` needs an `object`",
                "say what it is a version of: object = \"…\"",
            );
        }
        let receipt = self.receipt();
        let probe = self.probe();
        let fence = self.fence();
        self.certainty();
        let owners = self.owners(effect);
        let webhook = self.webhook();
        Some(Workflow {
            name: recorded_as(self.name, raw).to_owned(),
            server: server?,
            tools: raw.tools.clone(),
            effect,
            mode,
            replay,
            resend: raw.resend,
            bounds,
            inline_max,
            keying: keying?,
            forward,
            object,
            version,
            intended_effect,
            conflict,
            receipt,
            probe,
            settle: raw.settle.map(|span| span.0),
            fence,
            owners,
            webhook,
        })
    }

    fn tools(&mut self) {
        let raw = self.raw;
        if raw.tools.is_empty() || raw.tools.iter().any(String::is_empty) {
            let keys: &[&str] = if raw.tools.is_empty() { &[] } else { &["tools"] };
            let what = format!("workflow {:?} names no tool", self.name);
            self.fault(keys, what, "list its tools by name: tools = [\"pay\"]");
        }
        let Some(server) = self.around.servers.get(&raw.server) else { return };
        for tool in &raw.tools {
            if server.tools.contains_key(tool) {
                let what =
                    format!("the tool {tool:?} has a section [servers.{}.tools.{tool}] too", raw.server);
                let help = "move what stands there into the workflow, and take the section away";
                self.fault(&["tools"], what, help);
            }
        }
    }

    fn read_only(&mut self) {
        let raw = self.raw;
        for (key, is_there) in [
            ("receipt", raw.receipt.is_some()),
            ("probe", raw.probe.is_some()),
            ("settle", raw.settle.is_some()),
            ("fence", raw.fence.is_some()),
            ("replay", raw.replay.is_some_and(|replay| replay != RawReplay::Never)),
            ("resend", raw.resend),
            ("on_conflict", raw.on_conflict != RawConflict::Allow),
        ] {
            if is_there {
                let what = format!("`{key}` is for tools that do something, and these are read_only");
                self.fault(&[key], what, "take it away, or declare their effect");
            }
        }
    }

    fn replay(&mut self) -> Replay {
        let raw = self.raw;
        if raw.replay_window.is_some() && raw.replay != Some(RawReplay::Keyed) {
            let help = "take it away, or declare `replay = \"keyed\"`";
            self.fault(&["replay_window"], "`replay_window` goes with `replay = \"keyed\"` only", help);
        }
        match (raw.replay, raw.replay_window) {
            (None | Some(RawReplay::Never), _) => Replay::Never,
            (Some(RawReplay::Natural), _) => Replay::Natural,
            (Some(RawReplay::Keyed), window) => {
                if raw.idempotency.mode == RawKeying::PerRequest {
                    let what = "`replay = \"keyed\"` needs a key, and with `mode = \"per_request\"` there may be none";
                    let help = "use idempotency.mode = \"required\" or \"derived\"";
                    self.fault(&["replay"], what, help);
                }
                match window {
                    Some(window) => Replay::Keyed { window: window.0 },
                    None => {
                        let help = "say how long the server honours a key, as its documentation promises: replay_window = \"24h\"";
                        self.fault(&["replay"], "`replay = \"keyed\"` needs a `replay_window`", help);
                        Replay::Never
                    }
                }
            }
        }
    }

    fn bounds(&mut self) -> Bounds {
        let (raw, limits) = (self.raw, self.around.limits);
        if let Some(ttl_max) = raw.ttl_max.filter(|span| span.0 > limits.ttl_max.0) {
            let what =
                format!("`ttl_max` is {ttl_max}, longer than the one of [limits] ({})", limits.ttl_max);
            self.fault(&["ttl_max"], what, "shorten it, or lengthen `ttl_max` in [limits]");
        }
        let longest = raw.ttl_max.unwrap_or(limits.ttl_max);
        if let Some(deadline) = raw.deadline.filter(|span| span.0 > longest.0) {
            let what = format!("`deadline` is {deadline}, longer than `ttl_max` ({longest})");
            self.fault(&["deadline"], what, "shorten `deadline`, or lengthen `ttl_max`");
        }
        for (key, span) in [
            ("ttl_max", raw.ttl_max),
            ("deadline", raw.deadline),
            ("create_time", raw.create_time),
            ("status_read_time", raw.status_read_time),
            ("result_time", raw.result_time),
        ] {
            if let Some(span) = span.filter(|span| span.0 < TIME_MIN) {
                let what = format!("`{key}` is {span}, in which nothing can be done");
                self.fault(&[key], what, "use \"1s\" or more");
            }
        }
        for (key, count) in [
            ("running", raw.running),
            ("create_attempts", raw.create_attempts.map(|count| count as usize)),
            ("status_read_attempts", raw.status_read_attempts.map(|count| count as usize)),
            ("result_attempts", raw.result_attempts.map(|count| count as usize)),
        ] {
            if count == Some(0) {
                self.fault(&[key], format!("`{key}` is 0, which lets nothing through"), "use 1 or more");
            }
        }
        let budget = |time: Option<super::units::Span>,
                      attempts: Option<u32>,
                      whole: (super::units::Span, u32)| {
            (time.is_some() || attempts.is_some())
                .then(|| Allowance { time: time.unwrap_or(whole.0).0, attempts: attempts.unwrap_or(whole.1) })
        };
        Bounds {
            // One that was left out gives way to a shorter lifetime.
            deadline: raw
                .deadline
                .map(|span| span.0)
                .or_else(|| raw.ttl_max.map(|span| span.0).filter(|longest| *longest < limits.deadline.0)),
            ttl_max: raw.ttl_max.map(|span| span.0),
            running: raw.running,
            create: budget(
                raw.create_time,
                raw.create_attempts,
                (limits.create_time, limits.create_attempts),
            ),
            status_read: budget(
                raw.status_read_time,
                raw.status_read_attempts,
                (limits.status_read_time, limits.status_read_attempts),
            ),
            result: budget(
                raw.result_time,
                raw.result_attempts,
                (limits.result_time, limits.result_attempts),
            ),
        }
    }

    fn inline_max(&mut self) -> Option<usize> {
        let given = self.raw.results.as_ref()?.inline_max?;
        if given.0 < INLINE_MIN {
            let (what, help) = too_short("inline_max", given);
            self.fault(&["results", "inline_max"], what, help);
        }
        Some(given.0)
    }

    fn keying(&mut self) -> Option<Keying> {
        let raw = &self.raw.idempotency;
        if raw.key.is_some() && raw.mode != RawKeying::Derived {
            let what = "`key` goes with `mode = \"derived\"` only";
            self.fault(&["idempotency", "key"], what, "use mode = \"derived\", or take `key` away");
        }
        match raw.mode {
            RawKeying::PerRequest => Some(Keying::PerRequest),
            RawKeying::Required => Some(Keying::Required),
            RawKeying::Derived => match &raw.key {
                Some(key) => {
                    let at = ["idempotency", "key"];
                    let key = self.expression(&at, key, Scope::Call, Want::Text)?;
                    if !key.uses("args") {
                        let what =
                            "the key names nothing of the arguments: all calls would be one and the same";
                        self.fault(&at, what, "name what tells two calls apart: key = \"args.order_id\"");
                    }
                    Some(Keying::Derived(key))
                }
                None => {
                    let help = "say which piece of business the arguments name: key = \"args.order_id\"";
                    self.fault(&["idempotency", "mode"], "`mode = \"derived\"` needs a `key`", help);
                    None
                }
            },
        }
    }

    fn owners(&mut self, effect: Effect) -> Vec<String> {
        let Some(owners) = &self.raw.owners else { return vec!["operator".to_owned()] };
        let is_blank = owners.iter().any(|owner| owner.trim().is_empty());
        if is_blank || owners.is_empty() && effect != Effect::ReadOnly {
            let what = "`owners` names nobody, and a person may have to decide what happened";
            self.fault(&["owners"], what, "name a person or a team, or leave the key out for \"operator\"");
        }
        owners.clone()
    }

    fn webhook(&mut self) -> Option<Webhook> {
        let raw = self.raw.webhook.as_ref()?;
        let before = self.faults.len();
        if raw.url.is_empty() {
            self.fault(
                &["webhook", "url"],
                "the webhook has no `url`",
                "say where to post: url = \"https://…\"",
            );
        }
        let url = self.value(&["webhook", "url"], &raw.url);
        if self.faults.len() == before && !Reader::is_private(&url) {
            let what = "the webhook's URL is neither https:// nor at this machine";
            let help = "use https://: what it tells is not for everybody on the way";
            self.fault(&["webhook", "url"], what, help);
        }
        Some(Webhook { url, headers: self.headers(&["webhook", "headers"], &raw.headers) })
    }
}

/// The names of expressions, for the reference page.
pub(crate) fn names() -> String {
    let mut out = String::from("| name | stands for | known to |\n| --- | --- | --- |\n");
    for (name, meaning) in NAMES {
        let known = [
            (Scope::Call, "`key`"),
            (Scope::Keyed, "`object`, `version`, `intended_effect`"),
            (Scope::Operation, "what a probe or fence asks"),
            (Scope::Receipt, "receipts"),
            (Scope::WebAnswer, "answers"),
        ];
        let known: Vec<_> = known
            .iter()
            .filter(|(scope, _)| scope.names().contains(&name))
            .map(|(_, words)| *words)
            .collect();
        let known = if known.len() == 5 { "all".to_owned() } else { known.join(", ") };
        let known = if name == "status" { "answers to `get`".to_owned() } else { known };
        out.push_str(&format!("| `{name}` | {meaning} | {known} |\n"));
    }
    out
}

/// The shortest lifetime of a task, and the shortest time for its work.
const TIME_MIN: Millis = Millis(1_000);

/// Wait before the first look after a lost answer.
pub(super) const FIRST: Millis = Millis(2_000);
/// Wait before the second.
pub(super) const EVERY: Millis = Millis(30_000);
