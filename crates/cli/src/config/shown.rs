//! A configuration's text as it may be shown beside what is wrong with it.
//!
//! Hidden are the values of `env`, `headers` and `secret`, the user, query and (of a webhook) path of a URL, and arguments
//! that look like a secret. They are replaced byte by byte, so that places in the text stay what they are. `${NAME}` stays:
//! it is only the name of one.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::hosts::blind::without_values;
use crate::hosts::mask::command_line;
use crate::hosts::tree::{Format, Node, Value};

/// Members whose values are never shown.
const HIDDEN: [&str; 3] = ["env", "headers", "secret"];

/// Sections below which stand names of somebody's choosing.
const NAMES: [&str; 4] = ["servers", "mcpServers", "workflows", "tools"];

/// Words on a line that cannot be read which tell that a secret may stand behind them.
const TELLING: [&str; 10] =
    ["env", "header", "secret", "token", "auth", "key", "passw", "url", "webhook", "args"];

/// How a credential is introduced in a header; no secret.
const SCHEMES: [&str; 3] = ["Bearer", "Basic", "Token"];

/// `text` with what could be a secret replaced by stars. It has as many bytes as before, each character where it was.
pub(crate) fn shown(text: &str) -> String {
    if text.trim_start().starts_with('{') {
        return match Format::Json.parse(text) {
            Ok(root) => {
                let mut spans = Vec::new();
                of_json(&root, ("", ""), false, text, &mut spans);
                starred(text, spans)
            }
            Err(_) => without_values(text, Format::Json),
        };
    }
    match DeTable::parse(text) {
        Ok(document) => {
            let mut spans = Vec::new();
            of_table(document.get_ref(), "", false, text, &mut spans);
            starred(text, spans)
        }
        Err(_) => by_line(text),
    }
}

fn of_table(table: &DeTable<'_>, section: &str, hides: bool, text: &str, spans: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        let name: &str = key.get_ref();
        let hides = hides || HIDDEN.contains(&name) && !NAMES.contains(&section);
        match value.get_ref() {
            DeValue::Table(inner) => of_table(inner, name, hides, text, spans),
            DeValue::Array(items) if name == "args" => {
                let words = items.iter().map(|item| item.get_ref().as_str().unwrap_or_default().to_owned());
                arguments(&words.collect::<Vec<_>>(), |at| items.get(at).map(|item| item.span()), spans);
            }
            DeValue::Array(items) if hides => spans.extend(items.iter().map(|item| item.span())),
            DeValue::String(_) | DeValue::Integer(_) | DeValue::Float(_) | DeValue::Datetime(_) if hides => {
                spans.push(value.span());
            }
            DeValue::String(_) if matches!(name, "url" | "get") => {
                address(text, value.span(), section == "webhook", spans);
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_) => {}
        }
    }
}

fn of_json(
    node: &Node,
    (section, name): (&str, &str),
    hides: bool,
    text: &str,
    spans: &mut Vec<Range<usize>>,
) {
    let hides = hides || HIDDEN.contains(&name) && !NAMES.contains(&section);
    match &node.value {
        Value::Map(members) => {
            for member in members {
                of_json(&member.value, (name, &member.name), hides, text, spans);
            }
        }
        Value::List(items) if name == "args" => {
            let words: Vec<_> = items.iter().map(|item| item.text().unwrap_or_default().to_owned()).collect();
            arguments(&words, |at| items.get(at).map(|item| item.span.clone()), spans);
        }
        Value::List(items) => items.iter().for_each(|item| of_json(item, ("", ""), hides, text, spans)),
        Value::Text(_) | Value::Number(_) if hides => spans.push(node.span.clone()),
        Value::Text(_) if matches!(name, "url" | "uri") => address(text, node.span.clone(), false, spans),
        Value::Text(_) | Value::Number(_) | Value::Bool(_) | Value::Null | Value::Alias => {}
    }
}

/// Those of a command line's arguments that look like a secret.
fn arguments(words: &[String], span: impl Fn(usize) -> Option<Range<usize>>, spans: &mut Vec<Range<usize>>) {
    for (at, (word, masked)) in words.iter().zip(command_line(words)).enumerate() {
        if *word != masked {
            spans.extend(span(at));
        }
    }
}

/// What could be a secret in the URL that is written at `at`.
fn address(text: &str, at: Range<usize>, hides_path: bool, spans: &mut Vec<Range<usize>>) {
    let Some(url) = text.get(at.clone()) else { return };
    let Some(host) = url.find("://").map(|scheme| scheme + 3) else {
        if hides_path {
            spans.push(at);
        }
        return;
    };
    let rest = &url[host..];
    let path = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if let Some(user) = rest[..path].rfind('@') {
        spans.push(at.start + host..at.start + host + user);
    }
    let from = if hides_path { Some(path) } else { rest.find(['?', '#']) };
    spans.extend(from.map(|from| at.start + host + from..at.end));
}

