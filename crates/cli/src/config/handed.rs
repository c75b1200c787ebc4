//! A server's workflows, as `run` hands them to the keeper: what is written of them, with what the environment puts in, so
//! that the keeper understands them as `serve` would, and knows nothing of the file and its environment.
//!
//! Between two versions it is read strictly: a key that one of them does not know could be the one that keeps a payment
//! from being made twice.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use taskgate_core::id::ServerName;
use taskgate_engine::limits::Own;
use taskgate_workflow::Workflow;

use super::expand::expand;
use super::raw::{RawConfig, RawEffect, RawLimits, RawServer, RawTool};
use super::raw_workflow::{RawProbe, RawWorkflow};
use super::understand::{Fault, understand_from};
use super::workflow::recorded_as;
use super::{Config, Named};
use crate::environment::Environment;

/// What is handed over.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Paper {
    /// The server that it is for.
    server: String,
    /// That one and those that its workflows ask: what holds for their tools.
    servers: BTreeMap<String, RawServer>,
    /// Those of the file, by which workflows are understood.
    limits: RawLimits,
    workflows: BTreeMap<String, RawWorkflow>,
    /// Where each stands in its file, from 1.
    lines: BTreeMap<String, usize>,
}

/// What is handed over, and what else is said of it.
pub(crate) struct Handed {
    /// A JSON text. Secrets are in it.
    pub(crate) sheet: String,
    /// A digest of what is written, without what the environment puts in.
    pub(crate) written: String,
    /// Servers of the configuration that the workflows ask, beside their own.
    pub(crate) asked: Vec<ServerName>,
}

/// What of a configuration is for the keeper; `None` if the server has no workflows. `has_headers` says whether requests
/// to the server have any.
///
/// # Errors
/// A value whose environment variable is gone since the file was understood.
pub(crate) fn hand(
    raw: &RawConfig,
    config: &Config,
    server: &str,
    has_headers: bool,
    environment: &Environment,
) -> Result<Option<Handed>, Fault> {
    let mut workflows: BTreeMap<String, RawWorkflow> = raw
        .workflows
        .iter()
        .filter(|(_, workflow)| workflow.server == server)
        .map(|(name, workflow)| (name.clone(), settled(workflow, &raw.limits)))
        .collect();
    if workflows.is_empty() {
        return Ok(None);
    }
    let mut asked: Vec<ServerName> = Vec::new();
    let written_there = raw.servers.get(server);
    let own = RawServer {
        default: written_there.map(|server| server.default).unwrap_or_default(),
        tools: written_there.map(|server| server.tools.clone()).unwrap_or_default(),
        ..reached(has_headers, 0)
    };
    let mut servers = BTreeMap::from([(server.to_owned(), own)]);
    for (rule, ask) in config
        .workflows
        .iter()
        .filter(|workflow| workflow.server.0 == server)
        .flat_map(|workflow| workflow.asked_tools())
    {
        if ask.server.0 == server {
            continue;
        }
        if !asked.contains(&ask.server) {
            asked.push(ask.server.clone());
        }
        let there = servers.entry(ask.server.0.clone()).or_insert_with(|| reached(true, asked.len()));
        // It was found to be so, whether its server or a workflow says it.
        if rule == "probe" {
            let looks = RawTool { effect: Some(RawEffect::ReadOnly), ..RawTool::default() };
            there.tools.insert(ask.tool.clone(), looks);
        }
    }
    let lines = config
        .named
        .iter()
        .filter_map(|named| Some((named.section.clone(), named.at.as_ref()?.1)))
        .filter(|(section, _)| workflows.contains_key(section))
        .collect();
    let written = written(&servers, &workflows);
    for (name, workflow) in &mut workflows {
        complete(name, workflow, environment)?;
    }
    let paper = Paper { server: server.to_owned(), servers, limits: raw.limits.clone(), workflows, lines };
    // Texts and numbers always have a JSON form.
    let sheet = serde_json::to_string(&paper).unwrap_or_default();
    Ok(Some(Handed { sheet, written, asked }))
}

