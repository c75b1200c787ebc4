//! `demo`: real processes, a real kill, and what three kinds of client see of it.
//!
//! - `stage`, `children`: what runs, and that nothing is left behind
//! - `script`: the acts
//! - `clients`, `wire`: the clients that are played
//! - `tell`: the words

mod children;
mod clients;
mod script;
mod stage;
mod tell;
mod wire;

use std::time::Duration;

use anyhow::Context;

use self::stage::Stage;
use self::tell::Tell;
use crate::args::Demo;
use crate::commands::runtime;
use crate::commands::signals::Signals;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// The play is over long before; what hangs this long is broken.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn main(args: &Demo, ui: Ui) -> Result<(), Failure> {
    runtime()?.block_on(async {
        // From here on Ctrl-C reaches only this process, and it clears the stage.
        let mut signals = Signals::catch().context("could not listen for signals")?;
        let mut tell = Tell::new(ui);
        let setting = Stage::set(args.port, args.report_seconds * 1000);
        let mut stage = tokio::select! {
            stage = setting => stage?,
            () = signals.next() => return Err(Failure::said(exit::INTERRUPTED)),
        };
        let patience = PATIENCE + Duration::from_secs(args.report_seconds);
        let ended = tokio::select! {
            played = tokio::time::timeout(patience, script::play(&mut stage, &mut tell)) => match played {
                Ok(played) => judge(played, &tell, &stage, ui),
                Err(_) => judge(Err(anyhow::anyhow!("the demo hangs")), &tell, &stage, ui),
            },
            () = signals.next() => Err(Failure::said(exit::INTERRUPTED)),
        };
        if ended.is_ok() && !args.exit {
            stay(&stage, ui)?;
            signals.next().await;
            ui.note("stopping");
        }
        stage.clear().await;
        ended
    })
}

fn judge(played: anyhow::Result<()>, tell: &Tell, stage: &Stage, ui: Ui) -> Result<(), Failure> {
    let broken = match played {
        Ok(()) if tell.broken() == 0 => {
            ui.out("\nEverything held.");
            return Ok(());
        }
        Ok(()) => format!("{} promises did not hold", tell.broken()),
        Err(error) => format!("the demo broke off: {error:#}"),
    };
    let log = std::fs::read_to_string(stage.log()).unwrap_or_default();
    let last: Vec<_> = log.lines().rev().take(20).collect();
    ui.note("the gateway's last log lines:");
    for line in last.iter().rev() {
        ui.note(&format!("  {line}"));
    }
    Err(Failure::new(exit::DEMO, broken, "please report this, with the lines above"))
}

/// What a person can try now.
fn stay(stage: &Stage, ui: Ui) -> Result<(), Failure> {
    let url = stage.url()?;
    ui.out("\nThe gateway stays up for you, with the demo server behind it. Ctrl-C ends both.\n");
    ui.out(&format!("  endpoint   {url}"));
    ui.out(&format!("  effects    {}", stage.effects_url()?));
    ui.out(&format!("  files      {}", stage.folder().display()));
    ui.out("\nTry it with a client of yours:\n");
    ui.out(&format!(
        "  npx @modelcontextprotocol/inspector --cli {url} --transport http --method tools/list"
    ));
    ui.out(&format!("  claude mcp add --transport http taskgate-demo {url}"));
    let me = std::env::current_exe().context("could not find out where this program is")?;
    ui.out(&format!("  {} probe {url}", me.display()));
    ui.out("\nor in an mcp.json:\n");
    ui.out(&format!("  {{\"mcpServers\": {{\"demo\": {{\"type\": \"http\", \"url\": \"{url}\"}}}}}}"));
    Ok(())
}
