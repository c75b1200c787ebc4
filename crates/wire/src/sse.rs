//! Server-sent events, read from chunks of any size and written.

use bytes::Bytes;

/// One event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// Its id, from which a stream can be taken up again.
    pub id: Option<String>,
    /// Its type; `message` is meant if there is none.
    pub event: Option<String>,
    /// The data lines, joined by line feeds. Empty in a priming event.
    pub data: Bytes,
    /// How long to wait before a reconnection, in milliseconds.
    pub retry: Option<u64>,
}

/// A line that readers skip, to keep a stream alive (B-036).
pub const KEEP_ALIVE: &[u8] = b":\n\n";

/// An event is larger than the limit; the stream cannot be read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an event is larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit.
    pub limit: usize,
}

/// Reads a stream. Any way of cutting the stream into chunks gives the same events.
///
/// Lines may end in LF, CR or CRLF; a byte order mark at the start and comments are skipped; an event that
/// the end of the stream cuts off is never seen.
#[derive(Clone, Debug)]
pub struct Decoder {
    limit: usize,
    line: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    id: Option<String>,
    event: Option<String>,
    retry: Option<u64>,
    is_start: bool,
    was_cr: bool,
    is_over: bool,
}

impl Decoder {
    /// A decoder for events of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Decoder {
        Decoder {
            limit,
            line: Vec::new(),
            data: Vec::new(),
            has_data: false,
            id: None,
            event: None,
            retry: None,
            is_start: true,
            was_cr: false,
            is_over: false,
        }
    }

    /// Reads on; the events that `chunk` completes are put into `events`.
    ///
    /// # Errors
    /// [`TooLarge`], now and at every later call. Events before it are in `events`.
    pub fn feed(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), TooLarge> {
        if self.is_over {
            return Err(TooLarge { limit: self.limit });
        }
        let mut rest = chunk;
        if self.was_cr && !rest.is_empty() {
            self.was_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n' || byte == b'\r') {
            let (part, ending) = rest.split_at(end);
            rest = match ending {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.was_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
            self.hold(part)?;
            self.end_line(events);
        }
        self.hold(rest)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        if self.line.len() + self.data.len() + part.len() > self.limit {
            self.is_over = true;
            return Err(TooLarge { limit: self.limit });
        }
        self.line.extend_from_slice(part);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<Event>) {
        let mut line = core::mem::take(&mut self.line);
        if core::mem::take(&mut self.is_start)
            && let Some(rest) = line.strip_prefix(b"\xEF\xBB\xBF")
        {
            line = rest.to_vec();
        }
        if line.is_empty() {
            self.dispatch(events);
        } else {
            let (name, value) = match line.iter().position(|&byte| byte == b':') {
                Some(colon) => {
                    let (name, value) = line.split_at(colon);
                    let value = value.get(1..).unwrap_or_default();
                    (name, value.strip_prefix(b" ").unwrap_or(value))
                }
                None => (line.as_slice(), &[][..]),
            };
            self.field(name, value);
        }
        line.clear();
        self.line = line;
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"id" if !value.contains(&0) => self.id = Some(text()),
            b"event" => self.event = Some(text()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                self.retry = text().parse().ok();
            }
            _ => {}
        }
    }

    fn dispatch(&mut self, events: &mut Vec<Event>) {
        let is_empty = !self.has_data && self.id.is_none() && self.event.is_none() && self.retry.is_none();
        self.has_data = false;
        let event = Event {
            id: self.id.take(),
            event: self.event.take(),
            data: Bytes::from(core::mem::take(&mut self.data)),
            retry: self.retry.take(),
        };
        if !is_empty {
            events.push(event);
        }
    }
}

/// Writes one event.
#[must_use]
pub fn encode(event: &Event) -> Bytes {
    let mut out = Vec::with_capacity(event.data.len() + 64);
    let mut line = |name: &[u8], value: &[u8]| {
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        // A line end inside a one-line field would start a field of its own.
        out.extend(value.iter().filter(|byte| !matches!(byte, b'\n' | b'\r' | 0)));
        out.push(b'\n');
    };
    if let Some(id) = &event.id {
        line(b"id", id.as_bytes());
    }
    if let Some(kind) = &event.event {
        line(b"event", kind.as_bytes());
    }
    if let Some(retry) = event.retry {
        line(b"retry", retry.to_string().as_bytes());
    }
    for part in event.data.split(|&byte| byte == b'\n' || byte == b'\r') {
        line(b"data", part);
    }
    out.push(b'\n');
    Bytes::from(out)
}

/// Writes one message as an event, with an id if the stream can be taken up again.
#[must_use]
pub fn encode_message(id: Option<&str>, message: &Bytes) -> Bytes {
    encode(&Event { id: id.map(String::from), event: None, data: message.clone(), retry: None })
}
