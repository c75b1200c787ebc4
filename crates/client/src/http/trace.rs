//! Which connections a call went over, until each is done with it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// One connection, as those see it who wait for its end.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Cancelled once the socket is closed.
    pub(crate) gone: CancellationToken,
}

/// The connections that may still carry a part of one call: those it was given to and whose answer was not read to its
/// end. It holds none of them open.
#[derive(Debug, Default)]
pub(crate) struct Trace(Mutex<Vec<Arc<Connection>>>);

impl Trace {
    /// A request is about to be written to `connection`.
    pub(crate) fn begins(&self, connection: &Arc<Connection>) {
        self.0.lock().push(connection.clone());
    }

    /// `connection` was not given the request after all, or its answer was read to the end.
    pub(crate) fn is_done(&self, connection: &Arc<Connection>) {
        let mut open = self.0.lock();
        if let Some(at) = open.iter().position(|one| Arc::ptr_eq(one, connection)) {
            open.swap_remove(at);
        }
    }

    /// Waits until every connection that is not done with the call is closed.
    pub(crate) async fn gone(&self) {
        let open = std::mem::take(&mut *self.0.lock());
        for connection in open {
            connection.gone.cancelled().await;
        }
    }
}
