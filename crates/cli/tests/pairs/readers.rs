//! Several readers of one task.

use serde_json::{Value, json};

use crate::call::{Call, Kind};
use crate::client::{Client, Front};
use crate::plays::{able, is_answer};
use crate::stage::{Back, Over, Stage, mark};

/// Every back, and each two kinds of readers.
pub(crate) async fn all(stage: &Stage) {
    let kinds = [Kind::Form, Kind::Sampling];
    let cells = Back::ALL.into_iter().flat_map(|back| {
        [(Front::A, Front::A), (Front::A, Front::B), (Front::B, Front::A), (Front::B, Front::B)]
            .into_iter()
            .flat_map(move |(first, second)| kinds.map(move |kind| (back, first, second, kind)))
    });
    futures_util::future::join_all(
        cells.map(async |(back, first, second, kind)| two(stage, back, first, second, kind).await),
    )
    .await;
    futures_util::future::join_all(Back::ALL.map(async |back| beside_the_handle_tool(stage, back).await))
        .await;
}

/// Both see the question; the first answer counts, and the second is acknowledged and never reaches the server.
async fn two(stage: &Stage, back: Back, first: Front, second: Front, kind: Kind) {
    let url = stage.url(back, Over::Http);
    let (one, other) = (Client::http(url, first, able()).await, Client::http(url, second, able()).await);
    let mark = mark();
    let mut call = Call::make(&one, kind, &mark).await;
    if call.task.is_none() {
        // A server that asks before it decides is answered on the request itself, which has one reader (B-069).
        assert!(back == Back::Rounds && first == Front::B);
        return;
    }
    let asked = call.asked().await.expect("a question");
    let mut beside = call.read_by(&other);
    let also = beside.asked().await.expect("the other reader is asked, too");
    // The second says something else, so that it would be seen.
    let different = match kind {
        Kind::Form | Kind::Url => r#"{"action":"decline"}"#.to_owned(),
        Kind::Sampling | Kind::Tools | Kind::Roots => kind.answer().replace("m-1", "m-2"),
    };
    let taken = |front: Front| if front.is_modern() { 200 } else { 202 };
    if kind == Kind::Form {
        assert_eq!(call.answer(&asked, kind.answer()).await, taken(first));
        if second == Front::A {
            // A-092: what another has answered is taken back.
            let message = other.heard().await;
            assert!(
                message.contains("notifications/cancelled") && message.contains(Call::key(&also)),
                "{message}"
            );
        }
        assert_eq!(beside.answer(&also, &different).await, taken(second), "X-031, B-096");
    } else {
        // In the same moment.
        let said = tokio::join!(call.answer(&asked, kind.answer()), beside.answer(&also, &different));
        assert_eq!(said, (taken(first), taken(second)), "X-031, B-096");
    }
    let (end, seen) = (call.end().await, beside.end().await);
    assert_eq!(end, seen, "{back:?} {first:?} {second:?} {kind:?}");
    assert!(end.starts_with("heard "), "{end}");
    if kind == Kind::Form {
        is_answer(stage, back, kind, &mark);
    }
    // And once more, when all is over.
    call.answer(&asked, &different).await;
    beside.answer(&also, &different).await;
    let answers = stage.happened(&mark).iter().filter(|event| event.what.starts_with("answered")).count();
    assert_eq!(answers, 1, "G-011");
}

/// A client that reads no streams gets a handle, and answers there; a session that follows the same task is asked, too.
async fn beside_the_handle_tool(stage: &Stage, back: Back) {
    let url = stage.url(back, Over::Http);
    let kind = Kind::Form;
    let (one, tool) =
        (Client::http(url, Front::A, able()).await, Client::http(url, Front::Plain, able()).await);
    let mark = mark();
    let mut call = Call::make(&one, kind, &mark).await;
    let asked = call.asked().await.expect("a question");
    let answer = async |reply: &str| {
        let reply: Value = serde_json::from_str(reply).unwrap();
        let arguments = json!({ "action": "answer", "taskId": call.task, "key": "in-1", "reply": reply });
        tool.ask("tools/call", json!({ "name": "taskgate_task", "arguments": arguments })).await
    };
    let said = answer(r#"{"action":"accept","content":{"n":1}}"#).await;
    assert!(said["result"]["isError"] != true, "{said}");
    let late = answer(r#"{"action":"decline"}"#).await;
    assert_eq!(late["result"]["isError"], true, "{late}");
    assert!(late.to_string().contains("answered already"), "{late}");
    call.answer(&asked, r#"{"action":"decline"}"#).await;
    assert!(call.end().await.starts_with("heard \"accept\""));
    assert_eq!(stage.times(&mark, "answered"), 1);
    assert_eq!(stage.times(&mark, "answered again"), 0);
}
