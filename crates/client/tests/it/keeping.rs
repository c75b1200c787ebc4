//! Servers that come and go while others are used, and sessions that many share.

use std::sync::Arc;
use std::time::Duration;

use taskgate_client::{Options, RawAnswer, Servers, Session, Sharing};
use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, ServerName};
use taskgate_engine::back::{Answer, Back, BackEvent, BackKey, Backs};
use tokio::time::timeout;

use crate::support::{ELICITS, answer, key, legacy, open, python, returned, servers, tool};

async fn pid(session: &Session) -> u64 {
    match session.request("announce", None).answer.await {
        RawAnswer::Result(result) => {
            serde_json::from_slice::<serde_json::Value>(&result).unwrap()["pid"].as_u64().unwrap()
        }
        other => panic!("{other:?}"),
    }
}

fn of(principal: &str, offers: &str) -> BackKey {
    BackKey { principal: Principal::stored(principal.to_owned()), ..key(offers) }
}

#[tokio::test]
async fn a_server_can_be_used_from_when_it_is_added_until_it_is_removed() {
    let servers = Servers::new(vec![], Options::default());
    let fake = ServerName("fake".to_owned());
    let error = servers.session(&key("{}")).await.unwrap_err();
    assert!(error.reason.contains("not configured"), "{error}");
    assert!(!Backs::is_known(&*servers, &fake));
    assert!(servers.add(legacy(python(&[]))));
    assert!(!servers.add(legacy(python(&["exit"]))), "the first stays");
    assert!(Backs::is_known(&*servers, &fake) && servers.config(&fake).is_some());
    let session = servers.session(&key("{}")).await.unwrap();
    assert!(servers.remove(&fake).await);
    assert!(session.over().is_some(), "its process is gone by then");
    assert!(!servers.remove(&fake).await);
    servers.session(&key("{}")).await.unwrap_err();
    assert!(servers.add(legacy(python(&[]))), "another may come in its place");
    servers.session(&key("{}")).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_opened_while_its_server_is_removed_is_closed() {
    let servers = servers(legacy(python(&[])));
    let fake = ServerName("fake".to_owned());
    let opening = tokio::spawn({
        let servers = servers.clone();
        async move { servers.session(&key("{}")).await }
    });
    tokio::task::yield_now().await;
    servers.remove(&fake).await;
    match opening.await.unwrap() {
        Ok(session) => assert!(session.over().is_some()),
        Err(error) => assert!(error.reason.contains("configured"), "{error}"),
    }
    assert!(servers.running().is_empty());
}

#[tokio::test]
async fn only_sessions_that_nobody_uses_are_retired() {
    let servers = servers(legacy(python(&["tasks"])));
    let fake = ServerName("fake".to_owned());
    let session = servers.session(&key("{}")).await.unwrap();
    let first = pid(&session).await;
    servers.retire(&fake).await;
    assert_eq!(session.over(), None, "somebody holds it");
    let accepted = session.call(tool("may", Asking::Augmented)).answer.await;
    assert!(matches!(accepted, Answer::Task(_)), "{accepted:?}");
    drop(session);
    servers.retire(&fake).await;
    let session = servers.session(&key("{}")).await.unwrap();
    assert_eq!(pid(&session).await, first, "it watches a task");
    let upstream = crate::support::upstream("up:1");
    session.cancel(&upstream).await.unwrap();
    session.look(&upstream).await.unwrap();
    drop(session);
    servers.retire(&fake).await;
    assert!(servers.running().is_empty());
    assert_ne!(pid(&servers.session(&key("{}")).await.unwrap()).await, first);
}

#[tokio::test]
async fn a_restart_ends_what_is_under_way_and_the_next_use_begins_at_once() {
    let (servers, session) = open(legacy(python(&[])), "{}").await;
    let fake = ServerName("fake".to_owned());
    let first = pid(&session).await;
    let hanging = tokio::spawn(session.call(tool("hang", Asking::Held)).answer);
    session.call(tool("echo", Asking::Held)).answer.await;
    timeout(Duration::from_secs(20), servers.restart(&fake)).await.unwrap();
    let lost = hanging.await.unwrap();
    assert!(matches!(lost, Answer::Lost(_)), "{lost:?}");
    assert_ne!(pid(&servers.session(&key("{}")).await.unwrap()).await, first);

    let mut failing = legacy(python(&["exit"]));
    failing.restart.first = Duration::from_secs(3600);
    failing.restart.max = Duration::from_secs(3600);
    let servers = crate::support::servers(failing);
    for _ in 0..2 {
        servers.session(&key("{}")).await.unwrap_err();
    }
    assert!(servers.session(&key("{}")).await.unwrap_err().reason.contains("tried again in"));
    servers.restart(&fake).await;
    assert!(!servers.session(&key("{}")).await.unwrap_err().reason.contains("tried again in"));
}

#[tokio::test]
async fn what_runs_is_told_with_its_process_and_version() {
    let (servers, session) = open(legacy(python(&["version=2025-06-18"])), "{}").await;
    let process = pid(&session).await;
    let running = servers.running();
    let [only] = running.as_slice() else { panic!("{running:?}") };
    assert_eq!((only.server.0.as_str(), only.pid.map(u64::from)), ("fake", Some(process)));
    assert_eq!((only.version.as_str(), only.name.as_ref().unwrap().as_str()), ("2025-06-18", "fake"));
    assert!(only.since.0 > 1_700_000_000_000 && only.busy);
    drop(session);
    assert!(!servers.running()[0].busy);
}

#[tokio::test]
async fn one_session_for_all_is_offered_what_its_first_user_offers() {
    let mut config = legacy(python(&[]));
    config.sharing = Sharing::First;
    let servers = servers(config);
    let asks = servers.session(&of("a", ELICITS)).await.unwrap();
    let plain = servers.session(&of("b", "{}")).await.unwrap();
    assert_eq!(pid(&asks).await, pid(&plain).await);
    assert_eq!(plain.sharing(), Sharing::First);
    let heard = &plain.manifest().evidence[0].said;
    assert!(heard.contains("\"elicitation\": {}"), "{heard}");
    // What it asks during the call of one that cannot be asked is asked all the same: it is a question of that call.
    let mut call = plain.call(tool("elicit", Asking::Held));
    let asked = tokio::spawn(call.answer);
    assert!(answer(&mut call.events, "{\"action\":\"decline\"}").await.contains("elicit"));
    assert!(returned(asked.await.unwrap()).contains("decline"));
}

#[tokio::test]
async fn design_5_one_session_for_all_may_be_offered_nothing() {
    let mut config = legacy(python(&[]));
    config.sharing = Sharing::Nobody;
    let servers = servers(config);
    let session: Arc<Session> = servers.session(&of("a", ELICITS)).await.unwrap();
    assert_eq!(pid(&session).await, pid(&servers.session(&of("b", "{}")).await.unwrap()).await);
    assert!(returned(session.call(tool("elicit", Asking::Held)).answer.await).contains("-32601"));
}

#[tokio::test]
async fn design_5_roots_alone_let_calls_run_together() {
    let (_servers, session) = open(legacy(python(&[])), "{\"roots\":{}}").await;
    let hanging = session.call(tool("hang", Asking::Held));
    let mut events = hanging.events;
    let hanging = tokio::spawn(hanging.answer);
    let answered = timeout(Duration::from_secs(20), session.call(tool("echo", Asking::Held)).answer).await;
    assert!(matches!(answered.unwrap(), Answer::Returned { .. }));
    assert!(!hanging.is_finished());
    hanging.abort();
    assert!(!matches!(events.try_recv(), Ok(BackEvent::Asked { .. })));
}
