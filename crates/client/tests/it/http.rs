//! Servers over Streamable HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use taskgate_client::{EraChoice, RawAnswer};
use taskgate_core::gate::{Asking, BackTasks};
use taskgate_core::operation::Upstream;
use taskgate_core::recovery::Survival;
use taskgate_engine::back::{Answer, Back, BackEvent, Backs, LookError, Reply, Round, Stand};
use taskgate_wire::Era;
use tokio::sync::{Notify, mpsc};

use crate::support::{ELICITS, answer, http, key, legacy, open, returned, servers, tool, upstream};
use crate::web::{Say, Seen, Web, discovered, empty, error, event, events, result, text, whole};

const TASKS: &str = "{\"tasks\":{\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}}";

fn with_tasks() -> Value {
    serde_json::from_str(TASKS).unwrap()
}

/// A server that answers `server/discover` by `discover` and `initialize` well.
async fn probed(discover: impl Fn(&Seen) -> Say + Send + Sync + 'static) -> Web {
    Web::legacy(json!({}), move |seen| match seen.method() {
        "server/discover" => discover(&seen),
        _ => empty(405),
    })
    .await
}

#[tokio::test]
async fn b_032_d_014_a_discover_result_means_modern() {
    let web = probed(|seen| result(seen, discovered())).await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    assert_eq!(session.manifest().era(), Era::Modern);
    let first = &web.seen()[0];
    assert_eq!(first.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(first.header("mcp-method"), Some("server/discover"));
    assert_eq!(first.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(first.header("authorization"), Some("Bearer ours"));
}

#[tokio::test]
async fn d_014_legacy_dates_in_the_list_mean_initialize() {
    let web = probed(|seen| {
        let mut discovered = discovered();
        discovered["supportedVersions"] = json!(["2025-11-25"]);
        result(seen, discovered)
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    assert_eq!(session.manifest().era(), Era::Legacy);
}

#[tokio::test]
async fn b_021_d_015_e_008_a_modern_error_is_no_reason_to_fall_back() {
    let web = probed(|seen| error(400, seen, -32022, "no", json!({"supported": ["2027-01-01"]}))).await;
    let refused = servers(http(&web.url)).session(&key("{}")).await.unwrap_err();
    assert!(refused.reason.contains("2027-01-01"), "{refused}");
    assert!(web.seen().iter().all(|seen| seen.method() != "initialize"));
}

#[tokio::test]
async fn b_028_b_029_d_016_to_d_018_everything_else_means_initialize() {
    let answers: [fn(&Seen) -> Say; 6] = [
        |seen| error(404, seen, -32601, "no such method", Value::Null),
        |seen| error(400, seen, -32602, "bad params", Value::Null),
        |_| {
            whole(
                400,
                json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Missing session ID"}}),
            )
        },
        |_| {
            whole(
                400,
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "not initialized"}}),
            )
        },
        |_| Say::Whole(400, vec![], "Bad Request".to_owned()),
        |_| empty(405),
    ];
    for answer in answers {
        let web = probed(answer).await;
        let (_servers, session) = open(http(&web.url), "{}").await;
        assert_eq!(session.manifest().era(), Era::Legacy);
        let opening: Vec<_> = web.seen().iter().take(2).map(|seen| seen.method().to_owned()).collect();
        assert_eq!(opening, ["server/discover", "initialize"], "nothing is probed by GET in between");
    }
}

#[tokio::test]
async fn d_019_and_d_020_say_nothing_about_the_era() {
    for (status, words) in [(401, "credentials"), (403, "credentials"), (503, "503")] {
        let web = probed(move |_| empty(status)).await;
        let refused = servers(http(&web.url)).session(&key("{}")).await.unwrap_err();
        assert!(refused.reason.contains(words), "{refused}");
        assert_eq!(web.seen().len(), 1);
    }
}

#[tokio::test]
async fn b_030_the_verdict_is_remembered_until_it_no_longer_fits() {
    let is_modern = Arc::new(Mutex::new(true));
    let now = is_modern.clone();
    let web = probed(move |seen| if *now.lock() { result(seen, discovered()) } else { empty(400) }).await;
    let servers = servers(http(&web.url));
    servers.session(&key("{}")).await.unwrap();
    *is_modern.lock() = false;
    let session = servers.session(&key(ELICITS)).await.unwrap();
    assert_eq!(session.manifest().era(), Era::Legacy);
    servers.session(&key("{\"roots\":{}}")).await.unwrap();
    let probes = web.seen().iter().filter(|seen| seen.method() == "server/discover").count();
    assert_eq!(probes, 3, "once, in vain, and again; not for the third session");
}

#[tokio::test]
async fn a_010_a_133_to_a_136_a_139_a_legacy_session_is_carried_by_every_request() {
    let web = Web::legacy(with_tasks(), |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => empty(405),
        _ => result(&seen, text("fine")),
    })
    .await;
    let (servers, session) = open(legacy(http(&web.url)), "{}").await;
    assert_eq!(session.tasks(), BackTasks::A);
    assert_eq!(servers.survival(&key("{}").server), Survival::Survives);
    assert_eq!(returned(session.call(tool("x", Asking::Held)).answer.await), "fine");
    servers.shutdown().await;
    let seen = web.seen();
    assert_eq!(seen[0].method(), "initialize");
    assert!(seen[0].header("mcp-session-id").is_none() && seen[0].header("mcp-protocol-version").is_none());
    assert_eq!(seen[1].method(), "notifications/initialized");
    assert!(["GET", "POST", "DELETE"].iter().all(|verb| seen.iter().any(|seen| seen.verb == *verb)));
    for each in &seen {
        assert_eq!(each.header("authorization"), Some("Bearer ours"), "{each:?}");
        assert_eq!(each.path, "/mcp", "nothing secret stands in the address");
    }
    for later in &seen[1..] {
        assert_eq!(later.header("mcp-session-id"), Some("s-1"), "{later:?}");
        assert_eq!(later.header("mcp-protocol-version"), Some("2025-11-25"), "{later:?}");
        assert!(later.header("mcp-method").is_none(), "X-049: {later:?}");
    }
    assert_eq!(seen.last().unwrap().verb, "DELETE");
}

