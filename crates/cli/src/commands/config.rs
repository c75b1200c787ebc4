//! `config check`, and what the documents are generated with.

use serde::Serialize;

use crate::args::Config as Args;
use crate::config::advice::advice;
use crate::config::load::{Source, load};
use crate::config::problem::ProblemLine;
use crate::config::reference;
use crate::environment::Environment;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

#[derive(Serialize)]
struct Report<'a> {
    ok: bool,
    servers: Vec<&'a str>,
    problems: Vec<ProblemLine<'a>>,
    /// What may be right, and is worth a second look.
    advice: Vec<String>,
}

pub(crate) fn main(args: Args, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    match args {
        Args::Check { file, mcp_json, json } => {
            let source = match (file, mcp_json) {
                (Some(file), _) => Source::Toml(file),
                (None, Some(file)) => Source::McpJson(file),
                // One of them is required.
                (None, None) => return Err(Failure::new(exit::USAGE, "no file was named", "name one")),
            };
            check(&source, json, environment, ui)
        }
        Args::Reference => {
            ui.raw(&reference::page());
            Ok(())
        }
        Args::Schema => {
            ui.raw(&reference::schema_text());
            Ok(())
        }
    }
}

fn check(source: &Source, json: bool, environment: &Environment, ui: Ui) -> Result<(), Failure> {
    match load(source, environment) {
        Ok(config) => {
            let servers: Vec<_> = config.servers.iter().map(|server| server.name.0.as_str()).collect();
            let advice = advice(&config);
            if json {
                ui.json(&Report { ok: true, servers, problems: Vec::new(), advice });
            } else {
                ui.out(&format!("the configuration is sound; servers: {}", servers.join(", ")));
                advice.iter().for_each(|words| ui.note(&format!("advice: {words}")));
            }
            Ok(())
        }
        Err(problems) if json => {
            let problems = problems.iter().flat_map(|file| file.lines()).collect();
            ui.json(&Report { ok: false, servers: Vec::new(), problems, advice: Vec::new() });
            Err(Failure::said(exit::CONFIG))
        }
        Err(problems) => Err(problems.into()),
    }
}
