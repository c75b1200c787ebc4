//! A process whose stdin and stdout are a TCP connection: what a gateway starts as a server over stdio, so that the
//! line can lead through a proxy which breaks it at any byte.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncWriteExt, copy, stdin, stdout};
use tokio::net::TcpStream;

/// Carries bytes both ways until one side ends; then the process is to end, as a server that died does.
///
/// # Errors
/// If nobody listens at `to`.
pub async fn carry(to: SocketAddr) -> io::Result<()> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    let (mut from, mut into) = stream.into_split();
    let inward = async {
        let _ = copy(&mut stdin(), &mut into).await;
        let _ = into.shutdown().await;
    };
    let outward = async {
        let mut out = stdout();
        let mut buffer = vec![0; 16 * 1024];
        loop {
            from.readable().await.ok();
            let count = match tokio::io::AsyncReadExt::read(&mut from, &mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(count) => count,
            };
            // Byte for byte as it comes: what arrived before the line broke was said.
            if out.write_all(&buffer[..count]).await.is_err() || out.flush().await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = inward => {}
        () = outward => {}
    }
    Ok(())
}
