//! One call in one pair, and what happens to its question.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

use crate::call::{Asked, Call, Kind, Members, RELATED, members};
use crate::client::{Client, Front};
use crate::page::Event;
use crate::pairs;
use crate::stage::{Back, Over, Stage, mark, script};

/// All that a client can be asked.
pub(crate) fn able() -> Value {
    json!({
        "elicitation": { "form": {}, "url": {} }, "sampling": { "tools": {} }, "roots": {},
    })
}

/// All cells of an event are played at once, and those of other events beside them: on a busy machine each waits for all.
const HANGS: Duration = Duration::from_secs(300);

fn capabilities(event: Event) -> Value {
    match event {
        Event::Lacking => json!({}),
        Event::Smaller => json!({ "elicitation": { "form": {} }, "sampling": {} }),
        Event::Answered
        | Event::Declined
        | Event::Cancelled
        | Event::Error
        | Event::Silent
        | Event::Unfit
        | Event::Reconnected => able(),
    }
}

/// Whether there is such a cell: in the modern era an answer is no error (B-144).
pub(crate) fn is_there(event: Event, front: Front, _: Kind) -> bool {
    event != Event::Error || !front.is_modern()
}

/// Plays one cell over HTTP; what the server heard and how the call ended.
pub(crate) async fn play(stage: &Stage, event: Event, front: Front, back: Back, kind: Kind) -> String {
    let client = Client::http(stage.url(back, Over::Http), front, capabilities(event)).await;
    let mark = mark();
    let cell = format!("{event:?} {front:?} {back:?} {kind:?}");
    let played = cell_of(stage, event, &client, back, kind, &mark);
    let said = tokio::time::timeout(HANGS, played).await;
    said.unwrap_or_else(|_| panic!("{cell} hangs; at the server: {:?}", stage.happened(&mark)))
}

async fn cell_of(stage: &Stage, event: Event, client: &Client, back: Back, kind: Kind, mark: &str) -> String {
    let front = client.front;
    let mut call = Call::make(client, kind, mark).await;
    let asked = call.asked().await;
    match event {
        Event::Lacking | Event::Smaller => {
            assert!(asked.is_none(), "it was asked what it had not declared");
            let end = call.end().await;
            return told(stage, back, mark, &end);
        }
        Event::Answered => {
            let asked = asked.expect("a question");
            is_question(stage, (front, back), Over::Http, kind, mark, &asked);
            call.answer(&asked, kind.answer()).await;
            let end = call.end().await;
            is_answer(stage, back, kind, mark);
            return told(stage, back, mark, &end);
        }
        Event::Declined | Event::Cancelled => {
            let asked = asked.expect("a question");
            let action = if event == Event::Declined { "decline" } else { "cancel" };
            call.answer(&asked, &format!("{{\"action\":\"{action}\"}}")).await;
        }
        Event::Error => {
            let asked = asked.expect("a question");
            call.refuse(&asked, -1).await;
        }
        Event::Silent => {
            let asked = asked.expect("a question");
            return silent(stage, client, call, back, &asked, mark).await;
        }
        Event::Unfit => {
            let asked = asked.expect("a question");
            let refused = call.answer(&asked, kind.wrong()).await;
            let expected = if front.is_modern() { -32602 } else { 400 };
            assert_eq!(refused, expected, "Q-023");
            assert_eq!(stage.times(mark, "answered"), 0, "it never reaches the server");
            if front == Front::B && call.task.is_some() {
                // B-096: a key that was never given out is acknowledged and ignored.
                let params =
                    json!({ "taskId": call.task, "inputResponses": { "in-99": { "action": "accept" } } });
                let said = client.ask("tasks/update", params).await;
                assert_eq!(said["result"]["resultType"], "complete", "{said}");
            }
            call.answer(&asked, kind.answer()).await;
        }
        Event::Reconnected => {
            let asked = asked.expect("a question");
            return reconnected(stage, client, call, back, kind, &asked, mark).await;
        }
    }
    let end = call.end().await;
    told(stage, back, mark, &end)
}

/// What the server heard, and how its caller sees the end.
pub(crate) fn told(stage: &Stage, _: Back, mark: &str, end: &str) -> String {
    let mut heard: Vec<String> = stage
        .happened(mark)
        .into_iter()
        .filter(|event| {
            matches!(
                &*event.what,
                "answered" | "agreed" | "refused" | "cancelled" | "answered again" | "called again"
            )
        })
        .map(|event| match &*event.what {
            "answered" | "agreed" => action(&event.raw),
            "refused" => {
                let said: Value = serde_json::from_str(&event.raw).unwrap();
                format!("error {}", said["error"]["code"])
            }
            other => other.to_owned(),
        })
        .collect();
    if heard.is_empty() {
        heard.push("nothing".to_owned());
    }
    let end = end.replace(mark, "MARK");
    let end = if end.starts_with("heard ") { "done".to_owned() } else { end };
    format!("server hears {}; {}", heard.join(", "), end.replace('|', "\\|"))
}