#[tokio::test]
async fn b_039_to_b_043_modern_requests_mirror_their_body() {
    let web = Web::modern(|seen| result(&seen, text("fine"))).await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let mut call = tool("grüße", Asking::Directed);
    call.key = Some("k-1".to_owned());
    session.call(call).answer.await;
    let RawAnswer::Result(_) =
        session.request("resources/read", Some(Bytes::from_static(b"{\"uri\":\"file:///a\"}"))).answer.await
    else {
        panic!("no result")
    };
    let seen = web.seen();
    let call = seen.iter().find(|seen| seen.method() == "tools/call").unwrap();
    assert_eq!(call.header("mcp-name"), Some("=?base64?Z3LDvMOfZQ==?="));
    assert_eq!(call.body["params"]["_meta"]["taskgate/idempotency-key"], "k-1");
    assert_eq!(call.body["params"]["_meta"]["progressToken"], call.body["id"]);
    let read = seen.iter().find(|seen| seen.method() == "resources/read").unwrap();
    assert_eq!(read.header("mcp-name"), Some("file:///a"));
    assert!(read.body["params"]["_meta"]["progressToken"].is_null());
}

#[tokio::test]
async fn r4_6_a_key_goes_into_the_header_in_which_its_tool_takes_it_and_into_no_other_request() {
    for is_modern in [true, false] {
        let fine = |seen: Seen| result(&seen, text("fine"));
        let web =
            if is_modern { Web::modern(fine).await } else { Web::legacy(json!({"tools": {}}), fine).await };
        let mut config = http(&web.url);
        config.key_headers.insert("pay".to_owned(), "Idempotency-Key".to_owned());
        let config = if is_modern { config } else { legacy(config) };
        let (_servers, session) = open(config, "{}").await;
        let mut given = tool("pay", Asking::Held);
        given.key = Some("k-1".to_owned());
        let mut carried = tool("pay", Asking::Held);
        let params = r#"{"name":"pay","arguments":{},"_meta":{"taskgate/idempotency-key":"k-2"}}"#;
        carried.params = Bytes::from_static(params.as_bytes());
        let mut other = tool("look", Asking::Held);
        other.key = Some("k-3".to_owned());
        for call in [given, carried, other, tool("pay", Asking::Held)] {
            session.call(call).answer.await;
        }
        let keys = |seen: &Seen| seen.header("idempotency-key").map(str::to_owned);
        let (calls, others): (Vec<_>, Vec<_>) =
            web.seen().into_iter().partition(|seen| seen.method() == "tools/call");
        let expected = [Some("k-1".to_owned()), Some("k-2".to_owned()), None, None];
        assert_eq!(calls.iter().map(keys).collect::<Vec<_>>(), expected);
        assert!(others.iter().all(|seen| keys(seen).is_none()));
    }
}

