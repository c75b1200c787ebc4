//! One valid message for everything: checked against the schemas, and read by what reads it here.

use bytes::Bytes;
use taskgate_wire::dialect::{a, b};
use taskgate_wire::handshake::{BackSelf, read_opening};
use taskgate_wire::listing::read_tools;
use taskgate_wire::message::{self, Message, OutcomeBytes};
use taskgate_wire::{Version, answer, json, mrtr, question, result, splice};

use crate::schema::{Schema, assert_valid};

struct Example {
    schema: Schema,
    name: &'static str,
    member: Option<&'static str>,
    text: &'static str,
}

fn examples() -> Vec<Example> {
    let blocks = include_str!("../fixtures/examples.txt").split("== ").skip(1);
    blocks
        .map(|block| {
            let (head, text) = block.split_once('\n').unwrap();
            let mut words = head.split(' ');
            let schema = match words.next().unwrap() {
                "A" => Schema::A,
                "B" => Schema::B,
                "X" => Schema::X,
                other => panic!("unknown schema {other}"),
            };
            let name = words.next().unwrap();
            let member = words.next().unwrap().strip_prefix('.').filter(|member| !member.is_empty());
            Example { schema, name, member, text: text.trim() }
        })
        .collect()
}

#[test]
fn every_example_is_valid() {
    let examples = examples();
    assert!(examples.len() >= 75, "{}", examples.len());
    for example in examples {
        let part = match example.member {
            Some(member) => json::at(example.text, &[member]).unwrap(),
            None => example.text,
        };
        assert_valid(example.schema, example.name, part);
    }
}

#[test]
fn every_example_is_a_message_and_survives_an_edit_that_changes_nothing() {
    for example in examples() {
        let raw = Bytes::from_static(example.text.as_bytes());
        let message = message::parse(raw.clone()).unwrap_or_else(|error| panic!("{error}: {}", example.text));
        assert_eq!(message.raw(), &raw);
        let same = splice::splice(example.text, &[splice::Edit::remove(&["no-such-member"])]).unwrap();
        assert_eq!(same, raw);
        let is_sound = match &message {
            Message::Request(_) => example.name.ends_with("Request"),
            Message::Notification(_) => example.name.ends_with("Notification"),
            Message::Response(_) => example.name.ends_with("Result") || example.name.contains("Error"),
        };
        assert!(is_sound, "{}: {message:?}", example.name);
    }
}

#[test]
fn every_example_is_read_by_its_reader() {
    for example in examples() {
        let raw = Bytes::from_static(example.text.as_bytes());
        match (message::parse(raw).unwrap(), example.schema) {
            (Message::Response(response), schema) => {
                if let OutcomeBytes::Result(result) = response.outcome_bytes() {
                    read_result(schema, example.name, &result);
                }
            }
            (Message::Request(request), schema) => match (request.method(), schema) {
                ("elicitation/create" | "sampling/createMessage", Schema::A) => {
                    let read = question::read(request.method(), request.params(), None).unwrap();
                    assert!(json::at(core::str::from_utf8(&read.params).unwrap(), &["task"]).is_none());
                }
                ("initialize", _) => {
                    let opening = read_opening(request.params()).unwrap();
                    assert_eq!(opening.version, Version::V2025_11_25);
                    assert!(opening.offers.form() && opening.offers.url());
                }
                (_, Schema::B | Schema::X) => {
                    let meta = taskgate_wire::meta::modern::read(request.params()).unwrap();
                    assert_eq!(meta.version, "2026-07-28");
                    assert_eq!(meta.declares_tasks, request.method() != "server/discover");
                }
                (_, Schema::A) => {
                    if let Some(task) = request.param("task") {
                        assert!(a::read_wish(task).unwrap().ttl.is_some());
                    }
                }
            },
            (Message::Notification(notification), _) => match notification.method() {
                "notifications/tasks/status" => {
                    a::read_task(notification.params().unwrap()).unwrap();
                }
                "notifications/tasks" => {
                    b::read_task(&notification.params_bytes().unwrap()).unwrap();
                }
                _ => {}
            },
        }
    }
}

fn read_result(schema: Schema, name: &str, raw: &Bytes) {
    let text = core::str::from_utf8(raw).unwrap();
    match (schema, name) {
        (Schema::A, "CreateTaskResult") => {
            let task = a::read_create(text).unwrap().unwrap();
            assert!(!task.id.is_empty() && task.ttl.is_some());
            assert_eq!(result::kind(text, false), result::ResultKind::Task);
        }
        (Schema::A, "GetTaskResult" | "CancelTaskResult") => {
            a::read_task(text).unwrap();
        }
        (Schema::X, "CreateTaskResult") => {
            assert_eq!(result::kind(text, true), result::ResultKind::Task);
            b::read_create(text).unwrap();
        }
        (Schema::X, "GetTaskResult") => {
            assert_eq!(result::kind(text, true), result::ResultKind::Complete);
            b::read_task(raw).unwrap();
        }
        (Schema::B, "InputRequiredResult") => {
            assert_eq!(result::kind(text, true), result::ResultKind::InputRequired);
            let read = mrtr::read(text).unwrap();
            assert_eq!((read.questions.len(), read.request_state.is_some()), (1, true));
        }
        (_, "ListToolsResult") => assert!(!read_tools(text).unwrap().is_empty()),
        (_, "InitializeResult") => {
            assert!(BackSelf::read_initialize(text).unwrap().can_list());
        }
        (_, "DiscoverResult") => {
            assert!(BackSelf::read_discover(text, Version::MODERN).unwrap().can_cancel());
        }
        (_, "ElicitResult") => {
            let kind = if json::at(text, &["content"]).is_some() {
                taskgate_core::task::QuestionKind::Form
            } else {
                taskgate_core::task::QuestionKind::Url
            };
            answer::check(kind, text).unwrap();
        }
        (_, "CreateMessageResult") => {
            answer::check(taskgate_core::task::QuestionKind::Sampling, text).unwrap();
        }
        _ => {}
    }
}
