//! The proxy breaks lines at the byte that it was told, and nowhere else.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use taskgate_faults::proxy::{Close, Fault, Framing, Proxy, Rule, Side};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const PATIENCE: Duration = Duration::from_secs(20);
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

fn request(mark: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{mark}", mark.len()).into_bytes()
}

/// A server that answers each whole request, and what arrived connection by connection.
async fn server(framing: Framing) -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let all = arrived.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let at = {
                let mut all = all.lock().unwrap();
                all.push(Vec::new());
                all.len() - 1
            };
            let all = all.clone();
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    let whole = {
                        let mut all = all.lock().unwrap();
                        all[at].extend_from_slice(&bytes[..count]);
                        all[at].clone()
                    };
                    match framing {
                        Framing::Http if whole.ends_with(b"end") => {
                            stream.write_all(ANSWER).await.unwrap_or(())
                        }
                        Framing::Lines if bytes[..count].ends_with(b"\n") => {
                            stream.write_all(&bytes[..count]).await.unwrap_or(());
                        }
                        Framing::Http | Framing::Lines => {}
                    }
                }
            });
        }
    });
    (address, arrived)
}

/// What is read until the end, and whether that was a reset.
async fn rest(stream: &mut TcpStream) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    let read = async {
        let mut bytes = [0; 4096];
        loop {
            match stream.read(&mut bytes).await {
                Ok(0) => return false,
                Ok(count) => all.extend_from_slice(&bytes[..count]),
                Err(_) => return true,
            }
        }
    };
    let reset = tokio::time::timeout(PATIENCE, read).await.unwrap();
    (all, reset)
}

async fn until(what: impl Fn() -> bool) {
    let look = async {
        while !what() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap();
}

#[tokio::test]
async fn a_request_is_cut_after_each_of_its_bytes() {
    let (address, arrived) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let whole = request("mark end");
    for after in 0..=whole.len() {
        for how in [Close::Fin, Close::Reset] {
            let before = arrived.lock().unwrap().len();
            let mut armed = proxy.arm(Rule::first("mark", Fault::Cut { side: Side::Request, after, how }));
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            client.write_all(&whole).await.unwrap();
            let (answer, reset) = rest(&mut client).await;
            assert_eq!(answer, b"", "after {after}");
            assert!(reset || how == Close::Fin, "after {after}: it ended by {how:?}");
            assert!(armed.until(|progress| progress.fired).await.met);
            until(|| arrived.lock().unwrap().len() > before).await;
            if how == Close::Fin {
                // A reset may overtake what was written before it.
                until(|| arrived.lock().unwrap()[before].len() == after).await;
            }
            let arrived = arrived.lock().unwrap()[before].clone();
            assert!(arrived.len() <= after && whole.starts_with(&arrived), "after {after}");
        }
    }
}

#[tokio::test]
async fn an_answer_is_cut_after_each_of_its_bytes() {
    let (address, arrived) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    for after in 0..=ANSWER.len() {
        let before = arrived.lock().unwrap().len();
        let armed = proxy.arm(Rule::first("mark", Fault::Cut { side: Side::Answer, after, how: Close::Fin }));
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.write_all(&request("mark end")).await.unwrap();
        assert_eq!(rest(&mut client).await.0, ANSWER[..after]);
        assert_eq!(arrived.lock().unwrap()[before], request("mark end"), "the request had arrived");
        let progress = armed.progress();
        assert_eq!((progress.fired, progress.answer), (true, after));
        assert_eq!(progress.answered, after == ANSWER.len());
    }
}

#[tokio::test]
async fn an_answer_may_pass_whole_and_be_followed_by_a_reset() {
    let (address, _) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let fault = Fault::Cut { side: Side::Answer, after: usize::MAX, how: Close::Reset };
    let mut armed = proxy.arm(Rule::first("mark", fault));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(&request("mark end")).await.unwrap();
    assert!(armed.until(|progress| progress.fired).await.answered);
    assert!(rest(&mut client).await.1, "it was reset");
}

#[tokio::test]
async fn what_no_rule_names_passes_on_the_same_connection() {
    let (address, arrived) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let fault = Fault::Cut { side: Side::Answer, after: 3, how: Close::Fin };
    let mut rule = Rule::first("mark", fault).and("two");
    rule.skip = 1;
    let armed = proxy.arm(rule);
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    for passes in ["other end", "mark end", "two mark end"] {
        client.write_all(&request(passes)).await.unwrap();
        let mut answer = vec![0; ANSWER.len()];
        client.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, ANSWER);
    }
    assert!(!armed.progress().met);
    client.write_all(&request("mark two end")).await.unwrap();
    assert_eq!(rest(&mut client).await.0, ANSWER[..3]);
    assert_eq!(arrived.lock().unwrap().len(), 1, "it was one connection");
    assert!(armed.progress().fired);
}

