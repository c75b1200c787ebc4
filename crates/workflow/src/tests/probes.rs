use taskgate_core::id::ServerName;
use taskgate_core::time::Millis;

use super::{bool, facts};
use crate::{
    Answer, Ask, Expression, Failed, Fence, Hidden, Look, Pace, Probe, ProbeRequest, Scope, Template,
    ToolAsk, Want,
};

fn json(source: &str) -> Expression {
    Expression::compile(source, Scope::Operation, Want::Json).unwrap()
}

fn tool() -> ToolAsk {
    ToolAsk {
        server: ServerName("bank".to_owned()),
        tool: "find \"it\"".to_owned(),
        arguments: vec![
            ("reference".to_owned(), json("key")),
            ("filter".to_owned(), json("{'to': args.to, 'n': [args.n, 1.5, null]}")),
        ],
    }
}

const PACE: Pace = Pace { first: Millis(1), every: Millis(2), budget: None };

fn by_tool() -> Probe {
    Probe {
        ask: Ask::Tool(tool()),
        applied_when: bool("data.state == 'paid'", Scope::ToolAnswer),
        not_applied_when: Some(bool("data.state == 'none'", Scope::ToolAnswer)),
        pace: PACE,
    }
}

fn by_web() -> Probe {
    let url =
        Template::compile("https://bank.example/v1/{args.to}/payments?key={key}&x={'{' + \"}\"}").unwrap();
    Probe {
        ask: Ask::Get { url, headers: vec![("authorization".to_owned(), Hidden::new("secret-9"))] },
        applied_when: bool("data.state == 'paid'", Scope::WebAnswer),
        not_applied_when: Some(bool("status == 404", Scope::WebAnswer)),
        pace: PACE,
    }
}

