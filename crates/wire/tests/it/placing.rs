//! Who speaks which way, headers, and what a client can be asked.

use std::collections::BTreeMap;

use bytes::Bytes;
use taskgate_core::task::QuestionKind;
use taskgate_wire::header::{self, TaskName};
use taskgate_wire::message::{self, Malformed, Message, Request};
use taskgate_wire::meta::modern::{self, ModernMeta};
use taskgate_wire::offers::Offers;
use taskgate_wire::place::{HttpFacts, HttpMethod, Placement, Session, place_http, place_stdio};
use taskgate_wire::probe::{Verdict, judge_http, judge_stdio};
use taskgate_wire::{RpcError, Version, errors, json};

use crate::schema::{Schema, assert_valid};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn parse(text: &str) -> Result<Message, Malformed> {
    message::parse(Bytes::copy_from_slice(text.as_bytes()))
}

fn request(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{{params}}}}}"#)
}

fn post<'a>(version_header: Option<&'a str>, session: Session) -> HttpFacts<'a> {
    HttpFacts { method: HttpMethod::Post, version_header, session }
}

/// A word for where a message is placed, with status and code if it is refused.
fn word(placement: &Placement<'_>) -> String {
    match placement {
        Placement::Modern(_) => "modern".into(),
        Placement::ModernNotification => "modern notification".into(),
        Placement::Initialize => "initialize".into(),
        Placement::Legacy(version) => format!("legacy {}", version.as_str()),
        Placement::Batch => "batch".into(),
        Placement::Stream => "stream".into(),
        Placement::EndSession => "end".into(),
        Placement::Ignore => "ignore".into(),
        Placement::Refuse { http_status, error } => format!("{http_status} {}", error.code),
    }
}

