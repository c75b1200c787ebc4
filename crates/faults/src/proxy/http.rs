//! One HTTP connection: requests are read whole before they go on, so that a rule can name them by any of their bytes;
//! answers pass as they come.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use super::carry::{Flow, Passing, reset};
use super::meter::Meter;
use super::rule::{Close, Fault, Order, Side};
use super::{Framing, Shared};

/// How long a copy's answer is read, so that the server is not stopped by a full socket.
const DRAIN: Duration = Duration::from_secs(10);

pub(super) async fn connection(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (tell, mut told) = mpsc::unbounded_channel();
    let how = tokio::select! {
        how = requests(shared, &mut from_client, &mut to_server, &tell) => how,
        how = answers(&mut told, &mut from_server, &mut to_client) => how,
    };
    if how.unwrap_or(Close::Reset) == Close::Reset {
        reset(to_client);
        reset(to_server);
    }
}

/// Ends only when both connections must.
async fn requests(
    shared: &Arc<Shared>,
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    tell: &mpsc::UnboundedSender<Option<Arc<Order>>>,
) -> io::Result<Close> {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = next_request(from, &mut buffer).await? else {
            // The client says no more; the server still may.
            if !buffer.is_empty() {
                to.write_all(&buffer).await?;
            }
            to.shutdown().await?;
            return std::future::pending().await;
        };
        let order = shared.order_for(Side::Request, &request, Framing::Http);
        // Before the request, so that no answer comes without it.
        let _ = tell.send(order.clone());
        if let Some(order) = order.as_deref().filter(|order| order.rule.fault == Fault::Duplicate) {
            let copy = shared.connect().await?;
            order.fires();
            tokio::spawn(tokio::time::timeout(DRAIN, twice(copy, request.clone())));
        }
        match Passing::new(Side::Request, order.as_deref()).pass(&request, true, to).await? {
            Flow::On => {}
            Flow::Mute => return std::future::pending().await,
            Flow::End(how) => return Ok(how),
        }
    }
}

async fn twice(copy: TcpStream, request: Vec<u8>) {
    let (mut from, mut to) = copy.into_split();
    if to.write_all(&request).await.is_ok() {
        let mut meter = Meter::answer();
        let mut bytes = vec![0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            meter.take(&bytes[..count]);
            if meter.is_over() {
                break;
            }
        }
    }
}

async fn next_request(from: &mut OwnedReadHalf, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let mut meter = Meter::request();
    let mut seen = 0;
    loop {
        seen += meter.take(&buffer[seen..]);
        if meter.is_over() {
            let rest = buffer.split_off(seen);
            return Ok(Some(std::mem::replace(buffer, rest)));
        }
        if from.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

async fn answers(
    told: &mut mpsc::UnboundedReceiver<Option<Arc<Order>>>,
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
) -> io::Result<Close> {
    let mut buffer = vec![0; 16 * 1024];
    let mut left = 0..0;
    loop {
        // What comes before any request is nobody's answer, and ends the connection as it is. By the time that an answer can be
        // there its request was told of, so that is looked for first.
        let order = tokio::select! {
            biased;
            order = told.recv() => order.flatten(),
            count = from.read(&mut buffer), if left.is_empty() => {
                let count = count?;
                to.write_all(&buffer[..count]).await?;
                return Ok(Close::Fin);
            }
        };
        let mut meter = Meter::answer();
        let mut passing = Passing::new(Side::Answer, order.as_deref());
        let mut is_mute = false;
        while !meter.is_over() {
            if left.is_empty() {
                let count = from.read(&mut buffer).await?;
                if count == 0 {
                    return Ok(Close::Fin);
                }
                left = 0..count;
            }
            let count = meter.take(&buffer[left.clone()]);
            let bytes = &buffer[left.start..left.start + count];
            if !is_mute {
                match passing.pass(bytes, meter.is_over(), to).await? {
                    Flow::On => {}
                    Flow::Mute => is_mute = true,
                    Flow::End(how) => return Ok(how),
                }
            }
            left.start += count;
        }
    }
}
