//! An MCP server that answers at once, or never.
//!
//! | tool | answer |
//! | --- | --- |
//! | `small` | a word; read-only |
//! | `big` | 64 KiB; read-only |
//! | `write` | a word; not read-only |
//! | `never` | none |

use anyhow::Result;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::envelope::{Called, Envelope};
use super::intake::Intake;
use crate::args::Era;

/// The size of the text that `big` gives.
pub(crate) const BIG_BYTES: usize = 64 << 10;

/// Serves until the parent ends.
pub(crate) fn run(era: Era) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = super::listen().await?;
        let back = std::rc::Rc::new(Back::new(era));
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let back = back.clone();
            // It ends in an error when the peer closes; there is nobody to tell.
            tokio::task::spawn_local(async move { back.serve(stream).await });
        }
    })
}

struct Back {
    era: Era,
    opened: String,
    tools: String,
    small: String,
    big: String,
}

enum Reply<'b> {
    Result(&'b str),
    Taken,
    Unknown,
    Never,
}

impl Back {
    fn new(era: Era) -> Back {
        let info = "{\"name\":\"bench\",\"version\":\"1\"}";
        let (kind, opened) = match era {
            Era::Legacy => (
                "",
                format!(
                    "{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{\"tools\":{{}}}},\"serverInfo\":{info}}}"
                ),
            ),
            Era::Modern => (
                "\"resultType\":\"complete\",",
                format!(
                    "{{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\
                     \"capabilities\":{{\"tools\":{{}}}},\"ttlMs\":3600000,\"cacheScope\":\"public\",\
                     \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{info}}}}}"
                ),
            ),
        };
        let hints = match era {
            Era::Legacy => "",
            Era::Modern => ",\"ttlMs\":3600000,\"cacheScope\":\"public\"",
        };
        let tools = ["small", "big", "write", "never"].map(|name| {
            format!(
                "{{\"name\":\"{name}\",\"description\":\"answers\",\"inputSchema\":{{\"type\":\"object\"}}}}"
            )
        });
        let result = |text: &str| {
            format!("{{{kind}\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}],\"isError\":false}}")
        };
        Back {
            era,
            opened,
            tools: format!("{{{kind}\"tools\":[{}]{hints}}}", tools.join(",")),
            small: result("done"),
            big: result(&"x".repeat(BIG_BYTES)),
        }
    }

    async fn serve(&self, mut stream: TcpStream) -> Result<()> {
        let mut intake = Intake::default();
        let mut out = Vec::new();
        loop {
            out.clear();
            match intake.next(&mut stream).await? {
                None => {
                    out.extend_from_slice(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
                }
                Some(body) => {
                    let envelope: Envelope<'_> = serde_json::from_slice(body)?;
                    match self.reply(&envelope) {
                        Reply::Result(result) => self.answer(&mut out, &envelope, "result", result),
                        Reply::Unknown => {
                            let error = "{\"code\":-32601,\"message\":\"Method not found\"}";
                            self.answer(&mut out, &envelope, "error", error);
                        }
                        Reply::Taken => {
                            out.extend_from_slice(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
                        }
                        Reply::Never => {
                            intake.end(&mut stream).await;
                            return Ok(());
                        }
                    }
                }
            }
            stream.write_all(&out).await?;
        }
    }

    fn reply(&self, envelope: &Envelope<'_>) -> Reply<'_> {
        match (envelope.method.unwrap_or_default(), self.era) {
            ("tools/call", _) => {
                let called =
                    envelope.params.and_then(|params| serde_json::from_str::<Called<'_>>(params.get()).ok());
                match called.and_then(|called| called.name) {
                    Some("small" | "write") => Reply::Result(&self.small),
                    Some("big") => Reply::Result(&self.big),
                    Some("never") => Reply::Never,
                    Some(_) | None => Reply::Unknown,
                }
            }
            ("tools/list", _) => Reply::Result(&self.tools),
            ("initialize", Era::Legacy) | ("server/discover", Era::Modern) => Reply::Result(&self.opened),
            ("ping", Era::Legacy) => Reply::Result("{}"),
            _ if envelope.id.is_none() => Reply::Taken,
            _ => Reply::Unknown,
        }
    }

    fn answer(&self, out: &mut Vec<u8>, envelope: &Envelope<'_>, member: &str, value: &str) {
        let id = envelope.id.map_or("null", |id| id.get());
        let parts = ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"", member, "\":", value, "}"];
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let session = match (self.era, envelope.method) {
            (Era::Legacy, Some("initialize")) => "Mcp-Session-Id: bench\r\n",
            _ => "",
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{session}Content-Length: {length}\r\n\r\n"
        );
        out.reserve(head.len() + length);
        out.extend_from_slice(head.as_bytes());
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
    }
}
