//! The parts as processes of their own.
//!
//! Each prints one line of JSON once it can be used, with the port that it took: `{"port": 40123}`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::json;
use tokio::net::TcpListener;

use crate::server::{Kind, Server};

/// The parts of a fault campaign.
#[derive(Parser, Debug)]
#[command(name = "taskgate-faults")]
struct Parts {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// The service whose effects count
    Bank {
        /// Its books
        #[arg(long)]
        books: PathBuf,
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// An MCP server that pays through the bank
    Server {
        #[arg(long)]
        kind: Kind,
        /// Where the bank listens
        #[arg(long)]
        bank: SocketAddr,
        /// Where to note what it says
        #[arg(long)]
        said: Option<PathBuf>,
        /// Where to note the params of each call, as they came
        #[arg(long)]
        heard: Option<PathBuf>,
        /// Where to note its process id
        #[arg(long)]
        pid: Option<PathBuf>,
        /// Speak over stdin and stdout
        #[arg(long, conflicts_with_all = ["lines", "port"])]
        stdio: bool,
        /// Take each connection for stdin and stdout
        #[arg(long)]
        lines: bool,
        #[arg(long, default_value_t = 0)]
        port: u16,
    },
    /// A client that makes one call and prints what it learns, a line of JSON each
    Client {
        /// What to call, as JSON
        call: String,
    },
    /// A process whose stdin and stdout are a connection
    Bridge {
        /// Where to
        to: SocketAddr,
    },
}

/// Whether `arguments` (with the program's name first) name one of the parts.
#[must_use]
pub fn named(arguments: &[OsString]) -> bool {
    arguments
        .get(1)
        .and_then(|word| word.to_str())
        .is_some_and(|word| matches!(word, "bank" | "server" | "client" | "bridge"))
}

/// Runs the part that `arguments` name (with the program's name first) until it is killed or has nothing to do.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let parts = match Parts::try_parse_from(arguments) {
        Ok(parts) => parts,
        Err(error) => error.exit(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let ended = runtime.and_then(|runtime| {
        let ended = runtime.block_on(run(parts.part));
        // The thread that reads stdin cannot be called back.
        runtime.shutdown_background();
        ended
    });
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(part: Part) -> io::Result<()> {
    match part {
        Part::Bank { books, port } => {
            let (address, serving) = crate::bank::open(&books, port).await?;
            ready(address)?;
            serving.await;
            Ok(())
        }
        Part::Server { kind, bank, said, heard, pid, stdio, lines, port } => {
            if let Some(pid) = pid {
                std::fs::write(pid, std::process::id().to_string())?;
            }
            let server = Server::new(kind, bank, said.as_deref(), heard.as_deref())?;
            if stdio {
                return server.stdio().await;
            }
            let listener = TcpListener::bind(("127.0.0.1", port)).await?;
            ready(listener.local_addr()?)?;
            if lines {
                server.lines(listener).await
            } else {
                server.http(listener).await
            }
            Ok(())
        }
        Part::Client { call } => {
            let call: crate::client::Call = serde_json::from_str(&call)?;
            crate::client::play(&call, |heard| {
                let mut out = io::stdout();
                let _ = writeln!(out, "{}", json!(heard)).and_then(|()| out.flush());
            })
            .await;
            Ok(())
        }
        Part::Bridge { to } => crate::bridge::carry(to).await,
    }
}

fn ready(address: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{}", json!({ "port": address.port() }))?;
    out.flush()
}
