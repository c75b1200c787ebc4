//! A file's text as it may be shown: what could be a secret is replaced by `***`.
//!
//! Shown are: names of members, how servers are started, and what is known to hold no secret. Not shown are the values of
//! `env`, `environment`, `envs` and `headers`, texts anywhere else, arguments that look like a secret or follow a flag that
//! sounds like one, and comments that may quote something.

use std::ops::Range;

use super::blind::without_values;
use super::shape::Shape;
use super::tree::{Format, Node, Value};

/// In the place of what is not shown.
const HIDDEN: &str = "***";

/// Members of an entry whose text is shown. The command line is treated apart.
const PLAIN: [&str; 14] = [
    "type",
    "transport",
    "source",
    "name",
    "description",
    "display_name",
    "cwd",
    "timeout",
    "enabled",
    "disabled",
    "bundled",
    "gallery",
    "envFile",
    "alwaysLoad",
];

/// The text with everything hidden that could be a secret.
pub(crate) fn masked(text: &str, format: Format, shape: Shape) -> String {
    let Ok(root) = format.parse(text) else { return without_values(text, format) };
    let entries = shape.servers(&root).unwrap_or_default();
    let mut mask =
        Mask { format, entries: entries.iter().map(|found| found.node).collect(), seen: Vec::new() };
    mask.outside(&root);
    let Mask { mut seen, .. } = mask;
    seen.sort_by_key(|(span, _)| span.start);
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (span, with) in seen {
        let Some(between) = text.get(done..span.start) else { continue };
        out.push_str(&without_comments(between, format));
        match with {
            Some(with) => out.push_str(&with),
            None => out.push_str(text.get(span.clone()).unwrap_or_default()),
        }
        done = span.end;
    }
    out.push_str(&without_comments(text.get(done..).unwrap_or_default(), format));
    out
}

struct Mask<'a> {
    format: Format,
    entries: Vec<&'a Node>,
    /// Every scalar and name, and what is shown in its place, if not itself.
    seen: Vec<(Range<usize>, Option<String>)>,
}

impl<'a> Mask<'a> {
    fn show(&mut self, span: &Range<usize>) {
        self.seen.push((span.clone(), None));
    }

    fn put(&mut self, span: &Range<usize>, text: &str, shown: &str) {
        let with = (text != shown).then(|| self.format.literal(shown));
        self.seen.push((span.clone(), with));
    }