fn starred(text: &str, mut spans: Vec<Range<usize>>) -> String {
    spans.sort_by_key(|span| span.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans {
        let (Some(before), Some(secret)) = (text.get(done..span.start), text.get(span.clone())) else {
            continue;
        };
        out.push_str(before);
        stars(secret, &mut out);
        done = span.end;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// A star for each byte of words; quotes, spaces, what holds a text together, and names of variables stay.
fn stars(secret: &str, out: &mut String) {
    let mut rest = secret;
    while let Some(first) = rest.chars().next() {
        let variable = rest.strip_prefix("${").and_then(|inner| inner.find('}')).map(|end| end + 3);
        let scheme = SCHEMES
            .iter()
            .find(|scheme| rest.strip_prefix(**scheme).is_some_and(|rest| rest.starts_with(' ')));
        let kept = variable.or_else(|| scheme.map(|scheme| scheme.len()));
        let (part, after) = rest.split_at(kept.unwrap_or(first.len_utf8()));
        if kept.is_some() || first.is_whitespace() || "\"'[]{},=/?&".contains(first) {
            out.push_str(part);
        } else {
            out.extend(std::iter::repeat_n('*', part.len()));
        }
        rest = after;
    }
}

/// A text that is no TOML: what stands behind a telling word, or under a telling heading, is hidden.
fn by_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut section_hides, mut line_hides) = (false, false);
    for line in text.split_inclusive('\n') {
        let lower = line.to_ascii_lowercase();
        let is_telling = TELLING.iter().any(|word| lower.contains(word));
        let is_heading = line.trim_start().starts_with('[') && !line.contains('=');
        let value = line.find('=').map(|at| at + 1);
        if is_heading {
            section_hides = HIDDEN.iter().any(|name| lower.contains(name));
            line_hides = section_hides;
            out.push_str(line);
            continue;
        }
        // A line without a sign of its own, or one that is indented, may go on with what the line before began.
        let goes_on = value.is_none() || line.starts_with([' ', '\t']);
        line_hides = section_hides || is_telling || goes_on && line_hides;
        let shown = match value {
            Some(at) if line_hides => at,
            None if line_hides => 0,
            Some(_) | None => line.len(),
        };
        let (shown, hidden) = line.split_at(shown);
        out.push_str(shown);
        stars(hidden, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_could_be_a_secret_is_hidden_byte_by_byte_and_the_rest_is_not() {
        let text = r#"[servers.a]
url = "https://me:hunter2@host/mcp?key=hunter2"
headers = { Authorization = "Bearer hunter2", X-Y = "${TOKEN}" }
[servers.b]
command = "npx"
args = ["-y", "server", "--token", "hunter2"]
env.PIN = "hünter2"
[workflows.w]
server = "a"
tools = ["pay"]
webhook = { url = "https://hooks/T/hunter2", headers.X = "hunter2" }
[workflows.w.receipt.signature]
secret = 'hunter2'
given = "data.signature"
"#;
        let seen = shown(text);
        assert!(!seen.contains("hunter2") && !seen.contains("nter2"), "{seen}");
        assert_eq!(seen.len(), text.len());
        for kept in [
            "url = \"https://**********@host/mcp?***=*******\"",
            "Authorization = \"Bearer *******\", X-Y = \"${TOKEN}\"",
            "args = [\"-y\", \"server\", \"--token\", \"*******\"]",
            "\"https://hooks/*/*******\"",
            "given = \"data.signature\"",
        ] {
            assert!(seen.contains(kept), "{kept} in {seen}");
        }
    }

    #[test]
    fn what_cannot_be_read_hides_what_may_be_one() {
        for text in [
            "[servers.a]\nurl = \"http://a/\"\nheaders = { A = \"Bearer hunter2\" \"x\" }\n",
            "[servers.a]\nheaders = {\n A = \"Bearer\n hunter2\"\n",
            "[workflows.w.receipt.signature]\nsecret = hunter2\n",
            "[servers.a.headers]\nX hunter2\n",
            "[servers.a]\nargs = [\"--pin\", \"hunter2\"\n\"hunter2\"\n",
            "{\"mcpServers\": {\"a\": {\"env\": {\"PIN\": \"hunter2\"",
            "{\"mcpServers\": {\"a\": {\"url\": \"https://a/?hunter2\", \"env\": {\"PIN\": \"hunter2\"}}}}",
        ] {
            let seen = shown(text);
            assert!(!seen.contains("hunter2"), "{seen}");
            assert_eq!(seen.len(), text.len());
        }
        for plain in [
            "[servers.a]\ncommand = npx\n[limits]\nttl = 5\n",
            "[servers.env]\ncommand = \"npx\"\nurl = \"https://a/mcp\"\n",
            "{\"servers\": {\"env\": {\"command\": \"npx\", \"url\": \"https://a/mcp\"}}}",
        ] {
            assert_eq!(shown(plain), plain);
        }
    }
}
