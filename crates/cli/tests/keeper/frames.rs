//! The protocol between pipe and keeper, spoken by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use taskgate_keeper::frame::{Decoder, Frame, Kind, encode};

use crate::scene::{Scene, until};

/// A pipe that does as it is told.
struct Raw {
    stream: UnixStream,
    decoder: Decoder,
}

impl Raw {
    fn connect(scene: &Scene) -> Raw {
        let mut stream = UnixStream::connect(scene.keeper_folder().join("sock")).unwrap();
        let hello = json!({ "taskgate": { "protocol": 1, "version": "0.0.1", "kind": "attach" } });
        writeln!(stream, "{hello}").unwrap();
        let mut line = String::new();
        BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("\"state\""), "{line}");
        Raw { stream, decoder: Decoder::new(1 << 20) }
    }

    /// Attaches to the scripted server, as one and the same attachment every time.
    fn attached(scene: &Scene) -> Raw {
        let mut raw = Raw::connect(scene);
        let attachment = json!({
            "id": "0123456789abcdef0123456789abcdef",
            "host_pid": 1,
            "reach": { "command": {
                "command": scene.server("good"),
                "folder": scene.path(""),
                "environment": scene.environment,
            } },
        });
        raw.send(Kind::Attach, 0, &attachment.to_string());
        assert_eq!(raw.next().unwrap().kind, Kind::Ready);
        raw
    }

    fn send(&mut self, kind: Kind, sequence: u64, payload: &str) {
        self.stream.write_all(&encode(kind, sequence, payload.as_bytes()).unwrap()).unwrap();
    }

    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.take().unwrap() {
                return Some(frame);
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(count @ 1..) => self.decoder.extend(&piece[..count]),
                Ok(0) | Err(_) => return None,
            }
        }
    }

    fn answer(&mut self, id: u64) -> (Frame, Value) {
        loop {
            let frame = self.next().expect("an answer");
            if let Ok(message) = serde_json::from_slice::<Value>(&frame.payload)
                && message["id"] == id
            {
                return (frame, message);
            }
        }
    }

    fn open(&mut self, sequence: u64) {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "raw", "version": "1" },
        });
        let message = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        self.send(Kind::Message, sequence, &message.to_string());
        self.answer(0);
    }

    fn call(&mut self, sequence: u64, id: u64, arguments: &Value) {
        let params = json!({ "name": "work", "arguments": arguments });
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        self.send(Kind::Message, sequence, &message.to_string());
    }
}

#[test]
fn r3_3_a_frame_that_comes_twice_is_one_call() {
    let scene = Scene::new();
    // It is there, and stays.
    let _host = scene.host(&[]).opened();
    let mut first = Raw::attached(&scene);
    first.open(1);
    let gate = scene.path("gate");
    let arguments = json!({ "text": "a", "gate": gate });
    first.call(2, 7, &arguments);
    scene.wait_for_journal("begin work a", 1);
    drop(first);
    let mut second = Raw::attached(&scene);
    second.open(3);
    second.call(2, 7, &arguments);
    scene.open_gate("gate");
    let (frame, answer) = second.answer(7);
    assert_eq!(frame.kind, Kind::Result);
    // And nothing of it looks joined.
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with("work a by "), "{answer}");
    assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1, "{answer}");
    // Also when it is over, and another time.
    second.call(2, 8, &arguments);
    assert!(second.answer(8).1.to_string().contains("work a by"));
    assert_eq!(scene.journal("begin work a").len(), 1);
}

#[test]
fn a_result_counts_as_fetched_when_the_pipe_says_so() {
    let scene = Scene::new();
    let _host = scene.host(&[]).opened();
    let mut raw = Raw::attached(&scene);
    raw.open(1);
    raw.call(2, 7, &json!({ "text": "a" }));
    let (frame, _) = raw.answer(7);
    assert_eq!(scene.json(&["tasks", "--json"])[0]["fetched"], false);
    raw.send(Kind::Ack, frame.sequence, "");
    until("it is fetched", || (scene.json(&["tasks", "--json"])[0]["fetched"] == true).then_some(()));
}

#[test]
fn what_is_no_frame_ends_the_connection_and_nothing_else() {
    let scene = Scene::new();
    let mut host = scene.host(&[]).opened();
    for rubbish in [&[0xff; 64][..], b"{\"jsonrpc\":\"2.0\"}\n", &[0; 13]] {
        let mut raw = Raw::connect(&scene);
        raw.stream.write_all(rubbish).unwrap();
        assert!(raw.next().is_none());
    }
    for rubbish in [&[0xff; 64][..], &[1, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        let mut raw = Raw::attached(&scene);
        raw.stream.write_all(rubbish).unwrap();
        assert!(raw.next().is_none());
    }
    // An attachment that makes no sense is told so.
    let mut raw = Raw::connect(&scene);
    raw.send(Kind::Attach, 0, "{\"id\":1}");
    assert_eq!(raw.next().unwrap().kind, Kind::Refused);
    assert!(host.text("work", json!({ "text": "a" })).starts_with("work a"));
}

#[test]
fn a_pipe_that_closes_gets_its_last_answers() {
    let scene = Scene::new();
    let _host = scene.host(&[]).opened();
    let mut raw = Raw::attached(&scene);
    raw.open(1);
    raw.call(2, 7, &json!({ "text": "a", "seconds": 0.3 }));
    raw.send(Kind::Close, 3, "");
    assert!(raw.answer(7).1["result"].is_object());
    let end = raw.next().unwrap();
    assert_eq!((end.kind, &end.payload[..]), (Kind::End, &b"done"[..]));
    assert!(raw.next().is_none());
}
