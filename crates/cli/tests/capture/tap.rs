//! Stands on a line and writes down what passes, and changes nothing.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use super::http::{Document, Event, Half, Headers, document};

/// One request over HTTP and what came back for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exchange {
    /// `POST`, `GET` or `DELETE`.
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) sent: Headers,
    pub(crate) body: Option<Document>,
    /// 0 as long as nothing came.
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) messages: Vec<Document>,
    /// What is wrong below JSON.
    pub(crate) odd: Vec<String>,
    pub(crate) is_over: bool,
}

/// All that was said through one tap over HTTP, in the order of the requests.
pub(crate) type Exchanges = Arc<Mutex<Vec<Exchange>>>;

/// One process's stdin and stdout.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    pub(crate) sent: Vec<Document>,
    pub(crate) said: Vec<Document>,
}

/// Listens at a port of its own, which it gives, before whoever listens at `port`.
pub(crate) fn http(port: u16) -> (u16, Exchanges) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    let exchanges = Exchanges::default();
    let kept = Arc::clone(&exchanges);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            // Who comes while nobody listens is told so by the end of the connection.
            if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                join(client, server, &kept);
            }
        }
    });
    (own, exchanges)
}

fn join(client: TcpStream, server: TcpStream, exchanges: &Exchanges) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    // Which exchanges were on this connection, in their order.
    let places = Arc::new(Mutex::new(Vec::new()));
    let (kept, known) = (Arc::clone(exchanges), Arc::clone(&places));
    thread::spawn(move || {
        carry(&from, &to, |event| {
            let mut exchanges = kept.lock().unwrap();
            if let Event::Head(first, headers) = event {
                let mut words = first.split(' ').map(str::to_owned);
                known.lock().unwrap().push(exchanges.len());
                exchanges.push(Exchange {
                    method: words.next().unwrap_or_default(),
                    path: words.next().unwrap_or_default(),
                    sent: headers,
                    ..Exchange::default()
                });
                return;
            }
            let Some(exchange) = known.lock().unwrap().last().map(|at| &mut exchanges[*at]) else { return };
            match event {
                Event::Body(body) => exchange.body = Some(body),
                Event::Odd(what) => exchange.odd.push(what),
                Event::Message(_) => exchange.odd.push("a stream of events as a request".to_owned()),
                Event::Head(..) | Event::End => {}
            }
        });
    });
    let kept = Arc::clone(exchanges);
    thread::spawn(move || {
        let mut turn = 0;
        carry(&server, &client, |event| {
            let mut exchanges = kept.lock().unwrap();
            let Some(exchange) = places.lock().unwrap().get(turn).map(|at| &mut exchanges[*at]) else {
                return;
            };
            match event {
                Event::Head(first, headers) => {
                    exchange.status =
                        first.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
                    exchange.headers = headers;
                }
                Event::Body(message) | Event::Message(message) => exchange.messages.push(message),
                Event::Odd(what) => exchange.odd.push(what),
                Event::End => {
                    // What only says that the rest may be sent is followed by the answer.
                    if exchange.status >= 200 {
                        exchange.is_over = true;
                        turn += 1;
                    }
                }
            }
        });
    });
}

/// Carries bytes one way until either side ends. They are read before they are passed on, so that no answer is seen
/// before its request.
fn carry(mut from: &TcpStream, mut to: &TcpStream, mut see: impl FnMut(Event)) {
    let mut half = Half::default();
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        half.feed(&buffer[..count]).into_iter().for_each(&mut see);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    half.close().into_iter().for_each(&mut see);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

/// Copies what a command reads and writes to `BASE.PID.in` and `BASE.PID.out`. It ends when the command does, and
/// nothing else of it holds its stdout open: that a server has ended is seen at once.
const SCRIPT: &str = r#"base="$1.$$"
shift
mkfifo "$base.pipe"
exec 3<&0
{ tee "$base.in" <&3 3<&- | "$@" 3<&- >"$base.pipe"; } >/dev/null &
exec tee "$base.out" <"$base.pipe" 3<&-
"#;

/// What to write before a command, so that its stdin and stdout are kept below `folder` under `name`.
pub(crate) fn pipe(folder: &Path, name: &str) -> [String; 3] {
    let script = folder.join("tap.sh");
    if !script.exists() {
        fs::write(&script, SCRIPT).unwrap();
    }
    let text = |path: PathBuf| path.to_str().unwrap().to_owned();
    ["sh".to_owned(), text(script), text(folder.join(name))]
}

/// What passed through the taps of that name, process by process. The files are gone afterwards.
pub(crate) fn pipes(folder: &Path, name: &str) -> Vec<Pipe> {
    let mut pipes = Vec::new();
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        let Some(process) = file
            .file_name()
            .and_then(|file| file.to_str())
            .and_then(|file| file.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".in"))
            .filter(|process| process.bytes().all(|byte| byte.is_ascii_digit()))
        else {
            continue;
        };
        let said = folder.join(format!("{name}.{process}.out"));
        pipes.push(Pipe { sent: lines(&file), said: lines(&said) });
        let _ = (fs::remove_file(&file), fs::remove_file(&said));
    }
    pipes
}

fn lines(path: &Path) -> Vec<Document> {
    let bytes = fs::read(path).unwrap_or_default();
    // What follows the last line end was cut off by the death of who wrote it.
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
    bytes[..end].split(|byte| *byte == b'\n').map(document).collect()
}
