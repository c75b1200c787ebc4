//! `run --foreground`: one stdio server behind the gateway, over our own stdin and stdout.
//!
//! A host starts it in the place of the server's own command. Everything lives in this process, so when the host ends
//! it the server ends too; what was under way is decided at the next start, from the store.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use taskgate_client::config::ServerConfig;
use taskgate_core::id::ServerName;
use taskgate_engine::ids::{Random, SystemRandom};
use taskgate_engine::limits::Limits;
use taskgate_gateway::config::{GatewayConfig, ServerPolicy};
use taskgate_store::memory::MemoryStore;
use taskgate_store::{Error, Store};
use taskgate_store_sqlite::SqliteStore;
use taskgate_workflow::Workflow;
use tokio_util::sync::CancellationToken;

use crate::args::{LogForm, Run};
use crate::commands::house::{self, House, Plan};
use crate::commands::signals::Signals;
use crate::commands::{logs, probe, runtime};
use crate::config::Named;
use crate::config::load::{Source, load};
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::rules::Workflows;
use crate::ui::Ui;

/// How many processes may run the same command at once, each with a file of its own.
const FILES_MAX: usize = 64;

/// What is run, understood.
struct Intent {
    server: ServerConfig,
    policy: ServerPolicy,
    engine: Limits,
    gateway: GatewayConfig,
    workflows: Vec<Arc<Workflow>>,
    named: Vec<Named>,
}

/// Where its tasks are kept.
enum Keep {
    Nowhere,
    /// In this file.
    File(PathBuf),
    /// In the first file of this folder that nobody has open: `KEY.db`, `KEY-2.db` and so on.
    Folder(PathBuf, String),
}

pub(crate) fn main(args: &Run, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let intent = intent(args, environment)?;
    let keep = keep(args, environment, &intent.server)?;
    logs::begin(args.log.unwrap_or(LogForm::Human), environment, ui)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(run(intent, keep));
    // A read of stdin may still be under way in a thread, and cannot be called back.
    runtime.shutdown_background();
    ended
}

fn intent(args: &Run, environment: &Environment) -> Result<Intent, Failure> {
    let Some(file) = &args.config else {
        let name = args.name.clone().unwrap_or_else(|| name_of(&args.command));
        let server = probe::stdio(&name, &args.command)
            .ok_or_else(|| Failure::new(exit::USAGE, "no command was given", "write it after --"))?;
        let policy = ServerPolicy::new(ServerName(name));
        let gateway = GatewayConfig::new(vec![policy.clone()]);
        let (workflows, named) = (Vec::new(), Vec::new());
        return Ok(Intent { server, policy, engine: Limits::default(), gateway, workflows, named });
    };
    let config = load(&Source::Toml(file.clone()), environment)?;
    let name = ServerName(args.name.clone().unwrap_or_default());
    let names: Vec<_> = config.servers.iter().map(|server| server.name.0.clone()).collect();
    let found = config.servers.into_iter().find(|server| server.name == name);
    let policy = config.gateway.servers.iter().find(|policy| policy.name == name).cloned();
    let (Some(mut server), Some(policy)) = (found, policy) else {
        let help = format!("these are configured: {}", names.join(", "));
        return Err(Failure::new(exit::USAGE, format!("no server {:?} is configured", name.0), help));
    };
    if let Some(typed) = probe::stdio(&name.0, &args.command) {
        server.transport = typed.transport;
    }
    let gateway = GatewayConfig { servers: vec![policy.clone()], ..config.gateway };
    let (workflows, named) = (config.workflows, config.named);
    Ok(Intent { server, policy, engine: config.engine, gateway, workflows, named })
}

/// The program's name, without its folder.
pub(super) fn name_of(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_stem);
    program.map_or_else(|| "server".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn keep(args: &Run, environment: &Environment, server: &ServerConfig) -> Result<Keep, Failure> {
    if args.ephemeral {
        return Ok(Keep::Nowhere);
    }
    if let Some(file) = &args.store {
        return Ok(Keep::File(file.clone()));
    }
    let folder = environment.state_dir().ok_or_else(|| {
        Failure::new(
            exit::STORE,
            "there is no place to keep tasks: neither XDG_STATE_HOME nor HOME is set",
            "name a file with --store FILE, or keep nothing with --ephemeral",
        )
    })?;
    Ok(Keep::Folder(folder.join("run"), key(&server.name.0, &args.command)))
}

/// Names the files of one command, so that its next start finds its tasks again.
fn key(name: &str, command: &[OsString]) -> String {
    let mut hash = Sha256::new();
    for part in command {
        hash.update(part.as_encoded_bytes());
        hash.update([0]);
    }
    let folder = std::env::current_dir().unwrap_or_default();
    hash.update(folder.as_os_str().as_encoded_bytes());
    let readable: String =
        name.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).take(32).collect();
    let digest = HEXLOWER.encode(&hash.finalize());
    format!("{readable}-{}", digest.get(..12).unwrap_or_default())
}

async fn open(keep: Keep) -> Result<Arc<dyn Store>, Failure> {
    match keep {
        Keep::Nowhere => {
            let mut secret = [0; 32];
            SystemRandom.fill(&mut secret);
            Ok(Arc::new(MemoryStore::with_secret(secret)))
        }
        Keep::File(file) => Ok(Arc::new(house::open_store(file, None).await?)),
        Keep::Folder(folder, key) => {
            let opened = tokio::task::spawn_blocking(move || first_free(&folder, &key)).await;
            Ok(Arc::new(opened.context("could not open the database")??))
        }
    }
}

fn first_free(folder: &Path, key: &str) -> Result<SqliteStore, Error> {
    let mut last = None;
    for number in 1..=FILES_MAX {
        let name = if number == 1 { format!("{key}.db") } else { format!("{key}-{number}.db") };
        match SqliteStore::open(&folder.join(name)) {
            Err(error @ Error::InUse { .. }) => last = Some(error),
            opened => return opened,
        }
    }
    Err(last.unwrap_or(Error::Closed))
}

async fn run(intent: Intent, keep: Keep) -> Result<(), Failure> {
    let mut signals = Signals::catch().context("could not listen for signals")?;
    let Intent { server, policy, engine, gateway, workflows, named } = intent;
    let store = open(keep).await?;
    let rules = Arc::new(Workflows::new(&workflows));
    let plan = Plan { store, servers: vec![server], engine, gateway, rules, named: Some(named) };
    let house = House::build(plan).await?;
    let shutdown = CancellationToken::new();
    let (asked, engine) = (shutdown.clone(), house.engine.clone());
    let watch = tokio::spawn(async move {
        tokio::select! {
            () = signals.next() => {}
            _ = engine.lost() => {}
        }
        asked.cancel();
        signals.next().await;
        std::process::exit(i32::from(exit::INTERRUPTED));
    });
    let served =
        house.gateway.serve_stdio(tokio::io::stdin(), tokio::io::stdout(), &policy.name, shutdown).await;
    let left = house.leave().await;
    watch.abort();
    left?;
    Ok(served.context("the pipe to the client failed")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_finds_its_own_file_again_and_no_other() {
        let one = [OsString::from("npx"), "-y".into(), "files".into()];
        let other = [OsString::from("npx"), "-y".into(), "search".into()];
        assert_eq!(key("npx", &one), key("npx", &one));
        assert_ne!(key("npx", &one), key("npx", &other));
        assert!(key("a/b c", &one).starts_with("abc-"));
    }

    #[test]
    fn a_server_is_named_by_its_program() {
        assert_eq!(name_of(&[OsString::from("/usr/bin/files.py")]), "files");
    }
}
