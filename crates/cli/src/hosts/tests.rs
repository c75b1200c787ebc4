//! Every host's file, there and back again.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::edit::{Change, Document, Edited};
use super::entry::{Entry, Kind};
use super::host::Host;
use super::mask;
use super::shape::Shape;
use super::tree::Format;

const PROGRAM: &str = "/opt/taskgate/bin/taskgate";

const FIXTURES: [(Host, &str); 7] = [
    (Host::ClaudeDesktop, include_str!("fixtures/claude_desktop_config.json")),
    (Host::ClaudeCode, include_str!("fixtures/claude.json")),
    (Host::VsCode, include_str!("fixtures/vscode.json")),
    (Host::Cursor, include_str!("fixtures/cursor.json")),
    (Host::Zed, include_str!("fixtures/zed.json")),
    (Host::Goose, include_str!("fixtures/goose.yaml")),
    (Host::OpenCode, include_str!("fixtures/opencode.jsonc")),
];

fn document(host: Host, text: &str) -> Document {
    let format = if host == Host::Goose { Format::Yaml } else { Format::Json };
    Document { format, shape: host.shape(), host: Some(host), text: text.to_owned() }
}

fn fixture(host: Host) -> Document {
    let (_, text) = FIXTURES.into_iter().find(|(other, _)| *other == host).unwrap();
    document(host, text)
}

fn wrap(document: &Document) -> Edited {
    document.change(Change::Wrap { program: PROGRAM }, Path::new(PROGRAM), |_| true)
}

fn unwrap(document: &Document) -> Edited {
    document.change(Change::Unwrap, Path::new(PROGRAM), |_| true)
}

fn with(document: &Document, text: String) -> Document {
    Document { text, ..document.clone() }
}

fn entries(document: &Document) -> Vec<Entry> {
    document.entries(Path::new(PROGRAM)).unwrap()
}

/// The command lines of the entries that the host starts, and of those that are behind taskgate.
fn command_lines(document: &Document) -> (Vec<String>, Vec<String>) {
    let (mut local, mut behind) = (Vec::new(), Vec::new());
    for entry in entries(document) {
        match entry.kind {
            Kind::Local(launch) => local.push(launch.argv.join(" ")),
            Kind::Behind(launch) => behind.push(launch.argv.join(" ")),
            Kind::Remote(_) | Kind::Apart(_) => {}
        }
    }
    (local, behind)
}

fn comes_back(document: &Document) {
    let (local, behind) = command_lines(document);
    assert!(behind.is_empty());
    let wrapped = wrap(document);
    assert_eq!(wrapped.left, [], "{}", document.text);
    assert_eq!(wrapped.changed.len(), local.len());
    let wrapped = with(document, wrapped.text);
    let (still_local, behind) = command_lines(&wrapped);
    assert!(still_local.is_empty());
    let expected: Vec<_> = local.iter().map(|line| format!("{PROGRAM} run -- {line}")).collect();
    assert_eq!(behind, expected, "{}", wrapped.text);
    // A second time changes nothing.
    assert_eq!(wrap(&wrapped).text, wrapped.text);
    let back = unwrap(&wrapped);
    assert_eq!(back.left, []);
    assert_eq!(back.text, document.text);
}

#[test]
fn every_hosts_file_comes_back_byte_by_byte() {
    for (host, text) in FIXTURES {
        comes_back(&document(host, text));
        comes_back(&document(host, text.trim_end()));
        comes_back(&document(host, &text.replace('\n', "\r\n")));
        if host != Host::Goose {
            comes_back(&document(host, &text.replace("  ", "\t")));
        }
    }
}

#[test]
fn json_on_one_line_comes_back_byte_by_byte() {
    for host in [Host::ClaudeDesktop, Host::ClaudeCode, Host::Cursor] {
        let value: serde_json::Value = serde_json::from_str(&fixture(host).text).unwrap();
        comes_back(&document(host, &value.to_string()));
    }
}

#[test]
fn each_host_is_edited_as_it_is_written() {
    for (host, _) in FIXTURES {
        let document = fixture(host);
        let shown: String = super::diff::lines(&document.text, &wrap(&document).text)
            .into_iter()
            .map(|(_, line)| line + "\n")
            .collect();
        insta::assert_snapshot!(format!("edit_{}", host.title().replace(' ', "_").to_lowercase()), shown);
    }
}

