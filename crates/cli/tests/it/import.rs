//! Hosts' configurations as a person imports them: shown, written, undone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{said, taskgate};

const CURSOR: &str = r#"{
  "mcpServers": {
    "files": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/me"],
      "env": { "API_KEY": "hunter2-of-files" }
    },
    "paused": { "command": "python", "args": ["server.py", "--token", "hunter2"], "disabled": true },
    "web": { "url": "https://me:hunter2@example.com/mcp", "headers": { "Authorization": "Bearer hunter2" } }
  }
}
"#;

const GOOSE: &str = "extensions:
  developer:
    type: builtin
    enabled: true
  tickets:
    enabled: true
    type: stdio
    cmd: uvx
    args:
    - tickets-mcp
    envs:
      TICKETS_TOKEN: hunter2
    timeout: 30
";

const OPENCODE: &str = r#"{
  // mine
  "mcp": { "everything": { "type": "local", "command": ["npx", "-y", "server-everything"], }, },
}"#;

/// A home with a project in it.
struct Home {
    folder: TempDir,
}

impl Home {
    fn new(files: &[(&str, &str)]) -> Home {
        let home = Home { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(home.path().join("project")).unwrap();
        for (name, text) in files {
            home.write(name, text);
        }
        home
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        let file = self.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = taskgate(args);
        command.env("HOME", self.path()).env("XDG_CONFIG_HOME", self.path().join("config"));
        command.current_dir(self.path().join("project")).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// All that is said, with the places that differ from run to run replaced.
    fn said(&self, args: &[&str]) -> String {
        self.shown(&self.run(args))
    }

    fn shown(&self, output: &Output) -> String {
        let real = fs::canonicalize(self.path()).unwrap();
        said(output)
            .replace(env!("CARGO_BIN_EXE_taskgate"), "/BIN/taskgate")
            .replace(real.to_str().unwrap(), "/HOME")
            .replace(self.path().to_str().unwrap(), "/HOME")
    }

    /// Every file below the home, with its content.
    fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.path()).unwrap().to_string_lossy().into_owned();
                    files.push((name, fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    }
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn without_a_file_the_known_hosts_are_shown_and_nothing_is_written() {
    let home = Home::new(&[
        (".cursor/mcp.json", CURSOR),
        ("config/goose/config.yaml", GOOSE),
        ("config/zed/settings.json", "{ \"theme\": \"One\" }"),
        ("project/opencode.jsonc", OPENCODE),
    ]);
    let before = home.files();
    let said = home.said(&["import"]);
    assert!(!said.contains("hunter2"), "{said}");
    assert_snapshot!(said);
    assert_eq!(home.files(), before);
}

#[test]
fn a_list_shows_no_edit() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    assert_snapshot!(home.said(&["import", "--list"]));
}

#[test]
fn what_is_found_is_data_with_json() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    let output = home.run(&["import", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("hunter2"), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    let file = &report["files"][0];
    assert_eq!((file["host"].as_str(), file["written"].as_bool()), (Some("cursor"), Some(false)));
    assert_eq!(file["servers"][0]["kind"], "local");
    assert_eq!(file["servers"][0]["edit"], true);
    assert_eq!(file["servers"][1]["command"][3], "***");
    assert_eq!(file["servers"][1]["disabled"], true);
    assert_eq!(file["servers"][2]["url"], "https://***@example.com/mcp");
    assert!(file["diff"].as_str().unwrap().contains("+      \"args\": [\"run\", \"--\", \"npx\""));
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn an_import_is_written_with_a_backup_and_undone_to_the_same_bytes() {
    for mark in ["", "\u{FEFF}"] {
        let (cursor, goose) = (format!("{mark}{CURSOR}"), GOOSE.replace('\n', "\r\n"));
        let home = Home::new(&[
            (".cursor/mcp.json", cursor.as_str()),
            ("config/goose/config.yaml", &goose),
            ("project/opencode.jsonc", OPENCODE),
        ]);
        let before = home.files();
        let written = home.run(&["import", "--write"]);
        assert_eq!(code(&written), Some(0), "{}", home.shown(&written));
        assert_eq!(home.read(".cursor/mcp.json.taskgate-backup"), cursor);
        let again = home.run(&["import", "--write"]);
        assert!(home.shown(&again).contains("there is nothing to do"), "{}", home.shown(&again));
        let undone = home.run(&["import", "--undo"]);
        assert_eq!(code(&undone), Some(0), "{}", home.shown(&undone));
        assert_eq!(home.files(), before);
        assert!(home.said(&["import", "--undo"]).contains("there is nothing to undo"));
    }
}

#[test]
fn it_is_said_what_was_written_and_what_to_do_next() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    assert_snapshot!(home.said(&["import", "--host", "cursor", "--server", "files", "--write"]));
    assert_snapshot!(home.said(&["import", "--list"]));
    assert_snapshot!(home.said(&["import", "--undo"]));
}

#[test]
fn later_changes_stay_and_so_does_the_backup() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    home.run(&["import", "--write"]);
    let changed = home.read(".cursor/mcp.json").replace("/home/me", "/home/you");
    home.write(".cursor/mcp.json", &changed);
    home.run(&["import", "--undo"]);
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR.replace("/home/me", "/home/you"));
    assert_eq!(home.read(".cursor/mcp.json.taskgate-backup"), CURSOR);
    assert_eq!(home.read(".cursor/mcp.json.taskgate-backup-2"), changed);
}

#[test]
fn a_named_file_is_told_by_its_content_and_followed_over_a_link() {
    let home = Home::new(&[("dotfiles/servers.json", CURSOR)]);
    symlink(home.path().join("dotfiles/servers.json"), home.path().join("project/mcp.json")).unwrap();
    fs::set_permissions(home.path().join("dotfiles/servers.json"), fs::Permissions::from_mode(0o600))
        .unwrap();
    let output = home.run(&["import", "mcp.json", "--write"]);
    assert_eq!(code(&output), Some(0), "{}", home.shown(&output));
    assert!(fs::symlink_metadata(home.path().join("project/mcp.json")).unwrap().is_symlink());
    for file in ["dotfiles/servers.json", "dotfiles/servers.json.taskgate-backup"] {
        let mode = fs::metadata(home.path().join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
}

#[test]
fn a_program_and_its_arguments_are_what_they_were_behind_taskgate() {
    let home = Home::new(&[]);
    let server = home.path().join("bin/server");
    home.write(
        "mcp.json",
        &format!("{{\"mcpServers\": {{\"a\": {{\"command\": {server:?}, \"args\": [\"b c\"]}}}}}}"),
    );
    let file = home.path().join("mcp.json");
    home.run(&["import", file.to_str().unwrap(), "--write"]);
    let value: Value = serde_json::from_str(&home.read("mcp.json")).unwrap();
    let entry = &value["mcpServers"]["a"];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_taskgate"));
    let args: Vec<_> = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args, ["run", "--", server.to_str().unwrap(), "b c"]);
}

#[test]
fn the_name_alone_is_used_where_a_terminal_or_others_read_it_and_the_path_leads_there() {
    let home = Home::new(&[
        (".claude.json", CURSOR),
        (".cursor/mcp.json", CURSOR),
        ("project/.cursor/mcp.json", CURSOR),
    ]);
    let folder = Path::new(env!("CARGO_BIN_EXE_taskgate")).parent().unwrap();
    let output = home.command(&["import", "--write"]).env("PATH", folder).output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", home.shown(&output));
    let command = |file: &str| {
        let value: Value = serde_json::from_str(&home.read(file)).unwrap();
        value["mcpServers"]["files"]["command"].as_str().unwrap().to_owned()
    };
    assert_eq!(command(".claude.json"), "taskgate");
    assert_eq!(command("project/.cursor/mcp.json"), "taskgate");
    assert_eq!(command(".cursor/mcp.json"), env!("CARGO_BIN_EXE_taskgate"));
}

#[test]
fn one_file_that_cannot_be_read_keeps_all_from_being_written() {
    let home = Home::new(&[
        (".cursor/mcp.json", CURSOR),
        (
            "config/zed/settings.json",
            "{\n  \"context_servers\": {\n    \"a\": { \"command\": \"hunter2\" \"args\": [] }\n  }\n}\n",
        ),
    ]);
    let before = home.files();
    let output = home.run(&["import", "--write"]);
    assert_eq!(code(&output), Some(3));
    assert_snapshot!(home.shown(&output).split_once("--- stderr").unwrap().1.to_owned());
    assert_eq!(home.files(), before);
    assert_eq!(code(&home.run(&["import", "--write", "--host", "cursor"])), Some(0));
}

#[test]
fn a_file_that_cannot_be_used_is_told_with_its_place() {
    let home = Home::new(&[
        ("project/empty.json", " \n"),
        ("project/none.json", "{ \"servers\": {} }"),
        ("project/other.json", "{ \"a\": 1 }"),
        ("project/list.json", "[1]"),
        (
            "project/shape.json",
            "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\", \"args\": \"y hunter2\" },\n    \"b\": { \"command\": 7, \"env\": { \"K\": \"hunter2\" } }\n  }\n}\n",
        ),
        ("project/broken.yaml", "extensions:\n  a:\n    envs:\n      K: hunter2\n    args: [x\n    cmd: y\n"),
    ]);
    fs::write(home.path().join("project/bytes.json"), b"{\"a\": \"\xff\"}").unwrap();
    let mut all = String::new();
    for file in [
        "gone.json",
        "empty.json",
        "none.json",
        "other.json",
        "list.json",
        "shape.json",
        "broken.yaml",
        "bytes.json",
        ".",
    ] {
        all.push_str(&format!("## {file}\n{}", home.said(&["import", file])));
    }
    assert!(!all.contains("hunter2"), "{all}");
    assert_snapshot!(all);
}

#[test]
fn problems_are_data_with_json_too() {
    let home = Home::new(&[("project/mcp.json", "{\n \"mcpServers\": {\"a\": {\"command\": 7}}}")]);
    let output = home.run(&["import", "mcp.json", "--json"]);
    assert_eq!(code(&output), Some(3));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["problems"][0]["line"], 2);
    assert_eq!(report["problems"][0]["column"], 34);
}

#[test]
fn a_file_of_another_host_is_told_from_the_one_that_was_named() {
    let home =
        Home::new(&[("project/settings.json", "{ \"context_servers\": { \"a\": { \"command\": \"x\" } } }")]);
    assert_snapshot!(home.said(&["import", "settings.json", "--host", "cursor"]));
    let output = home.run(&["import", "settings.json", "--host", "zed", "--write"]);
    assert_eq!(code(&output), Some(0), "{}", home.shown(&output));
}

#[test]
fn a_file_in_another_hosts_place_is_not_taken_for_the_named_hosts() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    let file = home.path().join(".cursor/mcp.json");
    let output = home.run(&["import", file.to_str().unwrap(), "--host", "claude-desktop", "--write"]);
    assert_eq!(code(&output), Some(2), "{}", home.shown(&output));
    assert!(
        home.shown(&output).contains("a file of Cursor, not of Claude Desktop"),
        "{}",
        home.shown(&output)
    );
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
}