#[tokio::test]
async fn a_002_b_002_x_053_ids_are_not_used_again_after_a_restart() {
    let web = Web::modern(|seen| result(&seen, text("fine"))).await;
    for _ in 0..2 {
        let (_servers, session) = open(http(&web.url), "{}").await;
        session.call(tool("x", Asking::Held)).answer.await;
    }
    let ids: Vec<_> = web.seen().iter().map(|seen| seen.body["id"].as_u64().unwrap()).collect();
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "{ids:?}");
}

#[tokio::test]
async fn nothing_left_us_if_nobody_listens() {
    let web = Web::modern(|seen| result(&seen, text("fine"))).await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    drop(session);
    let mut config = http("http://127.0.0.1:1/mcp");
    config.era = EraChoice::Modern;
    let refused = servers(config).session(&key("{}")).await.unwrap_err();
    assert!(refused.reason.contains("refused"), "{refused}");
    // The same with TLS in between.
    servers(http("https://127.0.0.1:1/mcp")).session(&key("{}")).await.unwrap_err();
}

#[tokio::test]
async fn an_answer_that_never_comes_is_lost_and_the_call_is_sent_once() {
    let web = Web::modern(|_| Say::HangUp).await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let answer = session.call(tool("x", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
    assert_eq!(web.methods(), ["tools/call"]);
}

#[tokio::test]
async fn a_kept_connection_that_died_loses_no_call_and_sends_none_twice() {
    // Every answer is the last on its connection, which the client cannot know.
    let web = Web::start(|seen| {
        let result = if seen.method() == "server/discover" { discovered() } else { text("fine") };
        Say::LastWhole(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result}).to_string())
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    for _ in 0..50 {
        assert_eq!(returned(session.call(tool("x", Asking::Held)).answer.await), "fine");
    }
    assert_eq!(web.methods().len(), 50);
}

#[tokio::test]
async fn connections_are_reused() {
    let web = Web::modern(|seen| match seen.tool() {
        "stream" => {
            events(&[&event(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": text("fine")}))])
        }
        _ => result(&seen, text("fine")),
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    for _ in 0..5 {
        session.call(tool("x", Asking::Held)).answer.await;
    }
    assert!(web.seen().iter().all(|seen| seen.connection == 0));
    assert_eq!(returned(session.call(tool("stream", Asking::Held)).answer.await), "fine");
}

#[tokio::test]
async fn redirects_stay_within_the_origin() {
    let other = Web::start(|seen| result(&seen, discovered())).await;
    let web = Web::start(|seen| match seen.path.as_str() {
        "/mcp" => Say::Whole(307, vec![("location", "/mcp/".to_owned())], String::new()),
        _ => result(&seen, discovered()),
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    assert_eq!(session.manifest().era(), Era::Modern);
    let elsewhere = other.url.clone();
    let web =
        Web::start(move |_| Say::Whole(307, vec![("location", elsewhere.clone())], String::new())).await;
    let refused = servers(http(&web.url)).session(&key("{}")).await.unwrap_err();
    assert!(refused.reason.contains("redirects"), "{refused}");
    assert!(other.seen().is_empty(), "our credentials do not belong there");
}

#[tokio::test]
async fn a_128_x_051_a_broken_legacy_stream_is_taken_up_again() {
    let id = Arc::new(Mutex::new(Value::Null));
    let web = Web::legacy(json!({}), move |seen| match (seen.verb.as_str(), seen.header("last-event-id")) {
        ("GET", None) => empty(405),
        // Once more in vain, then the answer.
        ("GET", Some("e-1")) => events(&["id: e-2\ndata:\n\n", ""]),
        ("GET", Some(_)) => {
            events(&[&event(json!({"jsonrpc": "2.0", "id": *id.lock(), "result": text("at last")}))])
        }
        _ => {
            *id.lock() = seen.body["id"].clone();
            events(&["id: e-1\nretry: 10\ndata:\n\n", ""])
        }
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    assert_eq!(returned(session.call(tool("x", Asking::Held)).answer.await), "at last");
    assert_eq!(web.methods(), ["notifications/initialized", "tools/call"], "it is not sent again");
}

#[tokio::test]
async fn b_038_a_broken_modern_stream_is_a_lost_call() {
    let web = Web::modern(|_| events(&["id: e-1\nretry: 10\ndata:\n\n", ""])).await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let answer = session.call(tool("x", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
    assert!(web.seen().iter().all(|seen| seen.verb == "POST"));
}

#[tokio::test]
async fn x_048_a_forgotten_session_is_opened_anew_once_and_the_call_goes_there() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let count = sessions.clone();
    let web = Web::start(move |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => empty(405),
        ("POST", "initialize") => {
            let n = count.fetch_add(1, Ordering::SeqCst) + 1;
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": with_tasks()});
            let body = json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": result});
            let headers =
                vec![("content-type", "application/json".to_owned()), ("mcp-session-id", format!("s-{n}"))];
            Say::Whole(200, headers, body.to_string())
        }
        ("POST", "notifications/initialized") => empty(202),
        _ if seen.header("mcp-session-id") != Some("s-2") => whole(
            404,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}}),
        ),
        (_, "tasks/get") => error(200, &seen, -32602, "Task not found", Value::Null),
        _ => result(&seen, text("fine")),
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    let (one, two) = tokio::join!(
        session.call(tool("x", Asking::Held)).answer,
        session.call(tool("x", Asking::Held)).answer
    );
    assert_eq!(returned(one), "fine");
    assert_eq!(returned(two), "fine");
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
    // A task of a session before our own time: asked there first, then here, and only then called unknown.
    let old = Upstream { task_id: "t".to_owned(), session: Some("s-0".to_owned()) };
    let unknown = session.look(&old).await.unwrap_err();
    assert!(matches!(unknown, LookError::UnknownTask), "{unknown:?}");
    let asked: Vec<_> = web.seen().iter().filter(|seen| seen.method() == "tasks/get").cloned().collect();
    assert_eq!(asked[0].header("mcp-session-id"), Some("s-0"));
    assert_eq!(asked[1].header("mcp-session-id"), Some("s-2"));
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn trap_14_an_old_session_is_used_again_for_its_tasks() {
    let web = Web::legacy(with_tasks(), |seen| match (seen.verb.as_str(), seen.method()) {
        ("GET", _) => empty(405),
        (_, "tasks/get") if seen.header("mcp-session-id") == Some("s-0") => result(
            &seen,
            json!({"taskId": "a:b", "status": "completed", "createdAt": "x", "lastUpdatedAt": "y", "ttl": null}),
        ),
        (_, "tasks/result") if seen.header("mcp-session-id") == Some("s-0") => result(&seen, text("kept")),
        _ => empty(500),
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    let old = Upstream { task_id: "a:b".to_owned(), session: Some("s-0".to_owned()) };
    assert!(matches!(session.look(&old).await.unwrap().stand, Stand::Over));
    assert_eq!(returned(session.result(&old).await.unwrap()), "kept");
    assert_eq!(returned(session.attend(&old).unwrap().answer.await), "kept");
    let initializes = web.seen().iter().filter(|seen| seen.method() == "initialize").count();
    assert_eq!(initializes, 1);
}

#[tokio::test]
async fn x_052_a_json_rpc_error_counts_on_any_status_and_a_bare_refusal_is_an_error_too() {
    let web = Web::modern(|seen| match seen.tool() {
        "spoken" => error(400, &seen, -32602, "no such tool", Value::Null),
        "bare" => empty(403),
        "broken" => empty(502),
        _ => result(&seen, json!({"resultType": "zzz"})),
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let answer = session.call(tool("spoken", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Raised { code: -32602, .. }), "{answer:?}");
    let answer = session.call(tool("bare", Asking::Held)).answer.await;
    let Answer::Raised { code: -32603, error } = answer else { panic!("{answer:?}") };
    assert!(String::from_utf8_lossy(&error).contains("HTTP 403"));
    let answer = session.call(tool("broken", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
    let answer = session.call(tool("other", Asking::Held)).answer.await;
    assert!(matches!(answer, Answer::Nonsense(_)), "G-025: {answer:?}");
}

#[tokio::test]
async fn a_003_an_id_that_came_back_as_text_is_still_ours() {
    let web = Web::legacy(with_tasks(), |seen| {
        let id = seen.body["id"].to_string();
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": text("fine")});
        match seen.tool() {
            "streamed" => events(&[&event(answer)]),
            "another" => whole(200, json!({"jsonrpc": "2.0", "id": "77", "result": text("not ours")})),
            _ => whole(200, answer),
        }
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    assert_eq!(returned(session.call(tool("whole", Asking::Held)).answer.await), "fine");
    assert_eq!(returned(session.call(tool("streamed", Asking::Held)).answer.await), "fine");
    let Answer::Nonsense(why) = session.call(tool("another", Asking::Held)).answer.await else { panic!() };
    assert!(why.contains("another request"), "{why}");
}

#[tokio::test]
async fn b_128_b_129_a_round_of_questions_keeps_the_state_byte_for_byte() {
    let web = Web::modern(|seen| match seen.body["params"]["inputResponses"].is_null() {
        true => {
            let body = format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"resultType\":\"input_required\",\"inputRequests\":{{\"k\":{{\"method\":\"elicitation/create\",\"params\":{{\"message\":\"m\",\"requestedSchema\":{{}}}}}}}},\"requestState\":\"a\\u0062c\"}}}}",
                seen.body["id"]
            );
            Say::Whole(200, vec![("content-type", "application/json".to_owned())], body)
        }
        false => result(&seen, text(&seen.body["params"].to_string())),
    })
    .await;
    let (_servers, session) = open(http(&web.url), ELICITS).await;
    let answered = session.call(tool("x", Asking::Directed)).answer.await;
    let Answer::InputRequired { questions, state } = answered else { panic!("{answered:?}") };
    assert_eq!(questions[0].0, "k");
    assert_eq!(state.as_deref(), Some(&b"\"a\\u0062c\""[..]));
    let mut call = tool("x", Asking::Directed);
    let responses = vec![("k".to_owned(), Bytes::from_static(b"{\"action\":\"cancel\"}"))];
    call.round = Some(Round { responses, state });
    let said = returned(session.call(call).answer.await);
    assert!(
        said.contains("\"requestState\":\"abc\"") && said.contains("\"k\":{\"action\":\"cancel\"}"),
        "{said}"
    );
}

#[tokio::test]
async fn b_010_b_042_b_055_b_059_b_088_q_017_q_035_a_modern_task_is_followed_answered_and_cancelled() {
    let web = Web::modern(|seen| {
        let task = |more: Value| {
            let mut task = json!({"resultType": "complete", "taskId": "up", "createdAt": "2026-01-01T00:00:00Z",
                "lastUpdatedAt": "2026-01-01T00:00:01+00:00", "ttlMs": 60000, "pollIntervalMs": 250});
            task.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            task
        };
        match seen.method() {
            "tools/call" if seen.tool() == "plain" => result(&seen, text("at once")),
            "tools/call" => result(&seen, task(json!({"resultType": "task", "status": "working"}))),
            "tasks/update" | "tasks/cancel" => result(&seen, json!({"resultType": "complete"})),
            "tasks/get" if seen.body["params"]["taskId"] == "asks" => {
                let requests = json!({"q": {"method": "elicitation/create",
                    "params": {"message": "m", "requestedSchema": {}}}});
                result(&seen, task(json!({"taskId": "asks", "status": "input_required", "inputRequests": requests})))
            }
            "tasks/get" if seen.body["params"]["taskId"] == "broken" => {
                result(&seen, task(json!({"taskId": "broken", "status": "paused"})))
            }
            "tasks/get" => result(&seen, task(json!({"status": "completed", "result": {"resultType": "complete",
                "content": [{"type": "text", "text": "made"}], "isError": true}}))),
            _ => error(404, &seen, -32601, "no", Value::Null),
        }
    })
    .await;
    let (_servers, session) = open(http(&web.url), ELICITS).await;
    let Answer::Task(accepted) = session.call(tool("x", Asking::Directed)).answer.await else {
        panic!("no task")
    };
    assert_eq!(accepted.upstream, upstream("up"));
    assert_eq!(accepted.look.poll.unwrap().0, 250);
    // The server decides for each call.
    assert_eq!(returned(session.call(tool("plain", Asking::Directed)).answer.await), "at once");
    // Not asked for: it must not come (B-058).
    let unasked = session.call(tool("x", Asking::Held)).answer.await;
    assert!(matches!(unasked, Answer::Nonsense(_)), "{unasked:?}");
    let look = session.look(&accepted.upstream).await.unwrap();
    let Stand::Ended(ended) = look.stand else { panic!("{look:?}") };
    let Answer::Returned { is_error: true, result } = *ended else { panic!("{ended:?}") };
    assert!(!String::from_utf8_lossy(&result).contains("resultType"));
    let look = session.look(&upstream("asks")).await.unwrap();
    assert_eq!(look.questions[0].0, "q");
    let reply = Reply::Result(Bytes::from_static(
        b"{\"action\":\"accept\",\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"ours\"}}}",
    ));
    session.answer(&upstream("asks"), "q", &reply).await.unwrap();
    session.cancel(&upstream("asks")).await.unwrap();
    let broken = session.look(&upstream("broken")).await.unwrap_err();
    assert!(matches!(broken, LookError::Nonsense(_)), "{broken:?}");
    // No listen here: found out once.
    let listening = session.attend(&upstream("asks")).unwrap();
    assert!(matches!(listening.answer.await, Answer::Lost(_)));
    assert!(session.attend(&upstream("asks")).is_none());
    assert!(!web.methods().contains(&"notifications/cancelled".to_owned()), "B-103");
    assert_eq!(web.methods().iter().filter(|method| *method == "tasks/cancel").count(), 1);
    for seen in web.seen().iter().filter(|seen| seen.method().starts_with("tasks/")) {
        assert_eq!(seen.header("mcp-name"), seen.body["params"]["taskId"].as_str());
        let capabilities = &seen.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert!(capabilities["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{seen:?}");
        if seen.method() == "tasks/update" {
            assert_eq!(seen.body["params"]["inputResponses"], json!({"q": {"action": "accept"}}));
        }
    }
}

#[tokio::test]
async fn q_036_pushes_about_a_task_are_nudges() {
    let web = Web::modern(|seen| {
        let note = |method: &str, params: Value| {
            event(json!({"jsonrpc": "2.0", "method": method, "params": params}))
        };
        let ids = json!({"notifications": {"taskIds": ["up"]}});
        events(&[
            &note("notifications/subscriptions/acknowledged", ids),
            &note("notifications/tasks", json!({"taskId": "up", "status": "working"})),
            &note("notifications/tasks", json!({"taskId": "another", "status": "working"})),
            &note("notifications/tasks/status", json!({"taskId": "up", "status": "working"})),
            &event(json!({"jsonrpc": "2.0", "id": seen.body["id"], "result": {"resultType": "complete"}})),
        ])
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let mut listening = session.attend(&upstream("up")).unwrap();
    assert!(matches!(listening.answer.await, Answer::Lost(_)));
    for _ in 0..2 {
        assert!(matches!(listening.events.recv().await, Some(BackEvent::Nudge)));
    }
    assert!(listening.events.try_recv().is_err());
    assert!(session.attend(&upstream("up")).is_some(), "it may be held open again");
}

#[tokio::test]
async fn a_068_a_069_questions_arrive_on_any_stream_and_replies_are_posted_into_the_session() {
    let (listen, listened) = mpsc::unbounded_channel();
    let get = Arc::new(Mutex::new(Some(listened)));
    let replied = Arc::new(Notify::new());
    let replies = Arc::new(Mutex::new(Vec::new()));
    let (stream, streamed) = mpsc::unbounded_channel();
    let post = Arc::new(Mutex::new(Some(streamed)));
    let (notify, log) = (replied.clone(), replies.clone());
    let web = Web::legacy(with_tasks(), move |seen| {
        if seen.verb == "GET" {
            return get.lock().take().map_or_else(|| empty(405), Say::Stream);
        }
        if seen.method().is_empty() {
            log.lock().push(seen);
            notify.notify_one();
            return empty(202);
        }
        Say::Stream(post.lock().take().unwrap())
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), ELICITS).await;
    let mut attending = session.attend(&upstream("up")).unwrap();
    let result = tokio::spawn(attending.answer);
    let ask = |id: &str, related: bool| {
        let mut params = json!({"message": id, "requestedSchema": {}});
        if related {
            params["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "up"}});
        }
        event(json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": params}))
    };
    // On the open tasks/result.
    stream.send(ask("on-result", true)).unwrap();
    assert!(answer(&mut attending.events, "{\"action\":\"accept\"}").await.contains("on-result"));
    replied.notified().await;
    // On the stream that hangs on no request.
    listen.send(ask("on-get", true)).unwrap();
    assert!(answer(&mut attending.events, "{\"action\":\"decline\"}").await.contains("on-get"));
    replied.notified().await;
    // One that is taken back.
    stream.send(ask("void", true)).unwrap();
    let Some(BackEvent::Asked { ask: asked, reply: _open, .. }) = attending.events.recv().await else {
        panic!("no question")
    };
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "void"}});
    listen.send(event(cancelled)).unwrap();
    let Some(BackEvent::Unasked { ask: unasked }) = attending.events.recv().await else {
        panic!("still asked")
    };
    assert_eq!(asked, unasked);
    result.abort();
    let replies = replies.lock();
    assert_eq!(replies.len(), 2);
    for reply in replies.iter() {
        assert_eq!(reply.header("mcp-session-id"), Some("s-1"));
        let related = &reply.body["result"]["_meta"]["io.modelcontextprotocol/related-task"];
        assert_eq!(related["taskId"], "up", "A-069");
    }
}

#[tokio::test]
async fn questions_of_a_task_that_nobody_watches_yet_are_kept_for_the_watcher() {
    let (listen, listened) = mpsc::unbounded_channel();
    let get = Arc::new(Mutex::new(Some(listened)));
    let web = Web::legacy(with_tasks(), move |seen| match seen.verb.as_str() {
        "GET" => get.lock().take().map_or_else(|| empty(405), Say::Stream),
        _ if seen.method() == "tasks/result" => events(&["id: 1\ndata:\n\n"]),
        _ => result(&seen, text("fine")),
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), ELICITS).await;
    let mut notices = session.notices();
    let params = json!({"message": "early", "requestedSchema": {},
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "up"}}});
    listen
        .send(event(json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params})))
        .unwrap();
    listen
        .send(event(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})))
        .unwrap();
    // The notice comes behind the question.
    notices.recv().await.unwrap();
    let mut attending = session.attend(&upstream("up")).unwrap();
    let held = tokio::spawn(attending.answer);
    assert!(answer(&mut attending.events, "{\"action\":\"accept\"}").await.contains("early"));
    held.abort();
}

#[tokio::test]
async fn b_037_b_137_stopping_a_modern_call_closes_its_stream() {
    let (stream, streamed) = mpsc::unbounded_channel::<String>();
    let post = Arc::new(Mutex::new(Some(streamed)));
    let (came, mut coming) = mpsc::unbounded_channel();
    let web = Web::modern(move |seen| {
        came.send(seen.body["id"].clone()).unwrap();
        Say::Stream(post.lock().take().unwrap())
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let mut call = session.call(tool("x", Asking::Held));
    let (stop, answer) = (call.stop.clone(), tokio::spawn(call.answer));
    let progress = json!({"progressToken": coming.recv().await.unwrap(), "progress": 1});
    stream
        .send(event(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})))
        .unwrap();
    assert!(matches!(call.events.recv().await, Some(BackEvent::Progress(_))));
    stop.cancel();
    let answer = answer.await.unwrap();
    assert!(matches!(answer, Answer::Lost(_)), "{answer:?}");
    // The other end notices: its sender is closed once the connection is.
    while stream.send(": still there\n\n".to_owned()).is_ok() {
        tokio::task::yield_now().await;
    }
    assert_eq!(web.methods(), ["tools/call"], "no notifications/cancelled over modern HTTP");
}

#[tokio::test]
async fn a_092_stopping_a_legacy_call_says_so() {
    let cancelled = Arc::new(Notify::new());
    let told = cancelled.clone();
    let (_keep, streamed) = mpsc::unbounded_channel::<String>();
    let post = Arc::new(Mutex::new(Some(streamed)));
    let web = Web::legacy(json!({}), move |seen| match seen.method() {
        "tools/call" => Say::Stream(post.lock().take().unwrap()),
        "notifications/cancelled" => {
            told.notify_one();
            empty(202)
        }
        _ => empty(405),
    })
    .await;
    let (_servers, session) = open(legacy(http(&web.url)), "{}").await;
    let call = session.call(tool("x", Asking::Held));
    let answer = tokio::spawn(call.answer);
    while !web.methods().contains(&"tools/call".to_owned()) {
        tokio::task::yield_now().await;
    }
    call.stop.cancel();
    cancelled.notified().await;
    assert!(!answer.is_finished(), "the answer may still come");
    answer.abort();
}

#[tokio::test]
async fn b_045_mirrored_arguments_are_learned_from_a_refusal() {
    let web = Web::modern(|seen| match seen.method() {
        "tools/list" => {
            let schema =
                json!({"type": "object", "properties": {"q": {"type": "string", "x-mcp-header": "Region"}}});
            result(&seen, json!({"tools": [{"name": "x", "inputSchema": schema}], "ttlMs": 0}))
        }
        _ if seen.header("mcp-param-region") == Some("x") => result(&seen, text("fine")),
        _ => error(400, &seen, -32020, "Mcp-Param-Region is missing", Value::Null),
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    assert_eq!(returned(session.call(tool("x", Asking::Held)).answer.await), "fine");
    assert_eq!(returned(session.call(tool("x", Asking::Held)).answer.await), "fine");
    assert_eq!(web.methods(), ["tools/call", "tools/list", "tools/call", "tools/call"]);
}

#[tokio::test]
async fn b_045_a_tool_whose_marks_break_the_rules_is_left_out() {
    let web = Web::modern(|seen| {
        let tool = |name: &str, kind: &str| {
            let argument = json!({"type": kind, "x-mcp-header": "Region"});
            json!({"name": name, "inputSchema": {"type": "object", "properties": {"q": argument}}})
        };
        result(&seen, json!({"tools": [tool("sound", "string"), tool("broken", "number")], "ttlMs": 0}))
    })
    .await;
    let (_servers, session) = open(http(&web.url), "{}").await;
    let tools = session.tools().await.unwrap();
    assert!(tools.get("sound").is_some() && tools.get("broken").is_none(), "{tools:?}");
}

#[tokio::test]
async fn b_138_a_status_read_that_hangs_is_given_up() {
    let web = Web::start_slow(|seen| {
        Box::pin(async move {
            match seen.method() {
                "server/discover" => result(&seen, discovered()),
                _ => std::future::pending().await,
            }
        })
    })
    .await;
    let mut config = http(&web.url);
    config.read_timeout = Duration::from_millis(50);
    let (_servers, session) = open(config, "{}").await;
    let error = session.look(&upstream("up")).await.unwrap_err();
    assert!(matches!(error, LookError::Transient(_)), "{error:?}");
}

#[tokio::test]
async fn idle_places_make_room_and_busy_ones_do_not() {
    let web = Web::modern(|_| Say::Stream(mpsc::unbounded_channel().1)).await;
    let mut config = http(&web.url);
    config.sessions_max = 2;
    let servers = servers(config);
    let one = servers.session(&key("{}")).await.unwrap();
    drop(servers.session(&key(ELICITS)).await.unwrap());
    let two = servers.session(&key("{\"roots\":{}}")).await.unwrap();
    let refused = servers.session(&key("{\"sampling\":{}}")).await.unwrap_err();
    assert!(refused.reason.contains("limit"), "{refused}");
    drop((one, two));
}
