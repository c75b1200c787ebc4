//! `run`: a pipe to the user's keeper, which holds the server and the tasks.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use anyhow::Context;
use taskgate_client::config::{EraChoice, InheritEnv, Transport};
use taskgate_core::gate::ToolMode;
use taskgate_core::operation::{Effect, Replay};
use taskgate_engine::ids::SystemRandom;
use taskgate_gateway::config::{ServerPolicy, ToolPolicy};
use taskgate_keeper::attachment::{
    self, Asked, Attachment, Declared, Era, Reach, Sheet, Text, Tool, Treatment,
};
use taskgate_keeper::pipe;
use taskgate_keeper::{hello, key};

use crate::args::Run;
use crate::commands::{keeper, probe};
use crate::config::handed::{Handed, hand};
use crate::config::load::load_written;
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
    let mut surroundings = keeper::surroundings(environment);
    if attachment.workflows.is_some() {
        // One that takes no notice of them would make calls without their keys.
        surroundings.protocol = hello::PROTOCOL;
    }
    let parts = pipe::Parts { attachment, surroundings };
    match pipe::run(parts).context("could not begin")? {
        // Both are the host's will.
        pipe::Ended::HostClosed | pipe::Ended::HostGone => Ok(()),
    }
}

/// What the keeper is asked for.
fn attachment(args: &Run, environment: &Environment) -> Result<Attachment, Failure> {
    let mut attachment = match &args.config {
        None => Attachment {
            id: key::attachment_id(&SystemRandom),
            name: args.name.clone(),
            apart: args.apart,
            reach: reach_command(&args.command, &[], None, InheritEnv::All, environment)?,
            era: Era::Auto,
            treatment: Treatment::default(),
            workflows: None,
            host_pid: parent_id(),
        },
        Some(file) => configured(args, file, environment)?,
    };
    attachment.treatment.trust_annotations |= args.trust_annotations;
    if let Some(within) = args.answer_within {
        attachment.treatment.answer_within_ms = Some(within.0.0);
    }
    Ok(attachment)
}

/// The server of that name in a configuration, with its policy, its workflows, and the sync budget. Limits that are the
/// keeper's own are not taken from there.
fn configured(args: &Run, file: &Path, environment: &Environment) -> Result<Attachment, Failure> {
    let (config, raw) = load_written(file, environment)?;
    let name = args.name.clone().unwrap_or_default();
    let find = |name: &str| config.servers.iter().find(|server| server.name.0 == name);
    let policy = config.gateway.servers.iter().find(|policy| policy.name.0 == name);
    let (Some(server), Some(policy)) = (find(&name), policy) else {
        let names: Vec<_> = config.servers.iter().map(|server| server.name.0.clone()).collect();
        let help = format!("these are configured: {}", names.join(", "));
        return Err(Failure::new(exit::USAGE, format!("no server {name:?} is configured"), help));
    };
    let reach_own = match probe::stdio(&name, &args.command) {
        Some(typed) => reach(&typed.transport, environment)?,
        None => reach(&server.transport, environment)?,
    };
    let has_headers = matches!(reach_own, Reach::Http { .. });
    let handed = hand(&raw, &config, &name, has_headers, environment)
        .map_err(|fault| Failure::new(exit::CONFIG, fault.what, fault.help))?;
    let declared = |Handed { sheet, written, asked }| -> Result<Declared, Failure> {
        let asked = asked.iter().filter_map(|name| find(&name.0)).map(|server| {
            let asked = Asked { reach: reach(&server.transport, environment)?, era: era(server.era) };
            Ok((server.name.0.clone(), asked))
        });
        // It was just read.
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let asked = asked.collect::<Result<_, Failure>>()?;
        Ok(Declared { file: Text(file.into_os_string()), written, sheet: Sheet(sheet), asked })
    };
    Ok(Attachment {
        id: key::attachment_id(&SystemRandom),
        name: Some(name),
        apart: args.apart,
        reach: reach_own,
        era: era(server.era),
        treatment: Treatment {
            answer_within_ms: Some(config.gateway.limits.sync_budget.0),
            ..treatment_of(policy)
        },
        workflows: handed.map(declared).transpose()?,
        host_pid: parent_id(),
    })
}

fn era(era: EraChoice) -> Era {
    match era {
        EraChoice::Auto => Era::Auto,
        EraChoice::Legacy => Era::Legacy,
        EraChoice::Modern => Era::Modern,
    }
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
