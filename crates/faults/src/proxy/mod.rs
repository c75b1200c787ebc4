//! What stands on a line between two processes and breaks it exactly where it is told to.
//!
//! It carries messages: HTTP requests with their answers, or lines. A [`Rule`] names a message by bytes that stand in
//! it and says what becomes of it. What no rule names passes untouched, byte for byte. Nothing here is random.
//!
//! - [`rule`]: what can be ordered, and what is known of an order
//! - `meter`: where an HTTP message ends
//! - `carry`: one message to where it goes
//! - `http`, `lines`: one connection

mod carry;
mod http;
mod lines;
mod meter;
pub mod rule;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use self::rule::Order;
pub use self::rule::{Armed, Close, Fault, Progress, Rule, Side};

/// What a connection carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// HTTP/1.1. A rule names a request; what it says of an answer holds for the answer to that request.
    Http,
    /// Lines in both directions. What a rule says of an answer holds for an answer that has its bytes.
    Lines,
}

/// A proxy. It stops, with all its connections, when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    /// Where to; `None` is a server that is away: connections are reset.
    upstream: Mutex<Option<SocketAddr>>,
    orders: Mutex<Vec<Arc<Order>>>,
}

impl Proxy {
    /// Listens on a free port of the loopback interface.
    ///
    /// # Errors
    /// If there is none.
    pub async fn start(framing: Framing, upstream: Option<SocketAddr>) -> io::Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { upstream: Mutex::new(upstream), orders: Mutex::default() });
        let serving = tokio::spawn(serve(shared.clone(), listener, framing));
        Ok(Proxy { address, shared, serving })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on new connections lead here, or, with `None`, are reset. Those that are open stay.
    pub fn lead_to(&self, upstream: Option<SocketAddr>) {
        *self.shared.upstream.lock().unwrap_or_else(PoisonError::into_inner) = upstream;
    }

    /// Gives an order. It holds until it was carried out or what is returned is dropped.
    #[must_use]
    pub fn arm(&self, rule: Rule) -> Armed {
        let order = Arc::new(Order::new(rule));
        self.shared.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order.clone());
        Armed::new(order)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    /// The order for a message on `side`, if there is one: the oldest that names it and whose turn has come.
    fn order_for(&self, side: Side, message: &[u8], framing: Framing) -> Option<Arc<Order>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.retain(|order| !order.is_done());
        let mut found = None;
        for order in orders.iter() {
            let looks_here = match framing {
                Framing::Http => side == Side::Request,
                Framing::Lines => order.rule.fault.side() == side,
            };
            if looks_here && found.is_none() && order.takes(message) {
                found = Some(order.clone());
            }
        }
        found
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let to = *self.upstream.lock().unwrap_or_else(PoisonError::into_inner);
        let to = to.ok_or(io::ErrorKind::ConnectionRefused)?;
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

async fn serve(shared: Arc<Shared>, listener: TcpListener, framing: Framing) {
    // Connections end with this future.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        while connections.try_join_next().is_some() {}
        let _ = client.set_nodelay(true);
        let shared = shared.clone();
        connections.spawn(async move {
            let Ok(server) = shared.connect().await else {
                let _ = client.set_zero_linger();
                return;
            };
            match framing {
                Framing::Http => http::connection(&shared, client, server).await,
                Framing::Lines => lines::connection(&shared, client, server).await,
            }
        });
    }
}
