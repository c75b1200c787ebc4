//! One connection to an endpoint: a message at a time, and all that comes back for it.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::capture::http::{Event, Half, Headers};

/// How long nothing may come on a machine that has other things to do. After that, it hangs.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Wire {
    /// `127.0.0.1:PORT`.
    address: String,
    path: String,
    open: Option<Open>,
}

struct Open {
    stream: TcpStream,
    half: Half,
    events: VecDeque<Event>,
}

/// An answer that is being read.
pub(crate) struct Answer<'w> {
    wire: &'w mut Wire,
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    is_over: bool,
}

impl Wire {
    pub(crate) fn to(address: &str, path: &str) -> Wire {
        Wire { address: address.to_owned(), path: path.to_owned(), open: None }
    }

    /// Sends a message, on the connection that is there already if it still is.
    pub(crate) fn send(&mut self, method: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer<'_>> {
        let mut request = format!(
            "{method} {} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
            self.path,
            self.address,
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        request.push_str(body);
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Open { stream, half: Half::default(), events: VecDeque::new() }
            }
        };
        open.stream.write_all(request.as_bytes())?;
        self.open = Some(open);
        match self.event()? {
            Event::Head(first, headers) => {
                let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
                Ok(Answer { wire: self, status, headers, is_over: false })
            }
            other @ (Event::Body(_) | Event::Message(_) | Event::Odd(_) | Event::End) => {
                Err(Error::other(format!("no answer but {other:?}")))
            }
        }
    }

    fn event(&mut self) -> Result<Event> {
        let open = self.open.as_mut().ok_or(ErrorKind::NotConnected)?;
        loop {
            if let Some(event) = open.events.pop_front() {
                return Ok(event);
            }
            let mut buffer = [0; 16 * 1024];
            match open.stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => open.events.extend(open.half.feed(&buffer[..count])),
            }
        }
    }
}

impl Answer<'_> {
    /// The next message, until there is none.
    pub(crate) fn next(&mut self) -> Result<Option<Value>> {
        if self.is_over {
            return Ok(None);
        }
        match self.wire.event()? {
            Event::Body(Ok(message)) | Event::Message(Ok(message)) => Ok(Some(message)),
            Event::Body(Err(what)) | Event::Message(Err(what)) | Event::Odd(what) => Err(Error::other(what)),
            Event::Head(first, _) => Err(Error::other(format!("an answer within an answer: {first}"))),
            Event::End => {
                self.is_over = true;
                Ok(None)
            }
        }
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // Who does not hear it out hangs up.
            self.wire.open = None;
        }
    }
}