/// A stand-in for how a server is reached, which is told elsewhere.
fn reached(has_headers: bool, number: usize) -> RawServer {
    let (command, url) = if has_headers {
        (None, Some("http://127.0.0.1:1/mcp".to_owned()))
    } else {
        (Some("-".to_owned()), None)
    };
    RawServer { command, url, path: Some(format!("/{number}/mcp")), ..RawServer::default() }
}

fn written(servers: &BTreeMap<String, RawServer>, workflows: &BTreeMap<String, RawWorkflow>) -> String {
    let text = serde_json::to_vec(&(servers, workflows)).unwrap_or_default();
    HEXLOWER.encode(&Sha256::digest(text))
}

/// A workflow with what `[limits]` of its file says instead of what it leaves out: the keeper's limits are its own.
fn settled(workflow: &RawWorkflow, limits: &RawLimits) -> RawWorkflow {
    let first = RawLimits::default();
    let mut raw = workflow.clone();
    if limits.ttl_max != first.ttl_max {
        raw.ttl_max.get_or_insert(limits.ttl_max);
    }
    if limits.deadline != first.deadline {
        let longest = raw.ttl_max.unwrap_or(limits.ttl_max);
        let deadline = if limits.deadline.0 > longest.0 { longest } else { limits.deadline };
        raw.deadline.get_or_insert(deadline);
    }
    for (own, written, usual) in [
        (&mut raw.create_time, limits.create_time, first.create_time),
        (&mut raw.status_read_time, limits.status_read_time, first.status_read_time),
        (&mut raw.result_time, limits.result_time, first.result_time),
    ] {
        if written != usual {
            own.get_or_insert(written);
        }
    }
    for (own, written, usual) in [
        (&mut raw.create_attempts, limits.create_attempts, first.create_attempts),
        (&mut raw.status_read_attempts, limits.status_read_attempts, first.status_read_attempts),
        (&mut raw.result_attempts, limits.result_attempts, first.result_attempts),
    ] {
        if written != usual {
            own.get_or_insert(written);
        }
    }
    if limits.result_inline != first.result_inline {
        raw.results.get_or_insert_default().inline_max.get_or_insert(limits.result_inline);
    }
    if let Some(RawProbe { budget_time, budget_attempts, .. }) = &mut raw.probe {
        if limits.reconcile_time != first.reconcile_time {
            budget_time.get_or_insert(limits.reconcile_time);
        }
        if limits.reconcile_attempts != first.reconcile_attempts {
            budget_attempts.get_or_insert(limits.reconcile_attempts);
        }
    }
    raw
}

/// Puts in what the environment says, in such a way that nothing is put in a second time.
fn complete(name: &str, raw: &mut RawWorkflow, environment: &Environment) -> Result<(), Fault> {
    let webhook =
        raw.webhook.iter_mut().flat_map(|hook| [&mut hook.url].into_iter().chain(hook.headers.values_mut()));
    let probe = raw.probe.iter_mut().flat_map(|probe| probe.headers.values_mut());
    let signature = raw
        .receipt
        .iter_mut()
        .filter_map(|receipt| receipt.signature.as_mut())
        .flat_map(|signature| signature.secret.iter_mut().chain(&mut signature.public_key));
    for value in webhook.chain(probe).chain(signature) {
        let complete = expand(value, environment).map_err(|incomplete| {
            Fault::new(&["workflows", name], incomplete.to_string(), incomplete.help())
        })?;
        *value = complete.replace("${", "$${");
    }
    Ok(())
}

/// Whose names the keeper gives to what is handed to it.
pub(crate) struct Names<'a> {
    /// The server's.
    pub(crate) server: &'a ServerName,
    /// What stands before the names of its workflows.
    pub(crate) base: &'a str,
    /// Those of the servers that are only asked, by their names in the configuration.
    pub(crate) asked: &'a BTreeMap<String, ServerName>,
    /// The file that declares them, for people.
    pub(crate) file: &'a str,
}

