//! `taskgate-peers NAME [--http PORT]`: becomes one of the servers that are written with a Rust SDK.
//!
//! They have the tools of the other fixtures and write the same journal; `tests/peers/README.md` has the table.

mod pmcp_server;
mod rmcp_server;
mod tools;
mod tower_server;

use std::env;
use std::process::exit;

use tokio::net::TcpListener;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = env::args().skip(1).collect();
    let (name, port) = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [name] => (name, None),
        [name, "--http", port] => (name, Some(port.parse::<u16>()?)),
        _ => usage(),
    };
    match (name, port) {
        ("rmcp_b", None) => rmcp_server::stdio().await,
        ("rmcp_b", Some(port)) => listen(rmcp_server::http(), port).await,
        ("tower_odd", None) => tower_server::stdio().await,
        ("tower_odd", Some(port)) => listen(tower_server::http(), port).await,
        ("pmcp_odd", None) => pmcp_server::stdio().await,
        ("pmcp_odd", Some(port)) => listen(pmcp_server::http()?, port).await,
        _ => usage(),
    }
}

fn usage() -> ! {
    eprintln!("usage: taskgate-peers rmcp_b|tower_odd|pmcp_odd [--http PORT]");
    exit(2);
}

/// Serves on loopback and says `ready PORT` once it accepts.
async fn listen(app: axum::Router, port: u16) -> Result<(), Failure> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("ready {}", listener.local_addr()?.port());
    axum::serve(listener, app).await?;
    Ok(())
}
