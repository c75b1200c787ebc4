//! What stands on the line between the gateway and a server: it writes down what is sent, and can hold answers back,
//! so that a test decides what the gateway has heard when it is killed.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(5);

pub(crate) enum Tap {
    Socket { port: u16, line: Arc<Line> },
    Pipe { sent: PathBuf, hold: PathBuf },
}

/// The line to a server over HTTP.
#[derive(Default)]
pub(crate) struct Line {
    /// What the gateway sent, connection by connection.
    sent: Mutex<Vec<Vec<u8>>>,
    /// Raised when the gateway died: what is held back for it or from it is lost.
    life: AtomicU64,
    holds_requests: AtomicBool,
    holds_answers: AtomicBool,
}

/// Writes down what is sent before the server has it, reads the server's stdout line by line, and waits before each for as
/// long as a file is there.
const PIPE: &str = "tee -a \"$1\" /dev/fd/3 3>&1 >/dev/null | \"$2\" \"$3\" | while IFS= read -r line; do \
    while [ -e \"$4\" ]; do sleep 0.02; done; printf '%s\\n' \"$line\"; done";

impl Tap {
    /// Before a server that listens on `server`.
    pub(crate) fn socket(server: u16) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Line::default());
        let kept = Arc::downgrade(&line);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Some(line) = kept.upgrade() else { return };
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    line.join(client, server);
                }
            }
        });
        Tap::Socket { port, line }
    }

    /// Around a server that is a child of the gateway: what to write into the configuration, and the tap.
    pub(crate) fn pipe(folder: &Path, name: &str, serve: &Path) -> (String, Tap) {
        let (sent, hold) = (folder.join(format!("{name}.sent")), folder.join(format!("{name}.hold")));
        let args = ["-c", PIPE, "tap", text(&sent), text(serve), name, text(&hold)];
        let config = format!("command = \"sh\"\nargs = {args:?}\n");
        (config, Tap::Pipe { sent, hold })
    }

    /// From now on the gateway hears nothing from the server.
    pub(crate) fn hold_answers(&self) {
        match self {
            Tap::Socket { line, .. } => line.holds_answers.store(true, Ordering::SeqCst),
            Tap::Pipe { hold, .. } => fs::write(hold, "").unwrap(),
        }
    }

    /// The gateway hears again what the server says, and all that was held back.
    pub(crate) fn let_answers_pass(&self) {
        match self {
            Tap::Socket { line, .. } => line.holds_answers.store(false, Ordering::SeqCst),
            Tap::Pipe { hold, .. } => fs::remove_file(hold).unwrap(),
        }
    }

    /// From now on the server hears nothing from the gateway.
    pub(crate) fn hold_requests(&self) {
        if let Tap::Socket { line, .. } = self {
            line.holds_requests.store(true, Ordering::SeqCst);
        }
    }

    /// The gateway died: what was held back is lost, and from now on nothing is.
    pub(crate) fn cut(&self) {
        match self {
            Tap::Socket { line, .. } => {
                line.life.fetch_add(1, Ordering::SeqCst);
                line.holds_requests.store(false, Ordering::SeqCst);
                line.holds_answers.store(false, Ordering::SeqCst);
            }
            Tap::Pipe { hold, .. } => {
                let _ = fs::remove_file(hold);
            }
        }
    }

    fn sent(&self) -> String {
        let bytes = match self {
            Tap::Socket { line, .. } => line.sent.lock().unwrap().join(&b'\n'),
            Tap::Pipe { sent, .. } => fs::read(sent).unwrap_or_default(),
        };
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How often something was sent to the server.
    pub(crate) fn times(&self, what: &str) -> usize {
        self.sent().matches(what).count()
    }

    /// The ids of all requests that were sent, in the order of their connections.
    pub(crate) fn request_ids(&self) -> Vec<String> {
        let sent = self.sent();
        let named = sent.split("\"jsonrpc\":\"2.0\",\"id\":").skip(1);
        named.filter_map(|rest| rest.split_once(',')).map(|(id, _)| id.to_owned()).collect()
    }

    /// The tasks of its own that the server was asked about.
    pub(crate) fn asked_about(&self) -> BTreeSet<String> {
        let sent = self.sent();
        let named = sent.split("\"taskId\":\"").skip(1);
        named.filter_map(|rest| rest.split_once('"')).map(|(id, _)| id.to_owned()).collect()
    }
}

impl Line {
    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let life = self.life.load(Ordering::SeqCst);
        let at = {
            let mut sent = self.sent.lock().unwrap();
            sent.push(Vec::new());
            sent.len() - 1
        };
        let (line, from, to) = (self.clone(), client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || {
            line.carry(life, &from, &to, &line.holds_requests, |bytes| {
                line.sent.lock().unwrap()[at].extend_from_slice(bytes);
            });
        });
        let line = self.clone();
        thread::spawn(move || line.carry(life, &server, &client, &line.holds_answers, |_| {}));
    }

    /// Carries bytes one way until either side ends or the gateway of that life is dead.
    fn carry(
        &self,
        life: u64,
        mut from: &TcpStream,
        mut to: &TcpStream,
        holds: &AtomicBool,
        note: impl Fn(&[u8]),
    ) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let is_alive = || self.life.load(Ordering::SeqCst) == life;
            while holds.load(Ordering::SeqCst) && is_alive() {
                thread::sleep(TICK);
            }
            if !is_alive() {
                break;
            }
            note(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
