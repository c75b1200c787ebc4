//! Systems of record asked by GET, and webhooks.

use std::time::Duration;

use serde_json::{Value, json};
use taskgate_client::WebClient;
use taskgate_core::id::{OperationId, ServerName, WorkflowName};
use taskgate_core::time::UnixMillis;
use taskgate_engine::rules::{Hidden, Webhook};
use taskgate_engine::web::{Notice, Web as _};

use crate::web::{Say, Web, whole};

const TIME: Duration = Duration::from_secs(5);

fn headers() -> Vec<(String, Hidden)> {
    vec![("authorization".to_owned(), Hidden("Bearer hush".to_owned()))]
}

#[tokio::test]
async fn a_look_up_is_one_get_and_any_status_is_an_answer() {
    let web = Web::start(|seen| match seen.path.as_str() {
        "/effects/1?full=yes" => whole(200, json!({ "applied": true })),
        _ => whole(404, json!({ "applied": false })),
    })
    .await;
    let origin = web.url.trim_end_matches("/mcp").to_owned();
    let client = WebClient::new("1.2.3");
    let found = client.get(&format!("{origin}/effects/1?full=yes"), &headers(), TIME, 1000).await.unwrap();
    assert_eq!((found.status, &*found.body), (200, &b"{\"applied\":true}"[..]));
    let none = client.get(&format!("{origin}/effects/2"), &headers(), TIME, 1000).await.unwrap();
    assert_eq!(none.status, 404);
    let seen = web.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].verb, "GET");
    assert_eq!(seen[0].header("authorization"), Some("Bearer hush"));
    assert_eq!(seen[0].header("user-agent"), Some("taskgate/1.2.3"));
    // The connection is kept.
    assert_eq!(seen[0].connection, seen[1].connection);
}

#[tokio::test]
async fn a_redirect_is_answered_and_not_followed() {
    let web = Web::start(|seen| {
        assert_eq!(seen.path, "/effects/1");
        Say::Whole(302, vec![("location", "/elsewhere".to_owned())], String::new())
    })
    .await;
    let url = web.url.replace("/mcp", "/effects/1");
    let answer = WebClient::new("1").get(&url, &headers(), TIME, 1000).await.unwrap();
    assert_eq!(answer.status, 302);
    assert_eq!(web.seen().len(), 1);
}

#[tokio::test]
async fn r6_3_what_fails_is_told_without_the_path_and_without_headers() {
    let web = Web::start(|seen| match seen.path.as_str() {
        "/long/secret-path" => whole(200, json!("x".repeat(2000))),
        _ => Say::HangUp,
    })
    .await;
    let slow = Web::start_slow(|_| Box::pin(std::future::pending())).await;
    let client = WebClient::new("1");
    for (url, words) in [
        (web.url.replace("/mcp", "/long/secret-path"), "longer than 1000 bytes"),
        (web.url.replace("/mcp", "/cut/secret-path"), "127.0.0.1"),
        (slow.url.replace("/mcp", "/slow/secret-path"), "no answer within 0.2 s"),
        ("http://127.0.0.1:1/secret-path".to_owned(), "no connection"),
        ("ftp://127.0.0.1/secret-path".to_owned(), "neither http nor https"),
        ("nonsense secret-path".to_owned(), "malformed"),
    ] {
        let time = if words.contains("0.2 s") { Duration::from_millis(200) } else { TIME };
        let why = client.get(&url, &headers(), time, 1000).await.unwrap_err();
        assert!(why.contains(words), "{url}: {why}");
        assert!(!why.contains("secret-path") && !why.contains("hush"), "{why}");
    }
}

fn notice() -> Notice {
    Notice {
        id: "op-1.7".to_owned(),
        operation: OperationId("op-1".to_owned()),
        workflow: WorkflowName("pay".to_owned()),
        server: ServerName("bank".to_owned()),
        tool: "pay \"now\"".to_owned(),
        object: Some(("invoice-1".to_owned(), None)),
        outcome: "unknown",
        reason: "budget_spent",
        why: "it was asked for long enough",
        since: UnixMillis(1_800_000_000_000),
        owners: vec!["treasury".to_owned()],
    }
}

#[tokio::test]
async fn a_webhook_is_posted_json_and_acknowledged_by_2xx_alone() {
    let web = Web::start(|seen| match seen.path.as_str() {
        "/ok" => Say::Whole(204, vec![], String::new()),
        "/moved" => Say::Whole(307, vec![("location", "/ok".to_owned())], String::new()),
        _ => Say::Whole(500, vec![], String::new()),
    })
    .await;
    let client = WebClient::new("1");
    let hook = |path: &str| Webhook { url: web.url.replace("/mcp", path), headers: headers() };
    client.notify(&hook("/ok"), &notice(), TIME).await.unwrap();
    for (path, words) in [("/moved", "HTTP 307"), ("/broken", "HTTP 500")] {
        let why = client.notify(&hook(path), &notice(), TIME).await.unwrap_err();
        assert!(why.contains(words) && !why.contains(path), "{why}");
    }
    let seen = web.seen();
    assert_eq!(seen.len(), 3);
    assert_eq!((seen[0].verb.as_str(), seen[0].header("content-type")), ("POST", Some("application/json")));
    let expected: Value = json!({
        "id": "op-1.7", "event": "operation.waiting", "operation": "op-1", "workflow": "pay", "server": "bank",
        "tool": "pay \"now\"", "object": { "name": "invoice-1", "version": null }, "outcome": "unknown",
        "reason": "budget_spent", "why": "it was asked for long enough", "since": "2027-01-15T08:00:00.000Z",
        "owners": ["treasury"],
    });
    assert_eq!(seen[0].body, expected);
}