#[test]
fn claude_code_is_to_be_quit_before_its_own_file_is_written() {
    let home = Home::new(&[(".claude.json", CURSOR), ("project/.mcp.json", CURSOR)]);
    let said = home.said(&["import"]);
    assert_eq!(said.matches("Claude Code writes this file too").count(), 1, "{said}");
}

#[test]
fn what_cannot_be_taken_out_is_told() {
    let home = Home::new(&[(
        "project/.mcp.json",
        r#"{"mcpServers": {"a": {"command": "taskgate", "args": ["run", "--config", "f", "--name", "a"]}}}"#,
    )]);
    let said = home.said(&["import", "--undo"]);
    assert!(said.contains("left alone: there is no command after `--`"), "{said}");
    assert!(said.contains("nothing was changed; the reasons are above"), "{said}");
}

#[test]
fn a_server_that_is_not_there_is_told_with_those_that_are() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    assert_snapshot!(home.said(&["import", "--server", "fils", "--write"]));
}

#[test]
fn with_no_host_at_all_it_says_so() {
    let home = Home::new(&[]);
    assert_snapshot!(home.said(&["import"]));
}

#[test]
fn a_folder_that_cannot_be_written_leaves_the_file_alone() {
    let home = Home::new(&[(".cursor/mcp.json", CURSOR)]);
    let folder = home.path().join(".cursor");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(folder.join("probe"), "").is_ok() {
        // To root no folder is closed.
        return;
    }
    let output = home.run(&["import", "--write"]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(code(&output), Some(1), "{}", home.shown(&output));
    assert!(home.shown(&output).contains("was not written"), "{}", home.shown(&output));
    assert_eq!(home.read(".cursor/mcp.json"), CURSOR);
}

#[test]
fn what_a_file_holds_cannot_move_the_cursor() {
    let home = Home::new(&[(
        "project/.mcp.json",
        "{\"mcpServers\": {\"a\\u001b[2Jb\u{202e}\": {\"command\": \"x\\u001b]0;t\\u0007\", \"args\": [\"\u{9b}1m\"]}}}",
    )]);
    let output = home.run(&["import"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    assert!(!text.contains('\u{202e}'), "{text:?}");
}

#[test]
fn print_config_prints_an_entry_for_each_host_and_starts_nothing() {
    let home = Home::new(&[]);
    let mut all = String::new();
    for host in ["claude-desktop", "claude-code", "vscode", "cursor", "zed", "goose", "opencode"] {
        let args = ["run", "--print-config", host, "--name", "files", "--", "npx", "-y", "it's"];
        all.push_str(&format!("## {host}\n{}", home.said(&args)));
    }
    assert_snapshot!(all);
    assert!(home.files().is_empty());
}

#[test]
fn print_config_needs_a_command() {
    let home = Home::new(&[]);
    let output = home.run(&["run", "--print-config", "zed"]);
    assert_eq!(code(&output), Some(2), "{}", home.shown(&output));
}
