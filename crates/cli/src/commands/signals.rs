//! What asks us to end: SIGINT and SIGTERM, and the end of stdin where that was asked for.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, caught from now on.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Waits until stdin ends. Its thread cannot be called back, so the runtime must be left with `shutdown_background`.
pub(crate) async fn stdin_ended() {
    let mut stdin = tokio::io::stdin();
    let mut ignored = [0; 256];
    while let Ok(1..) = stdin.read(&mut ignored).await {}
}
