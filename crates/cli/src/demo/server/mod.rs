//! A small MCP server whose effects can be counted: the demo's, the guide's, and the tests' and benches' fast backend.
//!
//! It is a process of its own, so it survives the gateway's death. It speaks dialect B, dialect A or neither, and
//! `GET /effects` says how often each effect happened.
//!
//! - `http`, `stdio`: requests in, answers out
//! - `message`: JSON-RPC as it needs it
//! - `modern`, `legacy`: the methods of either era
//! - `tools`, `work`: what can be called, and what that does
//! - `tasks`: its tasks
//! - `journal`: what happened to the world

mod http;
mod journal;
mod legacy;
mod message;
mod modern;
mod stdio;
mod tasks;
mod tools;
mod work;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::Serialize;
use tokio::net::TcpListener;

use self::journal::Journal;
use self::tasks::Tasks;
use crate::args::{DemoServer, Dialect};
use crate::commands::listen;
use crate::commands::signals::stdin_ended;
use crate::exit;
use crate::failure::Failure;
use crate::ui::Ui;

/// Everything that the server is.
struct Shop {
    dialect: Dialect,
    report: Duration,
    journal: Journal,
    tasks: Tasks,
}

/// What it prints once it listens.
#[derive(Serialize)]
struct Ready {
    url: String,
    effects: String,
}

/// Runs the server until it is killed, or its stdin ends if that was asked for.
pub(crate) fn main(args: &DemoServer, ui: Ui) -> Result<(), Failure> {
    let runtime = crate::commands::runtime()?;
    let ended = runtime.block_on(async {
        let journal = Journal::open(args.journal.as_deref()).map_err(|error| {
            let place = args.journal.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
            Failure::new(
                exit::FAILED,
                format!("{place} cannot be written: {error}"),
                "choose another --journal",
            )
        })?;
        let report = Duration::from_millis(args.report_ms);
        let dialect = args.dialect.unwrap_or(if args.stdio { Dialect::Plain } else { Dialect::B });
        let shop = Arc::new(Shop { dialect, report, journal, tasks: Tasks::default() });
        if args.stdio {
            if dialect == Dialect::B {
                let help = "use --dialect plain or --dialect a with --stdio";
                return Err(Failure::new(
                    exit::USAGE,
                    "the demo server speaks 2026-07-28 over HTTP only",
                    help,
                ));
            }
            return Ok(stdio::serve(&shop).await.context("stdout cannot be written")?);
        }
        let listener = listen::bind(args.listen).await?;
        let address = listener.local_addr().map_err(anyhow::Error::from)?;
        ui.json(&Ready {
            url: format!("http://{address}/mcp"),
            effects: format!("http://{address}/effects"),
        });
        tokio::select! {
            () = accept(listener, shop) => {}
            () = stdin_ended(), if args.until_stdin_ends => {}
        }
        Ok(())
    });
    runtime.shutdown_background();
    ended
}

async fn accept(listener: TcpListener, shop: Arc<Shop>) {
    loop {
        // A connection that failed before it began is its client's affair; when descriptors ran out, some are
        // given back meanwhile.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        // Answers are small and awaited.
        let _ = stream.set_nodelay(true);
        let shop = shop.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| http::answer(&shop, request));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service);
            // A connection that breaks is nothing that this server could mend.
            let _ = connection.await;
        });
    }
}
