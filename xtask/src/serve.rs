//! What the load generator is pointed at, besides the gateway.

pub(crate) mod back;
pub(crate) mod bare;
pub(crate) mod envelope;
pub(crate) mod intake;
pub(crate) mod stdio;
pub(crate) mod thin;

use std::io::Read;
use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::TcpListener;

/// Listens on a free port, says on stdout which, and sees to it that the process ends with its parent.
async fn listen() -> Result<TcpListener> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    println!("{}", listener.local_addr()?);
    std::thread::spawn(|| {
        // Whatever comes or fails: after it, nobody needs us.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    Ok(listener)
}
