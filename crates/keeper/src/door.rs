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

/// Pause after a connection that could not be taken.
pub(crate) const BREATH: Duration = Duration::from_millis(50);

/// Whether a connection is of our own user. One that is not is logged.
pub(crate) fn is_ours(stream: &UnixStream) -> bool {
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == geteuid().as_raw() => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was closed");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "a connection whose user is unknown was closed");
            false
        }
    }
}

/// Serves a connection beside the others.
pub(crate) fn take(keeper: &Arc<Keeper>, stream: UnixStream) {
    if !is_ours(&stream) {
        return;
    }
    let serving = keeper.clone();
    keeper.connections.spawn(async move {
        if let Err(error) = serve(&serving, stream).await {
            tracing::debug!(%error, "a connection ended badly");
        }
        serving.changed.notify_one();
    });
}

/// Who came in, and what they said behind their hello.
pub(crate) struct Guest {
    pub(crate) caller: Caller,
    pub(crate) rest: BytesMut,
}

/// Hears who it is. Whoever says no hello is told `words`.
pub(crate) async fn greet(stream: &mut UnixStream, words: &str) -> io::Result<Guest> {
    let (line, rest) = timeout(HELLO, read_line(stream)).await.map_err(|_| ErrorKind::TimedOut)??;
    match hello::read_caller(&line) {
        Ok(caller) => Ok(Guest { caller, rest }),
        Err(error) => {
            stream.write_all(format!("{{\"error\":{{\"message\":\"{words}\"}}}}\n").as_bytes()).await?;
            Err(error)
        }
    }
}

/// Says who we are.
pub(crate) async fn say_hello(stream: &mut UnixStream, host: &Host) -> io::Result<()> {
    stream.write_all(&hello::answer(host)).await
}

async fn serve(keeper: &Arc<Keeper>, mut stream: UnixStream) -> io::Result<()> {
    let Guest { caller, rest } = greet(&mut stream, "this is the socket of a taskgate keeper").await?;
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
    say_hello(&mut stream, &host).await?;
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
