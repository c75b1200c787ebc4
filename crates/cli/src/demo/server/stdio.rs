//! The same server over stdin and stdout, a message a line.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::mpsc;

use super::Shop;
use super::http::{self, Headers};
use super::message::{Answer, Incoming};

/// Answers until stdin ends.
pub(super) async fn serve(shop: &Arc<Shop>) -> io::Result<()> {
    let (out, mut messages) = mpsc::channel::<Bytes>(64);
    let writer = tokio::spawn(async move {
        let mut stdout = tokio::io::stdout();
        while let Some(message) = messages.recv().await {
            stdout.write_all(&message).await?;
            stdout.write_all(b"\n").await?;
            stdout.flush().await?;
        }
        Ok(())
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    // What `initialize` negotiated; it comes first, and nothing else is read before it is answered.
    let mut session = None;
    loop {
        let line = tokio::select! {
            line = lines.next_line() => line?,
            () = out.closed() => break,
        };
        let Some(line) = line else { break };
        if is_opening(&line)
            && let Answer::Opened(message, opened) = answer(shop, None, &line).await
        {
            session = Some(opened);
            let _ = out.send(message.into()).await;
            continue;
        }
        let (shop, session, out) = (shop.clone(), session.clone(), out.clone());
        tokio::spawn(async move {
            match answer(&shop, session.as_deref(), &line).await {
                Answer::Json(_, message) | Answer::Opened(message, _) => {
                    let _ = out.send(message.into()).await;
                }
                Answer::Stream(mut stream) => {
                    while let Some(message) = stream.recv().await {
                        let _ = out.send(message).await;
                    }
                }
                Answer::Accepted => {}
                // A process has no connection to break but its whole output.
                Answer::Cut => std::process::exit(1),
            }
        });
    }
    drop(out);
    if writer.is_finished() { writer.await.map_err(io::Error::other)? } else { Ok(()) }
}

fn is_opening(line: &str) -> bool {
    serde_json::from_str::<Incoming<'_>>(line).is_ok_and(|it| it.method.as_deref() == Some("initialize"))
}

async fn answer(shop: &Arc<Shop>, session: Option<&str>, line: &str) -> Answer {
    let headers = Headers { version: None, method: None, name: None, session };
    http::message(shop, &headers, line.as_bytes()).await
}
