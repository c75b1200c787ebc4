//! `serve`: the HTTP gateway for the configured servers.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;
use taskgate_core::id::Principal;
use tokio_util::sync::CancellationToken;

use super::house::{self, House, Plan};
use super::signals::{Signals, stdin_ended};
use super::{listen, logs, runtime};
use crate::args::{Given, Serve};
use crate::config::Config;
use crate::config::load::{Source, load};
use crate::config::understand::listen_address;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::rules::Workflows;
use crate::ui::Ui;

/// Where one server answers.
#[derive(Serialize)]
struct Endpoint<'a> {
    server: &'a str,
    url: String,
}

pub(crate) fn main(args: &Serve, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    // All that can be wrong with words is found before anything is opened.
    let config = understood(args, environment)?;
    logs::begin(args.log, environment, ui)?;
    let runtime = runtime()?;
    let ended = runtime.block_on(serve(config, args, ui));
    // A read of stdin may still be under way in a thread, and cannot be called back.
    runtime.shutdown_background();
    ended
}

/// Where the configuration stands: flags before the environment.
pub(crate) fn source(given: &Given, environment: &Environment) -> Result<Source, Failure> {
    match (&given.config, &given.mcp_json, environment.text("TASKGATE_CONFIG")) {
        (Some(file), _, _) => Ok(Source::Toml(file.clone())),
        (None, Some(file), _) => Ok(Source::McpJson(file.clone())),
        (None, None, Some(file)) => Ok(Source::Toml(file.into())),
        (None, None, None) => Err(Failure::new(
            exit::USAGE,
            "no configuration was named",
            "use --config FILE, or --mcp-json FILE with an mcp.json that you have; `taskgate demo` needs neither",
        )),
    }
}

fn understood(args: &Serve, environment: &Environment) -> Result<Config, Failure> {
    let mut config = load(&source(&args.given, environment)?, environment)?;
    if let Some(text) = args.listen.as_deref().or_else(|| environment.text("TASKGATE_LISTEN")) {
        config.address =
            listen_address(text).map_err(|(what, help)| Failure::new(exit::ADDRESS, what, help))?;
    }
    if let Some(path) = args.store.clone().or_else(|| environment.text("TASKGATE_STORE").map(Into::into)) {
        config.store = Some(path);
    }
    Ok(config)
}

async fn serve(config: Config, args: &Serve, ui: Ui) -> Result<(), Failure> {
    let mut signals = Signals::catch().context("could not listen for signals")?;
    // The port is ours before the database is touched, and answers only after recovery.
    let taken = listen::take(config.address)?;
    let path = house::store_path(config.store.as_deref())?;
    let store = house::open_store(path.clone(), config.store_bytes_max).await?;
    let Config { servers, engine, gateway, workflows, named, .. } = config;
    let paths: Vec<_> =
        gateway.servers.iter().map(|policy| (policy.name.0.clone(), policy.path.clone())).collect();
    let rules = Arc::new(Workflows::new(&workflows));
    let plan = Plan { store: Arc::new(store), servers, engine, gateway, rules, named: Some(named) };
    let house = House::build(plan).await?;
    let listener = taken.listen()?;
    let address = listener.local_addr().context("could not find out the port")?;
    let shutdown = CancellationToken::new();
    // Whoever reads the announcement may ask at once.
    let counter = house.answer_commands(&path, shutdown.clone());
    announce(address, &paths, args.json, ui);
    house.knock(&Principal::anonymous());
    let (asked, engine) = (shutdown.clone(), house.engine.clone());
    let until_stdin_ends = args.until_stdin_ends;
    let watch = tokio::spawn(async move {
        let is_asked = tokio::select! {
            () = signals.next() => true,
            () = stdin_ended(), if until_stdin_ends => true,
            // A process that can record nothing more is of no use, and would look as if it were.
            _ = engine.lost() => false,
        };
        if is_asked {
            tracing::info!("stopping; a second signal stops at once");
        }
        asked.cancel();
        signals.next().await;
        // The guard ends our servers, and the next start takes up what was unfinished.
        std::process::exit(i32::from(exit::INTERRUPTED));
    });
    let served = house.gateway.serve_http(listener, shutdown.clone()).await;
    shutdown.cancel();
    // Its socket goes before the store is closed, so that nobody finds one without the other.
    counter.end().await;
    let left = house.leave().await;
    watch.abort();
    left?;
    Ok(served.context("the listener failed")?)
}

fn announce(address: SocketAddr, paths: &[(String, String)], json: bool, ui: Ui) {
    let width = paths.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    for (server, path) in paths {
        let url = format!("http://{address}{path}");
        if json {
            ui.json(&Endpoint { server, url });
        } else {
            ui.out(&format!("{server:width$}  {url}"));
        }
    }
    if let ([(server, _)], false) = (paths, json) {
        ui.out(&format!("{server:width$}  http://{address}/mcp"));
    }
}