/// The answer in the message that brought it.
fn answer_in(raw: &str) -> Box<serde_json::value::RawValue> {
    let mut message = members(raw);
    if let Some(result) = message.remove("result") {
        return result;
    }
    let params = members(message["params"].get());
    members(params["inputResponses"].get()).remove("theirs").expect("the server's own key")
}

fn action(raw: &str) -> String {
    let answer: Value = serde_json::from_str(answer_in(raw).get()).unwrap();
    match (answer["action"].as_str(), answer["model"].is_string()) {
        (Some(action), _) => action.to_owned(),
        (None, true) => "a message".to_owned(),
        (None, false) => "roots".to_owned(),
    }
}

/// The question has the server's own words, byte for byte, in the client's dialect (X-025).
pub(crate) fn is_question(
    stage: &Stage,
    (front, back): (Front, Back),
    over: Over,
    kind: Kind,
    mark: &str,
    asked: &Asked,
) {
    let theirs = stage.happened(mark).into_iter().find(|event| event.what == "asks").expect("it asks").raw;
    let theirs = members(&theirs);
    let method = match kind {
        Kind::Form | Kind::Url => "elicitation/create",
        Kind::Sampling | Kind::Tools => "sampling/createMessage",
        Kind::Roots => "roots/list",
    };
    assert_eq!(asked.method, method);
    // Over a pipe a plain server's roots/list names no call: it is asked of the client as a whole.
    let is_of_task = over == Over::Http || kind != Kind::Roots || back != Back::Plain;
    let names = |members: &Members| members.keys().cloned().collect::<BTreeSet<_>>();
    let (mut expected, got) = (names(&theirs), names(&asked.params));
    if kind == Kind::Url {
        // B-143, A-105
        expected.remove("elicitationId");
        if !front.is_modern() {
            expected.insert("elicitationId".to_owned());
        }
    }
    if front == Front::A && is_of_task {
        // A-066
        expected.insert("_meta".to_owned());
        let meta: Value = serde_json::from_str(asked.params["_meta"].get()).unwrap();
        assert!(meta[RELATED]["taskId"].is_string() && !meta.to_string().contains(mark), "{meta}");
    }
    assert_eq!(got, expected, "{front:?} {back:?} {kind:?}");
    for (name, value) in &theirs {
        if let Some(shown) = asked.params.get(name) {
            assert_eq!(shown.get(), value.get(), "{front:?} {back:?} {kind:?}: {name}");
        }
    }
}

