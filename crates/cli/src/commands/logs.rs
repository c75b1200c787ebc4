//! Log lines on stderr.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::args::LogForm;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// What is logged unless `TASKGATE_LOG` says otherwise.
const DEFAULT: &str = "info";

/// Begins to log. Only what runs for long does; other commands say what they have to say themselves.
pub(crate) fn begin(form: LogForm, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    let wanted = environment.log_filter().unwrap_or(DEFAULT);
    let filter = EnvFilter::try_new(wanted).map_err(|error| {
        Failure::new(
            exit::USAGE,
            format!("TASKGATE_LOG={wanted:?} is no filter: {error}"),
            "write a level (error, warn, info, debug, trace), or parts with levels: \
             \"info,taskgate_client=debug\"",
        )
    })?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // A failed write would be told on stderr itself, and panic there when whoever read it is gone.
        .log_internal_errors(false);
    let begun = match form {
        LogForm::Human => lines.with_ansi(ui.colours_logs()).with_target(false).try_init(),
        LogForm::Json => lines.json().flatten_event(true).try_init(),
    };
    begun.map_err(|error| anyhow::anyhow!("could not begin to log: {error}").into())
}