#[test]
fn d_001_to_d_009_http_messages_are_placed_by_their_envelope() {
    let known = Session::Known(Version::V2025_11_25);
    let old = Session::Known(Version::V2025_03_26);
    let call = request("tools/call", r#""name":"x""#);
    let modern = request("tools/call", META);
    let half = request("x", r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#);
    let future = META.replace("2026-07-28", "1900-01-01");
    let legacy_date = META.replace("2026-07-28", "2025-11-25");
    let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":"s-1","result":{}}"#;
    for (body, header, session, expected) in [
        (modern.as_str(), Some("2026-07-28"), Session::Absent, "modern"),
        (&modern, Some("2026-07-28"), known, "modern"),
        (&modern, None, Session::Absent, "400 -32020"),
        (&modern, Some("2025-11-25"), Session::Absent, "400 -32020"),
        (&half, Some("2025-11-25"), Session::Absent, "400 -32602"),
        (&request("x", &future), Some("1900-01-01"), Session::Absent, "400 -32022"),
        (&request("x", &legacy_date), Some("2025-11-25"), Session::Absent, "400 -32022"),
        (&request("initialize", META), Some("2026-07-28"), Session::Absent, "404 -32601"),
        (&request("initialize", ""), None, Session::Absent, "initialize"),
        (&request("initialize", ""), Some("2026-07-28"), Session::Absent, "initialize"),
        (&call, Some("2026-07-28"), Session::Absent, "400 -32602"),
        (&call, Some("2026-12-24"), Session::Absent, "400 -32602"),
        (&call, None, known, "legacy 2025-11-25"),
        (&call, Some("2025-06-18"), known, "legacy 2025-11-25"),
        (&call, Some("1999-01-01"), known, "400 -32600"),
        (&call, Some("2025-11-25"), Session::Unknown, "404 -32600"),
        (&call, Some("2025-11-25"), Session::Absent, "400 -32600"),
        (&call, None, Session::Absent, "400 -32020"),
        (note, Some("2026-07-28"), Session::Absent, "modern notification"),
        (note, Some("2025-11-25"), known, "legacy 2025-11-25"),
        (answer, Some("2025-11-25"), known, "legacy 2025-11-25"),
        (answer, Some("2026-07-28"), Session::Absent, "400 -32600"),
        ("[]", None, old, "batch"),
        ("[]", None, known, "400 -32600"),
        ("{", None, known, "400 -32700"),
        ("7", None, known, "400 -32600"),
    ] {
        let parsed = parse(body);
        let placed = place_http(&post(header, session), Some(parsed.as_ref()));
        assert_eq!(word(&placed), expected, "{body} {header:?} {session:?}");
    }
    for (method, session, expected) in [
        (HttpMethod::Get, known, "stream"),
        (HttpMethod::Delete, known, "end"),
        (HttpMethod::Get, Session::Unknown, "404 -32600"),
        (HttpMethod::Get, Session::Absent, "405 -32600"),
        (HttpMethod::Delete, Session::Absent, "405 -32600"),
        (HttpMethod::Post, known, "400 -32600"),
    ] {
        let facts = HttpFacts { method, version_header: None, session };
        assert_eq!(word(&place_http(&facts, None)), expected);
    }
}

#[test]
fn d_010_to_d_013_messages_on_a_pipe_are_placed_one_by_one() {
    let call = request("tools/call", r#""name":"x""#);
    let modern = request("tools/call", META);
    let unknown = request("x", &META.replace("2026-07-28", "2030-01-01"));
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":"s-1","result":{}}"#;
    let init = Some(Version::V2025_06_18);
    for (body, initialized, expected) in [
        (modern.as_str(), None, "modern"),
        (&modern, init, "modern"),
        (&unknown, init, "400 -32022"),
        (&request("initialize", ""), None, "initialize"),
        (&request("initialize", META), None, "404 -32601"),
        (&call, init, "legacy 2025-06-18"),
        (&call, None, "400 -32602"),
        (&request("ping", ""), None, "legacy 2025-11-25"),
        (note, None, "modern notification"),
        (note, init, "legacy 2025-06-18"),
        (answer, None, "ignore"),
        (answer, init, "legacy 2025-06-18"),
        ("[]", Some(Version::V2025_03_26), "batch"),
        ("[]", init, "400 -32600"),
        ("{", None, "400 -32700"),
    ] {
        let parsed = parse(body);
        assert_eq!(word(&place_stdio(parsed.as_ref(), initialized)), expected, "{body}");
    }
    let parsed = parse(&call);
    let Placement::Refuse { error, .. } = place_stdio(parsed.as_ref(), None) else { panic!() };
    assert!(error.message.contains("2026-07-28, 2025-11-25"), "{error}");
}

#[test]
fn d_014_to_d_022_a_back_is_judged_by_the_body_whatever_the_status() {
    let discover =
        r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#;
    let error = |code: i64| {
        format!(r#"{{"jsonrpc":"2.0","id":"server-error","error":{{"code":{code},"message":""}}}}"#)
    };
    let modern = Verdict::Modern { versions: vec!["2026-07-28".into()] };
    let retry = |code| Verdict::CorrectAndRetry(RpcError::new(code, ""));
    for (status, body, expected) in [
        (200, Some(discover.to_owned()), modern.clone()),
        (400, Some(error(-32022)), retry(-32022)),
        (200, Some(error(-32020)), retry(-32020)),
        (404, Some(error(-32601)), Verdict::TryInitialize),
        (400, Some(error(-32602)), Verdict::TryInitialize),
        (400, Some(error(-32600)), Verdict::TryInitialize),
        (200, Some(error(-32601)), Verdict::TryInitialize),
        (200, Some(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned()), Verdict::TryInitialize),
        (405, None, Verdict::TryInitialize),
        (401, None, Verdict::Authorize),
        (403, Some(error(-32600)), Verdict::Authorize),
        (429, None, Verdict::Later),
        (503, None, Verdict::Later),
    ] {
        let parsed = body.map(|body| parse(&body).unwrap());
        let response = match &parsed {
            Some(Message::Response(response)) => Some(response),
            _ => None,
        };
        assert_eq!(judge_http(status, response), expected, "{status}");
        if status == 200 {
            assert_eq!(judge_stdio(response), expected);
        }
    }
    assert_eq!(judge_stdio(None), Verdict::TryInitialize);
}

fn parsed(method: &str, params: &str) -> Request {
    let Message::Request(request) = parse(&request(method, params)).unwrap() else { panic!("{method}") };
    request
}

#[test]
fn b_040_to_b_044_mirrored_headers_must_equal_the_body() {
    let lenient = TaskName::MayBeMissing;
    for (method, params, headers, rule, is_ok) in [
        ("tools/list", "", vec![("mcp-method", "tools/list")], lenient, true),
        ("tools/list", "", vec![], lenient, false),
        ("tools/list", "", vec![("mcp-method", "TOOLS/LIST")], lenient, false),
        ("tools/call", r#""name":"a""#, vec![("mcp-method", "tools/call"), ("mcp-name", "a")], lenient, true),
        (
            "tools/call",
            r#""name":"a""#,
            vec![("mcp-method", "tools/call"), ("mcp-name", "b")],
            lenient,
            false,
        ),
        ("tools/call", r#""name":"a""#, vec![("mcp-method", "tools/call")], lenient, false),
        ("prompts/get", r#""name":"a""#, vec![("mcp-method", "prompts/get")], lenient, false),
        (
            "resources/read",
            r#""uri":"x:y""#,
            vec![("mcp-method", "resources/read"), ("mcp-name", "x:y")],
            lenient,
            true,
        ),
        ("tasks/get", r#""taskId":"t""#, vec![("mcp-method", "tasks/get")], lenient, true),
        ("tasks/get", r#""taskId":"t""#, vec![("mcp-method", "tasks/get")], TaskName::Required, false),
        (
            "tasks/get",
            r#""taskId":"t""#,
            vec![("mcp-method", "tasks/get"), ("mcp-name", "u")],
            lenient,
            false,
        ),
        (
            "tasks/get",
            r#""taskId":"t ""#,
            vec![("mcp-method", "tasks/get"), ("mcp-name", "=?base64?dCA=?=")],
            lenient,
            true,
        ),
        (
            "tasks/get",
            r#""taskId":"t""#,
            vec![("mcp-method", "tasks/get"), ("mcp-name", "=?base64?%?=")],
            lenient,
            false,
        ),
    ] {
        let map: BTreeMap<&str, &str> = headers.into_iter().collect();
        let verdict = header::check(&parsed(method, params), |name| map.get(name).copied(), rule);
        assert_eq!(verdict.is_ok(), is_ok, "{method} {map:?}");
        assert!(verdict.err().is_none_or(|error| error.code == -32020));
    }
}

#[test]
fn b_043_values_that_are_not_plain_are_encoded() {
    for (value, written) in [
        ("plain text", "plain text"),
        ("", ""),
        ("é", "=?base64?w6k=?="),
        (" edge", "=?base64?IGVkZ2U=?="),
        ("a\nb", "=?base64?YQpi?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
    ] {
        assert_eq!(header::encode(value), written);
        assert_eq!(header::decode(written).unwrap(), value);
    }
    assert!(header::decode("=?base64?/w==?=").is_err());
}

#[test]
fn x_049_backs_get_the_headers_of_their_version() {
    let params = Some(r#"{"taskId":"a:b é"}"#);
    let named = header::for_request(Version::V2026_07_28, "tasks/get", params);
    assert_eq!(
        named,
        [
            ("mcp-protocol-version", "2026-07-28".to_owned()),
            ("mcp-method", "tasks/get".to_owned()),
            ("mcp-name", "=?base64?YTpiIMOp?=".to_owned())
        ]
    );
    let legacy = header::for_request(Version::V2025_11_25, "tasks/get", params);
    assert_eq!(legacy, [("mcp-protocol-version", "2025-11-25".to_owned())]);
    assert_eq!(header::for_request(Version::V2025_03_26, "tasks/get", params), []);
}

#[test]
fn b_045_marks_that_break_the_rules_are_found() {
    let property = |property: &str| format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
    let sound = [
        r#"{"type":"string","x-mcp-header":"Region"}"#,
        r#"{"type":"integer","x-mcp-header":"N-1"}"#,
        r#"{"type":"object","properties":{"deep":{"type":"boolean","x-mcp-header":"Deep"}}}"#,
        r#"{"type":"object","default":{"x-mcp-header":1},"enum":[{"x-mcp-header":""}]}"#,
    ];
    for schema in sound {
        assert_eq!(header::marks_fault(&property(schema)), None, "{schema}");
    }
    let broken = [
        r#"{"type":"string","x-mcp-header":""}"#,
        r#"{"type":"string","x-mcp-header":"a b"}"#,
        r#"{"type":"string","x-mcp-header":"a:b"}"#,
        r#"{"type":"string","x-mcp-header":"é"}"#,
        r#"{"type":"string","x-mcp-header":"a\t1"}"#,
        r#"{"type":"string","x-mcp-header":7}"#,
        r#"{"type":"number","x-mcp-header":"A"}"#,
        r#"{"type":"object","x-mcp-header":"A"}"#,
        r#"{"type":["string","null"],"x-mcp-header":"A"}"#,
        r#"{"x-mcp-header":"A"}"#,
        r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#,
        r#"{"anyOf":[{"properties":{"b":{"type":"string","x-mcp-header":"A"}}}]}"#,
        r#"{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}"#,
    ];
    for schema in broken {
        assert!(header::marks_fault(&property(schema)).is_some(), "{schema}");
    }
    assert!(header::marks_fault(r#"{"type":"string","x-mcp-header":"Root"}"#).is_some());
}

#[test]
fn b_045_marked_arguments_are_mirrored() {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
        "n":{"type":"integer","x-mcp-header":"N"},"bad":{"x-mcp-header":"a b"},"plain":{"type":"string"},
        "in":{"type":"object","properties":{"deep":{"type":"boolean","x-mcp-header":"Deep"}}}}}"#;
    let arguments = r#"{"region":"eu é","n":7,"bad":"x","plain":"y","in":{"deep":true}}"#;
    let headers = header::for_arguments(schema, Some(arguments));
    let expected =
        [("mcp-param-region", "=?base64?ZXUgw6k=?="), ("mcp-param-n", "7"), ("mcp-param-deep", "true")];
    assert_eq!(headers, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(header::for_arguments(schema, Some(r#"{"region":null,"n":1.5}"#)), []);
    // And checked where they arrive.
    let right =
        [("mcp-param-region", "=?base64?ZXUgw6k=?="), ("mcp-param-n", "7"), ("mcp-param-deep", "true")];
    let check = |headers: &[(&str, &'static str)]| {
        let map: BTreeMap<&str, &'static str> = headers.iter().copied().collect();
        header::check_arguments(schema, Some(arguments), |name| map.get(name).copied())
    };
    assert_eq!(check(&right), Ok(()));
    assert_eq!(check(&[right[0], right[1], right[2], ("mcp-param-other", "x")]), Ok(()));
    for wrong in [
        vec![right[0], right[1]],
        vec![right[0], right[1], ("mcp-param-deep", "false")],
        vec![("mcp-param-region", "=?base64?*?="), right[1], right[2]],
    ] {
        assert_eq!(check(&wrong).unwrap_err().code, -32020, "{wrong:?}");
    }
    let none = header::check_arguments(schema, None, |name| (name == "mcp-param-n").then_some("7"));
    assert_eq!(none.unwrap_err().code, -32020);
}

#[test]
fn q_038_a_notification_need_not_name_its_method_in_a_header() {
    assert_eq!(header::check_notification("notifications/x", None), Ok(()));
    assert_eq!(header::check_notification("notifications/x", Some("notifications/x")), Ok(()));
    assert_eq!(header::check_notification("notifications/x", Some("x")).unwrap_err().code, -32020);
}

#[test]
fn b_005_a_modern_request_says_its_version_and_capabilities() {
    let key = "io.modelcontextprotocol";
    for (meta, missing) in [
        ("{}".to_owned(), "params._meta"),
        (r#"{"_meta":{}}"#.to_owned(), "protocolVersion"),
        (format!(r#"{{"_meta":{{"{key}/protocolVersion":"2026-07-28"}}}}"#), "clientCapabilities"),
        (format!(r#"{{"_meta":{{"{key}/clientCapabilities":{{}}}}}}"#), "protocolVersion"),
        (
            format!(r#"{{"_meta":{{"{key}/protocolVersion":1,"{key}/clientCapabilities":{{}}}}}}"#),
            "protocolVersion",
        ),
    ] {
        let error = modern::read(Some(&meta)).unwrap_err();
        assert_eq!(error.code, -32602);
        assert!(error.message.contains(missing), "{error}");
    }
    assert!(modern::read(None).is_err());
    let params = format!("{{{META}}}");
    let read = modern::read(Some(&params)).unwrap();
    assert!(!read.declares_tasks && read.client_info.is_none());
}

#[test]
fn b_117_a_legacy_tasks_capability_is_no_declaration() {
    assert!(!modern::declares_tasks(r#"{"tasks":{"requests":{}}}"#));
    assert!(!modern::declares_tasks(r#"{"extensions":{"io.modelcontextprotocol/tasks":true}}"#));
    assert!(modern::declares_tasks(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
}

#[test]
fn b_003_our_own_meta_replaces_the_clients_and_is_stripped_again() {
    let capabilities = Offers::none().capabilities_json(Version::MODERN);
    let ours = ModernMeta {
        version: Version::MODERN,
        capabilities: &capabilities,
        client_info: Some(r#"{"name":"gate","version":"1"}"#),
        progress_token: None,
        log_level: Some("info"),
    };
    let theirs =
        r#"{"name":"x","_meta":{"vendor":1e400,"progressToken":7,"io.modelcontextprotocol/clientInfo":{}}}"#;
    let added = String::from_utf8(modern::add(Some(theirs), &ours).unwrap().to_vec()).unwrap();
    let read = modern::read(Some(&added)).unwrap();
    assert!(read.declares_tasks && read.progress_token.is_none());
    assert_eq!(read.client_info, ours.client_info);
    assert_eq!(read.log_level.as_deref(), Some("info"));
    assert_eq!(modern::strip(&added).unwrap(), r#"{"name":"x","_meta":{"vendor":1e400}}"#);
    let alone = modern::add(None, &ours).unwrap();
    let id = taskgate_wire::RequestId::from_u64(1);
    let text = core::str::from_utf8(&alone).unwrap();
    assert_valid(Schema::B, "DiscoverRequest", message::request(&id, "server/discover", Some(text)));
    assert_eq!(modern::strip(text).unwrap(), "{}");
}

#[test]
fn a_101_an_empty_elicitation_means_form_only() {
    for (elicitation, form, url) in [
        ("{}", true, false),
        (r#"{"form":{}}"#, true, false),
        (r#"{"url":{}}"#, false, true),
        (r#"{"form":{},"url":{}}"#, true, true),
        ("true", false, false),
    ] {
        let offers = Offers::from_capabilities(&format!(r#"{{"elicitation":{elicitation}}}"#));
        assert_eq!((offers.form(), offers.url()), (form, url), "{elicitation}");
        assert_eq!(offers.can_ask(QuestionKind::Url), url);
    }
}

#[test]
fn x_002_a_back_hears_of_nothing_that_the_client_lacks() {
    let client = r#"{"roots":{"listChanged":true},"sampling":{"tools":{}},"elicitation":{ "url":{} , "form":{}},"tasks":{},"x":1}"#;
    let offers = Offers::from_capabilities(client);
    assert_eq!(offers, Offers::from_stored(&offers.to_stored()));
    let same = r#"{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{}}"#;
    assert_ne!(offers, Offers::none());
    assert_eq!(offers.elicitation, Offers::from_capabilities(same).elicitation);
    insta::assert_snapshot!(
        Version::SUPPORTED
            .map(|version| format!("{}: {}", version.as_str(), offers.capabilities_json(version)))
            .join("\n")
    );
    assert_valid(Schema::A, "ClientCapabilities", offers.capabilities_json(Version::V2025_11_25));
    assert_valid(Schema::B, "ClientCapabilities", offers.capabilities_json(Version::MODERN));
    let early = Offers::from_initialize(&format!(r#"{{"capabilities":{client}}}"#), Version::V2025_03_26);
    assert!(!early.form() && early.can_ask(QuestionKind::Sampling));
    let middle = Offers::from_initialize(&format!(r#"{{"capabilities":{client}}}"#), Version::V2025_06_18);
    assert!(middle.form() && !middle.url());
    assert_eq!(Offers::none().capabilities_json(Version::V2025_11_25), "{}");
}

#[test]
fn a_008_versions_are_negotiated_and_never_to_the_stateless_one() {
    for (asked, given) in [
        ("2025-03-26", Version::V2025_03_26),
        ("2025-06-18", Version::V2025_06_18),
        ("2025-11-25", Version::V2025_11_25),
        ("2026-07-28", Version::V2025_11_25),
        ("1999-01-01", Version::V2025_11_25),
    ] {
        assert_eq!(Version::negotiate(asked), given);
    }
}

#[test]
fn b_013_e_001_to_e_012_a_backs_errors_reach_each_client_in_its_own_way() {
    let url = r#","data":{"elicitations":[{"mode":"url","elicitationId":"e","url":"https://x.example/a","message":"m"}]}"#;
    let mut table = String::new();
    for (code, data) in [
        (-32700, ""),
        (-32600, ""),
        (-32601, ""),
        (-32602, ""),
        (-32603, r#","data":{"a":1e400},"vendor":1"#),
        (-32020, ""),
        (-32021, r#","data":{"requiredCapabilities":{"sampling":{}}}"#),
        (-32022, r#","data":{"supported":[]}"#),
        (-32050, r#","data":"words""#),
        (-32042, url),
        (-32002, ""),
        (-32001, ""),
        (-1, ""),
        (7, ""),
    ] {
        let error = format!(r#"{{"code":{code},"message":"m"{data}}}"#);
        let modern = errors::to_modern(&error);
        let reserved = json::at(&modern, &["code"]).unwrap().parse::<i64>().unwrap();
        assert!(!(-32099..=-32020).contains(&reserved) && reserved != -32002, "B-013: {modern}");
        for changed in [&modern, &errors::to_legacy(&error, Version::V2025_11_25)] {
            assert_valid(Schema::A, "Error", changed.as_bytes());
        }
        table.push_str(&format!("{error}\n  modern     {modern}\n"));
        for version in [Version::V2025_11_25, Version::V2025_06_18] {
            table.push_str(&format!("  {} {}\n", version.as_str(), errors::to_legacy(&error, version)));
        }
    }
    insta::assert_snapshot!(table);
    for senseless in ["7", "{}", r#"{"code":1e400,"message":"x"}"#, r#"{"code":-1}"#] {
        assert!(errors::to_modern(senseless).starts_with(r#"{"code":-32603"#));
    }
}

#[test]
fn x_052_http_statuses() {
    use taskgate_wire::Era::{Legacy, Modern};
    for (code, modern, legacy) in [
        (-32020, 400, 200),
        (-32021, 400, 200),
        (-32022, 400, 200),
        (-32601, 404, 200),
        (-32602, 200, 200),
        (-32700, 400, 400),
        (-32603, 200, 200),
    ] {
        assert_eq!(errors::http_status(code, Modern), modern);
        assert_eq!(errors::http_status(code, Legacy), legacy);
    }
}