#[test]
fn what_is_shown_holds_no_secret() {
    for (host, _) in FIXTURES {
        let document = fixture(host);
        for text in [&document.text, &wrap(&document).text] {
            let shown = mask::masked(text, document.format, document.shape);
            assert!(!shown.contains("s3cr3t"), "{shown}");
            // An edit must be as visible as it is.
            assert_eq!(shown.lines().count(), text.lines().count());
        }
        assert!(!super::blind::without_values(&document.text, document.format).contains("s3cr3t"));
    }
}

#[test]
fn servers_that_are_none_of_ours_are_left_alone_with_a_reason() {
    let reasons = |host| {
        let entries = entries(&fixture(host)).into_iter();
        let reasons = entries.filter_map(|entry| match entry.kind {
            Kind::Apart(why) => Some(format!("{}: {why}", entry.name)),
            Kind::Remote(url) => Some(format!("{}: {url}", entry.name)),
            Kind::Local(_) | Kind::Behind(_) => None,
        });
        reasons.collect::<Vec<_>>()
    };
    assert_eq!(
        reasons(Host::VsCode),
        [
            "boxed: VS Code runs it in a sandbox, and taskgate would start it outside",
            "debugged: VS Code starts it under a debugger",
            "remote: https://api.example.com/mcp?key=s3cr3t"
        ]
    );
    assert_eq!(
        reasons(Host::Zed),
        [
            "mcp-server-github: an extension of Zed starts it",
            "away: Zed starts it on another machine",
            "web: https://example.com/mcp"
        ]
    );
    let goose = reasons(Host::Goose);
    assert!(goose[0].starts_with("developer: goose runs it itself"), "{goose:?}");
    assert!(goose[1].starts_with("flow: its command is several words"), "{goose:?}");
    assert_eq!(goose[2], "remote: https://example.com/mcp");
    assert_eq!(reasons(Host::OpenCode)[1], "override: it has neither a command nor a URL");
}

#[test]
fn a_time_limit_below_ours_is_noted() {
    for (host, name, limit) in [
        (Host::Goose, "github", 30),
        (Host::Zed, "flat", 20),
        (Host::OpenCode, "lines", 5),
        (Host::ClaudeCode, "db", 30),
    ] {
        let entry = entries(&fixture(host)).into_iter().find(|entry| entry.name == name).unwrap();
        assert!(entry.note.unwrap().contains(&format!("after {limit} s")), "{name}");
    }
    assert!(entries(&fixture(Host::Cursor)).iter().all(|entry| entry.note.is_none()));
}

#[test]
fn later_changes_stay_when_taskgate_is_taken_out() {
    let document = fixture(Host::Cursor);
    let changed = wrap(&document).text.replace("\"--\", \"npx\"", "\"--name\", \"x\", \"--\", \"npx\"");
    let changed =
        changed.replace("mcp-server", "other-server").replace("    }\n}", "    },\n    \"new\": 1\n}");
    let expected =
        document.text.replace("mcp-server", "other-server").replace("    }\n}", "    },\n    \"new\": 1\n}");
    assert_eq!(unwrap(&with(&document, changed)).text, expected);
}

#[test]
fn what_a_formatter_did_is_undone_to_the_same_meaning() {
    let before = r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y","args":[]}}}"#;
    let document = document(Host::Cursor, before);
    let value: serde_json::Value = serde_json::from_str(&wrap(&document).text).unwrap();
    let formatted = serde_json::to_string_pretty(&value).unwrap();
    let back = unwrap(&with(&document, formatted));
    assert_eq!(back.changed.len(), 2);
    assert_eq!(command_lines(&with(&document, back.text)).0, ["x", "y"]);

    let goose = "extensions:\n  a:\n    type: stdio\n    cmd: /o/taskgate\n    args:\n    - run\n    - --\n    - server\n    timeout: 300\n";
    let back = unwrap(&self::document(Host::Goose, goose));
    assert_eq!(
        back.text,
        "extensions:\n  a:\n    type: stdio\n    cmd: server\n    args: []\n    timeout: 300\n"
    );
}

