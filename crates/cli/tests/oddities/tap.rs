//! What stands on an HTTP line and writes down each request that passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use serde_json::Value;

type Answered = Arc<Mutex<Option<Instant>>>;

/// A request that passed.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) at: Instant,
    /// When its answer began to pass.
    answered: Answered,
    head: String,
    pub(crate) body: Value,
}

impl Passed {
    /// When its answer began to pass, if it did.
    pub(crate) fn answered(&self) -> Option<Instant> {
        *self.answered.lock().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

pub(crate) struct Tap {
    pub(crate) port: u16,
    server: Arc<AtomicU16>,
    passed: Arc<Mutex<Vec<Passed>>>,
}

impl Tap {
    /// Before whoever listens on `port`.
    pub(crate) fn before(port: u16) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let passed = Arc::new(Mutex::new(Vec::new()));
        let server = Arc::new(AtomicU16::new(port));
        let (log, leads_to) = (passed.clone(), server.clone());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let to = ("127.0.0.1", leads_to.load(Ordering::SeqCst));
                let Ok(server) = TcpStream::connect(to) else { continue };
                let (from, to, log) = (client.try_clone().unwrap(), server.try_clone().unwrap(), log.clone());
                let mut seen = Vec::new();
                let last: Arc<Mutex<Option<Answered>>> = Arc::default();
                let waits = last.clone();
                thread::spawn(move || {
                    carry(&from, &to, |bytes| {
                        seen.extend_from_slice(bytes);
                        while let Some(request) = take(&mut seen) {
                            *last.lock().unwrap() = Some(request.answered.clone());
                            log.lock().unwrap().push(request);
                        }
                    });
                });
                thread::spawn(move || {
                    carry(&server, &client, |_| {
                        if let Some(answered) = waits.lock().unwrap().take() {
                            *answered.lock().unwrap() = Some(Instant::now());
                        }
                    });
                });
            }
        });
        Tap { port: own, server, passed }
    }

    /// From now on connections go to whoever listens there.
    pub(crate) fn lead_to(&self, port: u16) {
        self.server.store(port, Ordering::SeqCst);
    }

    /// The requests of a method, in their order.
    pub(crate) fn of(&self, method: &str) -> Vec<Passed> {
        let passed = self.passed.lock().unwrap();
        passed.iter().filter(|request| request.body["method"] == method).cloned().collect()
    }
}

/// Takes one whole request off the front.
fn take(seen: &mut Vec<u8>) -> Option<Passed> {
    let end = seen.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&seen[..end]).into_owned();
    let mut request = Passed { at: Instant::now(), answered: Arc::default(), head, body: Value::Null };
    let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    if seen.len() < end + length {
        return None;
    }
    request.body = serde_json::from_slice(&seen[end..end + length]).unwrap_or_default();
    seen.drain(..end + length);
    Some(request)
}

fn carry(mut from: &TcpStream, mut to: &TcpStream, mut note: impl FnMut(&[u8])) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        note(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
