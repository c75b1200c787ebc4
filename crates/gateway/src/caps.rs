//! How many of a kind one principal may hold open at once (G-024).

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::Principal;

/// A count per principal, with a limit.
#[derive(Debug)]
pub(crate) struct Caps {
    max: usize,
    held: Mutex<HashMap<Principal, usize>>,
}

/// One of them, until dropped.
#[derive(Debug)]
pub(crate) struct Held {
    caps: Arc<Caps>,
    principal: Principal,
}

impl Caps {
    pub(crate) fn new(max: usize) -> Arc<Caps> {
        Arc::new(Caps { max, held: Mutex::new(HashMap::new()) })
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// One more; `None` at the limit.
    pub(crate) fn take(self: &Arc<Self>, principal: &Principal) -> Option<Held> {
        let mut held = self.held.lock();
        let count = held.entry(principal.clone()).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(Held { caps: self.clone(), principal: principal.clone() })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = self.caps.held.lock();
        if let Some(count) = held.get_mut(&self.principal) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_024_one_principals_cap_leaves_others_alone() {
        let caps = Caps::new(1);
        let one = caps.take(&Principal::local()).unwrap();
        assert!(caps.take(&Principal::local()).is_none());
        assert!(caps.take(&Principal::anonymous()).is_some());
        drop(one);
        assert!(caps.take(&Principal::local()).is_some());
    }
}
