//! A message a line, on stdin and stdout or on a connection that stands for them.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::{Reply, Shop};

pub(super) async fn listen(shop: Arc<Shop>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let shop = shop.clone();
        tokio::spawn(async move {
            let (from, to) = stream.into_split();
            // A line that breaks is what this is for.
            let _ = talk(shop, from, to).await;
        });
    }
}

/// Answers until `from` ends. What is under way then goes on, and nobody hears of it.
pub(super) async fn talk(
    shop: Arc<Shop>,
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    let to = Arc::new(Mutex::new(to));
    let mut lines = BufReader::new(from).lines();
    while let Some(line) = lines.next_line().await? {
        let Ok(message) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        let (shop, to) = (shop.clone(), to.clone());
        tokio::spawn(async move {
            let (Reply::Json(_, body) | Reply::Opened(body, _)) = shop.answer(&message).await else { return };
            let mut line = body.to_string().into_bytes();
            line.push(b'\n');
            let mut to = to.lock().await;
            if to.write_all(&line).await.is_ok() {
                let _ = to.flush().await;
            }
        });
    }
    Ok(())
}
