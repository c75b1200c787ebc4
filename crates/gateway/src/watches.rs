//! Resources whose changes servers are asked to announce, counted over all clients that want to hear of them (X-056).
//!
//! A legacy server is subscribed to once for all. A modern one announces on a listen stream: one of ours carries what
//! all clients of that server session want together. The lists need nothing from here, since the client crate hears
//! of their changes anyway.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_client::RawAnswer;
use taskgate_engine::back::BackKey;
use taskgate_wire::json::string_literal;
use tokio::sync::watch;

use crate::upstream::{Home, Upstream, Upstreams};

/// How long to wait before a listen stream that broke is opened again.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// How many clients count on each resource.
type Wanted = BTreeMap<String, usize>;

/// All of them.
pub(crate) struct Watches {
    upstreams: Arc<dyn Upstreams>,
    by_home: Mutex<BTreeMap<Home, Arc<Watch>>>,
}

/// Those of one server session.
#[derive(Debug)]
struct Watch {
    wanted: watch::Sender<Wanted>,
    is_modern: bool,
    /// One of those that lead to it.
    key: BackKey,
    home: Home,
}

/// One client's interest, until dropped.
pub(crate) struct Watched {
    watches: Weak<Watches>,
    watch: Arc<Watch>,
    uri: String,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl Watches {
    pub(crate) fn new(upstreams: Arc<dyn Upstreams>) -> Arc<Watches> {
        Arc::new(Watches { upstreams, by_home: Mutex::default() })
    }

    /// Has changes of a resource announced.
    pub(crate) async fn resource(
        self: &Arc<Self>,
        upstream: &Arc<dyn Upstream>,
        key: &BackKey,
        uri: &str,
    ) -> Result<Watched, RawAnswer> {
        let (watched, is_first) = self.add(upstream, key, uri);
        if is_first && !watched.watch.is_modern {
            match upstream.request("resources/subscribe", Some(uri_params(uri))).answer.await {
                RawAnswer::Result(_) => {}
                failed @ (RawAnswer::Error(_)
                | RawAnswer::NeverSent(_)
                | RawAnswer::Lost(_)
                | RawAnswer::Nonsense(_)) => return Err(failed),
            }
        }
        Ok(watched)
    }

    fn add(self: &Arc<Self>, upstream: &Arc<dyn Upstream>, key: &BackKey, uri: &str) -> (Watched, bool) {
        let home = self.upstreams.home(key);
        let mut by_home = self.by_home.lock();
        let watch = by_home.entry(home.clone()).or_insert_with(|| {
            let is_modern = upstream.says().back.version.is_modern();
            let (wanted, key) = (watch::Sender::default(), key.clone());
            let watch = Arc::new(Watch { wanted, is_modern, key: key.clone(), home });
            if is_modern {
                tokio::spawn(listen(self.upstreams.clone(), key, watch.wanted.subscribe()));
            }
            watch
        });
        let is_first = watch.wanted.send_if_modified(|wanted| {
            let count = wanted.entry(uri.to_owned()).or_default();
            *count += 1;
            *count == 1
        });
        (Watched { watches: Arc::downgrade(self), watch: watch.clone(), uri: uri.to_owned() }, is_first)
    }

    fn remove(&self, watch: &Watch, uri: &str) {
        let is_last = {
            let mut by_home = self.by_home.lock();
            let is_last = watch.wanted.send_if_modified(|wanted| {
                let Some(count) = wanted.get_mut(uri) else { return false };
                *count -= 1;
                let is_last = *count == 0;
                if is_last {
                    wanted.remove(uri);
                }
                is_last
            });
            if watch.wanted.borrow().is_empty() {
                // Dropping it ends its listener.
                by_home.remove(&watch.home);
            }
            is_last
        };
        if is_last
            && !watch.is_modern
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (upstreams, key, params) = (self.upstreams.clone(), watch.key.clone(), uri_params(uri));
            runtime.spawn(async move {
                if let Ok(upstream) = upstreams.session(&key).await {
                    // A server that does not care goes on announcing, and nobody here listens.
                    let _ = upstream.request("resources/unsubscribe", Some(params)).answer.await;
                }
            });
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(watches) = self.watches.upgrade() {
            watches.remove(&self.watch, &self.uri);
        }
    }
}

fn uri_params(uri: &str) -> Bytes {
    Bytes::from(format!("{{\"uri\":{}}}", string_literal(uri)))
}

/// Holds a listen stream open for what is wanted, until nothing is. What comes on it are the session's notices.
async fn listen(upstreams: Arc<dyn Upstreams>, key: BackKey, mut wanted: watch::Receiver<Wanted>) {
    loop {
        let filter = filter(&wanted.borrow_and_update());
        let held = async {
            if let Ok(upstream) = upstreams.session(&key).await {
                upstream.request("subscriptions/listen", Some(filter)).answer.await;
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        };
        tokio::select! {
            biased;
            () = held => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

fn filter(wanted: &Wanted) -> Bytes {
    let uris: Vec<String> = wanted.keys().map(|uri| string_literal(uri)).collect();
    Bytes::from(format!("{{\"notifications\":{{\"resourceSubscriptions\":[{}]}}}}", uris.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x_056_one_filter_carries_what_all_want() {
        let wanted = BTreeMap::from([("file:///a".to_owned(), 2), ("file:///b".to_owned(), 1)]);
        assert_eq!(
            filter(&wanted),
            r#"{"notifications":{"resourceSubscriptions":["file:///a","file:///b"]}}"#
        );
    }
}
