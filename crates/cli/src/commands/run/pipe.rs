//! `run`: a pipe to the user's keeper, which holds the server and the tasks.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use taskgate_client::config::{EraChoice, InheritEnv, ServerConfig, Transport};
use taskgate_core::gate::ToolMode;
use taskgate_core::operation::{Effect, Replay};
use taskgate_engine::ids::SystemRandom;
use taskgate_gateway::config::{ServerPolicy, ToolPolicy};
use taskgate_keeper::attachment::{self, Attachment, Era, Reach, Text, Tool, Treatment};
use taskgate_keeper::key;
use taskgate_keeper::pipe;
use taskgate_workflow::Workflow;

use crate::args::Run;
use crate::commands::{keeper, probe};
use crate::config::load::{Source, load};
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

pub(crate) fn main(args: &Run, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let attachment = attachment(args, environment)?;
    if io::stdin().is_terminal() {
        ui.note(
            "taskgate run speaks MCP on stdin and stdout: a host starts it, from its mcp.json. \
             `taskgate probe -- COMMAND` shows what a server can do. Ctrl-D ends this.",
        );
    }
    let parts = pipe::Parts { attachment, surroundings: keeper::surroundings(environment) };
    match pipe::run(parts).context("could not begin")? {
        // Both are the host's will.
        pipe::Ended::HostClosed | pipe::Ended::HostGone => Ok(()),
    }
}

/// What the keeper is asked for.
fn attachment(args: &Run, environment: &Environment) -> Result<Attachment, Failure> {
    let mut treatment = Treatment::default();
    let mut era = Era::Auto;
    let reach = match &args.config {
        None => reach_command(&args.command, &[], None, InheritEnv::All, environment)?,
        Some(file) => {
            let (server, policy, within) = configured(args, file, environment)?;
            treatment = treatment_of(&policy);
            treatment.answer_within_ms = Some(within);
            era = match server.era {
                EraChoice::Auto => Era::Auto,
                EraChoice::Legacy => Era::Legacy,
                EraChoice::Modern => Era::Modern,
            };
            reach(&server.transport, environment)?
        }
    };
    treatment.trust_annotations |= args.trust_annotations;
    if let Some(within) = args.answer_within {
        treatment.answer_within_ms = Some(within.0.0);
    }
    Ok(Attachment {
        id: key::attachment_id(&SystemRandom),
        name: args.name.clone(),
        apart: args.apart,
        reach,
        era,
        treatment,
        host_pid: parent_id(),
    })
}

/// The server of that name in a configuration, its policy, and its sync budget in milliseconds. Limits that are the
/// keeper's own are not taken from there.
fn configured(
    args: &Run,
    file: &std::path::Path,
    environment: &Environment,
) -> Result<(ServerConfig, ServerPolicy, u64), Failure> {
    let config = load(&Source::Toml(file.to_owned()), environment)?;
    let name = args.name.clone().unwrap_or_default();
    let names: Vec<_> = config.servers.iter().map(|server| server.name.0.clone()).collect();
    let found = config.servers.into_iter().find(|server| server.name.0 == name);
    let policy = config.gateway.servers.into_iter().find(|policy| policy.name.0 == name);
    let (Some(mut server), Some(policy)) = (found, policy) else {
        let help = format!("these are configured: {}", names.join(", "));
        return Err(Failure::new(exit::USAGE, format!("no server {name:?} is configured"), help));
    };
    without_workflows(&name, &config.workflows)?;
    if let Some(typed) = probe::stdio(&name, &args.command) {
        server.transport = typed.transport;
    }
    Ok((server, policy, config.gateway.limits.sync_budget.0))
}

/// The keeper keeps no workflows. Calls that somebody declared to have keys, receipts and look-ups are not made without.
fn without_workflows(name: &str, workflows: &[Arc<Workflow>]) -> Result<(), Failure> {
    let of_server: Vec<_> = workflows
        .iter()
        .filter(|workflow| workflow.server.0 == name)
        .map(|workflow| &*workflow.name)
        .collect();
    if of_server.is_empty() {
        return Ok(());
    }
    let what = format!(
        "server {name:?} has workflows ({}), and the keeper keeps none: its calls would have no keys, receipts or look-ups",
        of_server.join(", ")
    );
    let help = "use `taskgate serve --config FILE`, or `taskgate run --foreground`, which keep them";
    Err(Failure::new(exit::CONFIG, what, help))
}

fn reach(transport: &Transport, environment: &Environment) -> Result<Reach, Failure> {
    match transport {
        Transport::Stdio { command, args, env, cwd, inherit_env } => {
            let words: Vec<OsString> = [command.clone()].into_iter().chain(args.iter().cloned()).collect();
            let own: Vec<(OsString, OsString)> =
                env.iter().map(|(name, value)| (name.into(), value.expose_os().to_owned())).collect();
            reach_command(&words, &own, cwd.clone(), *inherit_env, environment)
        }
        Transport::Http { url, headers } => Ok(Reach::Http {
            url: url.clone(),
            headers: headers
                .iter()
                .map(|(name, value)| (name.clone(), Text(value.expose().into())))
                .collect(),
        }),
    }
}

fn reach_command(
    command: &[OsString],
    own: &[(OsString, OsString)],
    folder: Option<PathBuf>,
    inherit: InheritEnv,
    environment: &Environment,
) -> Result<Reach, Failure> {
    if command.is_empty() {
        return Err(Failure::new(exit::USAGE, "no command was given", "write it after --"));
    }
    let mut variables = match inherit {
        InheritEnv::All => environment.all(),
        InheritEnv::Nothing => Vec::new(),
    };
    variables.retain(|(name, _)| !own.iter().any(|(other, _)| other == name));
    variables.extend(own.iter().cloned());
    // A folder that is gone is told by the one that starts the server, to the host.
    let folder = folder
        .or_else(|| std::env::current_dir().ok())
        .or_else(|| environment.text("PWD").map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("/"));
    Ok(Reach::Command {
        command: command.iter().map(|word| Text(word.clone())).collect(),
        folder: Text(folder.into_os_string()),
        environment: variables.into_iter().map(|(name, value)| (Text(name), Text(value))).collect(),
    })
}

fn treatment_of(policy: &ServerPolicy) -> Treatment {
    Treatment {
        trust_annotations: policy.trust_annotations,
        answer_within_ms: None,
        default: tool(policy.default),
        tools: policy.tools.iter().map(|(name, own)| (name.clone(), tool(*own))).collect(),
    }
}

fn tool(policy: ToolPolicy) -> Tool {
    Tool {
        effect: match policy.effect {
            Effect::ReadOnly => attachment::Effect::ReadOnly,
            Effect::Reversible => attachment::Effect::Reversible,
            Effect::Consequential => attachment::Effect::Consequential,
        },
        mode: match policy.mode {
            ToolMode::Auto => attachment::Mode::Auto,
            ToolMode::Task => attachment::Mode::Task,
            ToolMode::Sync => attachment::Mode::Sync,
        },
        replay: match policy.replay {
            Replay::Never => attachment::Replay::Never,
            Replay::Natural => attachment::Replay::Natural,
            Replay::Keyed { window } => attachment::Replay::KeyedMs(window.0),
        },
    }
}
