//! The bank does what its script says, and its books say what it did.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use taskgate_faults::bank::{self, Script, Turn};
use taskgate_faults::books::Books;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The status and body, or `None` for a connection that ended without an answer.
pub(crate) async fn ask(to: SocketAddr, method: &str, path: &str, body: &Value) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(to).await.unwrap();
    let body = body.to_string();
    let text = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

/// Opens a bank; it ends with what is returned.
pub(crate) async fn open(books: &Path) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    let (address, serving) = bank::open(books, 0).await.unwrap();
    (address, tokio::spawn(serving))
}

async fn order(to: SocketAddr, key: &str, turn: Option<Turn>, extra: Value) -> Option<(u16, Value)> {
    if let Some(turn) = turn {
        let script = Script { effects: [turn].into(), ..Script::default() };
        ask(to, "PUT", &format!("/script/{key}"), &json!(script)).await.unwrap();
    }
    let mut body = json!({ "key": key, "object": "o", "amount": 5 });
    for (name, value) in extra.as_object().unwrap() {
        body[name] = value.clone();
    }
    let (status, body) = ask(to, "POST", "/effects", &body).await?;
    Some((status, serde_json::from_str(&body).unwrap_or_default()))
}

/// Nothing was accepted that is not made yet, and nobody else is being answered.
const QUIET: &str = "{\"open\":0,\"pending\":0}";

#[tokio::test(flavor = "multi_thread")]
async fn every_turn_is_as_it_says_and_stands_in_the_books() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("books");
    let (bank, _serving) = open(&path).await;
    // The turn, the status of the answer if there is one, what it says, and how often the effect is made.
    let table = [
        (Turn::Ordinary, Some((200, json!(true))), 1),
        (Turn::LoseBefore, None, 0),
        (Turn::LoseAfter, None, 1),
        (Turn::Slow { ms: 5 }, Some((200, json!(true))), 1),
        (Turn::Refuse, Some((409, json!(false))), 0),
        (Turn::Late { ms: 5 }, Some((202, Value::Null)), 1),
        (Turn::LateClosed { ms: 5 }, None, 1),
        (Turn::NonsenseBefore, Some((200, Value::Null)), 0),
        (Turn::NonsenseAfter, Some((200, Value::Null)), 1),
        (Turn::Contradict, Some((409, json!(false))), 1),
        (Turn::Claim, Some((200, json!(true))), 0),
        (Turn::Down, Some((503, Value::Null)), 0),
        (Turn::Twice, Some((200, json!(true))), 2),
    ];
    for (at, (turn, answer, times)) in table.into_iter().enumerate() {
        let key = format!("k{at}");
        let said = order(bank, &key, Some(turn), json!({})).await;
        assert_eq!(said.map(|(status, body)| (status, body["applied"].clone())), answer, "{turn:?}");
        while ask(bank, "GET", "/pending", &Value::Null).await.unwrap().1 != QUIET {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let account = Books::read(&path).unwrap().account(&key);
        assert_eq!((account.arrived, account.applied), (1, times), "{turn:?}");
        // A script holds once, and the bank never asks whether it did this before.
        assert_eq!(order(bank, &key, None, json!({})).await.unwrap().0, 200);
        assert_eq!(Books::read(&path).unwrap().account(&key).applied, times + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_honoured_only_where_that_was_asked_for_and_also_by_the_next_bank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("books");
    let (bank, serving) = open(&path).await;
    let token = |once: bool| json!({ "token": "t", "once": once });
    assert_eq!(order(bank, "k", None, token(true)).await.unwrap().1["repeated"], false);
    assert_eq!(order(bank, "k", None, token(true)).await.unwrap().1["repeated"], true);
    serving.abort();
    let (bank, _serving) = open(&path).await;
    assert_eq!(order(bank, "k", None, token(true)).await.unwrap().1["repeated"], true);
    assert_eq!(order(bank, "k", None, token(false)).await.unwrap().1["repeated"], false);
    let account = Books::read(&path).unwrap().account("k");
    assert_eq!((account.arrived, account.applied, account.repeated), (4, 2, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_holds_for_ever_and_comes_too_late_for_what_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("books");
    let (bank, serving) = open(&path).await;
    assert_eq!(ask(bank, "POST", "/fence/k", &Value::Null).await.unwrap().0, 200);
    assert_eq!(order(bank, "k", None, json!({})).await.unwrap().0, 410);
    assert_eq!(order(bank, "other", None, json!({})).await.unwrap().0, 200);
    let late = ask(bank, "POST", "/fence/other", &Value::Null).await.unwrap();
    assert_eq!(
        (late.0, serde_json::from_str::<Value>(&late.1).unwrap()["applied"].clone()),
        (409, json!(true))
    );
    serving.abort();
    let (bank, _serving) = open(&path).await;
    assert_eq!(order(bank, "k", None, json!({})).await.unwrap().0, 410);
    assert_eq!(Books::read(&path).unwrap().account("k").applied, 0);
    assert!(!Books::read(&path).unwrap().account("other").fenced);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_says_the_truth_unless_it_was_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let (bank, _serving) = open(&folder.path().join("books")).await;
    order(bank, "k", None, json!({})).await.unwrap();
    let script =
        Script { probes: [Turn::Contradict, Turn::Down, Turn::NonsenseAfter].into(), ..Script::default() };
    ask(bank, "PUT", "/script/k", &json!(script)).await.unwrap();
    let mut said = Vec::new();
    for _ in 0..4 {
        let (status, body) = ask(bank, "GET", "/effects/k", &Value::Null).await.unwrap();
        said.push((status, serde_json::from_str::<Value>(&body).unwrap_or_default()["applied"].clone()));
    }
    assert_eq!(said, [(200, json!(false)), (503, Value::Null), (200, Value::Null), (200, json!(true))]);
    ask(bank, "POST", "/down", &json!({ "down": true })).await.unwrap();
    assert_eq!(ask(bank, "GET", "/effects/k", &Value::Null).await, None);
    ask(bank, "POST", "/down", &json!({ "down": false })).await.unwrap();
    assert_eq!(ask(bank, "GET", "/effects/k", &Value::Null).await.unwrap().0, 200);
}
