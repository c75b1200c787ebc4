//! Taking an address, with words for when it cannot be had.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use crate::exit;
use crate::failure::Failure;

/// How many connections wait while we are busy taking others.
const BACKLOG: u32 = 1024;

/// An address that is ours, though nobody is answered there yet.
pub(crate) struct Taken {
    socket: TcpSocket,
    address: SocketAddr,
}

/// Takes the address, so that nothing else is begun if it cannot be had.
pub(crate) fn take(address: SocketAddr) -> Result<Taken, Failure> {
    let taken = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // After a crash the port is ours again at once, though old connections still linger.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    taken().map(|socket| Taken { socket, address }).map_err(|error| refused(address, &error))
}

impl Taken {
    /// Answers there from now on.
    pub(crate) fn listen(self) -> Result<TcpListener, Failure> {
        let address = self.address;
        self.socket.listen(BACKLOG).map_err(|error| refused(address, &error))
    }
}

/// Takes the address and answers there.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    take(address)?.listen()
}

fn refused(address: SocketAddr, error: &io::Error) -> Failure {
    let kind = error.kind();
    let port = address.port();
    let (what, help) = if kind == io::ErrorKind::AddrInUse {
        (
            format!("{address} is in use by another process"),
            format!(
                "stop that process (`lsof -i :{port}` names it), or choose another port: --listen 127.0.0.1:0 takes \
                 a free one"
            ),
        )
    } else if kind == io::ErrorKind::PermissionDenied {
        (format!("this user may not listen at {address}"), "choose a port above 1023".to_owned())
    } else if kind == io::ErrorKind::AddrNotAvailable {
        (
            format!("this machine has no address {}", address.ip()),
            "use 127.0.0.1, or [::1] where IPv6 is switched on".to_owned(),
        )
    } else {
        (format!("could not listen at {address}: {error}"), "choose another address".to_owned())
    };
    Failure::new(exit::ADDRESS, what, help)
}
