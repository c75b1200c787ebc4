//! The keeper itself: `taskgate __keeper`, started by `run`.

use std::panic;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use taskgate_engine::limits::Limits;
use taskgate_gateway::config::GatewayConfig;
use taskgate_keeper::door;
use taskgate_keeper::keeper::{Keeper, Parts};
use taskgate_keeper::lock::Lock;
use taskgate_keeper::logs::{KEEPER, Log};
use taskgate_keeper::place::{Place, Trouble};
use taskgate_keeper::start::{self, Complaint};
use taskgate_store::Error as StoreError;
use taskgate_store_sqlite::SqliteStore;
use tracing_subscriber::EnvFilter;

use crate::args::KeeperProcess;
use crate::commands::house::{House, Plan};
use crate::commands::runtime;
use crate::commands::signals::Signals;
use crate::config::units::Span;
use crate::environment::Environment;
use crate::exit;
use crate::failure::{Failure, Words};
use crate::rules::{Kept, Workflows};
use crate::ui::Ui;

/// How long a keeper stays for nobody, unless `TASKGATE_KEEPER_IDLE` says otherwise.
const IDLE: Duration = Duration::from_secs(60);

pub(crate) fn main(args: &KeeperProcess, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let place = Place::at(args.folder.clone(), args.fallback);
    if !args.detached {
        return Ok(start::detach(&place).context("could not start the keeper")?);
    }
    match keep(&place, environment) {
        Ok(()) => Ok(()),
        Err(Ended::NotStarted(complaint)) => {
            tracing::error!(what = complaint.message, "the keeper cannot start");
            // Whoever started us listens until we are ready.
            ui.note(&start::complaint(&complaint));
            Err(Failure::said(exit::FAILED))
        }
        // Nobody reads its stderr any more.
        Err(Ended::StoreLost(failure)) => {
            tracing::error!(what = words(&failure), "the keeper has ended");
            Err(Failure::said(failure.code))
        }
    }
}

/// How a keeper ended badly.
enum Ended {
    /// It never was one.
    NotStarted(Complaint),
    /// It was, until it lost its store.
    StoreLost(Failure),
}

impl From<Complaint> for Ended {
    fn from(complaint: Complaint) -> Ended {
        Ended::NotStarted(complaint)
    }
}

fn keep(place: &Place, environment: &Environment) -> Result<(), Ended> {
    place.prepare().map_err(trouble)?;
    let Some(lock) = Lock::take(place).map_err(trouble)? else {
        // Another one is the keeper.
        return Ok(());
    };
    begin_log(place, environment);
    let runtime = runtime().map_err(failed)?;
    let ended = runtime.block_on(live(place, environment));
    // Nothing that still runs matters any more; the lock goes with the process at the latest.
    runtime.shutdown_background();
    drop(lock);
    ended
}

async fn live(place: &Place, environment: &Environment) -> Result<(), Ended> {
    let mut signals =
        Signals::catch().map_err(|error| other(format!("could not listen for signals: {error}")))?;
    let path = place.store();
    let store = tokio::task::spawn_blocking(move || SqliteStore::open(&path))
        .await
        .map_err(|_| other("the database could not be opened".to_owned()))?
        .map_err(|error| Complaint { elsewhere: is_unwritable(&error), message: error.to_string() })?;
    let rules = Arc::new(Workflows::kept(place.workflows()));
    let plan = Plan {
        store: Arc::new(store),
        servers: Vec::new(),
        engine: Limits::default(),
        gateway: GatewayConfig::new(Vec::new()),
        rules: rules.clone(),
        named: None,
    };
    let house = House::build(plan).await.map_err(failed)?;
    let patience = house.patience;
    let keeper = Keeper::new(Parts {
        place: place.clone(),
        engine: house.engine.clone(),
        servers: house.servers.clone(),
        gateway: house.gateway.clone(),
        workflows: Arc::new(Kept(rules)),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        idle: idle(environment),
        patience,
    })
    .map_err(|error| other(format!("could not begin: {error}")))?;
    let listener = door::open(place)
        .map_err(|error| other(format!("could not listen at {}: {error}", place.socket().display())))?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        folder = %place.folder().display(),
        is_fallback = place.is_fallback(),
        "the keeper is ready"
    );
    if place.is_fallback() {
        tracing::warn!(
            "the state folder cannot be written: tasks are kept here, and perhaps survive no reboot"
        );
    }
    start::ready().map_err(|error| other(format!("could not let go of stderr: {error}")))?;
    let told = keeper.clone();
    let watch = tokio::spawn(async move {
        signals.next().await;
        told.stop(false);
        signals.next().await;
        told.stop(true);
    });
    let (reason, left) = keeper.serve(listener).await;
    let ended = house.leave_within(left).await;
    keeper.say_farewell().await;
    watch.abort();
    ended.map_err(Ended::StoreLost)?;
    tracing::info!(?reason, "the keeper has ended");
    Ok(())
}

fn idle(environment: &Environment) -> Duration {
    let Some(text) = environment.text("TASKGATE_KEEPER_IDLE") else { return IDLE };
    match Span::parse(text) {
        Ok(span) => span.duration(),
        Err(error) => {
            tracing::warn!(%error, "TASKGATE_KEEPER_IDLE is not understood: 60 s it is");
            IDLE
        }
    }
}

/// Logs into a file that turns by size. A log that cannot be had stops nothing.
fn begin_log(place: &Place, environment: &Environment) {
    let wanted = environment.log_filter().unwrap_or("info");
    let (filter, bad) = match EnvFilter::try_new(wanted) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let begun = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Mutex::new(Log::new(place.log(), KEEPER)))
        .with_ansi(false)
        .with_target(false)
        .log_internal_errors(false)
        .try_init();
    if begun.is_ok() {
        panic::set_hook(Box::new(|info| {
            // Its words may quote a payload.
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            tracing::error!(place, "a defect of taskgate: a panic");
        }));
    }
    if let Some(error) = bad {
        tracing::warn!(%error, "TASKGATE_LOG is not understood: info it is");
    }
}

fn trouble(trouble: Trouble) -> Complaint {
    let elsewhere = matches!(trouble, Trouble::CannotWrite { .. });
    Complaint { elsewhere, message: trouble.to_string() }
}

fn failed(failure: Failure) -> Complaint {
    other(words(&failure))
}

fn other(message: String) -> Complaint {
    Complaint { elsewhere: false, message }
}

fn words(failure: &Failure) -> String {
    match &failure.words {
        Words::Plain { what, help: Some(help) } => format!("{what}; {help}"),
        Words::Plain { what, help: None } => what.clone(),
        Words::Config(_) | Words::Said => failure.to_string(),
    }
}

/// Whether another place may do.
fn is_unwritable(error: &StoreError) -> bool {
    match error {
        StoreError::Full { .. } | StoreError::ReadOnly { .. } => true,
        StoreError::Open { .. }
        | StoreError::InUse { .. }
        | StoreError::Newer { .. }
        | StoreError::Damaged { .. }
        | StoreError::Corrupt { .. }
        | StoreError::Broken { .. }
        | StoreError::Closed
        | StoreError::Backend { .. } => false,
    }
}
