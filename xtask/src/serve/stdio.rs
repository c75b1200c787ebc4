//! An MCP server over stdin and stdout that answers at once, for what `taskgate run` adds to one.
//!
//! | tool | answer |
//! | --- | --- |
//! | `small` | a word; says that it is read-only |
//! | `write` | a word |

use std::io::{BufRead, Write};

use anyhow::Result;

use super::envelope::{Called, Envelope};

const OPENED: &str = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\
    \"serverInfo\":{\"name\":\"bench\",\"version\":\"1\"}}";

const TOOLS: &str = "{\"tools\":[\
    {\"name\":\"small\",\"description\":\"answers\",\"inputSchema\":{\"type\":\"object\"},\"annotations\":{\"readOnlyHint\":true}},\
    {\"name\":\"write\",\"description\":\"answers\",\"inputSchema\":{\"type\":\"object\"}}]}";

const DONE: &str = "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}],\"isError\":false}";

/// Serves until stdin ends.
pub(crate) fn run() -> Result<()> {
    let mut stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    let (mut line, mut out) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        if stdin.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let envelope: Envelope<'_> = serde_json::from_slice(&line)?;
        // A notification, or an answer, of which we asked for none.
        let Some(id) = envelope.id.filter(|_| envelope.method.is_some()) else { continue };
        let (member, value) = match envelope.method.unwrap_or_default() {
            "initialize" => ("result", OPENED),
            "ping" => ("result", "{}"),
            "tools/list" => ("result", TOOLS),
            "tools/call" if is_known(&envelope) => ("result", DONE),
            "tools/call" => ("error", "{\"code\":-32602,\"message\":\"Unknown tool\"}"),
            _ => ("error", "{\"code\":-32601,\"message\":\"Method not found\"}"),
        };
        out.clear();
        writeln!(out, "{{\"jsonrpc\":\"2.0\",\"id\":{},\"{member}\":{value}}}", id.get())?;
        stdout.write_all(&out)?;
        stdout.flush()?;
    }
}

fn is_known(envelope: &Envelope<'_>) -> bool {
    let called = envelope.params.and_then(|params| serde_json::from_str::<Called<'_>>(params.get()).ok());
    matches!(called.and_then(|called| called.name), Some("small" | "write"))
}
