//! The requests of one client that are under way, so that it can cancel them (A-092, B-052).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_wire::id::RequestId;
use tokio_util::sync::CancellationToken;

/// All of one session, or of one pipe.
#[derive(Debug)]
pub(crate) struct Requests {
    max: usize,
    running: Mutex<HashMap<RequestId, CancellationToken>>,
}

/// One request, as long as it is under way.
#[derive(Debug)]
pub(crate) struct Running {
    requests: Arc<Requests>,
    id: RequestId,
    /// Cancelled by its client.
    pub(crate) cancelled: CancellationToken,
}

impl Requests {
    pub(crate) fn new(max: usize) -> Arc<Requests> {
        Arc::new(Requests { max, running: Mutex::new(HashMap::new()) })
    }

    /// Notes a request. `None` if there are too many (G-024), or one of that id is under way (A-002, B-002).
    pub(crate) fn begin(self: &Arc<Self>, id: &RequestId) -> Option<Running> {
        let mut running = self.running.lock();
        if running.len() >= self.max || running.contains_key(id) {
            return None;
        }
        let cancelled = CancellationToken::new();
        running.insert(id.clone(), cancelled.clone());
        Some(Running { requests: self.clone(), id: id.clone(), cancelled })
    }

    /// Cancels a request; one that is over or was never there is ignored.
    pub(crate) fn cancel(&self, id: &RequestId) {
        let cancelled = self.running.lock().get(id).cloned();
        if let Some(cancelled) = cancelled {
            cancelled.cancel();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.requests.running.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_092_only_what_is_under_way_can_be_cancelled() {
        let requests = Requests::new(2);
        let id = RequestId::from_u64(1);
        let running = requests.begin(&id).unwrap();
        assert!(requests.begin(&id).is_none(), "an id is used once at a time");
        requests.cancel(&RequestId::from_u64(2));
        assert!(!running.cancelled.is_cancelled());
        requests.cancel(&id);
        assert!(running.cancelled.is_cancelled());
        drop(running);
        requests.cancel(&id);
        assert!(!requests.begin(&id).unwrap().cancelled.is_cancelled());
    }

    #[test]
    fn g_024_requests_are_capped() {
        let requests = Requests::new(1);
        let _one = requests.begin(&RequestId::from_u64(1)).unwrap();
        assert!(requests.begin(&RequestId::from_u64(2)).is_none());
    }
}
