//! A service whose effects count, and which misbehaves as it is told to.
//!
//! | request | what it does |
//! | --- | --- |
//! | `POST /effects` `{key, object, amount, token?, once?}` | makes the effect. Twice, if it is asked twice, unless `once` says to look at the token |
//! | `GET /effects/KEY` | says how often the effect was made: `{key, applied, count, fenced}` |
//! | `POST /fence/KEY` | refuses the key for ever: `{fenced: true, applied}` |
//! | `PUT /script/KEY` | says how the next requests with this key are dealt with: a [`Script`] |
//! | `POST /notices` `{operation}` | notes that somebody was told of an operation |
//! | `POST /down` `{down}` | closes every connection without a word from now on, or no longer |
//! | `GET /pending` | how many effects were accepted and are not made yet, and how many requests are under way: `{pending, open}` |

mod script;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;

pub use self::script::{Script, Turn};
use crate::books::{Account, Books, Entry, What, Writer};
use crate::web::{Answered, Asked, Cut, bytes, empty, json};

struct Bank {
    kept: Mutex<Kept>,
    scripts: Mutex<HashMap<String, Script>>,
    down: AtomicBool,
    pending: AtomicUsize,
    /// Requests under way, but for those that ask for this.
    open: AtomicUsize,
}

struct Kept {
    writer: Writer,
    books: Books,
}

#[derive(Clone, Deserialize)]
struct Order {
    key: String,
    #[serde(default)]
    object: String,
    #[serde(default)]
    amount: f64,
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    once: bool,
}

/// What an order came to.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Done {
    Made { reference: String },
    Repeated { reference: String },
    Fenced,
}

/// A bank that keeps its books at `path`, listening on a port of the loopback interface.
///
/// # Errors
/// If the books cannot be opened or the port cannot be had.
pub async fn open(path: &Path, port: u16) -> io::Result<(SocketAddr, impl Future<Output = ()> + use<>)> {
    let (writer, books) = Writer::open(path)?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    let address = listener.local_addr()?;
    let bank = Arc::new(Bank {
        kept: Mutex::new(Kept { writer, books }),
        scripts: Mutex::default(),
        down: AtomicBool::new(false),
        pending: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
    });
    let serving = crate::web::serve(listener, move |asked| {
        let bank = bank.clone();
        async move { bank.attend(asked).await }
    });
    Ok((address, serving))
}

impl Bank {
    async fn attend(self: Arc<Self>, asked: Asked) -> Answered {
        if asked.method == Method::GET && asked.path == "/pending" {
            let [pending, open] = [&self.pending, &self.open].map(|count| count.load(Ordering::SeqCst));
            return Ok(json(StatusCode::OK, &json!({ "pending": pending, "open": open })));
        }
        let under_way = UnderWay::begins(self.clone());
        let answered = self.answer(asked).await;
        drop(under_way);
        answered
    }

