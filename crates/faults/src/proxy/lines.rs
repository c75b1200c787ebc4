//! One connection of lines. Both directions are alike, and a line is read whole before it goes on.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::carry::{Flow, Passing, reset};
use super::rule::{Close, Fault, Side};
use super::{Framing, Shared};

pub(super) async fn connection(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    let (from_client, mut to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    let how = tokio::select! {
        how = way(shared, Side::Request, from_client, &mut to_server) => how,
        how = way(shared, Side::Answer, from_server, &mut to_client) => how,
    };
    if how.unwrap_or(Close::Reset) == Close::Reset {
        reset(to_client);
        reset(to_server);
    }
}

async fn way(shared: &Shared, side: Side, from: OwnedReadHalf, to: &mut OwnedWriteHalf) -> io::Result<Close> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        if from.read_until(b'\n', &mut line).await? == 0 {
            return match side {
                // Whoever reads answers may still have some to read.
                Side::Request => {
                    to.shutdown().await?;
                    std::future::pending().await
                }
                Side::Answer => Ok(Close::Fin),
            };
        }
        let order = shared.order_for(side, &line, Framing::Lines);
        if let Some(order) = order.as_deref().filter(|order| order.rule.fault == Fault::Duplicate) {
            to.write_all(&line).await?;
            order.fires();
        }
        match Passing::new(side, order.as_deref()).pass(&line, true, to).await? {
            Flow::On => {}
            Flow::Mute => return std::future::pending().await,
            Flow::End(how) => return Ok(how),
        }
    }
}
