//! What outlives a gateway, and one life of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use taskgate_core::id::Principal;
use taskgate_engine::clock::Clock;
use taskgate_gateway::Gateway;
use taskgate_sim::{History, SimClock, Tally};
use taskgate_store::record::Record;
use taskgate_wire::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::book::Book;
use crate::mind::Mind;
use crate::server::Server;

/// The first promise that was broken.
#[derive(Debug, Default)]
pub(crate) struct Broken {
    words: Mutex<Option<String>>,
    said: Notify,
}

impl Broken {
    pub(crate) fn say(&self, words: impl Into<String>) {
        self.words.lock().get_or_insert_with(|| words.into());
        self.said.notify_one();
    }

    /// Waits until one is.
    pub(crate) async fn happens(&self) {
        self.said.notified().await;
    }

    pub(crate) fn words(&self) -> Option<String> {
        self.words.lock().clone()
    }
}

/// What no death of a gateway touches.
pub(crate) struct World {
    pub(crate) tally: Arc<Tally>,
    pub(crate) broken: Arc<Broken>,
    pub(crate) book: Mutex<Book>,
    pub(crate) minds: Vec<Arc<Mutex<Mind>>>,
    pub(crate) server: Arc<Server>,
    pub(crate) history: Arc<History>,
    /// All that clients sent and heard.
    pub(crate) said: Mutex<Vec<String>>,
    pub(crate) jumped: Arc<AtomicI64>,
    pub(crate) tokens: AtomicU64,
    /// Wishes of which a person said that nothing was done.
    pub(crate) undone: Mutex<BTreeSet<String>>,
    /// Those of them that were done.
    pub(crate) misled: Mutex<BTreeSet<String>>,
}

impl World {
    /// A text that no other answer has.
    pub(crate) fn token(&self) -> String {
        format!("a#{}", self.tokens.fetch_add(1, Ordering::SeqCst))
    }

    pub(crate) fn say(&self, words: String) {
        self.said.lock().push(words);
    }

    /// Whether a person said that a wish was not done.
    pub(crate) fn is_undone(&self, name: &str) -> bool {
        self.undone.lock().contains(name)
    }

    /// A person was wrong about a wish: it may be done once more, and its client is not to blame.
    pub(crate) fn is_misled(&self, name: &str) {
        self.misled.lock().insert(name.to_owned());
        self.may_be_done_again(name);
    }

    /// What a person did about a wish leads to one more effect, if its client calls again.
    pub(crate) fn may_be_done_again(&self, name: &str) {
        for mind in &self.minds {
            for wish in mind.lock().wishes.iter_mut().filter(|wish| wish.name == name) {
                wish.licence += 1;
            }
        }
    }
}

/// The wish that a record was made for.
pub(crate) fn wish_of(record: &Record) -> String {
    let params = String::from_utf8_lossy(&record.call.params);
    let name = json::at(&params, &["arguments", "wish"]).and_then(json::string);
    name.map(String::from).unwrap_or_default()
}

/// What a life is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// It ends in the middle of things.
    Broken,
    /// Everything comes to its end.
    Last,
    /// Days later: what was promised to be kept is not any more.
    After,
}

/// One life of the gateway.
pub(crate) struct Life {
    pub(crate) world: Arc<World>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) clock: Arc<SimClock>,
    /// It goes down in good order.
    pub(crate) shutdown: CancellationToken,
    pub(crate) part: Part,
    /// What had passed before it, in milliseconds, and when it began.
    pub(crate) before: i64,
    pub(crate) start: tokio::time::Instant,
}

impl Life {
    /// How old the world is, whatever its clocks say.
    pub(crate) fn age(&self) -> i64 {
        self.before + self.start.elapsed().as_millis() as i64
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now().0
    }
}

/// Who a client is, by its number and how it comes.
pub(crate) fn principal(number: usize, is_piped: bool) -> Principal {
    if is_piped { Principal::stored(format!("local:host-{number}")) } else { Principal::anonymous() }
}
