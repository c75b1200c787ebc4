//! The guide "Payments that must not happen twice" in the README does what it says: its commands are run as they stand
//! there, and say what stands there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::ops::mask;
use crate::run::{ask, open};
use crate::support::{Running, folder, taskgate};

/// A block of the guide: its language, and its text.
struct Block {
    language: String,
    text: String,
}

fn blocks() -> Vec<Block> {
    let readme = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, rest) = readme.split_once("## Payments that must not happen twice\n").unwrap();
    let guide = rest.split("\n## ").next().unwrap();
    let mut blocks = Vec::new();
    for (number, part) in guide.split("```").enumerate() {
        if number % 2 == 1 {
            let (language, text) = part.split_once('\n').unwrap();
            blocks.push(Block { language: language.to_owned(), text: text.to_owned() });
        }
    }
    blocks
}

/// Operations in the order in which they are first named.
fn operations(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (at, _) in text.match_indices("op-06") {
        let rest = &text[at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(rest.len());
        let id = rest[..end].to_owned();
        if !found.contains(&id) {
            found.push(id);
        }
    }
    found
}

/// Ids are cut in the guide, and differ from run to run.
fn even(text: &str, folder: &Path, ids: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (written, real) in ids {
        text = text.replace(&format!("{written}…"), real).replace(written.as_str(), real);
        // Where the guide's id was a beginning of the real one, that is whole again.
        text = text.replace(&format!("{real}{}", real.get(written.len()..).unwrap_or_default()), real);
    }
    let text = text.replace("t06h2qs7ptbh6…", "t06h2qs7ptbh6l0ltsphr226ivdvo36gekcbg");
    mask(&text, folder)
}

/// Whether `said` is `written`, where `…` stands for anything.
fn is_as_written(written: &str, said: &str) -> bool {
    let mut pieces = written.split('…');
    let Some(mut rest) = said.strip_prefix(pieces.next().unwrap_or_default()) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    for (number, piece) in pieces.iter().enumerate() {
        if number + 1 == pieces.len() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty()
}

/// A command of the guide that stays, with its address left to the system; and the address that it got.
fn stay(folder: &Path, line: &str) -> (Running, String) {
    let line = line.trim_end_matches('&').trim().replace("127.0.0.1:7421", "127.0.0.1:0");
    let args: Vec<&str> = line.split(' ').skip(1).collect();
    let mut command = taskgate(&args);
    command.arg("--until-stdin-ends").current_dir(folder);
    let mut running = Running::start(command);
    let said = running.text_line();
    let address = said.split("http://").nth(1).unwrap_or_else(|| panic!("{said:?}"));
    let address = address.split('/').next().unwrap().to_owned();
    (running, address)
}

/// A host with this entry has a payment made whose answer is lost, and is told what became of it.
fn pay_by_a_host(folder: &Path, entry: &Value) {
    let args = entry["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let args: Vec<String> = args.map(|arg| arg.replace("/home/me", &folder.display().to_string())).collect();
    assert_eq!(entry["command"], "taskgate");
    let mut command = taskgate(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let state = folder.join("state");
    command.current_dir("/").env("XDG_STATE_HOME", &state).env("TASKGATE_KEEPER_IDLE", "100ms");
    let mut host = Running::start(command);
    open(&mut host);
    let order = json!({ "order": "B-1", "to": "ACME", "amount": 5, "lose_answer": true });
    let said = ask(&mut host, 1, "tools/call", json!({ "name": "payment", "arguments": order }));
    let said = said.to_string();
    assert!(said.contains("The effect was made"), "{said}");
    drop(host.stdin.take());
    assert_eq!(host.code(), Some(0));
    let mut command = taskgate(&["ops"]);
    let listed = command.env("XDG_STATE_HOME", &state).env("TASKGATE_KEEPER_IDLE", "100ms").output().unwrap();
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("confirmed: applied") && listed.contains("payment  B-1  shop"), "{listed}");
}

#[test]
fn r4_7_the_guide_for_payments_does_what_it_says() {
    let folder = folder(&[]);
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_taskgate"), bin.join("taskgate")).unwrap();
    let (mut server, mut gateway) = (None, None);
    let mut preparation = String::new();
    let mut ids: Vec<(String, String)> = Vec::new();
    let mut last: Option<String> = None;
    let (mut compared, mut hosts) = (0, 0);
    let here = |text: &str, server: &Option<(Running, String)>, gateway: &Option<(Running, String)>| {
        let mut text = text.to_owned();
        if let Some((_, address)) = server {
            text = text.replace("127.0.0.1:7421", address);
        }
        let gateway = gateway.as_ref().map_or("127.0.0.1:0", |(_, address)| address);
        text.replace("127.0.0.1:7420", gateway)
    };
    for block in blocks() {
        match block.language.as_str() {
            "toml" => {
                fs::write(folder.path().join("shop.toml"), here(&block.text, &server, &gateway)).unwrap();
            }
            "sh" if block.text.contains("demo-server") => {
                let line = block.text.lines().find(|line| line.contains("demo-server")).unwrap();
                server = Some(stay(folder.path(), line));
            }
            "sh" if block.text.contains("serve --config") => {
                gateway = Some(stay(folder.path(), block.text.trim()));
            }
            "sh" if block.text.contains("pay() {") => preparation = here(&block.text, &server, &gateway),
            "sh" => {
                let mut text = here(&block.text, &server, &gateway);
                for (written, real) in &ids {
                    text = text.replace(written.as_str(), real);
                }
                let output = Command::new("sh")
                    .args(["-c", &format!("{preparation}\n{text}")])
                    .current_dir(folder.path())
                    .env_clear()
                    .env("NO_COLOR", "1")
                    .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
                    .output()
                    .unwrap();
                let said = String::from_utf8(output.stdout).unwrap();
                assert!(output.status.success(), "{text}\n{said}{}", String::from_utf8_lossy(&output.stderr));
                last = Some(said);
            }
            "text" => {
                let said = last.take().expect("a command comes before what it says");
                let known =
                    |id: &String, of: fn(&(String, String)) -> &String| ids.iter().any(|pair| of(pair) == id);
                let written = operations(&block.text).into_iter().filter(|id| !known(id, |pair| &pair.0));
                let real = operations(&said).into_iter().filter(|id| !known(id, |pair| &pair.1));
                // What a "…" hides comes before what is shown, if at all.
                let (written, real): (Vec<_>, Vec<_>) = (written.collect(), real.collect());
                assert!(written.len() <= real.len(), "{written:?} {real:?}\n{said}");
                ids.extend(written.into_iter().zip(real));
                let written = even(&block.text, folder.path(), &ids);
                let said = mask(&said, folder.path());
                assert!(
                    is_as_written(written.trim_end(), said.trim_end()),
                    "the guide says\n{written}\nand it is\n{said}"
                );
                compared += 1;
            }
            "json" => {
                let entry: Value = serde_json::from_str(&block.text).unwrap();
                pay_by_a_host(folder.path(), &entry["mcpServers"]["shop"]);
                hosts += 1;
            }
            other => panic!("a block of {other:?}"),
        }
    }
    assert_eq!((compared, hosts), (9, 1), "all that the guide shows was seen");
}
