//! One HTTP exchange over a connection of its own, read by hand: an answer that is not whole is none.

use std::io;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Posts a message; the head of the answer, and the messages in its body or on its stream.
pub(super) async fn post(
    to: SocketAddr,
    path: &str,
    headers: &[(&str, String)],
    message: &Value,
) -> io::Result<(String, Vec<Value>)> {
    let body = message.to_string();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nhost: {to}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("\r\n{body}"));
    let mut stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let body = whole(head, body)?;
    let documents = body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line));
    let messages = documents.filter_map(|text| serde_json::from_str(text).ok()).collect();
    Ok((head.to_owned(), messages))
}

pub(super) fn header(head: &str, wanted: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
    })
}

/// The body, if all of it came.
fn whole(head: &str, body: &str) -> io::Result<String> {
    if header(head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return unchunk(body);
    }
    match header(head, "content-length").and_then(|length| length.parse::<usize>().ok()) {
        Some(length) if body.len() < length => Err(io::ErrorKind::UnexpectedEof.into()),
        Some(_) | None => Ok(body.to_owned()),
    }
}

fn unchunk(mut body: &str) -> io::Result<String> {
    let mut out = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
        if size == 0 {
            return Ok(out);
        }
        out.push_str(rest.get(..size).ok_or(io::ErrorKind::UnexpectedEof)?);
        body = rest[size..].strip_prefix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    }
}
