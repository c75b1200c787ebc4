//! A workflow's idempotency key as the server gets it, over stdio, by the whole binary: the server is a process that the
//! gateway starts, speaks 2026-07-28 with tasks, and notes what it hears.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::Value;
use taskgate_faults::client::{self, Call, Front, Heard};
use tempfile::TempDir;

use crate::process::spawn;
use crate::world::{part, start};

pub(crate) const NAME: &str = "r4_4_a_workflows_key_reaches_a_server_with_tasks_over_stdio_as_configured";

/// A workflow's key, which stands in the call's arguments, and where the server must find it.
struct Way {
    tool: &'static str,
    /// What `forward` says.
    forward: Option<&'static str>,
    /// Whether the server honours the key.
    is_honoured: bool,
    argument: Option<&'static str>,
    member: Option<&'static str>,
}

const WAYS: [Way; 4] = [
    Way {
        tool: "pay_probe",
        forward: Some("argument = \"order_key\""),
        is_honoured: false,
        argument: Some("order_key"),
        member: None,
    },
    Way {
        tool: "pay_receipt",
        forward: Some("meta = \"bank.example/key\""),
        is_honoured: false,
        argument: None,
        member: Some("bank.example/key"),
    },
    // A server that honours the key is told in the agreed member.
    Way { tool: "pay_keyed", forward: None, is_honoured: true, argument: None, member: Some(AGREED) },
    Way {
        tool: "pay_get",
        forward: Some("argument = \"order_key\""),
        is_honoured: true,
        argument: Some("order_key"),
        member: Some(AGREED),
    },
];

/// The member of `_meta` that clients use too.
const AGREED: &str = "taskgate/idempotency-key";

/// Panics if the key does not arrive.
pub(crate) async fn test() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    let bank = start(&part(&["bank", "--books", path("books").to_str().unwrap()]), &path("log"));
    let heard = path("heard");
    fs::write(path("taskgate.toml"), config(&path("tasks.db"), &heard, bank.port())).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_taskgate"));
    command.args(["serve", "--json", "--config"]).arg(path("taskgate.toml")).env("NO_COLOR", "1");
    let mut gateway = tokio::task::block_in_place(|| spawn(&command, &path("log")));
    let mut line = String::new();
    tokio::task::block_in_place(|| {
        BufReader::new(gateway.stdout.take().unwrap()).read_line(&mut line).unwrap()
    });
    let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{}", log(&path("log"))));
    let url = said["url"].as_str().unwrap().trim_start_matches("http://");
    let to = url.split('/').next().unwrap().parse().unwrap();
    for (number, Way { tool, .. }) in WAYS.iter().enumerate() {
        let key = format!("order-{number}");
        let call = Call {
            front: Front::B,
            to,
            path: "/shop/mcp".to_owned(),
            session: None,
            tool: (*tool).to_owned(),
            arguments: serde_json::json!({ "key": key, "object": "o", "amount": 3 }),
            idempotency: None,
            repeats: 0,
            patience: 60_000,
        };
        let mut came = Vec::new();
        client::play(&call, |heard| came.push(heard)).await;
        assert!(
            matches!(came.last(), Some(Heard::Result { is_error: false, .. })),
            "{tool}: {came:?}\n{}",
            log(&path("log"))
        );
    }
    let calls: Vec<Value> = log(&heard).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (number, Way { tool, argument, member, .. }) in WAYS.iter().enumerate() {
        let of: Vec<_> = calls.iter().filter(|call| call["name"] == *tool).collect();
        let [call] = of[..] else { panic!("{tool} came {} times", of.len()) };
        let key = format!("order-{number}");
        let arguments = call["arguments"].as_object().unwrap();
        assert_eq!(
            arguments.get("order_key"),
            argument.map(|_| Value::from(key.clone())).as_ref(),
            "{tool}: {call}"
        );
        assert_eq!(
            (&arguments["key"], arguments.len()),
            (&Value::from(key.clone()), 3 + usize::from(argument.is_some()))
        );
        let meta = call["_meta"].as_object().unwrap();
        for name in ["bank.example/key", AGREED] {
            let wanted = member.filter(|wanted| *wanted == name).map(|_| Value::from(key.clone()));
            assert_eq!(meta.get(name), wanted.as_ref(), "{tool}: {call}");
        }
    }
    gateway.kill().unwrap();
    gateway.wait().unwrap();
}

fn log(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn config(store: &Path, heard: &Path, bank: u16) -> String {
    let exe = std::env::current_exe().unwrap();
    let bank = format!("127.0.0.1:{bank}");
    let words = ["server", "--kind", "b", "--stdio", "--bank", &bank, "--heard", heard.to_str().unwrap()];
    let mut config = format!(
        "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = {store:?}\n[servers.shop]\ncommand = {exe:?}\nargs = {words:?}\n"
    );
    for Way { tool, forward, is_honoured, .. } in WAYS {
        config.push_str(&format!(
            "[workflows.{tool}]\nserver = \"shop\"\ntools = [\"{tool}\"]\nidempotency.mode = \"derived\"\n\
             idempotency.key = \"args.key\"\n"
        ));
        if is_honoured {
            config.push_str("replay = \"keyed\"\nreplay_window = \"1h\"\n");
        }
        if let Some(forward) = forward {
            config.push_str(&format!("idempotency.forward = {{ {forward} }}\n"));
        }
    }
    config
}
