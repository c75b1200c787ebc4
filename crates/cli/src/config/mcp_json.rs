//! Server definitions as hosts keep them: `mcp.json`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::problem::{Problem, Problems};
use super::raw::RawServer;

/// The servers of one such file, and where each stands.
#[derive(Debug, Default)]
pub(crate) struct McpJson {
    pub(crate) servers: BTreeMap<String, RawServer>,
    pub(crate) places: BTreeMap<String, Range<usize>>,
}

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow, rename = "mcpServers")]
    mcp_servers: Option<BTreeMap<String, &'a RawValue>>,
    #[serde(borrow)]
    servers: Option<BTreeMap<String, &'a RawValue>>,
}

/// One entry; what else hosts write there is none of ours.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type", alias = "transport")]
    kind: Option<String>,
    command: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, Scalar>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, Scalar>,
    #[serde(default)]
    disabled: bool,
}

/// Hosts take `"PORT": 8080` for text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Bool(bool),
    Number(serde_json::Number),
}

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Scalar::Text(text) => text,
            Scalar::Bool(bool) => bool.to_string(),
            Scalar::Number(number) => number.to_string(),
        }
    }
}

/// Reads the file `file`, in which `text` stands.
pub(crate) fn parse(file: &str, text: &str) -> Result<McpJson, Problems> {
    let problem = |what: String, help: &str, at| Problem { what, help: Some(help.to_owned()), at };
    let refused = |problems| Problems::of_config(file, text, problems);
    let document: Document<'_> = serde_json::from_str(text).map_err(|error| {
        let at = offset(text, error.line(), error.column());
        let what = format!("this is no mcp.json: {}", words(&error));
        refused(vec![problem(what, "see docs/configuration.md for what is read from an mcp.json", Some(at))])
    })?;
    let Some(entries) = document.mcp_servers.or(document.servers) else {
        let what = "there is no \"mcpServers\" in this file".to_owned();
        let help = "an mcp.json reads {\"mcpServers\": {\"NAME\": {\"command\": …}}}";
        return Err(refused(vec![problem(what, help, None)]));
    };
    let mut found = McpJson::default();
    let mut problems = Vec::new();
    for (name, raw) in entries {
        // The raw value borrows from `text`, so the distance is within it.
        let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
        let place = start..start + raw.get().len();
        match entry(raw.get()) {
            Ok(Some(server)) => {
                found.servers.insert(name.clone(), server);
                found.places.insert(name, place);
            }
            Ok(None) => {}
            Err(Refused { what, help, at }) => {
                let at = at.map_or(place.start..place.start + 1, |at| start + at.start..start + at.end);
                problems.push(problem(format!("server {name:?}: {what}"), help, Some(at)));
            }
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(refused(problems)) }
}

struct Refused {
    what: String,
    help: &'static str,
    /// Within the entry.
    at: Option<Range<usize>>,
}

/// One entry, understood; `None` if it is disabled.
fn entry(text: &str) -> Result<Option<RawServer>, Refused> {
    let entry: Entry = serde_json::from_str(text).map_err(|error| Refused {
        what: words(&error),
        help: "an entry has `command`, `args`, `env`, `cwd`, or `url` and `headers`",
        at: Some(offset(text, error.line(), error.column())),
    })?;
    if entry.disabled {
        return Ok(None);
    }
    match entry.kind.as_deref() {
        None
        | Some("stdio" | "local" | "http" | "streamable-http" | "streamableHttp" | "streamable_http") => {}
        Some("sse") => {
            return Err(Refused {
                what: "the transport \"sse\" of 2024-11-05 is not supported".to_owned(),
                help: "most servers offer Streamable HTTP beside it, often at /mcp: use that `url` with type \"http\"",
                at: key(text, "type").or_else(|| key(text, "transport")),
            });
        }
        Some(other) => {
            return Err(Refused {
                what: format!("the transport {other:?} is not known"),
                help: "use \"stdio\" or \"http\"",
                at: key(text, "type").or_else(|| key(text, "transport")),
            });
        }
    }
    let texts = |map: BTreeMap<String, Scalar>| map.into_iter().map(|(k, v)| (k, v.into_text())).collect();
    Ok(Some(RawServer {
        command: entry.command,
        args: entry.args,
        env: texts(entry.env),
        cwd: entry.cwd,
        url: entry.url,
        headers: texts(entry.headers),
        ..RawServer::default()
    }))
}

/// Where the key `name` stands in an entry.
pub(crate) fn key(entry: &str, name: &str) -> Option<Range<usize>> {
    let quoted = format!("\"{name}\"");
    entry.find(&quoted).map(|start| start..start + quoted.len())
}

/// What serde_json says, without its own line and column: they are shown in the file.
fn words(error: &serde_json::Error) -> String {
    let said = error.to_string();
    said.rsplit_once(" at line ").map_or(said.clone(), |(words, _)| words.to_owned())
}

/// The byte at a line and column that serde_json counted.
fn offset(text: &str, line: usize, column: usize) -> Range<usize> {
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = (start + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let width = text[at..].chars().next().map_or(0, char::len_utf8);
    at..at + width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hosts_write_is_read() {
        let text = r#"{
          "inputs": [],
          "mcpServers": {
            "files": { "command": "npx", "args": ["-y", "files"], "env": { "PORT": 8080, "TLS": true }, "alwaysAllow": [] },
            "remote": { "type": "http", "url": "https://example.com/mcp", "headers": { "Authorization": "Bearer ${T}" } },
            "old": { "command": "x", "disabled": true }
          }
        }"#;
        let found = parse("mcp.json", text).unwrap();
        assert_eq!(found.servers.keys().collect::<Vec<_>>(), ["files", "remote"]);
        assert_eq!(found.servers["files"].env["PORT"], "8080");
        assert_eq!(found.servers["files"].env["TLS"], "true");
        assert_eq!(found.servers["remote"].url.as_deref(), Some("https://example.com/mcp"));
        assert!(text[found.places["files"].clone()].starts_with("{ \"command\": \"npx\""));
    }

    #[test]
    fn the_key_servers_is_read_too() {
        let found = parse("mcp.json", r#"{"servers":{"a":{"type":"stdio","command":"x"}}}"#).unwrap();
        assert_eq!(found.servers.len(), 1);
    }

    #[test]
    fn offsets_count_as_serde_json_does() {
        let text = "{\n  \"a\": ä\n}";
        let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
        let at = offset(text, error.line(), error.column());
        assert_eq!(&text[at], "ä");
    }
}