#[test]
fn taskgate_by_any_path_and_with_any_flags_is_taken_out() {
    let text = r#"{"mcpServers": {"a": {"command": "taskgate", "args": ["run", "--foreground", "--", "npx", "x"]}}}"#;
    let back = unwrap(&document(Host::Cursor, text));
    assert_eq!(back.text, r#"{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}"#);
    let configured =
        r#"{"mcpServers": {"a": {"command": "taskgate", "args": ["run", "--config", "f", "--name", "a"]}}}"#;
    let back = unwrap(&document(Host::Cursor, configured));
    assert_eq!(back.text, configured);
    assert!(back.left[0].2.contains("no command after"), "{:?}", back.left);
}

#[test]
fn what_cannot_be_edited_safely_is_left_alone() {
    for text in [
        // Shared with another place.
        "extensions:\n  a: &a\n    type: stdio\n    cmd: x\n    args: []\n  b: *a\n",
        "extensions:\n  a:\n    type: stdio\n    cmd: x\n    args: &l [y]\n",
        // Over several lines.
        "extensions:\n  a:\n    type: stdio\n    cmd: >\n      x\n    args: []\n",
        // Would end the list that it is moved into.
        "extensions:\n  a:\n    type: stdio\n    cmd: a],b\n    args: []\n",
        // goose needs `args`.
        "extensions:\n  a:\n    type: stdio\n    cmd: x\n",
    ] {
        let document = document(Host::Goose, text);
        let edited = wrap(&document);
        assert_eq!(edited.text, text);
        let is_apart = entries(&document).iter().any(|entry| matches!(entry.kind, Kind::Apart(_)));
        assert!(is_apart || !edited.left.is_empty(), "{text}");
    }
    let tilde = r#"{"mcpServers": {"a": {"command": "~/server"}}}"#;
    assert_eq!(wrap(&document(Host::Cursor, tilde)).text, tilde);
    let twice = r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#;
    assert_eq!(wrap(&document(Host::Cursor, twice)).text, twice);
}

#[test]
fn a_wrong_shape_is_told_with_its_place() {
    for (text, what, at) in [
        (r#"{"mcpServers": []}"#, "an object with one member for each was expected, found a list", 15),
        (r#"{"mcpServers": {"a": 1}}"#, "server \"a\": an object was expected, found a number", 21),
        (r#"{"mcpServers": {"a": {"command": 1}}}"#, "\"command\" names a program: a text was expected", 33),
        (
            r#"{"mcpServers": {"a": {"command": "x", "args": "y"}}}"#,
            "\"args\": a list of texts was expected",
            46,
        ),
        (r#"{"mcpServers": {"a": {"command": "x", "args": ["y", 2]}}}"#, "\"args\" holds texts only", 52),
        (r#"{"mcpServers": {"a": {"command": "x", "command": "y"}}}"#, "\"command\" stands here twice", 38),
    ] {
        let problems = document(Host::Cursor, text).entries(Path::new(PROGRAM)).unwrap_err();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].what.contains(what), "{}", problems[0].what);
        assert_eq!(problems[0].at.as_ref().map(|at| at.start), Some(at), "{text}");
    }
}

#[test]
fn a_kind_of_file_is_told_by_its_content() {
    for (host, text) in FIXTURES {
        let format = Format::of(&PathBuf::from("unknown"), text);
        let root = format.parse(text).unwrap();
        let expected = if host == Host::ClaudeCode { Shape::McpServers } else { host.shape() };
        assert_eq!(Shape::of(&root), Some(expected));
    }
}

/// White space and comments between two parts of JSON.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        4 => Just(" ".to_owned()),
        2 => Just("\n    ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" /* ] } , \" */ ".to_owned()),
        1 => Just(" // ] } , \"\n  ".to_owned()),
    ]
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("npx".to_owned()),
        Just("-y".to_owned()),
        Just("--".to_owned()),
        Just("run".to_owned()),
        Just("ä\"\\ ]}".to_owned()),
        "[a-z]{1,6}"
    ]
}

/// A list, with gaps wherever there may be some.
fn list() -> impl Strategy<Value = String> {
    (prop::collection::vec((gap(), word(), gap()), 0..4), gap(), any::<bool>()).prop_map(
        |(items, end, comma)| {
            let has_comma = comma && !items.is_empty();
            let items: Vec<_> = items
                .into_iter()
                .map(|(before, word, after)| format!("{before}{}{after}", super::json::literal(&word)))
                .collect();
            format!("[{}{}{end}]", items.join(","), if has_comma { "," } else { "" })
        },
    )
}

/// An entry: the program, arguments before or behind it or none, and other members.
fn entry() -> impl Strategy<Value = String> {
    (prop::collection::vec(gap(), 8), "[a-z/]{1,8}", prop::option::of(list()), any::<bool>(), any::<bool>())
        .prop_map(|(gaps, program, args, args_first, has_comma)| {
            let mut members = vec![format!("{}\"command\"{}:{}\"{program}\"", gaps[0], gaps[1], gaps[2])];
            if let Some(args) = args {
                let args = format!("{}\"args\"{}:{}{args}", gaps[3], gaps[4], gaps[5]);
                members.insert(usize::from(!args_first), args);
            }
            members.push(format!("{}\"env\": {{\"K\": \"v\"}}", gaps[6]));
            let comma = if has_comma { "," } else { "" };
            format!("{{{}{comma}{}}}", members.join(","), gaps[7])
        })
}

proptest! {
    #[test]
    fn json_in_any_formatting_comes_back_byte_by_byte(entries in prop::collection::vec(entry(), 1..4), mark in gap()) {
        let members: Vec<_> =
            entries.iter().enumerate().map(|(at, entry)| format!("\"s{at}\":{mark}{entry}")).collect();
        comes_back(&document(Host::Cursor, &format!("{mark}{{\"mcpServers\":{{{}}}}}{mark}", members.join(","))));
    }

    #[test]
    fn opencode_in_any_formatting_comes_back_byte_by_byte(list in list(), mark in gap()) {
        let text = format!("{{\"mcp\":{mark}{{\"a\":{{\"type\":\"local\",{mark}\"command\":{list}}}}}}}");
        let document = document(Host::OpenCode, &text);
        // An empty or blank command is none that could be put behind anything.
        let is_local = entries(&document).iter().all(|entry| matches!(entry.kind, Kind::Local(_)));
        if !is_local {
            return Ok(());
        }
        comes_back(&document);
    }

    #[test]
    fn yaml_in_any_formatting_is_left_alone_or_comes_back_byte_by_byte(
        program in "[a-z/]{1,8}|'it''s'|\"a\\\\tb\"|a,b|x #y|ä",
        items in prop::collection::vec("[a-z]{1,5}|--[a-z]{1,3}|'x: y'|\"8080\"|ö  # c", 0..4),
        indent in 0_usize..3,
        is_flow in any::<bool>(),
        end in "\n|\r\n",
        args_first in any::<bool>(),
    ) {
        let args = if is_flow || items.is_empty() {
            let items: Vec<_> = items.iter().map(|item| item.trim_end_matches("  # c")).collect();
            format!("    args: [{}]\n", items.join(", "))
        } else {
            let pad = " ".repeat(4 + indent);
            items.iter().fold("    args:\n".to_owned(), |text, item| format!("{text}{pad}- {item}\n"))
        };
        let cmd = format!("    cmd: {program}\n");
        let (first, second) = if args_first { (args, cmd) } else { (cmd, args) };
        let text = format!("# ä\nextensions:\n  s:\n    type: stdio\n{first}{second}    envs:\n      K: v\n");
        let text = text.replace('\n', &end);
        let document = document(Host::Goose, &text);
        let wrapped = wrap(&document);
        if wrapped.changed.is_empty() {
            prop_assert_eq!(wrapped.text, text);
        } else {
            let back = unwrap(&with(&document, wrapped.text));
            prop_assert_eq!(back.text, text);
        }
    }

    #[test]
    fn no_text_is_too_strange_to_be_read(text in "\\PC{0,60}|[\\[\\]{}:,\"a/*\\n -]{0,40}") {
        for host in [Host::Cursor, Host::Goose] {
            let document = document(host, &text);
            let edited = wrap(&document);
            prop_assert_eq!(edited.changed.len(), 0);
            let _ = mask::masked(&text, document.format, document.shape);
            prop_assert_eq!(super::blind::without_values(&text, document.format).len(), text.len());
        }
    }
}
