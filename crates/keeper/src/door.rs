//! Who comes in: the socket, the check of who it is, and the hello.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::process;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use nix::unistd::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::hello::{self, Caller, Host, Kind};
use crate::keeper::Keeper;
use crate::place::Place;
use crate::{attend, control};

/// How long a caller may take to say who it is.
const HELLO: Duration = Duration::from_secs(5);

/// Opens the socket of a place whose lock is ours: what is left of an earlier keeper is removed.
///
/// # Errors
/// The system's.
pub fn open(place: &Place) -> io::Result<UnixListener> {
    let path = place.socket();
    match fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(&path)?;
    // Nobody else can enter its folder as it is.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Serves a connection beside the others.
pub(crate) fn take(keeper: &Arc<Keeper>, stream: UnixStream) {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == geteuid().as_raw() => {}
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was closed");
            return;
        }
        Err(error) => {
            tracing::warn!(%error, "a connection whose user is unknown was closed");
            return;
        }
    }
    let serving = keeper.clone();
    keeper.connections.spawn(async move {
        if let Err(error) = serve(&serving, stream).await {
            tracing::debug!(%error, "a connection ended badly");
        }
        serving.changed.notify_one();
    });
}

async fn serve(keeper: &Arc<Keeper>, mut stream: UnixStream) -> io::Result<()> {
    let (line, rest) = timeout(HELLO, read_line(&mut stream)).await.map_err(|_| ErrorKind::TimedOut)??;
    let caller = match hello::read_caller(&line) {
        Ok(caller) => caller,
        Err(error) => {
            stream
                .write_all(b"{\"error\":{\"message\":\"this is the socket of a taskgate keeper\"}}\n")
                .await?;
            return Err(error);
        }
    };
    let Caller { protocol, version, kind } = caller;
    let is_served = (hello::OLDEST..=hello::PROTOCOL).contains(&protocol);
    if !is_served || hello::is_newer(&version, &keeper.parts.version) {
        keeper.drain(&version);
    }
    let host = Host {
        protocol: hello::PROTOCOL,
        oldest: hello::OLDEST,
        version: keeper.parts.version.clone(),
        pid: process::id(),
        state: keeper.stay(),
        calls: keeper.parts.engine.live() as u64,
    };
    stream.write_all(&hello::answer(&host)).await?;
    if !is_served {
        return Ok(());
    }
    match kind {
        Kind::Attach => attend::serve(keeper, stream, rest).await,
        Kind::Control => control::serve(keeper, stream, rest).await,
    }
}

/// A line, and what came behind it.
async fn read_line(stream: &mut UnixStream) -> io::Result<(Bytes, BytesMut)> {
    let mut read = BytesMut::with_capacity(1 << 10);
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if let Some(at) = read.iter().position(|&byte| byte == b'\n') {
            let line = read.split_to(at).freeze();
            read.advance(1);
            return Ok((line, read));
        }
        if read.len() > hello::LINE_MAX {
            return Err(io::Error::new(ErrorKind::InvalidData, "a hello that does not end"));
        }
    }
}
