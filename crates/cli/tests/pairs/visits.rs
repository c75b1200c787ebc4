//! A URL that must be visited before a call can run: the server says so by `-32042`.

use serde_json::{Value, json};

use crate::call::Call;
use crate::client::{Client, Front};
use crate::plays::able;
use crate::stage::{Back, Over, Stage, mark};

/// The servers that know the code: it is of 2025-11-25.
const BACKS: [Back; 2] = [Back::A, Back::Plain];

pub(crate) async fn all() {
    let stage = Stage::shared();
    futures_util::future::join_all(BACKS.map(async |back| {
        tokio::join!(
            visited_in_a_task(stage, back),
            not_repeated_without_leave(stage, back),
            declined(stage, back),
            without_the_ability(stage, back),
            by_a_second_call(stage, back),
            told_when_done(stage, back),
        );
    }))
    .await;
}

/// The person has been there, as the server's own page tells it.
async fn visit(stage: &Stage, back: Back, mark: &str) {
    let address = format!("http://127.0.0.1:{}/visited", stage.port(back));
    let page = Client::http(&address, Front::Rounds, json!({})).await;
    assert_eq!(page.say(mark).await, 202);
}

/// G-022: a call that may be sent again is, once the visit is over and not when it was agreed to.
async fn visited_in_a_task(stage: &Stage, back: Back) {
    let client = Client::http(stage.url(back, Over::Http), Front::A, able()).await;
    client.listen();
    let mark = mark();
    let mut call = Call::first(&client, "again", &mark).await;
    let asked = call.asked().await.expect("to visit a URL");
    let flow = format!("\"flow-{mark}\"");
    assert_eq!(asked.params["elicitationId"].get(), flow, "it is the server's own id");
    assert_eq!(asked.params["url"].get(), format!("\"https://auth.example/first?m={mark}\""));
    assert_eq!(call.read().await["status"], "input_required");
    assert_eq!(call.answer(&asked, r#"{"action":"accept"}"#).await, 202);
    // R6.4: to agree is to agree, nothing more.
    assert_eq!(call.read().await["status"], "working");
    assert_eq!(stage.times(&mark, "called"), 1);
    visit(stage, back, &mark).await;
    assert_eq!(call.end().await, "connected", "{back:?}");
    assert_eq!(stage.times(&mark, "called"), 2, "{back:?}");
    // A-107: its client hears that it is over, once; on whichever of its streams, and so before or after the end.
    let is_done = |message: &String| message.contains("elicitation/complete") && message.contains(&flow);
    while !is_done(&client.heard().await) {}
    let heard = client.heard_meanwhile().await;
    assert!(!heard.iter().any(is_done), "{back:?}: {heard:?}");
}

/// G-022: a call that may have consequences is not made a second time, whatever the server's word for the first.
async fn not_repeated_without_leave(stage: &Stage, back: Back) {
    let client = Client::http(stage.url(back, Over::Http), Front::A, able()).await;
    let mark = mark();
    let mut call = Call::first(&client, "ask", &mark).await;
    assert!(call.asked().await.is_none(), "{back:?}");
    let end = call.end().await;
    assert!(end.starts_with("-32042") && end.contains("https://auth.example/first"), "E-009: {end}");
    visit(stage, back, &mark).await;
    assert_eq!(stage.times(&mark, "called"), 1, "{back:?}");
}

/// Who does not want to gets the server's error, with the URL.
async fn declined(stage: &Stage, back: Back) {
    let client = Client::http(stage.url(back, Over::Http), Front::A, able()).await;
    let mark = mark();
    let mut call = Call::first(&client, "again", &mark).await;
    let asked = call.asked().await.expect("to visit a URL");
    call.answer(&asked, r#"{"action":"decline"}"#).await;
    let end = call.end().await;
    assert!(end.starts_with("-32042") && end.contains("https://auth.example/first"), "{back:?}: {end}");
    assert_eq!(stage.times(&mark, "called"), 1, "{back:?}");
}

/// X-033, E-009: a client that cannot visit URLs.
async fn without_the_ability(stage: &Stage, back: Back) {
    let url = stage.url(back, Over::Http);
    for front in Front::ALL {
        let client = Client::http(url, front, json!({ "elicitation": { "form": {} } })).await;
        let mark = mark();
        let mut call = Call::first(&client, "again", &mark).await;
        assert!(call.asked().await.is_none());
        let end = call.end().await;
        match (front, back) {
            (Front::A | Front::Plain, _) => assert!(end.starts_with("-32042"), "{front:?} {back:?}: {end}"),
            // It has a task by then, whose end says which URL (G-022), unless the server was quicker.
            (Front::B, _) => {
                assert!(end.starts_with("-32603") || end.starts_with("-32021"), "{front:?} {back:?}: {end}");
                assert!(end.starts_with("-32021") || end.contains("https://auth.example/first"), "{end}");
            }
            (Front::Rounds, _) => {
                assert!(end.starts_with("-32021") && end.contains("\"url\""), "{front:?} {back:?}: {end}");
            }
        }
        assert_eq!(stage.times(&mark, "called"), 1);
    }
}

/// X-033: a client without a task visits the URL and calls again.
async fn by_a_second_call(stage: &Stage, back: Back) {
    let client = Client::http(stage.url(back, Over::Http), Front::Rounds, able()).await;
    let mark = mark();
    let mut call = Call::first(&client, "again", &mark).await;
    let asked = call.asked().await.expect("to visit a URL");
    assert!(!asked.params.contains_key("elicitationId"), "B-143");
    visit(stage, back, &mark).await;
    call.answer(&asked, r#"{"action":"accept"}"#).await;
    assert_eq!(call.end().await, "connected", "{back:?}");
    assert_eq!(stage.times(&mark, "called"), 2, "{back:?}");
}

/// X-032, A-107: who agreed to visit a URL hears when it is done, on the stream that there is; in the modern era nothing
/// is said of it.
async fn told_when_done(stage: &Stage, back: Back) {
    let backs = [back, if back == Back::A { Back::B } else { Back::Rounds }];
    for back in backs {
        for front in Front::ALL {
            let client = Client::http(stage.url(back, Over::Http), front, able()).await;
            let mark = mark();
            let mut call = Call::make(&client, crate::call::Kind::Url, &mark).await;
            let asked = call.asked().await.expect("to visit a URL");
            call.answer(&asked, r#"{"action":"accept"}"#).await;
            assert!(call.end().await.starts_with("heard "));
            let told = |message: &String| {
                let message: Value = serde_json::from_str(message).unwrap();
                let is_it = message["method"] == "notifications/elicitation/complete";
                is_it.then(|| message["params"]["elicitationId"].clone())
            };
            if let Some(id) = asked.params.get("elicitationId") {
                let id: Value = serde_json::from_str(id.get()).unwrap();
                let first = loop {
                    if let Some(told) = told(&client.heard().await) {
                        break told;
                    }
                };
                assert_eq!(first, id, "{front:?} {back:?}");
            }
            let more: Vec<Value> = client.heard_meanwhile().await.iter().filter_map(told).collect();
            assert!(more.is_empty(), "{front:?} {back:?}: {more:?}");
        }
    }
}
