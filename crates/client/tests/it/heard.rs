//! What servers print and how they fare, as whoever hears it is told.

use std::sync::Arc;
use std::time::Duration;

use taskgate_client::{Hears, Secret, ServerConfig, ServerEvent, Transport};
use taskgate_core::gate::Asking;
use taskgate_engine::back::{Answer, Back};
use taskgate_wire::text::SafeText;
use tokio::sync::mpsc;

use crate::support::{key, legacy, open, python, returned, servers, tool};

const KEY: &str = "sk-0123456789abcdef";

struct Ear(mpsc::UnboundedSender<String>);

impl Hears for Ear {
    fn stderr(&self, line: &SafeText) {
        self.0.send(format!("stderr: {line}")).unwrap();
    }

    fn event(&self, what: &ServerEvent) {
        let words = match what {
            ServerEvent::Started { pid } => format!("started: {}", *pid > 1),
            ServerEvent::Opened { version, name } => {
                format!("opened: {version} {}", name.clone().unwrap_or_default())
            }
            ServerEvent::Failed { reason } => format!("failed: {reason}"),
            ServerEvent::Rubbish { line } => format!("rubbish: {line}"),
            ServerEvent::Ended { reason, is_wanted, .. } => format!("ended: {reason} ({is_wanted})"),
        };
        self.0.send(words).unwrap();
    }
}

fn with_key(behaviour: &[&str]) -> (ServerConfig, mpsc::UnboundedReceiver<String>) {
    let mut config = legacy(python(behaviour));
    let Transport::Stdio { env, .. } = &mut config.transport else { unreachable!() };
    env.push(("API_KEY".to_owned(), Secret::new(KEY)));
    let (sender, heard) = mpsc::unbounded_channel();
    config.hears = Some(Arc::new(Ear(sender)));
    (config, heard)
}

#[tokio::test]
async fn r6_3_a_secret_that_a_server_prints_is_heard_by_its_name_and_returned_as_it_is() {
    let (config, mut heard) = with_key(&[]);
    let (servers, session) = open(config, "{}").await;
    assert_eq!(heard.recv().await.unwrap(), "started: true");
    assert_eq!(heard.recv().await.unwrap(), "opened: 2025-11-25 fake");
    assert_eq!(
        returned(session.call(tool("leak", Asking::Held)).answer.await),
        KEY,
        "it is the caller's own"
    );
    let mut lines = [heard.recv().await.unwrap(), heard.recv().await.unwrap()];
    lines.sort();
    assert_eq!(lines, ["rubbish: using [API_KEY]", "stderr: rejected: [API_KEY]"]);
    servers.shutdown().await;
    let ended = heard.recv().await.unwrap();
    assert!(
        ended.starts_with("ended: it was closed; it last said: ") && ended.ends_with("(true)"),
        "{ended}"
    );
}

#[tokio::test]
async fn r6_3_the_last_words_of_a_server_hold_no_secret() {
    let (config, mut heard) = with_key(&[]);
    let (_servers, session) = open(config, "{}").await;
    let answer = session.call(tool("leak-and-die", Asking::Held)).answer.await;
    let Answer::Lost(why) = answer else { panic!("{answer:?}") };
    assert!(why.ends_with("status 7; it last said: rejected: [API_KEY]"), "{why}");
    loop {
        let words = heard.recv().await.unwrap();
        assert!(!words.contains(KEY), "{words}");
        if words.starts_with("ended: ") {
            assert!(words.ends_with("(false)"), "{words}");
            break;
        }
    }
}

#[tokio::test]
async fn r6_3_an_error_that_is_quoted_holds_no_secret_and_no_part_of_one() {
    let (config, mut heard) = with_key(&["wrong-key"]);
    let error = servers(config).session(&key("{}")).await.unwrap_err();
    assert!(error.reason.contains("[API_KEY] is not accepted"), "{error}");
    assert!(!error.reason.contains("sk-01234567"), "{error}");
    assert_eq!(heard.recv().await.unwrap(), "started: true");
    loop {
        let words = heard.recv().await.unwrap();
        if words.starts_with("failed: ") {
            assert_eq!(words, format!("failed: {}", error.reason));
            break;
        }
    }
}

#[tokio::test]
async fn a_server_that_says_elsewhere_why_it_does_not_answer_is_quoted() {
    let mut config = legacy(python(&[]));
    let Transport::Stdio { command, args, .. } = &mut config.transport else { unreachable!() };
    *command = "sh".into();
    *args = vec!["-c".into(), "echo Your name, please:; while read -r line; do :; done".into()];
    config.open_timeout = Duration::from_secs(3);
    let error = servers(config).session(&key("{}")).await.unwrap_err();
    assert!(
        error.reason.ends_with("did not answer initialize within 3 s; it last said: Your name, please:"),
        "{error}"
    );
}
