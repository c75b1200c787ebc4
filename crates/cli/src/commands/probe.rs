//! `probe`: connects to a server and prints its capability manifest (R2.3).

use std::ffi::OsString;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use taskgate_client::config::{InheritEnv, ServerConfig, Transport};
use taskgate_client::{Manifest, Secret, Servers, ToolTable};
use taskgate_core::gate::{BackTasks, TaskSupport};
use taskgate_core::id::{Principal, ServerName};
use taskgate_engine::back::BackKey;
use taskgate_wire::offers::Offers;
use taskgate_wire::text::SafeText;
use taskgate_wire::{Era, time};

use super::{house, runtime, serve};
use crate::args::{Given, Probe};
use crate::config::load::load;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::{Tone, Ui};

/// What the server calls itself where we have no name for it.
const UNNAMED: &str = "probe";

/// Longest name of a tool that is shown.
const NAME_CHARS_MAX: usize = 128;

/// The manifest as programs read it.
#[derive(Serialize)]
struct Report<'a> {
    server: &'a str,
    protocol_version: &'a str,
    era: &'static str,
    implementation: Implementation,
    tasks: Tasks,
    tools: Vec<Tool<'a>>,
    evidence: Vec<Said<'a>>,
}

#[derive(Serialize)]
struct Implementation {
    name: String,
    version: String,
    /// No version of the protocol says it.
    sdk: &'static str,
}

#[derive(Serialize)]
struct Tasks {
    dialect: &'static str,
    operations: Vec<&'static str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    tasks: &'static str,
    read_only_hint: Option<bool>,
    sha256: &'a str,
}

#[derive(Serialize)]
struct Said<'a> {
    at: String,
    method: &'static str,
    /// The result as it came, as text.
    result: &'a str,
}

pub(crate) fn main(args: &Probe, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let peer = peer(args, environment)?;
    let name = peer.name.clone();
    runtime()?.block_on(async {
        let servers = Servers::new(vec![peer], house::client_options()?);
        let seen = look(&servers, name).await;
        servers.shutdown().await;
        let (manifest, tools) = seen?;
        let report = report(&manifest, &tools);
        if args.json {
            ui.json(&report);
        } else {
            ui.raw(&picture(&report, ui));
        }
        Ok(())
    })
}

/// How the peer is reached, from what was typed.
fn peer(args: &Probe, environment: &Environment) -> Result<ServerConfig, Failure> {
    if let Some(server) = stdio(UNNAMED, &args.command) {
        return Ok(server);
    }
    let Some(peer) = &args.peer else {
        return Err(Failure::new(exit::USAGE, "no server was named", "name a URL, or a command after --"));
    };
    if peer.starts_with("http://") || peer.starts_with("https://") {
        let headers = args.headers.iter().map(|header| header_of(header)).collect::<Result<_, _>>()?;
        return Ok(ServerConfig::new(UNNAMED, Transport::Http { url: peer.clone(), headers }));
    }
    let given = Given { config: args.config.clone(), mcp_json: args.mcp_json.clone() };
    let source = serve::source(&given, environment).map_err(|_| {
        Failure::new(
            exit::USAGE,
            format!("{peer:?} is no URL, and no configuration was named in which it could stand"),
            "use a URL, a command after --, or --config FILE or --mcp-json FILE with the name of a server",
        )
    })?;
    let config = load(&source, environment)?;
    let names: Vec<_> = config.servers.iter().map(|server| server.name.0.clone()).collect();
    config.servers.into_iter().find(|server| server.name.0 == *peer).ok_or_else(|| {
        let help = format!("these are configured: {}", names.join(", "));
        Failure::new(exit::USAGE, format!("no server {peer:?} is configured"), help)
    })
}

fn header_of(text: &str) -> Result<(String, Secret), Failure> {
    // The value may be a secret, so it is not repeated.
    let (name, value) = text.split_once(':').ok_or_else(|| {
        Failure::new(exit::USAGE, "a --header has no colon", "write it like \"Authorization: Bearer TOKEN\"")
    })?;
    Ok((name.trim().to_owned(), Secret::new(value.trim())))
}

async fn look(servers: &Servers, server: ServerName) -> Result<(Manifest, ToolTable), Failure> {
    let unreachable = |error: taskgate_engine::back::Unreachable| {
        Failure::new(
            exit::SERVER,
            format!("could not talk to the server: {}", error.reason),
            "check the URL or the command; a server that is started must speak MCP on stdout and log on stderr",
        )
    };
    let key = BackKey { server, principal: Principal::local(), offers: Offers::none().to_stored() };
    let session = servers.session(&key).await.map_err(unreachable)?;
    let tools = session.tools().await.map_err(unreachable)?;
    Ok(((*session.manifest()).clone(), (*tools).clone()))
}

