//! What clients hear when the store has broken for good.

use serde_json::json;

use super::http_client;
use super::rig::{Rig, config};

#[tokio::test]
async fn notes_2_7_whoever_waits_for_a_call_hears_at_once_that_the_store_has_failed() {
    let rig = Rig::with(config()).await;
    let client = rig.session("2025-11-25", json!({})).await;
    let waiting = client.open("tools/call", json!({"name": "slow"})).await;
    rig.fake.has_called(1).await;
    rig.store.break_down("disk I/O error (code 1034)");
    let error = waiting.finish().await.json()["error"].clone();
    assert_eq!(error["code"], -32603, "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("store has failed") && message.contains("not known yet"), "{message}");
    assert_eq!(
        (&error["data"]["outcome"], &error["data"]["reason"]),
        (&json!("unknown"), &json!("store_failed"))
    );
    assert!(error["data"]["operation"].is_string(), "{error}");
    // A path, and the database's own words, are for the operator.
    assert!(!message.contains("1034"), "{message}");

    let refused = client.open("tools/call", json!({"name": "echo"})).await.finish().await.json();
    let words = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(words.contains("store has failed"), "{refused}");
    assert_eq!(rig.fake.calls.lock().len(), 1, "nothing more is sent");
    for path in ["/healthz", "/readyz"] {
        let host = [("host", "10.0.0.1")];
        assert_eq!(http_client::open(rig.addr, "GET", path, &host, None).await.status, 503, "{path}");
    }
}
