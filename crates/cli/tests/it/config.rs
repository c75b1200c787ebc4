//! What is told about a configuration that cannot be used, and about one that can.

use insta::assert_snapshot;

use crate::support::{folder, run_in, said, taskgate};

fn check(text: &str) -> String {
    let folder = folder(&[("taskgate.toml", text)]);
    said(&run_in(folder.path(), &["config", "check", "taskgate.toml"]))
}

#[test]
fn unknown_keys_are_told_all_at_once_with_what_was_meant() {
    assert_snapshot!(check(
        r#"[listen]
adress = "127.0.0.1:1"

[limits]
sync-budget = "45s"
colour = "red"

[servers.files]
command = "files"
[servers.files.tools.read]
efect = "read_only"

[server.other]
command = "other"
"#
    ));
}

#[test]
fn a_value_of_the_wrong_kind_is_told_what_fits() {
    assert_snapshot!(check("[limits]\nsync_budget = 45\n[servers.a]\ncommand = \"a\"\n"));
    assert_snapshot!(check("[limits]\nmessage_from_client = \"4MB\"\n[servers.a]\ncommand = \"a\"\n"));
    assert_snapshot!(check("[servers.a]\ncommand = \"a\"\n[servers.a.default]\neffect = \"readonly\"\n"));
    // In words that a reader of the file knows, and with no advice that does not fit.
    for (value, expected) in [
        ("[limits]\nrunning = \"64\"", "a text, expected a whole number"),
        ("[servers.a]\nshared = 1", "expected true or false"),
        ("[servers.a]\nargs = 1", "expected a list, such as"),
        ("[servers.a]\ncommand = 1", "expected a text in quotes"),
        ("[servers.a]\nenv = 1", "expected a table, such as"),
    ] {
        let told = check(&format!("{value}\n"));
        let told = told.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert!(told.contains(expected) && !told.contains("unit"), "{expected}: {told}");
    }
}

#[test]
fn what_is_no_toml_is_told_where() {
    assert_snapshot!(check("[servers.a]\ncommand = \"a\n"));
}

#[test]
fn an_address_that_others_reach_is_refused() {
    assert_snapshot!(check("[listen]\naddress = \"0.0.0.0:7420\"\n[servers.a]\ncommand = \"a\"\n"));
}

#[test]
fn names_and_paths_that_could_never_fit_are_told() {
    assert_snapshot!(check(
        r#"[listen]
allowed_hosts = ["gateway.example", "https://gateway.example"]
allowed_origins = ["app.example", "https://app.example/", "https://app.example/page"]
[servers.a]
command = "a"
path = "/healthz"
[servers.b]
command = "b"
path = "b"
"#
    ));
}

#[test]
fn servers_that_cannot_be_are_told_one_by_one() {
    assert_snapshot!(check(
        r#"[servers.nothing]

[servers.both]
command = "a"
url = "http://localhost/mcp"

[servers.mixed]
url = "ftp://example.com"
args = ["-v"]

[servers.secret]
command = "a"
cwd = "/does/not/exist"
env.TOKEN = "${TASKGATE_TEST_UNSET}"

[servers.keyed]
command = "a"
[servers.keyed.tools.pay]
replay = "keyed"
[servers.keyed.tools.read]
replay_window = "1h"

[servers.one]
command = "a"
path = "/same"
[servers.two]
command = "a"
path = "/same"
"#
    ));
}

#[test]
fn limits_that_contradict_each_other_are_told() {
    assert_snapshot!(check(
        r#"[limits]
ttl = "30d"
deadline = "30d"
poll_floor = "20s"
live_tasks = 0
keep_alive = "1ms"
ttl_max = "8d"
evidence = "2d"
lookups_system = 0
reconcile_time = "0s"
[servers.a]
command = "a"
"#
    ));
}

#[test]
fn a_limit_that_was_not_written_gives_way_to_a_smaller_bound() {
    let text = "[limits]\nevidence = \"1d\"\nttl_max = \"10m\"\npoll_ceiling = \"100ms\"\n[servers.a]\ncommand = \"a\"\n";
    assert!(check(text).starts_with("exit 0"), "{}", check(text));
}

#[test]
fn a_file_without_servers_is_told_what_is_missing() {
    assert_snapshot!(check("[limits]\n"));
}

#[test]
fn a_missing_file_is_told() {
    let folder = folder(&[]);
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "taskgate.toml"])));
}

#[test]
fn an_mcp_json_is_read_with_everything_else_by_default() {
    let text = r#"{ "mcpServers": {
        "files": { "command": "npx", "args": ["-y", "files"], "env": { "A": "b" } },
        "My Server": { "type": "http", "url": "https://example.com/mcp" }
    } }"#;
    let folder = folder(&[("mcp.json", text)]);
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "--mcp-json", "mcp.json"])));
}