    /// What is no server: texts are hidden, flags and numbers are not.
    fn outside(&mut self, node: &'a Node) {
        if self.entries.iter().any(|entry| std::ptr::eq(*entry, node)) {
            return self.entry(node);
        }
        match &node.value {
            Value::Map(members) => {
                for member in members {
                    self.show(&member.name_span);
                    self.outside(&member.value);
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.outside(item)),
            Value::Text(text) => self.put(&node.span, text, HIDDEN),
            Value::Number(_) | Value::Bool(_) | Value::Null | Value::Alias => self.show(&node.span),
        }
    }

    fn entry(&mut self, node: &'a Node) {
        let Value::Map(members) = &node.value else { return self.hidden(node) };
        for member in members {
            self.show(&member.name_span);
            let value = &member.value;
            match (member.name.as_str(), &value.value) {
                ("command" | "cmd" | "path" | "args", Value::Text(text)) => {
                    self.put(&value.span, text, &argument(text, None));
                }
                ("command" | "args", Value::List(items)) => self.arguments(items),
                // As Zed wrote it once.
                ("command", Value::Map(_)) => self.entry(value),
                ("url" | "uri", Value::Text(url)) => self.put(&value.span, url, &address(url)),
                (_, Value::Bool(_) | Value::Null) => self.show(&value.span),
                (name, Value::Text(_) | Value::Number(_)) if PLAIN.contains(&name) => self.show(&value.span),
                (_, _) => self.hidden(value),
            }
        }
    }

    fn arguments(&mut self, items: &'a [Node]) {
        let mut before = None;
        for item in items {
            match item.text() {
                Some(text) => self.put(&item.span, text, &argument(text, before)),
                None => self.hidden(item),
            }
            before = item.text();
        }
    }

    /// All texts and numbers are hidden.
    fn hidden(&mut self, node: &'a Node) {
        match &node.value {
            Value::Map(members) => {
                for member in members {
                    self.show(&member.name_span);
                    self.hidden(&member.value);
                }
            }
            Value::List(items) => items.iter().for_each(|item| self.hidden(item)),
            Value::Text(text) | Value::Number(text) => self.put(&node.span, text, HIDDEN),
            Value::Bool(_) | Value::Null | Value::Alias => self.show(&node.span),
        }
    }
}

/// A command line as it may be shown.
pub(crate) fn command_line(argv: &[String]) -> Vec<String> {
    let before = std::iter::once(None).chain(argv.iter().map(|part| Some(part.as_str())));
    argv.iter().zip(before).map(|(part, before)| argument(part, before)).collect()
}

/// One argument as it may be shown, behind `before`.
fn argument(text: &str, before: Option<&str>) -> String {
    if before.is_some_and(|flag| flag.starts_with('-') && !flag.contains('=') && is_telling(flag)) {
        return HIDDEN.to_owned();
    }
    if let Some((name, value)) = text.split_once('=') {
        let name_is_variable = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        if !value.is_empty() && (name_is_variable || is_telling(name) || is_secret(value)) {
            return format!("{name}={HIDDEN}");
        }
    }
    if let Some((name, _)) = text.split_once(':')
        && is_telling(name)
        && !name.contains('/')
    {
        return format!("{name}: {HIDDEN}");
    }
    if text.contains("://") {
        return address(text);
    }
    if text.split(char::is_whitespace).any(is_secret) { HIDDEN.to_owned() } else { text.to_owned() }
}

/// A URL without its password, its query's values and what looks like a token in its path.
pub(crate) fn address(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let (rest, query) = match rest.split_once(['?', '#']) {
        Some((rest, _)) => (rest, format!("?{HIDDEN}")),
        None => (rest, String::new()),
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => rest.to_owned(),
    };
    let parts: Vec<_> = rest.split('/').map(|part| if is_secret(part) { HIDDEN } else { part }).collect();
    format!("{scheme}://{}{query}", parts.join("/"))
}

/// Whether a name sounds as if a secret followed.
fn is_telling(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [
        "key",
        "token",
        "secret",
        "passw",
        "pwd",
        "auth",
        "credential",
        "bearer",
        "header",
        "cookie",
        "connection",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// Whether a word looks like a secret: by how well-known ones begin, or by its look.
fn is_secret(word: &str) -> bool {
    const BEGINNINGS: [&str; 14] = [
        "sk-",
        "pk-",
        "sk_",
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xox",
        "AKIA",
        "AIza",
        "eyJ",
        "npm_",
        "hf_",
    ];
    if word.len() >= 12 && BEGINNINGS.iter().any(|beginning| word.starts_with(beginning)) {
        return true;
    }
    let is_uuid = word.len() == 36
        && word.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit());
    let has_long_mix = word.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| {
        run.len() >= 20
            && run.contains(|c: char| c.is_ascii_digit())
            && run.contains(|c: char| c.is_ascii_alphabetic())
    });
    is_uuid || has_long_mix
}

/// What stands between names and values: comments that may quote something are shortened.
fn without_comments(between: &str, format: Format) -> String {
    let (marks, ends): (&[&str], _) = match format {
        Format::Json => (&["//", "/*"], ["\n", "*/"]),
        Format::Yaml => (&["#"], ["\n", "\n"]),
    };
    let mut out = String::new();
    let mut rest = between;
    loop {
        let found = marks.iter().zip(ends).filter_map(|(mark, end)| Some((rest.find(mark)?, *mark, end)));
        let Some((at, mark, end)) = found.min_by_key(|(at, _, _)| *at) else {
            out.push_str(rest);
            return out;
        };
        let (before, comment) = rest.split_at(at + mark.len());
        let length = comment.find(end).unwrap_or(comment.len());
        let (words, after) = comment.split_at(length);
        out.push_str(before);
        let may_quote = words.contains(['"', '\'', '=', ':', '`']) || words.split_whitespace().any(is_secret);
        out.push_str(if may_quote { " …" } else { words });
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_environment_are_hidden_and_their_names_are_not() {
        let text = r#"{
  // "TOKEN": "hunter2" was here
  // plain words
  "oauth": {"access": "hunter2", "n": 3},
  "mcpServers": {
    "a": {"command": "npx", "args": ["-y", "x", "--api-key", "hunter2", "--token=hunter2", "PASS=hunter2"],
      "env": {"KEY": "hunter2", "N": 12345}, "headers": {"Authorization": "Bearer hunter2"}, "weird": ["hunter2"],
      "url": "https://me:hunter2@host/mcp?key=hunter2", "timeout": 5}
  }
}"#;
        let shown = masked(text, Format::Json, Shape::McpServers);
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!shown.contains("12345"), "{shown}");
        for kept in [
            "\"KEY\"",
            "\"Authorization\"",
            "// plain words",
            "\"-y\"",
            "\"--api-key\", \"***\"",
            "\"--token=***\"",
        ] {
            assert!(shown.contains(kept), "{kept} in {shown}");
        }
        assert!(shown.contains("\"https://***@host/mcp?***\""), "{shown}");
        assert_eq!(shown.lines().count(), text.lines().count());
    }

    #[test]
    fn yaml_is_masked_too() {
        let text = "GOOSE_PROVIDER: hunter2\nextensions:\n  a:\n    type: stdio # key: hunter2\n    cmd: uvx\n    args:\n    - --key\n    - hunter2\n    envs:\n      K: hunter2\n      L: |\n        hunter2\n    timeout: 300\n";
        let shown = masked(text, Format::Yaml, Shape::Extensions);
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(
            shown.contains("cmd: uvx") && shown.contains("timeout: 300") && shown.contains("K: "),
            "{shown}"
        );
    }

    #[test]
    fn what_looks_like_a_secret_is_hidden_among_arguments() {
        let shown = |words: &[&str]| {
            command_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).join(" ")
        };
        assert_eq!(shown(&["x", "ghp_abcdefghijkl"]), "x ***");
        assert_eq!(shown(&["x", "0b7e1c52-8f4c-4f0e-9d7e-3a2b1c0d9e8f"]), "x ***");
        assert_eq!(shown(&["x", "-H", "Authorization: Bearer abc"]), "x -H Authorization: ***");
        assert_eq!(shown(&["docker", "run", "-e", "A_B=c", "i"]), "docker run -e A_B=*** i");
        let plain =
            ["npx", "-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "/home/me/a.b", "--port=80"];
        assert_eq!(shown(&plain), plain.join(" "));
    }
}