/// However soon the answer comes, it is known by then whose it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_answer_at_once_is_the_answer_to_its_request() {
    let mut clients = tokio::task::JoinSet::new();
    let client = async || {
        let (address, arrived) = server(Framing::Http).await;
        let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        for turn in 0..500 {
            client.write_all(&request("an end")).await.unwrap();
            let mut answer = vec![0; ANSWER.len()];
            let read = client.read_exact(&mut answer).await;
            assert!(read.is_ok() && answer == ANSWER, "turn {turn}: {read:?}");
        }
        assert_eq!(arrived.lock().unwrap().len(), 1, "it was one connection");
    };
    for _ in 0..8 {
        clients.spawn(client());
    }
    clients.join_all().await;
}

#[tokio::test]
async fn a_rule_holds_once_and_not_after_it_was_dropped() {
    let (address, _) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let cut = Fault::Cut { side: Side::Request, after: 0, how: Close::Fin };
    drop(proxy.arm(Rule::first("mark", cut)));
    let _armed = proxy.arm(Rule::first("mark", cut));
    for cut in [true, false] {
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        client.write_all(&request("mark end")).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await.0.is_empty(), cut);
    }
}

#[tokio::test]
async fn a_stalled_message_waits_until_it_is_let_go() {
    let (address, arrived) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let mut armed = proxy.arm(Rule::first("mark", Fault::Stall { side: Side::Request, after: 7 }));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(&request("mark end")).await.unwrap();
    armed.until(|progress| progress.fired).await;
    until(|| arrived.lock().unwrap().first().is_some_and(|bytes| bytes.len() == 7)).await;
    armed.release();
    let mut answer = vec![0; ANSWER.len()];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, ANSWER);
    assert_eq!(armed.progress().request, request("mark end").len());
}

#[tokio::test]
async fn one_direction_may_end_while_the_other_goes_on() {
    let (address, arrived) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let _armed = proxy.arm(Rule::first("mark", Fault::HalfClose { side: Side::Answer, after: 4 }));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(&request("mark end")).await.unwrap();
    assert_eq!(rest(&mut client).await, (ANSWER[..4].to_vec(), false));
    client.write_all(&request("more")).await.unwrap();
    let both = request("mark end").len() + request("more").len();
    until(|| arrived.lock().unwrap()[0].len() == both).await;
}

#[tokio::test]
async fn a_request_is_delivered_twice() {
    let (address, arrived) = server(Framing::Http).await;
    let proxy = Proxy::start(Framing::Http, Some(address)).await.unwrap();
    let _armed = proxy.arm(Rule::first("mark", Fault::Duplicate));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(&request("mark end")).await.unwrap();
    let mut answer = vec![0; ANSWER.len()];
    client.read_exact(&mut answer).await.unwrap();
    let twice = vec![request("mark end"); 2];
    until(|| *arrived.lock().unwrap() == twice).await;
}

#[tokio::test]
async fn a_server_that_is_away_resets() {
    let proxy = Proxy::start(Framing::Http, None).await.unwrap();
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    let _ = client.write_all(&request("mark end")).await;
    assert_eq!(rest(&mut client).await, (Vec::new(), true));
    let (address, _) = server(Framing::Http).await;
    proxy.lead_to(Some(address));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(&request("mark end")).await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(rest(&mut client).await.0, ANSWER);
}

#[tokio::test]
async fn lines_are_cut_in_either_direction_and_doubled() {
    let (address, arrived) = server(Framing::Lines).await;
    let proxy = Proxy::start(Framing::Lines, Some(address)).await.unwrap();
    let line = b"a mark\n";
    for side in [Side::Request, Side::Answer] {
        for after in 0..=line.len() {
            let before = arrived.lock().unwrap().len();
            let _armed = proxy.arm(Rule::first("mark", Fault::Cut { side, after, how: Close::Fin }));
            let mut client = TcpStream::connect(proxy.address()).await.unwrap();
            client.write_all(b"other\n").await.unwrap();
            let mut other = [0; 6];
            client.read_exact(&mut other).await.unwrap();
            client.write_all(line).await.unwrap();
            let answer = rest(&mut client).await.0;
            let (to_server, to_client) = match side {
                Side::Request => (&line[..after], &line[..0]),
                Side::Answer => (&line[..], &line[..after]),
            };
            // The echo may be faster than the end of the connection that was cut behind the line.
            assert!(answer == to_client || side == Side::Request && answer == *to_server, "{side:?} {after}");
            until(|| arrived.lock().unwrap()[before].len() == 6 + to_server.len()).await;
        }
    }
    let before = arrived.lock().unwrap().len();
    let _armed = proxy.arm(Rule::first("mark", Fault::Duplicate));
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.write_all(line).await.unwrap();
    until(|| arrived.lock().unwrap().get(before).is_some_and(|bytes| *bytes == line.repeat(2))).await;
}