fn report<'a>(manifest: &'a Manifest, tools: &'a ToolTable) -> Report<'a> {
    let dialect = match manifest.tasks {
        BackTasks::None => "none",
        BackTasks::A => "a",
        BackTasks::B => "b",
    };
    let mut operations = match manifest.tasks {
        BackTasks::None => vec![],
        BackTasks::A => vec!["get", "result"],
        BackTasks::B => vec!["get", "update"],
    };
    if manifest.has_list {
        operations.push("list");
    }
    if manifest.has_cancel {
        operations.push("cancel");
    }
    Report {
        server: &manifest.server.0,
        protocol_version: &manifest.protocol_version,
        era: match manifest.era() {
            Era::Legacy => "legacy",
            Era::Modern => "modern",
        },
        implementation: implementation(manifest.back.server_info.as_deref()),
        tasks: Tasks { dialect, operations },
        tools: tools
            .iter()
            .map(|(name, facts)| Tool {
                name,
                tasks: support(manifest.tasks, facts.support),
                read_only_hint: facts.read_only_hint,
                sha256: &facts.digest,
            })
            .collect(),
        evidence: manifest
            .evidence
            .iter()
            .map(|said| Said { at: time::write(said.at), method: said.method, result: &said.said })
            .collect(),
    }
}

/// Whether a tool may be called as a task, in this session (R2.1).
fn support(back: BackTasks, tool: TaskSupport) -> &'static str {
    match (back, tool) {
        (BackTasks::None, TaskSupport::Forbidden | TaskSupport::Optional | TaskSupport::Required) => "never",
        (BackTasks::B, TaskSupport::Forbidden | TaskSupport::Optional | TaskSupport::Required) => {
            "server decides"
        }
        (BackTasks::A, TaskSupport::Forbidden) => "forbidden",
        (BackTasks::A, TaskSupport::Optional) => "optional",
        (BackTasks::A, TaskSupport::Required) => "required",
    }
}

fn implementation(info: Option<&str>) -> Implementation {
    let info: Value = info.and_then(|info| serde_json::from_str(info).ok()).unwrap_or_default();
    let member = |name: &str| info.get(name).and_then(Value::as_str).unwrap_or("unknown").to_owned();
    Implementation { name: member("name"), version: member("version"), sdk: "unknown" }
}

/// The manifest as people read it. All of it was said by the server, so all of it is cleaned.
fn picture(report: &Report<'_>, ui: Ui) -> String {
    let clean = |text: &str| SafeText::new(text, NAME_CHARS_MAX).into_string();
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        let _ = writeln!(out, "{}  {text}", ui.tone(Tone::Strong, &format!("{name:9}")));
    };
    let Implementation { name, version, sdk } = &report.implementation;
    line("server", format!("{} {} (SDK: {sdk})", clean(name), clean(version)));
    line("protocol", format!("{} ({})", clean(report.protocol_version), report.era));
    line(
        "tasks",
        match report.tasks.dialect {
            "none" => "none: the gateway holds its calls".to_owned(),
            dialect => format!("dialect {}: {}", dialect.to_uppercase(), report.tasks.operations.join(", ")),
        },
    );
    for said in &report.evidence {
        line("evidence", format!("{} answered at {}", said.method, said.at));
    }
    let width = report.tools.iter().map(|tool| clean(tool.name).chars().count()).max().unwrap_or(0);
    line("tools", report.tools.len().to_string());
    for tool in &report.tools {
        let hint = match tool.read_only_hint {
            Some(true) => "says read-only",
            Some(false) => "says not read-only",
            None => "says nothing of its effect",
        };
        let digest = tool.sha256.get(..12).unwrap_or(tool.sha256);
        let _ = writeln!(
            out,
            "  {:width$}  as a task: {:14}  {hint:26}  sha256 {digest}",
            clean(tool.name),
            tool.tasks
        );
    }
    out
}

/// How `run` and `probe` reach a command that was typed.
pub(crate) fn stdio(name: &str, command: &[OsString]) -> Option<ServerConfig> {
    let (program, arguments) = command.split_first()?;
    let transport = Transport::Stdio {
        command: program.clone(),
        args: arguments.to_vec(),
        env: Vec::new(),
        cwd: None,
        inherit_env: InheritEnv::All,
    };
    Some(ServerConfig::new(name, transport))
}
