//! Work found after a restart whose server is not there yet: it waits here until somebody brings it (design 4).

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::ServerName;

use crate::handle::Live;

/// The parked tasks of every server, in the order in which they were parked.
#[derive(Default)]
pub(crate) struct Parked {
    servers: Mutex<BTreeMap<ServerName, Vec<Arc<Live>>>>,
}

impl Parked {
    pub(crate) fn add(&self, live: Arc<Live>) {
        let server = live.record().call.server.clone();
        self.servers.lock().entry(server).or_default().push(live);
    }

    /// Takes all of a server's.
    pub(crate) fn take(&self, server: &ServerName) -> Vec<Arc<Live>> {
        self.servers.lock().remove(server).unwrap_or_default()
    }

    /// Whether `live` waits here.
    pub(crate) fn holds(&self, live: &Arc<Live>) -> bool {
        let servers = self.servers.lock();
        servers
            .get(&live.record().call.server)
            .is_some_and(|parked| parked.iter().any(|one| Arc::ptr_eq(one, live)))
    }

    /// Lets go of one that is done with.
    pub(crate) fn forget(&self, live: &Arc<Live>) {
        let server = live.record().call.server.clone();
        let mut servers = self.servers.lock();
        if let Some(parked) = servers.get_mut(&server) {
            parked.retain(|one| !Arc::ptr_eq(one, live));
            if parked.is_empty() {
                servers.remove(&server);
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Live>> {
        self.servers.lock().values().flatten().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.servers.lock().values().map(Vec::len).sum()
    }
}
