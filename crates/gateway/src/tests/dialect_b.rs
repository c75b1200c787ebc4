//! Subscriptions, discovery and lists of stateless clients.

use serde_json::json;
use taskgate_client::Notice;
use taskgate_core::gate::BackTasks;
use taskgate_wire::version::Version;

use super::rig::{Fake, Rig, config, redact, with_tasks};
use super::schema::{is_b, is_x};

#[tokio::test]
async fn b_018_b_056_discovery_names_versions_capabilities_and_the_extension() {
    let rig = Rig::start().await;
    let result = &rig.modern("server/discover", json!({}), json!({})).await.json()["result"];
    is_b("DiscoverResult", result);
    insta::assert_snapshot!(result);
}

#[tokio::test]
async fn b_149_b_153_tools_are_listed_without_execution_and_with_cache_hints() {
    for (version, tasks) in [(Version::V2025_11_25, BackTasks::A), (Version::V2026_07_28, BackTasks::B)] {
        let rig = Rig::before(Fake::new(version, tasks), config()).await;
        let plain = &rig.modern("tools/list", json!({}), json!({})).await.json()["result"];
        is_b("ListToolsResult", plain);
        let names: Vec<&str> =
            plain["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names.last(), Some(&"taskgate_task"));
        assert!(plain["tools"][0].get("execution").is_none());
        assert!(plain["tools"][0].get("outputSchema").is_none(), "a handle may stand in for the result");
        let declaring = &rig.modern("tools/list", with_tasks(), json!({})).await.json()["result"];
        is_b("ListToolsResult", declaring);
        assert!(!declaring["tools"].to_string().contains("taskgate_task"));
        assert!(declaring["tools"][0].get("outputSchema").is_some());
    }
}

#[tokio::test]
async fn b_107_b_108_b_131_b_132_b_135_q_026_q_027_x_041_x_042_a_subscription_acknowledges_snapshots_and_pushes_the_full_task()
 {
    let rig = Rig::hasty().await;
    let created = rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await.json();
    let id = created["result"]["taskId"].as_str().unwrap();
    let listen = json!({"notifications": {"taskIds": [id, "tunknown", id]}});
    let mut stream = rig.modern_open("subscriptions/listen", with_tasks(), listen).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    let acknowledged = stream.message().await.unwrap();
    is_b("SubscriptionsAcknowledgedNotification", &acknowledged);
    assert_eq!(acknowledged["params"]["notifications"]["taskIds"], json!([id]), "Q-026");
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1, "B-132");
    let snapshot = stream.message().await.unwrap();
    is_x("TaskStatusNotification", &snapshot);
    assert_eq!(snapshot["params"]["status"], "working", "Q-027");
    rig.fake.gate.open();
    let pushed = stream.message().await.unwrap();
    is_x("TaskStatusNotification", &pushed);
    insta::assert_snapshot!(redact(pushed["params"].clone()));
    let mut got = rig.modern("tasks/get", with_tasks(), json!({"taskId": id})).await.json()["result"].clone();
    got.as_object_mut().unwrap().remove("resultType");
    let mut full = pushed["params"].clone();
    full.as_object_mut().unwrap().remove("_meta");
    assert_eq!(full, got, "B-107");
    // Nothing is left to say.
    let closing = stream.message().await.unwrap();
    is_b("SubscriptionsListenResult", &closing["result"]);
    assert!(stream.message().await.is_none(), "B-135");
}

#[tokio::test]
async fn b_112_changes_of_lists_come_only_to_those_who_asked() {
    let rig = Rig::start().await;
    let listen = json!({"notifications": {"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["file:///a"]}});
    let mut stream = rig.modern_open("subscriptions/listen", json!({}), listen).await;
    let acknowledged = stream.message().await.unwrap();
    let accepted = &acknowledged["params"]["notifications"];
    is_b("SubscriptionsAcknowledgedNotification", &acknowledged);
    assert!(accepted.get("taskIds").is_none());
    assert!(accepted.get("promptsListChanged").is_none(), "the server does not announce it");
    assert_eq!(accepted["toolsListChanged"], true);
    rig.fake.notices.send(Notice::PromptsChanged).unwrap();
    rig.fake.notices.send(Notice::ToolsChanged).unwrap();
    let changed = stream.message().await.unwrap();
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
}

#[tokio::test]
async fn b_135_g_021_open_subscriptions_are_ended_in_good_order_when_we_stop() {
    let rig = Rig::start().await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = rig.modern_open("subscriptions/listen", json!({}), listen).await;
    stream.message().await.unwrap();
    rig.shutdown.cancel();
    let closing = stream.message().await.unwrap();
    assert_eq!(closing["result"]["resultType"], "complete");
    assert!(stream.message().await.is_none());
}

#[tokio::test]
async fn g_024_subscriptions_and_their_filters_are_capped() {
    let mut config = config();
    config.limits.listens_max = 1;
    config.limits.filter_max = 2;
    let rig = Rig::with(config).await;
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let mut stream = rig.modern_open("subscriptions/listen", json!({}), listen.clone()).await;
    stream.message().await.unwrap();
    let refused = rig.modern("subscriptions/listen", json!({}), listen).await.json();
    assert_eq!(refused["error"]["code"], -32603);
    let wide = json!({"notifications": {"taskIds": ["t1", "t2", "t3"]}});
    let refused = rig.modern("subscriptions/listen", with_tasks(), wide).await.json();
    assert_eq!(refused["error"]["code"], -32603);
}

#[tokio::test]
async fn g_008_a_task_is_seen_from_either_dialect() {
    let rig = Rig::hasty().await;
    let created = rig.modern("tools/call", with_tasks(), json!({"name": "slow"})).await.json();
    let id = created["result"]["taskId"].clone();
    let client = rig.session("2025-11-25", json!({})).await;
    let seen = client.ask("tasks/get", json!({"taskId": id})).await.json();
    super::schema::is_a("GetTaskResult", &seen["result"]);
    assert_eq!(seen["result"]["taskId"], id);
    let made = client.task("slow").await;
    let seen = rig.modern("tasks/get", with_tasks(), json!({"taskId": made})).await.json();
    is_x("GetTaskResult", &seen["result"]);
}