/// What was handed over, understood.
#[derive(Default)]
pub(crate) struct Understood {
    /// Each under the server's name and its own: `shop/payments`.
    pub(crate) workflows: Vec<Arc<Workflow>>,
    /// By tool.
    pub(crate) by_tool: BTreeMap<String, Arc<Workflow>>,
    /// By tool: the header in which it gets its key.
    pub(crate) key_headers: BTreeMap<String, String>,
    /// What bounds calls, by tool.
    pub(crate) own: BTreeMap<String, Arc<Own>>,
    /// Their names, as they are written.
    pub(crate) named: Vec<Named>,
}

/// The name under which the keeper records what is recorded as `name` of its server.
pub(crate) fn recorded(base: &str, name: &str) -> String {
    format!("{base}/{name}")
}

/// Reads what was handed over.
///
/// # Errors
/// In words without any of the values: it is of another version, or not understood.
pub(crate) fn read(sheet: &str, names: &Names<'_>) -> Result<Understood, String> {
    let Ok(Paper { server, servers, limits, mut workflows, lines }) = serde_json::from_str::<Paper>(sheet)
    else {
        return Err(format!(
            "the keeper (version {}) does not understand the workflows of {}: it is of another version than this `taskgate run`; `taskgate keeper restart` starts one of this version",
            env!("CARGO_PKG_VERSION"),
            names.file
        ));
    };
    let named = workflows
        .iter()
        .map(|(section, raw)| Named {
            section: section.clone(),
            recorded_as: recorded_as(section, raw).to_owned(),
            is_said: raw.recorded_as.is_some(),
            server: names.server.0.clone(),
            tools: raw.tools.clone(),
            at: lines.get(section).map(|line| (names.file.to_owned(), *line)),
        })
        .collect();
    let name_of = |name: &str| {
        if name == server {
            Some(names.server.0.clone())
        } else {
            names.asked.get(name).map(|name| name.0.clone())
        }
    };
    for (section, raw) in &mut workflows {
        raw.recorded_as = Some(recorded(names.base, recorded_as(section, raw)));
        let probe = raw.probe.as_mut().and_then(|probe| probe.server.as_mut());
        let fence = raw.fence.as_mut().and_then(|fence| fence.server.as_mut());
        for name in [&mut raw.server].into_iter().chain(probe).chain(fence) {
            *name = name_of(name).unwrap_or_default();
        }
    }
    let servers = servers
        .into_iter()
        .filter_map(|(name, raw)| Some((name_of(&name)?, (raw, PathBuf::new()))))
        .collect();
    let raw = RawConfig { limits, workflows, ..RawConfig::default() };
    let config =
        understand_from(&raw, &servers, Path::new("/"), &Environment::default(), true).map_err(|faults| {
            let words: Vec<String> = faults
                .iter()
                .map(|fault| format!("{}: {}; {}", fault.path.join("."), fault.what, fault.help))
                .collect();
            format!("the workflows of {} cannot be used: {}", names.file, words.join("; "))
        })?;
    let Config { mut engine, gateway, servers, workflows, .. } = config;
    let by_tool = gateway
        .servers
        .into_iter()
        .find(|policy| policy.name == *names.server)
        .map(|policy| policy.workflows);
    let key_headers =
        servers.into_iter().find(|server| server.name == *names.server).map(|server| server.key_headers);
    Ok(Understood {
        workflows,
        by_tool: by_tool.unwrap_or_default(),
        key_headers: key_headers.unwrap_or_default(),
        own: engine.own.remove(names.server).unwrap_or_default(),
        named,
    })
}

#[cfg(test)]
mod tests {
    use taskgate_core::time::Millis;

    use super::*;
    use crate::config::load::load_written;

    const SHOP: &str = r#"
[limits]
deadline = "2h"
reconcile_attempts = 7
result_inline = "20KiB"

[servers.shop]
url = "http://127.0.0.1:1/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }
[servers.books]
command = "books"
[workflows.lists]
server = "books"
tools = ["find"]
effect = "read_only"

[workflows.payments]
server = "shop"
tools = ["pay"]
replay = "keyed"
replay_window = "1h"
idempotency = { mode = "derived", key = "args.order", forward = { header = "Idempotency-Key" } }
webhook = { url = "https://hooks.example/${TOKEN}", headers = { X = "${ODD}" } }
receipt = { when = "data.order == key", reference = "data.id", issued_by = "signature", signature = { algorithm = "hmac_sha256", secret = "${TOKEN}", over = "data.id", given = "data.signature" } }
probe = { server = "books", tool = "find", arguments = { order = "key" }, applied_when = "data.paid" }
"#;

