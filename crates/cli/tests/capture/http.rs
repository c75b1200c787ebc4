//! HTTP/1.1 as it passes by on one connection: requests one way, answers the other.

use std::collections::BTreeMap;

use serde_json::Value;

/// Longer texts are kept by their beginning: what is checked is shape.
const TEXT_MAX: usize = 1000;

/// A JSON document, or why it is none.
pub(crate) type Document = Result<Value, String>;

/// Headers by their names in lower case.
pub(crate) type Headers = BTreeMap<String, String>;

/// What came out of one direction.
#[derive(Debug)]
pub(crate) enum Event {
    /// The first line and the headers.
    Head(String, Headers),
    /// A whole body that is no stream of events.
    Body(Document),
    /// One message of a stream of events.
    Message(Document),
    /// A stream of events is not as it should be.
    Odd(String),
    /// The message is over, as its framing says.
    End,
}

#[derive(Debug, Default)]
enum Frame {
    #[default]
    Head,
    Length(usize),
    /// The size line of a chunk comes next.
    ChunkSize,
    /// So much of this chunk, and its line end.
    Chunk(usize),
    /// The last chunk's line end.
    LastChunk,
    UntilClosed,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Half {
    bytes: Vec<u8>,
    frame: Frame,
    body: Vec<u8>,
    is_stream: bool,
    /// So much of the body holds no end of an event.
    looked_at: usize,
}

impl Half {
    /// Takes what was carried and says what is complete by it.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.bytes.extend_from_slice(bytes);
        let mut events = Vec::new();
        while self.step(&mut events) {}
        events
    }

    /// The connection is over.
    pub(crate) fn close(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        if matches!(self.frame, Frame::UntilClosed) {
            self.finish(&mut events);
        }
        events
    }

    fn step(&mut self, events: &mut Vec<Event>) -> bool {
        match self.frame {
            Frame::Head => {
                let Some(end) = find(&self.bytes, b"\r\n\r\n") else { return false };
                let head: Vec<u8> = self.bytes.drain(..end + 4).collect();
                self.head(&String::from_utf8_lossy(&head), events);
                true
            }
            Frame::Length(left) => {
                let taken = self.take(left);
                if left > taken {
                    self.frame = Frame::Length(left - taken);
                    return false;
                }
                self.finish(events);
                true
            }
            Frame::ChunkSize => {
                let Some(end) = find(&self.bytes, b"\r\n") else { return false };
                let line: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let size = String::from_utf8_lossy(&line[..end]).trim().to_owned();
                self.frame = match usize::from_str_radix(&size, 16) {
                    Ok(0) => Frame::LastChunk,
                    Ok(size) => Frame::Chunk(size),
                    Err(_) => {
                        events.push(Event::Odd(format!("a chunk of the size {size:?}")));
                        Frame::UntilClosed
                    }
                };
                true
            }
            Frame::Chunk(left) => {
                if left == 0 {
                    if self.bytes.len() < 2 {
                        return false;
                    }
                    self.bytes.drain(..2);
                    self.frame = Frame::ChunkSize;
                    return true;
                }
                let taken = self.take(left);
                self.frame = Frame::Chunk(left - taken);
                self.stream(events);
                taken > 0
            }
            Frame::LastChunk => {
                if self.bytes.len() < 2 {
                    return false;
                }
                self.bytes.drain(..2);
                self.finish(events);
                true
            }
            Frame::UntilClosed => {
                let all = self.bytes.len();
                self.take(all);
                self.stream(events);
                false
            }
        }
    }