/// The answer reached the server once, byte for byte, in the server's dialect.
pub(crate) fn is_answer(stage: &Stage, back: Back, kind: Kind, mark: &str) {
    let happened = stage.happened(mark);
    let answers: Vec<_> = happened
        .iter()
        .filter(|event| event.what.starts_with("answered") || event.what == "agreed")
        .collect();
    assert_eq!(answers.len(), 1, "G-011: {happened:?}");
    let (mut got, given) = (members(answer_in(&answers[0].raw).get()), members(kind.answer()));
    let meta = got.remove("_meta").map(|meta| serde_json::from_str::<Value>(meta.get()).unwrap());
    let related = (back == Back::A).then(|| json!({ RELATED: { "taskId": format!("up-{mark}") } }));
    assert_eq!(meta, related, "A-069, X-021: {back:?}");
    let text = |members: &Members| {
        members.iter().map(|(name, value)| (name.clone(), value.get().to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(text(&got), text(&given), "{back:?} {kind:?}");
    if back == Back::Rounds {
        let raw = &answers[0].raw;
        assert!(raw.contains(&format!(r#""requestState":"s\u0074ate \/ {mark}""#)), "G-014: {raw}");
    }
}

/// Nobody answers: the deadline ends it.
async fn silent(
    stage: &Stage,
    client: &Client,
    mut call: Call<'_>,
    back: Back,
    asked: &Asked,
    mark: &str,
) -> String {
    let front = client.front;
    let mut end = String::new();
    if front == Front::A || front == Front::Plain {
        // A-092: what nobody need answer any more is taken back.
        let taken_back = loop {
            let message: Value = serde_json::from_str(&client.heard().await).unwrap();
            if message["method"] == "notifications/cancelled" {
                break message;
            }
        };
        assert_eq!(taken_back["params"]["requestId"].to_string(), Call::key(asked));
    }
    if back != Back::Rounds {
        // The server is told, whoever still looks.
        let told: &[&str] = if back == Back::B { &["cancelled"] } else { &["answered", "refused"] };
        stage.until(mark, told).await;
    }
    if front == Front::B && call.task.is_none() {
        while call.answer_nothing(asked).await == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    if front != Front::Rounds {
        if call.task.is_some() || front == Front::Plain {
            end = call.end().await;
        }
        if front == Front::B && call.task.is_some() {
            assert!(call.read().await["inputRequests"].is_null(), "the question is closed");
        }
    }
    if back == Back::A || back == Back::B || (back == Back::Plain && front != Front::Rounds) {
        stage.until(mark, &["cancelled", "ended"]).await;
    }
    if front == Front::Rounds {
        // It holds nothing but a state, which is asked about until it is of no use.
        while call.answer_nothing(asked).await == 200 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    // Too late: nothing of it reaches the server, which may meanwhile see connections go.
    let said_to_it = || {
        let goes_by_itself = |event: &str| matches!(event, "cancelled" | "ended" | "hung up");
        stage.happened(mark).into_iter().filter(|event| !goes_by_itself(&event.what)).count()
    };
    let before = said_to_it();
    let late = call.answer(asked, Kind::Form.answer()).await;
    if end.is_empty() {
        end = format!("comes too late: {late}");
    }
    assert_eq!(said_to_it(), before, "{:?}", stage.happened(mark));
    // Over a legacy line it hears that nobody answered, and on another that it can stop: in whichever order.
    let said = told(stage, back, mark, &end);
    if stage.times(mark, "answered") + stage.times(mark, "refused") > 0 {
        return said.replace("cancelled, ", "").replace(", cancelled", "");
    }
    said
}

/// All connections break while it is asked.
async fn reconnected(
    stage: &Stage,
    client: &Client,
    mut call: Call<'_>,
    back: Back,
    kind: Kind,
    asked: &Asked,
    mark: &str,
) -> String {
    client.hang_up();
    let again = match client.front {
        Front::A => {
            call.wait();
            let again = call.asked().await.expect("the question again");
            assert_ne!(Call::key(&again), Call::key(asked), "A-002");
            again
        }
        Front::B if call.task.is_some() => {
            let again = call.asked().await.expect("the question again");
            assert_eq!(Call::key(&again), Call::key(asked), "B-077");
            again
        }
        Front::Plain => {
            // Its host calls again, which is the same call (design 3).
            call = Call::make(client, kind, mark).await;
            call.asked().await.expect("the question again")
        }
        Front::B | Front::Rounds => {
            call.answer(asked, kind.answer()).await;
            let end = call.end().await;
            is_answer(stage, back, kind, mark);
            return told(stage, back, mark, &end);
        }
    };
    is_question(stage, (client.front, back), Over::Http, kind, mark, &again);
    call.answer(&again, kind.answer()).await;
    let end = call.end().await;
    is_answer(stage, back, kind, mark);
    assert_eq!(stage.times(mark, "called"), 1, "R4.5");
    told(stage, back, mark, &end)
}

/// Every pair over stdio on both sides, and every kind on each pipe.
pub(crate) async fn over_pipes(stage: &Stage) {
    let plays = pairs().into_iter().map(async |(front, back)| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_taskgate"));
        command.args(["run", "--foreground", "--", "python3"]).arg(script()).arg(back.key());
        command.env("ASKER_JOURNAL", stage.journal()).env("NO_COLOR", "1").env("HOME", stage.folder());
        command.env("XDG_STATE_HOME", stage.folder().join(format!("{front:?}{back:?}")));
        let client = Client::stdio(&mut command, front, able()).await;
        for kind in Kind::ALL {
            let mark = mark();
            let mut call = Call::make(&client, kind, &mark).await;
            let asked = call.asked().await.unwrap_or_else(|| panic!("{front:?} {back:?} {kind:?}"));
            is_question(stage, (front, back), Over::Stdio, kind, &mark, &asked);
            if !front.is_modern() {
                // A pipe has no status: what does not fit is asked again.
                call.answer(&asked, kind.wrong()).await;
                let again = call.asked().await.expect("the question again");
                assert_ne!(Call::key(&again), Call::key(&asked));
                call.answer(&again, kind.answer()).await;
            } else {
                call.answer(&asked, kind.answer()).await;
            }
            let end = call.end().await;
            is_answer(stage, back, kind, &mark);
            assert!(end.starts_with("heard "), "{front:?} {back:?} {kind:?}: {end}");
        }
    });
    stream::iter(plays).buffer_unordered(4).collect::<Vec<_>>().await;
}