    fn handed(token: &str, text: &str) -> Handed {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("taskgate.toml");
        std::fs::write(&file, text).unwrap();
        let environment = Environment::of([("TOKEN", token), ("ODD", "a ${TOKEN} $${b")]);
        let (config, raw) = load_written(&file, &environment).unwrap();
        hand(&raw, &config, "shop", true, &environment).unwrap().unwrap()
    }

    fn read_again(handed: &Handed) -> Understood {
        let server = ServerName("shop-apart-1".into());
        let asked = BTreeMap::from([("books".to_owned(), ServerName("shop-apart-1+books".into()))]);
        read(&handed.sheet, &Names { server: &server, base: "shop", asked: &asked, file: "/f.toml" }).unwrap()
    }

    #[test]
    fn design_4_what_is_handed_over_is_understood_as_it_was_under_the_names_of_the_keeper() {
        let handed = handed("a-secret-of-16-bytes", SHOP);
        assert_eq!(handed.asked, [ServerName("books".into())]);
        let understood = read_again(&handed);
        let [payments] = understood.workflows.as_slice() else { panic!("{:?}", understood.workflows) };
        assert_eq!((payments.name.as_str(), payments.server.0.as_str()), ("shop/payments", "shop-apart-1"));
        let asked: Vec<_> = payments.asked_tools().map(|(_, ask)| ask.server.0.as_str()).collect();
        assert_eq!(asked, ["shop-apart-1+books"]);
        assert_eq!(understood.key_headers["pay"], "Idempotency-Key");
        assert!(Arc::ptr_eq(&understood.by_tool["pay"], payments));
        // What the environment says is put in once, whatever it looks like.
        let webhook = payments.webhook.as_ref().unwrap();
        assert_eq!(webhook.url, "https://hooks.example/a-secret-of-16-bytes");
        assert_eq!(webhook.headers[0].1.expose(), "a ${TOKEN} $${b");
        // Limits of the file that bound its calls come along.
        assert_eq!(understood.own["pay"].deadline, Some(Millis::hours(2)));
        assert_eq!(payments.inline_max, Some(20 << 10));
        assert_eq!(payments.probe.as_ref().unwrap().pace.budget.unwrap().attempts, 7);
        let [named] = understood.named.as_slice() else { panic!("{:?}", understood.named) };
        assert_eq!((named.recorded_as.as_str(), named.is_said), ("payments", false));
        assert_eq!(named.at, Some(("/f.toml".to_owned(), 17)));
    }

    #[test]
    fn what_is_written_decides_whether_two_are_the_same_and_not_the_environment() {
        let one = handed("a-secret-of-16-bytes", SHOP);
        assert_eq!(one.written, handed("another-secret-of-some-length", SHOP).written);
        let commented = format!("# as it was\n{SHOP}");
        assert_eq!(one.written, handed("a-secret-of-16-bytes", &commented).written);
        for (from, to) in [
            ("args.order", "args.id"),
            ("\"2h\"", "\"3h\""),
            ("replay_window = \"1h\"", "replay_window = \"2h\""),
        ] {
            assert_ne!(one.written, handed("a-secret-of-16-bytes", &SHOP.replace(from, to)).written, "{to}");
        }
    }

    #[test]
    fn a_key_that_this_version_does_not_know_is_refused_without_its_value() {
        let handed = handed("a-secret-of-16-bytes", SHOP);
        let later =
            handed.sheet.replace("\"resend\":", "\"resend_never\":\"a-secret-of-16-bytes\",\"resend\":");
        assert_ne!(later, handed.sheet);
        let names = Names {
            server: &ServerName("shop".into()),
            base: "shop",
            asked: &BTreeMap::new(),
            file: "/f.toml",
        };
        let refused = read(&later, &names).err().unwrap();
        assert!(refused.contains("another version") && !refused.contains("a-secret"), "{refused}");
    }
}