    fn head(&mut self, text: &str, events: &mut Vec<Event>) {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default().to_owned();
        let headers: Headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found.contains(value));
        self.is_stream = is("content-type", "text/event-stream");
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        let is_answer = first.starts_with("HTTP/");
        let status = first.split(' ').nth(1).unwrap_or_default();
        let is_bare = !is_answer || matches!(status, "202" | "204" | "304") || status.starts_with('1');
        self.frame = if is("transfer-encoding", "chunked") {
            Frame::ChunkSize
        } else if let Some(length) = length {
            Frame::Length(length)
        } else if is_bare {
            Frame::Length(0)
        } else {
            Frame::UntilClosed
        };
        events.push(Event::Head(first, headers));
    }

    fn take(&mut self, most: usize) -> usize {
        let taken = most.min(self.bytes.len());
        self.body.extend(self.bytes.drain(..taken));
        taken
    }

    /// The events of a stream that are whole by now.
    fn stream(&mut self, events: &mut Vec<Event>) {
        while self.is_stream {
            let fresh = &self.body[self.looked_at..];
            let ends = [(find(fresh, b"\n\n"), 2), (find(fresh, b"\r\n\r\n"), 4)];
            let Some((end, length)) = ends.into_iter().filter_map(|(end, length)| Some((end?, length))).min()
            else {
                self.looked_at = self.body.len().saturating_sub(3);
                return;
            };
            let event: Vec<u8> = self.body.drain(..self.looked_at + end + length).collect();
            self.looked_at = 0;
            one_event(&String::from_utf8_lossy(&event), events);
        }
    }

    fn finish(&mut self, events: &mut Vec<Event>) {
        self.stream(events);
        let body = std::mem::take(&mut self.body);
        self.looked_at = 0;
        if self.is_stream {
            if !body.iter().all(u8::is_ascii_whitespace) {
                events.push(Event::Odd("a stream that ends in the middle of an event".to_owned()));
            }
        } else if !body.is_empty() {
            events.push(Event::Body(document(&body)));
        }
        events.push(Event::End);
        self.frame = Frame::Head;
    }
}

fn one_event(text: &str, events: &mut Vec<Event>) {
    let (mut data, mut name) = (None::<String>, None);
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                let data = data.get_or_insert_default();
                data.push_str(if data.is_empty() { "" } else { "\n" });
                data.push_str(value);
            }
            "event" => name = Some(value.to_owned()),
            // Comments, ids to resume by, and how long to wait before that.
            "" | "id" | "retry" => {}
            other => events.push(Event::Odd(format!("a field {other:?} in an event"))),
        }
    }
    if let Some(name) = name.filter(|name| name != "message") {
        // A client that knows only messages has to skip it.
        events.push(Event::Odd(format!("an event of the name {name:?}")));
        return;
    }
    // An event without data only says from where the stream can be resumed.
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        events.push(Event::Message(document(data.as_bytes())));
    }
}

/// Reads JSON, and shortens its long texts.
pub(crate) fn document(bytes: &[u8]) -> Document {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(mut value) => {
            shorten(&mut value);
            Ok(value)
        }
        Err(error) => {
            let text = String::from_utf8_lossy(bytes);
            Err(format!("no JSON ({error}): {}", text.chars().take(200).collect::<String>()))
        }
    }
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > TEXT_MAX => {
            *text = text.chars().take(TEXT_MAX / 4).collect();
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(members) => members.values_mut().for_each(shorten),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[test]
fn a_stream_in_pieces_is_read_as_it_is() {
    let text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n\
                9\r\nid: 1\ndat\r\n21\r\na:\n\n: still here\n\ndata: {\"a\":1}\n\n\r\n0\r\n\r\n\
                HTTP/1.1 202 Accepted\r\n\r\n";
    let mut half = Half::default();
    let events: Vec<_> = text.as_bytes().iter().flat_map(|byte| half.feed(&[*byte])).collect();
    let seen: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
    assert_eq!(seen.len(), 5, "{seen:#?}");
    assert!(matches!(&events[1], Event::Message(Ok(value)) if value["a"] == 1), "{seen:#?}");
    assert!(matches!(&events[3], Event::Head(first, _) if first.starts_with("HTTP/1.1 202")), "{seen:#?}");
}
