//! Envelopes.

use bytes::Bytes;
use proptest::prelude::*;
use taskgate_wire::message::{self, Malformed, Message, Outcome};
use taskgate_wire::{RequestId, RpcError};

use crate::schema::{Schema, assert_valid};

fn parse(text: &str) -> Result<Message, Malformed> {
    message::parse(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_002_ids_are_echoed_byte_for_byte() {
    for id in ["1", "\"a\"", "\"\\u0061\"", "1.5", "12345678901234567890123", "-0", "1e3"] {
        let Ok(Message::Request(request)) =
            parse(&format!("{{\"jsonrpc\":\"2.0\",\"id\": {id} ,\"method\":\"ping\"}}"))
        else {
            panic!("{id}")
        };
        assert_eq!(request.id().as_json(), id);
        let answer = String::from_utf8(message::success(request.id(), "{}").to_vec()).unwrap();
        assert_eq!(answer, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}"));
    }
}

#[test]
fn a_003_params_are_a_slice_of_the_message() {
    let text = r#" {"jsonrpc":"2.0","params":{"name":"x","arguments":{"n":1e400},"name":"y"},"id":7,"method":"tools\/call"} "#;
    let Ok(Message::Request(request)) = parse(text) else { panic!() };
    assert_eq!(request.method(), "tools/call");
    assert_eq!(request.param("name"), Some("\"y\""));
    assert_eq!(request.param("arguments"), Some(r#"{"n":1e400}"#));
    let bytes = request.params_bytes().unwrap();
    assert_eq!(bytes.as_ptr(), request.raw()[text.find("{\"name").unwrap()..].as_ptr());
    assert_eq!(request.params().unwrap().as_bytes(), bytes);
}

#[test]
fn a_001_b_001_what_is_no_message_says_why() {
    for (text, code, id, words) in [
        ("{", -32700, None, "a member's name is missing"),
        ("", -32700, None, "a value is missing"),
        ("{}x", -32700, None, "something follows"),
        ("[]", -32600, None, "batch"),
        ("17", -32600, None, "no object"),
        (r#"{"id":1,"method":"x"}"#, -32600, Some("1"), "jsonrpc"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, -32600, Some("1"), "jsonrpc"),
        (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600, Some("1"), "method"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600, None, "id"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, -32600, None, "id"),
        (r#"{"jsonrpc":"2.0","id":3,"method":"x","params":[1]}"#, -32600, Some("3"), "params"),
        (r#"{"jsonrpc":"2.0","id":3}"#, -32600, Some("3"), "neither"),
        (r#"{"jsonrpc":"2.0","result":{}}"#, -32600, None, "without the id"),
        (r#"{"jsonrpc":"2.0","id":3,"result":[]}"#, -32600, Some("3"), "result"),
        (r#"{"jsonrpc":"2.0","id":3,"error":"no"}"#, -32600, Some("3"), "error"),
    ] {
        let malformed = parse(text).unwrap_err();
        assert_eq!(malformed.code(), code, "{text}");
        assert_eq!(malformed.id().map(RequestId::as_json), id, "{text}");
        assert!(malformed.to_string().contains(words), "{malformed}");
        assert_valid(Schema::A, "JSONRPCErrorResponse", message::error(malformed.id(), &malformed.to_rpc()));
    }
    assert_eq!(message::parse(Bytes::from_static(b"{\"a\":\"\xFF\"}")).unwrap_err().code(), -32700);
}

#[test]
fn errors_without_an_id_of_ours_are_read() {
    for (text, id) in [
        (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}"#, None),
        (r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no session"}}"#, None),
        (
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"x"}}"#,
            Some("\"server-error\""),
        ),
    ] {
        let Ok(Message::Response(response)) = parse(text) else { panic!("{text}") };
        assert_eq!(response.id().map(RequestId::as_json), id);
        assert!(matches!(response.outcome(), Outcome::Error(error) if RpcError::read(error).code < -30000));
    }
}

#[test]
fn optional_members_written_as_null_are_absent() {
    let Ok(Message::Request(request)) = parse(r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":null}"#)
    else {
        panic!()
    };
    assert_eq!(request.params(), None);
    let Ok(Message::Response(response)) = parse(r#"{"jsonrpc":"2.0","id":1,"result":{"a":1},"error":null}"#)
    else {
        panic!()
    };
    assert_eq!(response.outcome(), Outcome::Result(r#"{"a":1}"#));
    let Ok(Message::Response(both)) =
        parse(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#)
    else {
        panic!()
    };
    assert!(matches!(both.outcome(), Outcome::Error(_)));
}

#[test]
fn d_005_a_batch_is_taken_apart_without_a_copy() {
    let raw = Bytes::from_static(
        br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}, 7,{"jsonrpc":"2.0","method":"x"}]"#,
    );
    assert_eq!(message::parse(raw.clone()).unwrap_err(), Malformed::Batch);
    let all = message::parse_batch(&raw).unwrap();
    assert!(matches!(all.as_slice(), [Ok(Message::Request(_)), Err(_), Ok(Message::Notification(_))]));
    assert!(message::parse_batch(&Bytes::from_static(b"[]")).is_err());
    assert!(message::parse_batch(&Bytes::from_static(b"{}")).is_err());
}

#[test]
fn what_we_author_is_valid() {
    let id = RequestId::from_u64(1);
    assert_valid(Schema::A, "JSONRPCRequest", message::request(&id, "a\"b", Some(r#"{"x":1}"#)));
    assert_valid(Schema::A, "JSONRPCNotification", message::notification("x", None));
    assert_valid(
        Schema::B,
        "JSONRPCResponse",
        message::success(&RequestId::from_name("é\n"), taskgate_wire::dialect::b::ACK),
    );
    let task = taskgate_core::id::TaskId::parse("t1").unwrap();
    for error in [
        RpcError::unknown_task(),
        RpcError::already_over("completed"),
        RpcError::task_cancelled(&task),
        RpcError::unknown_tool("x\u{1B}[2J\"y"),
        RpcError::task_forbidden("x"),
        RpcError::task_required("x"),
        RpcError::bad_cursor(),
        RpcError::session_required(),
        RpcError::session_unknown(),
        RpcError::method_not_found("tasks/list"),
        RpcError::no_initialize_here(),
        RpcError::too_large(7),
        RpcError::too_many("tasks", 7),
        RpcError::unreachable("db"),
        RpcError::upstream_fault("x"),
    ] {
        let whole = message::error(Some(&id), &error);
        assert_valid(Schema::A, "JSONRPCErrorResponse", &whole);
        assert_valid(Schema::B, "JSONRPCErrorResponse", &whole);
        assert_eq!(RpcError::read(&error.to_json()), error);
    }
    let valid = |name, error: &RpcError| assert_valid(Schema::B, name, message::error(Some(&id), error));
    valid("HeaderMismatchError", &RpcError::header_mismatch("x"));
    valid("MissingRequiredClientCapabilityError", &RpcError::tasks_extension_required());
    valid("UnsupportedProtocolVersionError", &RpcError::unsupported_version("1900-01-01"));
    let listed = RpcError::unsupported_version("1900-01-01").supported_versions();
    assert_eq!(listed, ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_break_the_parser(bytes: Vec<u8>) {
        let _ = message::parse(Bytes::from(bytes.clone()));
        let _ = message::parse_batch(&Bytes::from(bytes));
    }

    #[test]
    fn almost_messages_never_break_the_parser(
        text in r#"\{("jsonrpc":"2\.0",?|"id":(1|null|"a|\[),?|"(method|params|result)":("x"|\{\}|\[\{|7),?|"error":\{"?,?){0,6}\}?"#
    ) {
        let _ = message::parse(Bytes::from(text));
    }
}