    async fn answer(self: Arc<Self>, asked: Asked) -> Answered {
        let path = asked.path.clone();
        let (first, key) =
            path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
        match (&asked.method, first) {
            (&Method::PUT, "script") => {
                let Ok(script) = serde_json::from_slice(&asked.body) else {
                    return Ok(empty(StatusCode::BAD_REQUEST));
                };
                self.scripts.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned(), script);
                Ok(empty(StatusCode::NO_CONTENT))
            }
            (&Method::POST, "down") => {
                let down = serde_json::from_slice::<serde_json::Value>(&asked.body)
                    .is_ok_and(|body| body["down"] == true);
                self.down.store(down, Ordering::SeqCst);
                Ok(empty(StatusCode::NO_CONTENT))
            }
            _ if self.down.load(Ordering::SeqCst) => Err(Cut),
            (&Method::POST, "effects") => match serde_json::from_slice::<Order>(&asked.body) {
                Ok(order) if !order.key.is_empty() => self.effect(order).await,
                Ok(_) | Err(_) => Ok(empty(StatusCode::BAD_REQUEST)),
            },
            (&Method::GET, "effects") if !key.is_empty() => self.probe(key).await,
            (&Method::POST, "notices") => {
                let told = serde_json::from_slice::<serde_json::Value>(&asked.body).unwrap_or_default();
                let Some(operation) = told["operation"].as_str() else {
                    return Ok(empty(StatusCode::BAD_REQUEST));
                };
                self.enter(What::Noticed, &Order::about(operation)).await?;
                Ok(empty(StatusCode::NO_CONTENT))
            }
            (&Method::POST, "fence") if !key.is_empty() => self.fence(key).await,
            _ => Ok(empty(StatusCode::NOT_FOUND)),
        }
    }

    fn turn(&self, key: &str, of: impl FnOnce(&mut Script) -> Option<Turn>) -> Turn {
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        scripts.get_mut(key).and_then(of).unwrap_or(Turn::Ordinary)
    }

    async fn effect(self: Arc<Self>, order: Order) -> Answered {
        self.enter(What::Arrived, &order).await?;
        match self.turn(&order.key, Script::next_effect) {
            Turn::Ordinary => self.make_and_tell(&order).await,
            Turn::Slow { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                self.make_and_tell(&order).await
            }
            Turn::LoseBefore => Err(Cut),
            Turn::LoseAfter => {
                self.make(&order).await?;
                Err(Cut)
            }
            Turn::Twice => {
                self.make(&order).await?;
                self.make_and_tell(&order).await
            }
            Turn::Refuse => {
                self.enter(What::Refused, &order).await?;
                Ok(json(
                    StatusCode::CONFLICT,
                    &json!({ "key": order.key, "applied": false, "why": "refused" }),
                ))
            }
            Turn::Late { ms } => {
                self.later(order.clone(), ms);
                Ok(json(StatusCode::ACCEPTED, &json!({ "key": order.key, "accepted": true })))
            }
            Turn::LateClosed { ms } => {
                self.later(order, ms);
                Err(Cut)
            }
            Turn::NonsenseBefore => Ok(nonsense()),
            Turn::NonsenseAfter => {
                self.make(&order).await?;
                Ok(nonsense())
            }
            Turn::Contradict => {
                self.make(&order).await?;
                Ok(json(
                    StatusCode::CONFLICT,
                    &json!({ "key": order.key, "applied": false, "why": "refused" }),
                ))
            }
            Turn::Claim => {
                let reference = format!("claim-{}", order.key);
                Ok(json(
                    StatusCode::OK,
                    &json!({ "key": order.key, "applied": true, "reference": reference }),
                ))
            }
            Turn::Down => Ok(empty(StatusCode::SERVICE_UNAVAILABLE)),
        }
    }

    async fn make_and_tell(&self, order: &Order) -> Answered {
        let told = |reference, repeated| json!({ "key": order.key, "applied": true, "reference": reference, "repeated": repeated });
        Ok(match self.make(order).await? {
            Done::Made { reference } => json(StatusCode::OK, &told(reference, false)),
            Done::Repeated { reference } => json(StatusCode::OK, &told(reference, true)),
            Done::Fenced => {
                json(StatusCode::GONE, &json!({ "key": order.key, "applied": false, "why": "fenced" }))
            }
        })
    }

    /// Makes the effect after a while, whoever is still there to hear of it.
    fn later(self: &Arc<Self>, order: Order, ms: u64) {
        self.pending.fetch_add(1, Ordering::SeqCst);
        let bank = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            let _ = bank.make(&order).await;
            bank.pending.fetch_sub(1, Ordering::SeqCst);
        });
    }

    async fn make(&self, order: &Order) -> Result<Done, Cut> {
        self.with(|kept| {
            let account = kept.books.account(&order.key);
            let known = order.token.as_ref().is_some_and(|token| account.tokens.contains(token));
            if account.fenced {
                kept.enter(What::Refused, order)?;
                return Ok(Done::Fenced);
            }
            if order.once && known {
                kept.enter(What::Repeated, order)?;
                return Ok(Done::Repeated { reference: reference(&order.key, account.applied) });
            }
            kept.enter(What::Applied, order)?;
            Ok(Done::Made { reference: reference(&order.key, account.applied + 1) })
        })
    }

    async fn probe(&self, key: &str) -> Answered {
        let order = Order::about(key);
        self.enter(What::Probed, &order).await?;
        let account = self.with(|kept| Ok(kept.books.account(key)))?;
        let told = |applied: bool, account: &Account| {
            let count = if applied { account.applied.max(1) } else { 0 };
            let body = json!({ "key": key, "applied": applied, "count": count, "fenced": account.fenced });
            json(StatusCode::OK, &body)
        };
        let truth = account.applied > 0;
        match self.turn(key, Script::next_probe) {
            Turn::Slow { ms } | Turn::Late { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(told(truth, &account))
            }
            Turn::LoseBefore | Turn::LoseAfter | Turn::LateClosed { .. } => Err(Cut),
            Turn::NonsenseBefore | Turn::NonsenseAfter => Ok(nonsense()),
            Turn::Contradict | Turn::Claim => Ok(told(!truth, &account)),
            Turn::Refuse => Ok(empty(StatusCode::FORBIDDEN)),
            Turn::Down => Ok(empty(StatusCode::SERVICE_UNAVAILABLE)),
            Turn::Ordinary | Turn::Twice => Ok(told(truth, &account)),
        }
    }

    async fn fence(&self, key: &str) -> Answered {
        let order = Order::about(key);
        let turn = self.turn(key, Script::next_fence);
        match turn {
            Turn::LoseBefore => return Err(Cut),
            Turn::Down | Turn::Refuse => return Ok(empty(StatusCode::SERVICE_UNAVAILABLE)),
            Turn::NonsenseBefore => return Ok(nonsense()),
            Turn::Slow { ms } | Turn::Late { ms } | Turn::LateClosed { ms } => {
                tokio::time::sleep(Duration::from_millis(ms)).await;
            }
            Turn::Ordinary
            | Turn::LoseAfter
            | Turn::NonsenseAfter
            | Turn::Contradict
            | Turn::Claim
            | Turn::Twice => {}
        }
        let applied = self.with(|kept| {
            let account = kept.books.account(key);
            if account.applied == 0 && !account.fenced {
                kept.enter(What::Fenced, &order)?;
            }
            Ok(account.applied > 0)
        })?;
        if matches!(turn, Turn::LoseAfter | Turn::LateClosed { .. }) {
            return Err(Cut);
        }
        if turn == Turn::NonsenseAfter {
            return Ok(nonsense());
        }
        let status = if applied { StatusCode::CONFLICT } else { StatusCode::OK };
        Ok(json(status, &json!({ "key": key, "fenced": !applied, "applied": applied })))
    }

    async fn enter(&self, what: What, order: &Order) -> Result<(), Cut> {
        self.with(|kept| kept.enter(what, order))
    }

    /// One thing at a time, with the books before it. The threads of this process do nothing else, so one may wait for
    /// the disk.
    fn with<T>(&self, what: impl FnOnce(&mut Kept) -> Result<T, Cut>) -> Result<T, Cut> {
        tokio::task::block_in_place(|| what(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Order {
    /// No order, but something about one.
    fn about(key: &str) -> Order {
        Order { key: key.to_owned(), object: String::new(), amount: 0.0, token: None, once: false }
    }
}

/// A request, until it is answered or its connection breaks.
struct UnderWay(Arc<Bank>);

impl UnderWay {
    fn begins(bank: Arc<Bank>) -> UnderWay {
        bank.open.fetch_add(1, Ordering::SeqCst);
        UnderWay(bank)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Kept {
    /// A bank that cannot write its books must not say another word.
    fn enter(&mut self, what: What, order: &Order) -> Result<(), Cut> {
        let entry = Entry {
            what,
            key: order.key.clone(),
            object: order.object.clone(),
            amount: order.amount,
            token: order.token.clone(),
            at: crate::clock::now(),
        };
        if self.writer.append(&entry).is_err() {
            std::process::abort();
        }
        self.books.enter(&entry);
        Ok(())
    }
}

fn reference(key: &str, count: u32) -> String {
    format!("r-{key}-{count}")
}

/// A body that is neither JSON nor anything else.
fn nonsense() -> hyper::Response<http_body_util::Full<::bytes::Bytes>> {
    bytes(StatusCode::OK, ::bytes::Bytes::from_static(b"<html>{\"applied\": maybe \xff\xfe"))
}
