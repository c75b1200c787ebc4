//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use taskgate_client::{EraChoice, InheritEnv, Options, Restart, ServerConfig, Servers, Session, Transport};
use taskgate_core::gate::Asking;
use taskgate_core::id::{Principal, ServerName};
use taskgate_core::operation::Upstream;
use taskgate_core::time::Millis;
use taskgate_engine::back::{Answer, BackEvent, BackKey, Outgoing, Reply};
use tokio::sync::mpsc;

pub(crate) const ELICITS: &str = "{\"elicitation\":{}}";

pub(crate) fn python(behaviour: &[&str]) -> ServerConfig {
    let mut args = vec![concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/fake.py").into()];
    args.extend(behaviour.iter().map(Into::into));
    let transport = Transport::Stdio {
        command: "python3".into(),
        args,
        env: vec![],
        cwd: None,
        inherit_env: InheritEnv::All,
    };
    let mut config = ServerConfig::new("fake", transport);
    config.message_bytes_max = 1_000_000;
    config.grace = Duration::from_secs(5);
    config.restart = Restart {
        first: Duration::from_millis(50),
        max: Duration::from_millis(200),
        calm: Duration::from_secs(60),
    };
    config
}

pub(crate) fn http(url: &str) -> ServerConfig {
    let transport = Transport::Http {
        url: url.to_owned(),
        headers: vec![("authorization".to_owned(), taskgate_client::Secret::new("Bearer ours"))],
    };
    ServerConfig::new("fake", transport)
}

pub(crate) fn legacy(mut config: ServerConfig) -> ServerConfig {
    config.era = EraChoice::Legacy;
    config
}

pub(crate) fn key(offers: &str) -> BackKey {
    BackKey {
        server: ServerName("fake".to_owned()),
        principal: Principal::local(),
        offers: offers.to_owned(),
    }
}

pub(crate) fn servers(config: ServerConfig) -> Arc<Servers> {
    Servers::new(vec![config], Options::default())
}

pub(crate) async fn open(config: ServerConfig, offers: &str) -> (Arc<Servers>, Arc<Session>) {
    let servers = servers(config);
    let session = servers.session(&key(offers)).await.expect("the server is reached");
    (servers, session)
}

pub(crate) fn tool(name: &str, asking: Asking) -> Outgoing {
    Outgoing {
        tool: name.to_owned(),
        params: Bytes::from(format!("{{\"name\":\"{name}\",\"arguments\":{{\"q\":\"{name}\"}}}}")),
        asking,
        ttl: Millis::hours(2),
        key: None,
        offers: "{}".to_owned(),
        round: None,
    }
}

pub(crate) fn upstream(task_id: &str) -> Upstream {
    Upstream { task_id: task_id.to_owned(), session: None }
}

/// The result's text.
pub(crate) fn returned(answer: Answer) -> String {
    match answer {
        Answer::Returned { result, .. } => {
            let value: serde_json::Value = serde_json::from_slice(&result).unwrap();
            value["content"][0]["text"].as_str().unwrap_or_default().to_owned()
        }
        other => panic!("{other:?}"),
    }
}

/// Answers the next question by `result`.
pub(crate) async fn answer(events: &mut mpsc::UnboundedReceiver<BackEvent>, result: &'static str) -> String {
    loop {
        match events.recv().await.expect("a question") {
            BackEvent::Asked { question, reply, .. } => {
                reply.send(Reply::Result(Bytes::from_static(result.as_bytes()))).unwrap();
                return String::from_utf8(question.params.to_vec()).unwrap();
            }
            BackEvent::Progress(_)
            | BackEvent::Log(_)
            | BackEvent::Unasked { .. }
            | BackEvent::Nudge
            | BackEvent::Visited { .. } => {}
        }
    }
}
