//! Results, questions, answers, lists and handshakes, from one side to the other.

use bytes::Bytes;
use taskgate_core::gate::{BackTasks, TaskSupport};
use taskgate_core::id::TaskId;
use taskgate_core::task::QuestionKind;
use taskgate_core::time::Millis;
use taskgate_wire::handshake::{self, BackSelf, OfferTasks};
use taskgate_wire::listing::{self, Cache, Rewrite, Tool};
use taskgate_wire::offers::Offers;
use taskgate_wire::question::{self, ToLegacy};
use taskgate_wire::result::{self, ResultKind};
use taskgate_wire::{RequestId, Version, answer, dialect, json, message, mrtr};

use crate::schema::{Schema, assert_valid};

fn text(bytes: &Bytes) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn b_012_g_025_result_kinds() {
    for (result, modern, legacy) in [
        (r#"{"content":[]}"#, ResultKind::Complete, ResultKind::Complete),
        (r#"{"resultType":"complete"}"#, ResultKind::Complete, ResultKind::Complete),
        (r#"{"resultType":"input_required"}"#, ResultKind::InputRequired, ResultKind::Complete),
        (r#"{"resultType":"task"}"#, ResultKind::Task, ResultKind::Complete),
        (r#"{"resultType":"zzz"}"#, ResultKind::Unknown, ResultKind::Complete),
        (r#"{"resultType":null}"#, ResultKind::Unknown, ResultKind::Complete),
        (r#"{"task":{"taskId":"u"}}"#, ResultKind::Complete, ResultKind::Task),
        ("[]", ResultKind::Unknown, ResultKind::Unknown),
    ] {
        assert_eq!(result::kind(result, true), modern, "{result}");
        assert_eq!(result::kind(result, false), legacy, "{result}");
    }
}

#[test]
fn b_164_kept_results_have_neither_result_type_nor_related_task() {
    let related = r#""io.modelcontextprotocol/related-task":{"taskId":"up"}"#;
    let early = r#""modelcontextprotocol.io/related-task":{"taskId":"up"}"#;
    for (sent, kept) in [
        (r#"{ "a" : 1e400 }"#.to_owned(), r#"{ "a" : 1e400 }"#),
        (format!(r#"{{"resultType":"complete","a":1,"_meta":{{{related}}}}}"#), r#"{"a":1}"#),
        (format!(r#"{{"_meta":{{"v":1,{related}}}}}"#), r#"{"_meta":{"v":1}}"#),
        (r#"{"_meta":{}}"#.to_owned(), r#"{"_meta":{}}"#),
        // FastMCP 2 has a name of its own for it; X-010: no client sees a back's id.
        (format!(r#"{{"_meta":{{{early}}}}}"#), "{}"),
        (format!(r#"{{"_meta":{{{early},{related}}}}}"#), "{}"),
        (format!(r#"{{"_meta":{{{early},"v":1,{related}}}}}"#), r#"{"_meta":{"v":1}}"#),
    ] {
        let sent = bytes(&sent);
        assert_eq!(text(&result::canonical(&sent)), kept);
    }
    let untouched = bytes(r#"{"content":[]}"#);
    assert_eq!(result::canonical(&untouched).as_ptr(), untouched.as_ptr());
}

#[test]
fn g_005_x_055_results_lose_only_what_a_version_lacks() {
    let sent = bytes(
        r#"{"resultType":"complete","content":[{"type":"hologram","n":1e400},{"type":"resource_link","name":"n","uri":"x:1","icons":[]}],"structuredContent":{"a":1},"_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#,
    );
    let versions = [Version::V2025_11_25, Version::V2025_06_18, Version::V2025_03_26];
    insta::assert_snapshot!(
        versions.map(|version| text(&result::for_legacy(&sent, version)).to_owned()).join("\n")
    );
    let array = bytes(r#"{"content":[],"structuredContent":[1,"x"]}"#);
    assert_eq!(
        text(&result::for_legacy(&array, Version::V2025_11_25)),
        r#"{"content":[{"type":"text","text":"[1,\"x\"]"}]}"#
    );
    let plain = bytes(r#"{"content":[],"structuredContent":{"a":1}}"#);
    assert_eq!(result::for_legacy(&plain, Version::V2025_11_25).as_ptr(), plain.as_ptr());
    let modern = result::for_modern_from(&plain, r#"{"name":"s","version":"1"}"#);
    assert_valid(Schema::B, "CallToolResult", modern);
    assert!(result::is_error(r#"{"isError": true }"#) && !result::is_error(r#"{"isError":"true"}"#));
}

#[test]
fn b_151_x_055_any_json_is_structured_content_for_a_modern_client() {
    for structured in ["[1,\"x\"]", "7", "null", "\"text\"", "{\"a\":1e400}"] {
        let sent = bytes(&format!(r#"{{"content":[],"structuredContent":{structured}}}"#));
        let modern = result::for_modern(&sent);
        assert_eq!(json::at(text(&modern), &["structuredContent"]), Some(structured));
        let legacy = result::for_legacy(&sent, Version::V2025_11_25);
        assert_eq!(
            json::at(text(&legacy), &["structuredContent"]).is_some(),
            structured.starts_with('{'),
            "{structured}"
        );
    }
}

#[test]
fn g_005_whatever_is_listed_or_named_loses_what_a_version_lacks() {
    let prompts = r#"{"prompts":[{"name":"p","title":"P","icons":[],"arguments":[{"name":"a","title":"A"}]},{"name":"q","x":1e400}]}"#;
    for (front, listed) in [
        (Version::V2025_11_25, prompts),
        (
            Version::V2025_06_18,
            r#"{"prompts":[{"name":"p","title":"P","arguments":[{"name":"a","title":"A"}]},{"name":"q","x":1e400}]}"#,
        ),
        (
            Version::V2025_03_26,
            r#"{"prompts":[{"name":"p","arguments":[{"name":"a"}]},{"name":"q","x":1e400}]}"#,
        ),
    ] {
        assert_eq!(listing::for_front(prompts, front, Cache::NONE).unwrap(), listed);
    }
    for list in ["resources", "resourceTemplates"] {
        let sent = format!(r#"{{"{list}":[{{"name":"r","title":"R","icons":[]}}]}}"#);
        let listed = listing::for_front(&sent, Version::V2025_03_26, Cache::NONE).unwrap();
        assert_eq!(text(&listed), format!(r#"{{"{list}":[{{"name":"r"}}]}}"#));
    }
    let back = BackSelf {
        version: Version::V2025_11_25,
        capabilities: "{}".to_owned(),
        server_info: Some(
            r#"{"name":"s","title":"S","version":"1","icons":[],"websiteUrl":"https://a.example"}"#
                .to_owned(),
        ),
        instructions: None,
    };
    for (front, info) in [
        (Version::V2025_11_25, back.server_info.clone().unwrap()),
        (Version::V2025_06_18, r#"{"name":"s","title":"S","version":"1"}"#.to_owned()),
        (Version::V2025_03_26, r#"{"name":"s","version":"1"}"#.to_owned()),
    ] {
        let result = handshake::initialize_result(&back, front, OfferTasks::No, "{}").unwrap();
        assert_eq!(json::at(text(&result), &["serverInfo"]), Some(info.as_str()));
    }
    let got =
        bytes(r#"{"messages":[{"role":"user","content":{"type":"resource_link","name":"n","uri":"x:1"}}]}"#);
    assert_eq!(
        text(&result::for_legacy(&got, Version::V2025_03_26)),
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"n: x:1"}}]}"#
    );
    assert_eq!(text(&result::for_legacy(&got, Version::V2025_11_25)), text(&got));
}

#[test]
fn a_105_b_143_q_039_x_025_a_question_is_asked_in_each_dialect() {
    let params = r#"{"mode":"url","url":"https://up.example.com/c?u=1","message":"Connect.","task":{"ttl":1},"x":1.0,"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"up-991"}}}"#;
    let asked = question::read("elicitation/create", Some(params), None).unwrap();
    assert_eq!(asked.kind, QuestionKind::Url);
    assert_eq!(
        text(&asked.params),
        r#"{"mode":"url","url":"https://up.example.com/c?u=1","message":"Connect.","x":1.0}"#
    );
    let id = RequestId::from_name("g-7");
    let task = TaskId::parse("tF3333333333333333333g").unwrap();
    let how = ToLegacy { id: &id, task: Some(&task), version: Version::V2025_11_25, elicitation_id: "el-1" };
    let written = question::to_a(&asked, &how);
    assert_valid(Schema::A, "ElicitRequest", &written);
    assert_eq!(json::at(text(&written), &["params", "elicitationId"]), Some("\"el-1\""));
    assert_eq!(
        taskgate_wire::meta::related_task(json::at(text(&written), &["params"]).unwrap()).unwrap(),
        task.expose()
    );
    let entry = question::to_b(&asked);
    assert_valid(Schema::X, "InputRequest", &entry);
    assert_eq!(question::read_entry(&entry, None).unwrap().params, asked.params);

    // Q-039: what its schema has not is left to the two who asked and answer.
    let pattern = r#"{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^x"}}}}"#;
    let form = question::read("elicitation/create", Some(pattern), None).unwrap();
    assert_eq!(text(&form.params), pattern);
    assert!(question::to_b(&form).contains(r#""pattern":"^x""#));

    let kept =
        question::read("elicitation/create", Some(r#"{"mode":"url","elicitationId":"u-1"}"#), None).unwrap();
    assert_eq!(question::elicitation_id(&kept).as_deref(), Some("u-1"));
    assert!(text(&question::to_a(&kept, &how)).contains("u-1"));
    assert!(!question::to_b(&kept).contains("u-1"));
    assert_valid(Schema::A, "ElicitationCompleteNotification", question::elicitation_complete("u-1"));
}

#[test]
fn a_103_b_142_x_035_modes_and_methods() {
    for (method, params, kind) in [
        ("elicitation/create", Some("{}"), Ok(QuestionKind::Form)),
        ("elicitation/create", Some(r#"{"mode":"form"}"#), Ok(QuestionKind::Form)),
        ("elicitation/create", Some(r#"{"mode":"dance"}"#), Err(-32602)),
        ("elicitation/create", Some(r#"{"mode":7}"#), Err(-32602)),
        ("sampling/createMessage", Some("{}"), Ok(QuestionKind::Sampling)),
        ("roots/list", None, Ok(QuestionKind::Roots)),
        ("roots/list", Some("null"), Ok(QuestionKind::Roots)),
        ("tools/call", Some("{}"), Err(-32601)),
        ("roots/list", Some("[]"), Err(-32602)),
    ] {
        let read = question::read(method, params, None);
        assert_eq!(
            read.map(|question| question.kind).map_err(|error| error.code),
            kind,
            "{method} {params:?}"
        );
    }
    let id = RequestId::from_u64(1);
    let roots = question::read("roots/list", None, None).unwrap();
    let how = ToLegacy { id: &id, task: None, version: Version::V2025_06_18, elicitation_id: "" };
    assert_valid(Schema::A, "ListRootsRequest", question::to_a(&roots, &how));
    let form = question::read("elicitation/create", Some(r#"{"mode":"form","message":"m"}"#), None).unwrap();
    assert!(!text(&question::to_a(&form, &how)).contains("mode"));
}

#[test]
fn a_106_b_144_q_023_q_033_answers_of_the_wrong_shape_are_refused() {
    use QuestionKind::{Form, Roots, Sampling, Url};
    for (kind, given, is_ok) in [
        (Form, r#"{"action":"accept","content":{"a":1.5,"b":"x","c":true,"d":["x"]}}"#, true),
        (Form, r#"{"action":"decline"}"#, true),
        (Form, r#"{"action":"cancel","content":null}"#, true),
        (Form, r#"{"action":"agree"}"#, false),
        (Form, r#"{"action":"accept","content":{"a":{}}}"#, false),
        (Form, r#"{"action":"accept","content":{"a":[1]}}"#, false),
        (Form, r#"{"action":"accept","content":[]}"#, false),
        (Url, r#"{"action":"accept"}"#, true),
        (Url, r#"{"action":"accept","content":{}}"#, false),
        (Sampling, r#"{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}"#, true),
        (Sampling, r#"{"role":"assistant","model":"m","content":[]}"#, true),
        (Sampling, r#"{"role":"system","model":"m","content":{}}"#, false),
        (Sampling, r#"{"role":"user","content":{}}"#, false),
        (Sampling, r#"{"role":"user","model":"m"}"#, false),
        (Roots, r#"{"roots":[{"uri":"file:///x"}]}"#, true),
        (Roots, r#"{"roots":[]}"#, true),
        (Roots, r#"{"roots":[{}]}"#, false),
        (Roots, "{}", false),
        (Roots, "[]", false),
    ] {
        let verdict = answer::check(kind, given);
        assert_eq!(verdict.is_ok(), is_ok, "{kind:?} {given}");
        assert!(verdict.err().is_none_or(|error| error.code == -32602));
    }
}

#[test]
fn b_088_x_027_answers_go_to_each_kind_of_back() {
    let given = r#"{"action":"accept","content":{"n":9007199254740993},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"front"}}}"#;
    let to_a = answer::for_a(given, Some("up:1"));
    assert_valid(Schema::A, "ElicitResult", &to_a);
    assert_eq!(taskgate_wire::meta::related_task(text(&to_a)).as_deref(), Some("up:1"));
    assert!(!text(&to_a).contains("front"));
    let to_b = answer::for_b(given);
    assert_eq!(text(&to_b), r#"{"action":"accept","content":{"n":9007199254740993}}"#);
    assert_eq!(text(&answer::for_b(r#"{"action":"cancel","content":null}"#)), r#"{"action":"cancel"}"#);
    let update = dialect::b::update_params("up:1", &[("k".to_owned(), to_b)]);
    assert!(update.contains(r#""inputResponses":{"k":{"action":"accept""#));
    let id = RequestId::from_u64(1);
    let meta = taskgate_wire::meta::modern::add(
        Some(&update),
        &taskgate_wire::meta::modern::ModernMeta {
            version: Version::MODERN,
            capabilities: "{}",
            client_info: None,
            progress_token: None,
            log_level: None,
        },
    );
    let request = message::request(&id, "tasks/update", Some(text(&meta.unwrap())));
    assert_valid(Schema::X, "UpdateTaskRequest", request);
}

#[test]
fn x_029_refusals_by_error() {
    let error = |code: i64, message: &str| format!(r#"{{"code":{code},"message":"{message}"}}"#);
    use answer::Refused::{Answer, NoAnswer};
    assert_eq!(
        answer::from_error(QuestionKind::Form, &error(-32602, "no")),
        Answer(r#"{"action":"cancel"}"#)
    );
    assert_eq!(
        answer::from_error(QuestionKind::Url, &error(-1, "User declined")),
        Answer(r#"{"action":"decline"}"#)
    );
    assert!(
        matches!(answer::from_error(QuestionKind::Sampling, &error(-1, "no")), NoAnswer(why) if why.contains("-1"))
    );
    assert!(answer::gave_up(QuestionKind::Form).is_ok());
    assert_eq!(answer::gave_up(QuestionKind::Sampling).unwrap_err().code, -1);
}

#[test]
fn b_124_b_128_questions_before_a_task_and_the_retry() {
    let asked = r#"{"resultType":"input_required","inputRequests":{"fmt":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"v1.\u0041"}"#;
    let read = mrtr::read(asked).unwrap();
    assert_eq!(read.questions[0].1.back_key.as_deref(), Some("fmt"));
    let written =
        mrtr::write(read.questions.iter().map(|(_, question)| ("in-1", question)), Some("signed\""));
    assert_valid(Schema::B, "InputRequiredResult", &written);
    assert!(mrtr::read(r#"{"resultType":"input_required"}"#).is_err());
    assert!(mrtr::read(r#"{"requestState":"x"}"#).unwrap().questions.is_empty());

    let retry = r#"{"name":"x","n":1.0,"inputResponses":{"in-1":{"action":"cancel"},"in-1":{"action":"decline"}},"requestState":"signed\""}"#;
    let got = mrtr::read_retry(retry).unwrap().unwrap();
    assert_eq!(got.request_state.as_deref(), Some("signed\""));
    assert_eq!(got.answers, [("in-1".to_owned(), r#"{"action":"decline"}"#)]);
    assert_eq!(mrtr::read_retry("{}"), Ok(None));
    assert!(mrtr::read_retry(r#"{"inputResponses":[]}"#).is_err());
    assert!(mrtr::read_retry(r#"{"requestState":7}"#).is_err());
    let answers = [("fmt".to_owned(), answer::for_b(got.answers[0].1))];
    let params = mrtr::retry_params(retry, &answers, read.request_state.as_deref()).unwrap();
    assert_eq!(
        text(&params),
        r#"{"name":"x","n":1.0,"inputResponses":{"fmt":{"action":"decline"}},"requestState":"v1.A"}"#
    );
    assert_eq!(text(&mrtr::retry_params(retry, &[], None).unwrap()), r#"{"name":"x","n":1.0}"#);
}

const TOOLS: &str = r#"{"tools":[
  {"name":"plain","inputSchema":{"type":"object"},"x-vendor":1e400},
  {"name":"slow","title":"Slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required","x":1},
   "outputSchema":{"type":"object"},"icons":[],"annotations":{"readOnlyHint":true}},
  {"name":"array","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}},
  {"name":"hidden","inputSchema":{"type":"object"}},
  {"nameless":true}],"nextCursor":"","ttlMs":5,"cacheScope":"public","resultType":"complete"}"#;

#[test]
fn a_025_tools_are_read() {
    let tools = listing::read_tools(TOOLS).unwrap();
    let seen: Vec<_> =
        tools.iter().map(|tool| (tool.name.as_ref(), tool.support, tool.read_only_hint)).collect();
    assert_eq!(
        seen,
        [
            ("plain", TaskSupport::Forbidden, None),
            ("slow", TaskSupport::Required, Some(true)),
            ("array", TaskSupport::Forbidden, None),
            ("hidden", TaskSupport::Forbidden, None)
        ]
    );
    assert!(listing::read_tools("{}").is_err() && listing::read_tools(r#"{"tools":{}}"#).is_err());
    assert_eq!(Cache::read(TOOLS), Cache { ttl: Millis(5), is_public: true });
}

#[test]
fn x_004_x_054_tools_are_listed_for_each_version() {
    let support = |tool: &Tool<'_>| (tool.name != "plain").then_some(TaskSupport::Optional);
    let mut shown = String::new();
    for front in Version::SUPPORTED {
        let rewrite = Rewrite {
            front,
            support: &support,
            hides_output_schema: &|name| name == "slow",
            hides: &|tool| tool.name == "hidden",
            own_tool: Some(r#"{"name":"get_result","inputSchema":{"type":"object"}}"#),
            cache: Cache::NONE,
        };
        let list = listing::rewrite_tools(TOOLS, &rewrite).unwrap();
        if front.is_modern() {
            assert_valid(Schema::B, "ListToolsResult", &list);
            assert!(!text(&list).contains("execution"));
        }
        if front.has_tasks_a() {
            assert_valid(Schema::A, "ListToolsResult", &list);
        }
        shown.push_str(&format!("{}\n{}\n\n", front.as_str(), text(&list)));
    }
    insta::assert_snapshot!(shown);
    let other = listing::for_front(r#"{"prompts":[]}"#, Version::MODERN, Cache::NONE).unwrap();
    assert_valid(Schema::B, "ListPromptsResult", &other);
    assert_eq!(
        listing::for_front(text(&other), Version::V2025_11_25, Cache::NONE).unwrap(),
        r#"{"prompts":[]}"#
    );
}

#[test]
fn a_017_b_022_b_056_b_120_x_001_handshakes_show_the_back_with_our_own_tasks() {
    let legacy = BackSelf::read_initialize(
        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"vendor":{"n":1.0},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"extensions":{"io.modelcontextprotocol/tasks":{}}},"serverInfo":{"name":"s","version":"1","x":1},"instructions":"Be \"kind\""}"#,
    )
    .unwrap();
    assert_eq!(legacy.tasks(), BackTasks::A);
    assert!(legacy.can_list() && !legacy.can_cancel());
    let modern = BackSelf::read_discover(
        r#"{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{},"x.example/y":{"z":1}},"tasks":{"requests":{"tools":{"call":{}}}}}}"#,
        Version::MODERN,
    )
    .unwrap();
    assert_eq!(modern.tasks(), BackTasks::B);
    assert!(modern.can_cancel() && !modern.can_list());
    let older = BackSelf { version: Version::V2025_06_18, ..legacy.clone() };
    assert_eq!(older.tasks(), BackTasks::None);
    // A-019: tasks, but not for the one request that we send.
    let leafless = r#"{"tasks":{"cancel":{},"requests":{"prompts":{"get":{}}}}}"#.to_owned();
    assert_eq!(BackSelf { capabilities: leafless, ..legacy.clone() }.tasks(), BackTasks::None);

    let own = r#"{"name":"gate","version":"0"}"#;
    let mut shown = String::new();
    for (name, back) in [("legacy back", &legacy), ("modern back", &modern)] {
        for offer in [
            OfferTasks::No,
            OfferTasks::Yes { is_identified: false },
            OfferTasks::Yes { is_identified: true },
        ] {
            for front in [Version::V2025_11_25, Version::V2025_06_18] {
                let result = handshake::initialize_result(back, front, offer, own).unwrap();
                assert_valid(Schema::A, "InitializeResult", &result);
                shown.push_str(&format!("{name} {offer:?} {}\n  {}\n", front.as_str(), text(&result)));
            }
            let result = handshake::discover_result(back, offer, own, Cache::NONE).unwrap();
            assert_valid(Schema::B, "DiscoverResult", &result);
            assert_eq!(json::at(text(&result), &["capabilities", "tasks"]), None, "B-120");
            shown.push_str(&format!("{name} {offer:?} discover\n  {}\n", text(&result)));
        }
    }
    insta::assert_snapshot!(shown);
    assert!(BackSelf::read_initialize(r#"{"protocolVersion":"2024-10-07","capabilities":{}}"#).is_err());
}

#[test]
fn a_006_our_own_opening_is_valid() {
    let offers = Offers::from_capabilities(r#"{"elicitation":{},"roots":{}}"#);
    let params =
        handshake::initialize_params(Version::V2025_11_25, &offers, r#"{"name":"gate","version":"0"}"#);
    let id = RequestId::from_u64(1);
    assert_valid(Schema::A, "InitializeRequest", message::request(&id, "initialize", Some(&params)));
    let opening = handshake::read_opening(Some(&params)).unwrap();
    assert_eq!((opening.version, &opening.offers), (Version::V2025_11_25, &offers));
    assert!(handshake::read_opening(None).is_err());
    let cancelled = handshake::cancelled_params(&id, "user");
    assert_valid(
        Schema::A,
        "CancelledNotification",
        message::notification("notifications/cancelled", Some(&cancelled)),
    );
}

#[test]
fn b_006_b_011_what_a_modern_result_gets_in_front_is_never_there_twice() {
    let info = r#"{"name":"s","version":"1"}"#;
    for sent in [
        r#"{}"#,
        r#"{ }"#,
        r#"{"content":[]}"#,
        r#"{"content":[],"_meta":{"a":1}}"#,
        r#"{"content":[],"\u005fmeta":{"a":1}}"#,
        r#"{"content":[{"type":"text","text":"\"_meta\" and \"resultType\""}]}"#,
        r#"{"resultType":"odd","content":[]}"#,
    ] {
        let modern = result::for_modern_from(&bytes(sent), info);
        let object = json::Object::parse(text(&modern)).unwrap();
        for name in ["resultType", "_meta"] {
            assert_eq!(object.members().filter(|member| member.name == name).count(), 1, "{sent}");
        }
        assert_eq!(object.str("resultType").as_deref(), Some("complete"));
        assert_eq!(json::at(text(&modern), &["_meta", "io.modelcontextprotocol/serverInfo"]), Some(info));
        assert_eq!(json::at(text(&modern), &["_meta", "a"]).is_some(), sent.contains("\"a\":1"), "{sent}");
    }
}
