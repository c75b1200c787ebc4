//! Tasks in both dialects: the same record, side by side.

use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;
use taskgate_core::id::{OperationId, TaskId};
use taskgate_core::operation::Effect;
use taskgate_core::task::{
    Asked, Ending, Fault, Found, Lifetime, Question, QuestionKey, QuestionKind, State, Task,
};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_wire::dialect::{self, View, a, b};
use taskgate_wire::{RequestId, json, message};

use crate::schema::{Schema, assert_valid};

const START: UnixMillis = UnixMillis(1_788_249_600_000);

fn task(state: State) -> Task {
    let lifetime =
        Lifetime { created: START, ttl: Millis::mins(10), linger: Millis::mins(5), max: Millis::hours(1) };
    Task { state, message: Some("rendering page 3".into()), ..Task::new(lifetime) }
}

fn over(ending: Ending) -> State {
    State::Over { ending, at: START + Millis::secs(20) }
}

fn question(kind: QuestionKind, params: &'static str) -> Question {
    Question { kind, params: Bytes::from_static(params.as_bytes()), back_key: None }
}

fn states() -> Vec<(&'static str, State)> {
    let questions = BTreeMap::from([
        (
            QuestionKey("in-1".into()),
            question(
                QuestionKind::Form,
                r#"{"message":"Which?","requestedSchema":{"type":"object","properties":{}},"x-vendor":1}"#,
            ),
        ),
        (
            QuestionKey("in-2".into()),
            question(
                QuestionKind::Url,
                r#"{"mode":"url","elicitationId":"u-1","url":"https://up.example.com/c","message":"Connect."}"#,
            ),
        ),
        (QuestionKey("in-3".into()), question(QuestionKind::Roots, "{}")),
    ]);
    let returned = |result: &'static str, is_error| Ending::Returned {
        result: Bytes::from_static(result.as_bytes()),
        is_error,
    };
    let raised = |error: &'static str| Ending::Raised { error: Bytes::from_static(error.as_bytes()) };
    let mut states = vec![
        ("working", State::Working),
        ("asking", State::InputRequired(Asked::new(questions).unwrap())),
        ("cancelled", over(Ending::Cancelled)),
        (
            "returned",
            over(returned(
                r#"{"content":[{"type":"text","text":"ready"}],"_meta":{"vendor":1},"big":12345678901234567890123}"#,
                false,
            )),
        ),
        (
            "returned an array",
            over(returned(r#"{"content":[{"type":"text","text":"[1]"}],"structuredContent":[1]}"#, false)),
        ),
        (
            "returned an error",
            over(returned(
                r#"{"content":[{"type":"text","text":"quota\u001b[31m used up"}],"isError":true}"#,
                true,
            )),
        ),
        ("returned an error without words", over(returned(r#"{"content":[],"isError":true}"#, true))),
        ("raised", over(raised(r#"{"code":-32603,"message":"renderer crashed","data":1.0}"#))),
        ("raised a reserved code", over(raised(r#"{"code":-32050,"message":"mine"}"#))),
        ("raised nonsense", over(raised(r#"{"oops":1}"#))),
    ];
    let why = || String::from("connection reset");
    for (name, fault) in [
        ("never sent", Fault::NeverSent(why())),
        ("outcome unknown", Fault::OutcomeUnknown(why())),
        ("deadline passed", Fault::DeadlinePassed),
        ("upstream lost", Fault::UpstreamLost),
        ("upstream fault", Fault::UpstreamFault(why())),
        ("no answer", Fault::NoAnswer(why())),
        ("budget spent", Fault::BudgetSpent(why())),
        ("found applied", Fault::Found(Found::Applied)),
        ("found not applied", Fault::Found(Found::NotApplied)),
        ("assumed not applied", Fault::Found(Found::AssumedNotApplied)),
    ] {
        states.push((name, over(Ending::Faulted(fault))));
    }
    states
}

fn with_views(mut look: impl FnMut(&str, &View<'_>)) {
    let id = TaskId::parse("tG4444444444444444444h").unwrap();
    let operation = OperationId("op-1".to_owned());
    for (name, state) in states() {
        let task = task(state);
        let view = View {
            id: &id,
            operation: &operation,
            effect: Effect::Consequential,
            task: &task,
            created: START,
            updated: START + Millis::secs(20),
            now: START + Millis::secs(30),
            poll: Millis(2000),
        };
        look(name, &view);
    }
}

fn text(bytes: &Bytes) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_044_q_031_x_015_x_016_x_019_one_ending_in_both_dialects() {
    let mut table = String::new();
    with_views(|name, view| {
        let result = match a::task_result(view) {
            a::TaskResult::NotYet => "-".to_owned(),
            a::TaskResult::Result(result) => format!("result {}", text(&result)),
            a::TaskResult::Error(error) => format!("error {}", text(&error)),
        };
        writeln!(
            table,
            "## {name}\nA task   {}\nA result {result}\nB task   {}\n",
            text(&a::task(view)),
            text(&b::get_result(view))
        )
        .unwrap();
    });
    insta::assert_snapshot!(table);
}

#[test]
fn a_034_a_063_a_089_b_066_b_107_q_034_x_006_everything_written_of_a_task_is_valid_in_its_dialect() {
    let id = RequestId::from_u64(9);
    with_views(|_, view| {
        assert_valid(Schema::A, "CreateTaskResult", a::create_result(view));
        assert_valid(Schema::A, "GetTaskResult", a::task(view));
        assert_valid(Schema::A, "CancelTaskResult", a::task(view));
        assert_valid(Schema::A, "TaskStatusNotification", a::status_notification(view));
        assert_valid(
            Schema::A,
            "ListTasksResult",
            a::list_result(&[a::task(view), a::task(view)], Some("c\"2")),
        );
        match a::task_result(view) {
            a::TaskResult::NotYet => assert!(view.task.ending().is_none()),
            a::TaskResult::Result(result) => {
                assert_valid(Schema::A, "CallToolResult", &result);
                let related = taskgate_wire::meta::related_task(text(&result));
                assert_eq!(related.as_deref(), Some(view.id.expose()));
            }
            a::TaskResult::Error(error) => {
                assert_valid(Schema::A, "JSONRPCErrorResponse", message::error_raw(Some(&id), text(&error)));
            }
        }
        assert_valid(Schema::X, "CreateTaskResult", b::create_result(view));
        assert_valid(Schema::X, "GetTaskResult", b::get_result(view));
        assert_valid(Schema::X, "TaskStatusNotification", b::notification(view, "\"sub\""));
        for status in [a::status(view.task), b::status(view.task)] {
            assert_eq!(status.is_final(), view.task.ending().is_some());
        }
    });
    assert_valid(Schema::A, "ListTasksResult", a::list_result(&[], None));
    assert_valid(Schema::X, "UpdateTaskResult", b::ACK);
    assert_valid(Schema::X, "CancelTaskResult", b::ACK);
    let task = TaskId::parse("t1").unwrap();
    let acknowledged = b::acknowledged("12", Some(&[&task]), r#"{"toolsListChanged":true,"taskIds":["no"]}"#);
    assert_valid(Schema::B, "SubscriptionsAcknowledgedNotification", &acknowledged);
    assert_valid(Schema::B, "SubscriptionsListenResult", b::listen_result("12"));
}

#[test]
fn what_we_write_is_what_we_read() {
    with_views(|name, view| {
        let read = a::read_task(text(&a::task(view))).unwrap();
        assert_eq!((read.id.as_str(), read.status), (view.id.expose(), a::status(view.task)), "{name}");
        assert_eq!(read.ttl, Some(Millis::mins(10)));
        let created = a::read_create(text(&a::create_result(view))).unwrap().unwrap();
        assert_eq!(created.status, dialect::Status::Working);
        let read = b::read_task(&b::get_result(view)).unwrap();
        assert_eq!(read.status, b::status(view.task), "{name}");
        if let Some(Ending::Returned { result, .. }) = view.task.ending() {
            assert_eq!(read.result.as_ref(), Some(result), "{name}");
        }
        if let Some(Ending::Raised { error }) = view.task.ending()
            && name == "raised"
        {
            assert_eq!(read.error.as_ref(), Some(error));
        }
        assert_eq!(read.inputs.len(), if name == "asking" { 3 } else { 0 });
        b::read_create(text(&b::create_result(view))).unwrap();
    });
}

/// The members that a full task has beyond those that every task has.
fn extras(task: &str) -> Vec<&'static str> {
    let possible =
        ["inputRequests", "result", "error", "requestState", "task", "ttl", "pollInterval", "content"];
    possible.into_iter().filter(|member| json::at(task, &[member]).is_some()).collect()
}

#[test]
fn b_065_b_075_to_b_080_b_085_b_165_b_172_a_full_task_has_what_its_status_has_and_is_complete() {
    with_views(|name, view| {
        let got = b::get_result(view);
        let got = text(&got);
        assert_eq!(json::at(got, &["resultType"]), Some("\"complete\""), "{name}");
        let expected: &[&str] = match b::status(view.task) {
            dialect::Status::Working | dialect::Status::Cancelled => &[],
            dialect::Status::InputRequired => &["inputRequests"],
            dialect::Status::Completed => &["result"],
            dialect::Status::Failed => &["error"],
        };
        assert_eq!(extras(got), expected, "{name}: {got}");
        if let Some(Ending::Returned { result, .. }) = view.task.ending() {
            let kept = Bytes::copy_from_slice(json::at(got, &["result"]).unwrap().as_bytes());
            assert_eq!(taskgate_wire::result::canonical(&kept), *result, "B-078: {name}");
        }
        let created = b::create_result(view);
        assert_eq!(json::at(text(&created), &["resultType"]), Some("\"task\""));
        assert!(extras(text(&created)).is_empty(), "{name}");
    });
}

#[test]
fn a_036_q_020_x_007_a_new_task_is_working_in_a_and_asks_nothing_in_b() {
    with_views(|name, view| {
        assert_eq!(json::at(text(&a::create_result(view)), &["task", "status"]), Some("\"working\""));
        let created = b::create_result(view);
        for absent in ["inputRequests", "result", "error", "requestState", "task", "ttl", "pollInterval"] {
            assert_eq!(json::at(text(&created), &[absent]), None, "{name}");
        }
        assert_ne!(json::at(text(&created), &["status"]), Some("\"input_required\""));
    });
}

#[test]
fn e_014_x_045_however_an_answer_is_lost_the_effect_is_said_to_be_unknown_unless_there_is_none() {
    let operation = OperationId("op-1".to_owned());
    let why = || String::from("connection reset");
    for fault in [
        Fault::DeadlinePassed,
        Fault::UpstreamLost,
        Fault::UpstreamFault(why()),
        Fault::NoAnswer(why()),
        Fault::BudgetSpent(why()),
        Fault::OutcomeUnknown(why()),
    ] {
        for effect in [Effect::Reversible, Effect::Consequential] {
            let error = dialect::fault_error(&fault, effect, &operation).to_json();
            assert_eq!(json::at(&error, &["data", "outcome"]), Some("\"unknown\""), "{error}");
            assert_eq!(json::at(&error, &["data", "operation"]), Some("\"op-1\""), "{error}");
            assert!(json::at(&error, &["message"]).unwrap().contains("unknown"), "{error}");
        }
    }
    let error = dialect::fault_error(&Fault::DeadlinePassed, Effect::ReadOnly, &operation).to_json();
    assert_eq!(json::at(&error, &["data", "outcome"]), None, "{error}");
}

#[test]
fn a_045_a_failed_task_says_why_and_never_a_whole_result() {
    let long = format!(r#"{{"content":[{{"type":"text","text":"{}"}}],"isError":true}}"#, "x".repeat(10_000));
    let id = TaskId::parse("t1").unwrap();
    let task = task(over(Ending::Returned { result: Bytes::from(long), is_error: true }));
    let operation = OperationId("op-1".to_owned());
    let view = View {
        id: &id,
        operation: &operation,
        effect: Effect::Consequential,
        task: &task,
        created: START,
        updated: START,
        now: START,
        poll: Millis(0),
    };
    let said =
        json::string(json::at(text(&a::task(&view)), &["statusMessage"]).unwrap()).unwrap().into_owned();
    assert_eq!(said.chars().count(), 200);
    with_views(|name, view| {
        if a::status(view.task) == dialect::Status::Failed {
            let task = a::task(view);
            let said = json::at(text(&task), &["statusMessage"]).unwrap_or_else(|| panic!("{name}"));
            assert!(said.len() > 2 && !said.contains("u001b"), "{said}");
        }
    });
}

#[test]
fn g_025_tasks_that_make_no_sense_are_faults() {
    let base = |status: &str, more: &str| {
        format!(
            r#"{{"taskId":"u","status":"{status}","createdAt":"","lastUpdatedAt":"","ttlMs":null{more}}}"#
        )
    };
    for (task, words) in [
        (base("paused", ""), "unknown status paused"),
        (base("working", r#","resultType":"zzz""#), "unknown resultType zzz"),
        (base("working", r#","resultType":7"#), "unknown resultType"),
        (base("completed", ""), "without a result"),
        (base("failed", ""), "without an error"),
        (base("input_required", r#","inputRequests":{"k":{"method":"x/y"}}"#), "cannot be read"),
        (base("input_required", r#","inputRequests":[]"#), "inputRequests"),
        (r#"{"status":"working"}"#.to_owned(), "without an id"),
        (r#"{"taskId":"u"}"#.to_owned(), "without a status"),
        ("[]".to_owned(), "object"),
    ] {
        let fault = b::read_task(&Bytes::from(task)).unwrap_err();
        assert!(fault.to_string().contains(words), "{fault}");
    }
    assert!(a::read_task(r#"{"taskId":"u","status":"submitted"}"#).is_err());
}

#[test]
fn q_018_x_011_x_012_x_037_deviating_backs_are_read() {
    // Python 1.23 to 1.30: no ttl.
    let python = a::read_create(
        r#"{"task":{"taskId":"a:b","status":"working","createdAt":"2026-09-01T08:00:00.000123Z","lastUpdatedAt":"x"}}"#,
    );
    let python = python.unwrap().unwrap();
    assert_eq!((python.id.as_str(), python.ttl), ("a:b", None));
    // FastMCP 2: the task in _meta, content empty.
    let fastmcp = a::read_create(
        r#"{"content":[],"_meta":{"modelcontextprotocol.io/task":{"taskId":"f","status":"working"}}}"#,
    );
    assert_eq!(fastmcp.unwrap().unwrap().id, "f");
    // pmcp nests what tasks/get and tasks/cancel answer with.
    let pmcp = a::read_task(r#"{"task":{"taskId":"p","status":"failed","ttl":600000}}"#).unwrap();
    assert_eq!((pmcp.id.as_str(), pmcp.status), ("p", dialect::Status::Failed));
    // A server that ignores params.task.
    assert_eq!(a::read_create(r#"{"content":[]}"#), Ok(None));
    // Lifetimes and intervals that are no whole numbers.
    let odd = a::read_task(r#"{"taskId":"u","status":"working","ttl":-5,"pollInterval":1000.5}"#).unwrap();
    assert_eq!((odd.ttl, odd.poll), (Some(Millis(1)), Some(Millis(1001))));
    let early = Bytes::from_static(br#"{"resultType":"task","taskId":"u","status":"working","ttlMs":null}"#);
    assert_eq!(b::read_task(&early).unwrap().ttl, None);
    let immediate = a::read_create(
        r#"{"task":{"taskId":"u","status":"working"},"_meta":{"io.modelcontextprotocol/model-immediate-response":"Soon."}}"#,
    );
    assert_eq!(immediate.unwrap().unwrap().message.unwrap().as_str(), "Soon.");
}

#[test]
fn a_032_q_011_wished_lifetimes() {
    for (task, ttl) in [
        ("{}", None),
        (r#"{"ttl":60000}"#, Some(60_000)),
        (r#"{"ttl":0}"#, Some(1)),
        (r#"{"ttl":9e15}"#, Some(9_000_000_000_000_000)),
        (r#"{"ttl":null,"taskId":"mine"}"#, None),
    ] {
        assert_eq!(a::read_wish(task).unwrap().ttl, ttl.map(Millis), "{task}");
    }
    for task in ["true", r#"{"ttl":-1}"#, r#"{"ttl":1.5}"#, r#"{"ttl":"1"}"#, r#"{"ttl":[]}"#] {
        assert_eq!(a::read_wish(task).unwrap_err().code, -32602, "{task}");
    }
    let call = a::augment(r#"{"name":"x","task":{"ttl":7}}"#, Some(Millis(9))).unwrap();
    assert_eq!(call, r#"{"name":"x","task":{"ttl":9}}"#);
}

#[test]
fn a_051_b_081_ids_that_cannot_be_ours_are_unknown() {
    assert_eq!(dialect::task_id(Some("\"t1\"")).unwrap().expose(), "t1");
    let unknown = taskgate_wire::RpcError::unknown_task();
    assert_eq!(dialect::task_id(Some("\"no such: task\"")), Err(unknown));
    assert_eq!(dialect::task_id(None).unwrap_err().code, -32602);
    assert_eq!(dialect::task_id(Some("7")).unwrap_err().code, -32602);
}

#[test]
fn b_108_listens_name_tasks_and_foreign_ids_are_left_out() {
    let listen =
        b::read_listen(Some(r#"{"taskIds":["t1","t1","not ours:","t2"],"toolsListChanged":true}"#)).unwrap();
    assert_eq!(listen.tasks.iter().map(TaskId::expose).collect::<Vec<_>>(), ["t1", "t2"]);
    assert!(listen.names_tasks);
    assert!(!b::read_listen(Some("{}")).unwrap().names_tasks);
    assert!(b::read_listen(None).is_err() && b::read_listen(Some(r#"{"taskIds":7}"#)).is_err());
    assert_eq!(b::listen_params(&["a\"b"]), r#"{"notifications":{"taskIds":["a\"b"]}}"#);
}