#[test]
fn a_tool_is_asked_with_what_is_known() {
    let asked = by_tool().request(facts(r#"{"to":"ann","n":100000000000000000001}"#)).unwrap();
    let ProbeRequest::Tool { server, params, .. } = asked else { panic!("{asked:?}") };
    assert_eq!(server.0, "bank");
    assert_eq!(
        params,
        r#"{"name":"find \"it\"","arguments":{"reference":"order-7","filter":{"n":["100000000000000000001",1.5,null],"to":"ann"}}}"#
    );
    let failed = by_tool().request(facts("{}")).unwrap_err();
    assert_eq!(
        failed.to_string(),
        "`probe.arguments.filter` cannot be evaluated: `to` is missing in the data"
    );
}

#[test]
fn what_a_caller_says_stays_one_piece_of_the_url() {
    let url = |to: &str| {
        let arguments = format!("{{\"to\":{}}}", taskgate_wire::json::string_literal(to));
        match by_web().request(facts(&arguments)) {
            Ok(ProbeRequest::Get { url, .. }) => Ok(url),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.why),
        }
    };
    assert_eq!(url("ann"), Ok("https://bank.example/v1/ann/payments?key=order-7&x=%7B%7D".to_owned()));
    let hostile = url("../../admin?x=1#@evil.example/é\r\n").unwrap();
    assert_eq!(
        hostile,
        "https://bank.example/v1/..%2F..%2Fadmin%3Fx%3D1%23%40evil.example%2F%C3%A9%0D%0A/payments?key=order-7&x=%7B%7D"
    );
    for piece in ["", ".", ".."] {
        assert_eq!(url(piece), Err(Failed::Piece));
    }
    let asked = by_web().request(facts(r#"{"to":"x"}"#)).unwrap();
    assert!(!format!("{asked:?} {:?}", by_web()).contains("secret-9"));
}

#[test]
fn urls_that_cannot_be_asked_for_are_found_when_they_are_loaded() {
    let mut out = String::new();
    for source in [
        "https://{args.host}/x",
        "{key}",
        "https://bank.example{key}",
        "https://bank.example/{key",
        "https://bank.example/key}",
        "https://bank.example/{}",
        "https://bank.example/{keys}",
        "https://bank.example/é{key}",
        "https://bank.example/{key}#x",
        "https://bank.example/a b",
        "https://bank.example/{data.x}",
        "https://bank.example/{[1]}",
    ] {
        let bad = Template::compile(source).unwrap_err();
        out.push_str(&format!(
            "{source}\n    {} [{}]\n    {}\n",
            bad.what,
            &source[bad.at.clone()],
            bad.help
        ));
    }
    insta::assert_snapshot!(out);
}

#[test]
fn r4_5_an_answer_that_is_not_clear_says_why() {
    let tool = |text: &str| {
        let text = taskgate_wire::json::string_literal(text);
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":{text}}}]}}");
        by_tool().judge(facts("{}"), Answer::Tool(result.as_bytes()))
    };
    assert_eq!(tool(r#"{"state":"paid"}"#), Ok(Look::Applied));
    assert_eq!(tool(r#"{"state":"none"}"#), Ok(Look::NotApplied));
    assert!(matches!(tool(r#"{"state":"pending"}"#), Ok(Look::Unclear(_))));
    assert_eq!(tool(r#"{"status":"paid"}"#).unwrap_err().why, Failed::Missing("state".to_owned()));
    assert!(tool("down for maintenance").is_err());
    let error = r#"{"isError":true,"content":[{"type":"text","text":"{\"state\":\"none\"}"}]}"#;
    assert_eq!(
        by_tool().judge(facts("{}"), Answer::Tool(error.as_bytes())),
        Ok(Look::Unclear("the system of record answered with an error"))
    );
    let web = |status, body: &str| by_web().judge(facts("{}"), Answer::Web { status, body: body.as_bytes() });
    assert_eq!(web(200, r#"{"state":"paid"}"#), Ok(Look::Applied));
    assert_eq!(web(404, "not found"), Ok(Look::NotApplied));
    // What an error says of the state is no answer, unless the rule looks at the status.
    assert!(matches!(web(500, r#"{"state":"paid"}"#), Ok(Look::Unclear(_))));
    assert!(matches!(web(302, ""), Ok(Look::Unclear(_))));
    assert!(web(200, "<html>").is_err());
    let both = Probe { not_applied_when: Some(bool("status == 200", Scope::WebAnswer)), ..by_web() };
    let judged = both.judge(facts("{}"), Answer::Web { status: 200, body: br#"{"state":"paid"}"# });
    assert_eq!(judged, Ok(Look::Unclear("applied_when and not_applied_when both hold")));
}

#[test]
fn r4_5_a_fence_holds_only_if_the_system_of_record_agreed() {
    let fence = Fence { ask: tool(), fenced_when: bool("data.cancelled == key", Scope::ToolAnswer) };
    let fenced = |result: &str| fence.is_fenced(facts("{}"), Answer::Tool(result.as_bytes()));
    assert_eq!(fenced(r#"{"structuredContent":{"cancelled":"order-7"}}"#), Ok(true));
    assert_eq!(fenced(r#"{"structuredContent":{"cancelled":"order-8"}}"#), Ok(false));
    assert_eq!(fenced(r#"{"isError":true,"structuredContent":{"cancelled":"order-7"}}"#), Ok(false));
    assert!(fenced(r#"{"structuredContent":{}}"#).is_err() && fenced("rubbish").is_err());
}

/// One that keeps the first of the two members would read the opposite of one that keeps the last.
#[test]
fn r4_5_a_system_of_record_that_contradicts_itself_confirms_nothing() {
    for body in [
        r#"{"state":"none","state":"paid"}"#,
        r#"{"state":"paid","more":[{"a":1,"a":1}]}"#,
        "{\"state\":\"none\",\"st\\u0061te\":\"paid\"}",
    ] {
        let answer = Answer::Web { status: 200, body: body.as_bytes() };
        let failed = by_web().judge(facts("{}"), answer).unwrap_err();
        assert_eq!(failed.why, Failed::Twice("the answer"), "{body}");
        assert!(failed.why.may_pass());
    }
}