#[test]
fn an_mcp_json_is_pointed_into_too() {
    let text = r#"{
  "mcpServers": {
    "old": { "type": "sse", "url": "https://example.com/sse" },
    "number": { "command": 5 }
  }
}
"#;
    let folder = folder(&[("mcp.json", text)]);
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "--mcp-json", "mcp.json"])));
    let text = r#"{
  "mcpServers": {
    "nothing": { "args": [] },
    "secret": {
      "url": "https://example.com/mcp",
      "headers": { "Authorization": "Bearer ${TASKGATE_TEST_UNSET}" }
    }
  }
}
"#;
    std::fs::write(folder.path().join("mcp.json"), text).unwrap();
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "--mcp-json", "mcp.json"])));
    std::fs::write(folder.path().join("mcp.json"), "{ \"mcpServers\": { \"a\": } }\n").unwrap();
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "--mcp-json", "mcp.json"])));
}

#[test]
fn a_toml_file_adds_to_the_servers_of_an_mcp_json() {
    let json = r#"{ "mcpServers": { "files": { "command": "npx" }, "twice": { "command": "x" } } }"#;
    let toml = "mcp_json = \"mcp.json\"\n[servers.files.default]\neffect = \"read_only\"\n";
    let folder = folder(&[("mcp.json", json), ("good.toml", toml)]);
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "good.toml"])));
    let toml = "mcp_json = \"mcp.json\"\n[servers.twice]\ncommand = \"y\"\n";
    std::fs::write(folder.path().join("twice.toml"), toml).unwrap();
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "twice.toml"])));
    std::fs::write(folder.path().join("gone.toml"), "mcp_json = \"gone.json\"\n").unwrap();
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "gone.toml"])));
}

#[test]
fn problems_are_data_with_json() {
    let folder = folder(&[("taskgate.toml", "[limits]\nttl = \"8d\"\n[servers.a]\n")]);
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "--json", "taskgate.toml"])));
}

#[test]
fn the_environment_is_put_in() {
    let folder = folder(&[(
        "taskgate.toml",
        "[servers.a]\nurl = \"${URL_X}\"\nheaders.authorization = \"${TOKEN_X}\"\n",
    )]);
    let mut command = taskgate(&["config", "check", "taskgate.toml"]);
    command.current_dir(folder.path()).env("URL_X", "https://example.com/mcp").env("TOKEN_X", "s3cret");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn a_secret_that_does_not_fit_is_not_repeated() {
    let folder =
        folder(&[("taskgate.toml", "[servers.a]\nurl = \"http://a/\"\nheaders.key = \"${TOKEN_X}\"\n")]);
    let mut command = taskgate(&["config", "check", "taskgate.toml"]);
    command.current_dir(folder.path()).env("TOKEN_X", "hunter2\nhunter2");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(!said(&output).contains("hunter2"), "{}", said(&output));
}

/// Where something is wrong its line is shown, and the lines around it: no secret that stands there may be.
#[test]
fn a_secret_that_is_written_in_the_file_is_not_shown_beside_what_is_wrong() {
    let workflow = "[servers.a]\nurl = \"http://a/\"\n[workflows.w]\nserver = \"a\"\ntools = [\"t\"]\n";
    for wrong in [
        "[servers.a]\nheaders = { A = \"Bearer hunter2\" }\nurll = \"http://a/\"\n".to_owned(),
        "[servers.a]\nurl = \"http://a/\"\nheaders = { A = \"Bearer hunter2\" \"x\" }\n".to_owned(),
        "[servers.a]\nurl = \"http://a/\"\nheaders = \"Bearer hunter2\"\n".to_owned(),
        "[servers.a]\nurl = \"ftp://me:hunter2@a/?hunter2\"\n".to_owned(),
        "[servers.a]\ncommand = \"\"\nargs = [\"--token\", \"hunter2\"]\n".to_owned(),
        format!("{workflow}webhook = {{ url = \"http://hooks/T/hunter2\", headers.X = \"hunter2\\n\" }}\n"),
        format!(
            "{workflow}[workflows.w.receipt]\nwhen = \"data.k == key\"\nreference = \"data.r\"\nissued_by = \"signature\"\n\
             signature = {{ algorithm = \"hmac_sha256\", secret = \"hunter2\", over = \"data.o\", given = \"data.s\" }}\n"
        ),
    ] {
        let said = check(&wrong);
        assert!(said.starts_with("exit 3") && said.contains("taskgate.toml:"), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
    let folder =
        folder(&[("mcp.json", "{\"mcpServers\": {\"a\": {\"env\": {\"PIN\": \"hunter2\"}, \"url\": 5}}}")]);
    let said = said(&run_in(folder.path(), &["config", "check", "--mcp-json", "mcp.json"]));
    assert!(said.starts_with("exit 3") && !said.contains("hunter2"), "{said}");
}
