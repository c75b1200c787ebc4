//! Any bytes as a message: no panic, and what is read is what was sent.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use taskgate_wire::message::{self, Message, OutcomeBytes};
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::{dialect, json, question, result};

fuzz_target!(|data: &[u8]| {
    let raw = Bytes::copy_from_slice(data);
    let _ = message::parse_batch(&raw);
    let Ok(message) = message::parse(raw.clone()) else { return };
    assert_eq!(message.raw(), &raw);
    let text = core::str::from_utf8(&raw).expect("a message is UTF-8");
    let _ = json::duplicate_member(text);
    let canonical = json::canonical(text);
    let canonical = core::str::from_utf8(&canonical).expect("canonical JSON is UTF-8");
    assert_eq!(json::canonical(canonical), canonical.as_bytes());
    let edited = splice(text.trim(), &[Edit::set(&["params", "_meta", "x"], "1"), Edit::remove(&["id"])]);
    let edited = edited.expect("a message is an object");
    json::check(core::str::from_utf8(&edited).expect("a splice is UTF-8")).expect("a splice is JSON");
    match &message {
        Message::Request(request) => {
            let _ = question::read(request.method(), request.params(), None);
        }
        Message::Notification(notification) => {
            let _ = notification.param("taskId");
        }
        Message::Response(response) => {
            if let OutcomeBytes::Result(body) = response.outcome_bytes() {
                let _ = dialect::b::read_task(&body);
                let _ = result::for_modern(&result::canonical(&body));
                if let Ok(body) = core::str::from_utf8(&body) {
                    let _ = dialect::a::read_create(body);
                }
            }
        }
    }
});
