//! Workflows behind the keeper: what a host that speaks only stdio gets of them, whoever dies in between.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::sync::mpsc::channel;
use std::thread;

use serde_json::{Value, json};

use crate::host::{Host, text};
use crate::scene::{Scene, holds, is_alive, kill_9, until};

const PROBE: &str = r#"applied_when = "data.status == 'paid' && data.order == key"
not_applied_when = "data.status == 'none'"
first = "100ms"
every = "1s""#;

/// A configuration: the bank, with `more` of the workflow, and this probe.
fn config(scene: &Scene, section: &str, more: &str, probe: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keeper/server.py");
    let journal = scene.path("journal").display().to_string();
    format!(
        r#"[servers.bank]
command = "python3"
args = ["{script}", "{journal}", "bank"]
[servers.bank.tools.books]
effect = "read_only"
[workflows.{section}]
server = "bank"
tools = ["pay"]
idempotency = {{ mode = "derived", key = "args.text" }}
intended_effect = "'pays ' + args.text"
owners = ["treasury"]
{more}
[workflows.{section}.probe]
tool = "books"
arguments = {{ text = "key" }}
{probe}
"#
    )
}

impl Scene {
    fn write(&self, text: &str) {
        fs::write(self.path("taskgate.toml"), text).unwrap();
    }

    /// A user with payments.
    fn with_payments(idle: &str) -> Scene {
        let scene = Scene::with_idle(idle);
        scene.write(&config(&scene, "payments", "", PROBE));
        scene
    }

    /// What a host starts: the line of the guide.
    fn bank(&self) -> Host {
        self.bank_with(&[])
    }

    fn bank_with(&self, flags: &[&str]) -> Host {
        Host::start(self.taskgate(&[&["run", "-c", "taskgate.toml", "--name", "bank"], flags].concat()))
    }

    fn close_books(&self) {
        fs::write(self.path("journal.closed"), "").unwrap();
    }

    fn open_books(&self) {
        fs::remove_file(self.path("journal.closed")).unwrap();
    }

    fn operations(&self) -> Vec<Value> {
        let output = self.output(&["ops", "--all", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(all)) => all,
            _ => text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        }
    }

    /// The only operation, once it is such.
    fn operation(&self, what: &str, is_such: impl Fn(&Value) -> bool) -> Value {
        until(what, || self.operations().into_iter().next().filter(&is_such))
    }

    fn shown(&self, operation: &Value) -> String {
        let output = self.output(&["op", "show", operation["id"].as_str().unwrap()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

fn is_confirmed(operation: &Value) -> bool {
    operation["outcome"] == "confirmed" && operation["verdict"] == "applied"
}

fn is_reconciling(operation: &Value) -> bool {
    operation["inquiry"]["state"] == "reconciling"
}

#[test]
fn r4_5_a_payment_under_a_keeper_that_dies_is_made_once_and_confirmed_by_its_probe() {
    let scene = Scene::with_payments("10m");
    let mut host = scene.bank().opened();
    let gate = scene.path("gate");
    let id = host.call("pay", json!({ "text": "A-1", "gate": gate }));
    scene.wait_for_journal("begin pay A-1", 1);
    kill_9(scene.keeper_pid());
    // The host goes on, and is told what was found out.
    let said = text(&host.answer(id));
    assert!(said.contains("The effect was made"), "{said}");
    let operation = scene.operation("confirmed", is_confirmed);
    assert_eq!(operation["workflow"], "bank/payments", "{operation}");
    assert_eq!(operation["attempts"], 1, "{operation}");
    assert_eq!(operation["owners"], json!(["treasury"]), "{operation}");
    let shown = scene.shown(&operation);
    assert!(
        shown.contains("confirmed: applied") && shown.contains("by a look-up that found the effect"),
        "{shown}"
    );
    assert!(shown.contains("pays A-1") && shown.contains("A-1 (counts for all callers)"), "{shown}");
    // The same order again is not paid again, and another one is.
    let again = host.text("pay", json!({ "text": "A-1", "gate": gate }));
    assert!(again.contains("The effect was made") && again.contains("not sent"), "{again}");
    assert!(host.text("pay", json!({ "text": "A-2" })).starts_with("pay A-2"));
    assert_eq!(scene.journal("begin pay A-1").len(), 1);
    assert_eq!(scene.journal("begin pay A-2").len(), 1);
    assert_eq!(host.close(), Some(0));
}

#[test]
fn r4_6_two_hosts_at_once_with_one_key_pay_once_also_one_with_a_process_of_its_own() {
    let scene = Scene::with_payments("10m");
    let (mut one, mut other) = (scene.bank().opened(), scene.bank().opened());
    let mut apart = scene.bank_with(&["--apart"]).opened();
    let gate = scene.path("gate");
    let order = json!({ "text": "A-1", "gate": gate });
    let first = one.call("pay", order.clone());
    scene.wait_for_journal("begin pay A-1", 1);
    let (second, third) = (other.call("pay", order.clone()), apart.call("pay", order));
    until("all three are there", || {
        let status = scene.status();
        (status["hosts"].as_array().unwrap().len() == 3).then_some(())
    });
    scene.open_gate("gate");
    for (host, id) in [(&mut one, first), (&mut other, second), (&mut apart, third)] {
        let said = text(&host.answer(id));
        assert!(said.starts_with("pay A-1"), "{said}");
    }
    assert_eq!(scene.journal("begin pay A-1").len(), 1);
    // Another request under the same key is none.
    let said = other.text("pay", json!({ "text": "A-1", "amount": 500 }));
    assert!(said.contains("one key stands for one effect"), "{said}");
    assert_eq!(scene.journal("begin pay A-1").len(), 1);
}

#[test]
fn design_7_an_operation_under_way_is_asked_after_by_the_newest_rules() {
    let scene = Scene::with_payments("10m");
    // These rules never find anything.
    let blind = PROBE.replace("'paid'", "'settled'");
    scene.write(&config(&scene, "payments", "", &blind));
    let mut host = scene.bank().opened();
    let id = host.call("pay", json!({ "text": "A-1", "lose": true }));
    scene.operation("it was looked up in vain", |operation| operation["inquiry"]["last"] == "unclear");
    assert_eq!(host.close(), Some(0));
    scene.write(&config(&scene, "payments", "", PROBE));
    let mut host = scene.bank().opened();
    scene.operation("confirmed by the new rules", is_confirmed);
    // The key counts on.
    let again = host.text("pay", json!({ "text": "A-1", "lose": true }));
    assert!(again.contains("The effect was made"), "{again}");
    assert_eq!(scene.journal("begin pay A-1").len(), 1);
    let _ = id;
}

#[test]
fn r4_6_two_rules_at_once_for_one_server_are_refused() {
    let scene = Scene::with_payments("10m");
    let one = scene.bank().opened();
    scene.write(&config(&scene, "payments", "on_conflict = \"refuse\"\nobject = \"args.text\"", PROBE));
    let refused = |host: &mut Host| {
        let answer = host.open();
        let said = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        host.wait_for_stderr(&said);
        said
    };
    let mut other = scene.bank();
    let said = refused(&mut other);
    assert!(said.contains("another host") && said.contains("other workflows"), "{said}");
    // One that brings none would pay without a key.
    let server = scene.server("bank");
    let mut without =
        scene.host_running(&server.iter().map(String::as_str).collect::<Vec<_>>(), &["--name", "bank"]);
    let said = refused(&mut without);
    assert!(said.contains("or with none"), "{said}");
    // The one that was there is served on, and once it has gone the others are.
    assert_eq!(one.close(), Some(0));
    until("it is served", || other.open()["result"].is_object().then_some(()));
}

#[test]
fn r5_4_what_no_host_is_there_for_waits_for_one_and_is_asked_then() {
    let scene = Scene::with_payments("10m");
    scene.close_books();
    let mut host = scene.bank().opened();
    host.call("pay", json!({ "text": "A-1", "lose": true }));
    scene.operation("it is looked up in vain", |operation| operation["inquiry"]["last"] == "unclear");
    // As after a reboot: the keeper is dead, and so is the host.
    let keeper = scene.keeper_pid();
    kill_9(host.pid());
    kill_9(keeper);
    scene.open_books();
    let operation = scene.operation("it is there", is_reconciling);
    assert_ne!(scene.keeper_pid(), keeper);
    assert_eq!((&operation["awaits_host"], &operation["can_be_asked"]), (&json!(true), &json!(true)));
    assert_eq!(operation["owners"], json!(["treasury"]), "{operation}");
    let shown = scene.shown(&operation);
    assert!(shown.contains("asked once a host starts bank again"), "{shown}");
    let asked = scene.output(&["reconcile", operation["id"].as_str().unwrap()]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(!asked.status.success() && said.contains("start the host"), "{said}");
    let _host = scene.bank().opened();
    let operation = scene.operation("confirmed", is_confirmed);
    assert_eq!(operation["awaits_host"], false, "{operation}");
    assert_eq!(scene.journal("begin pay A-1").len(), 1);
}

#[test]
fn design_4_a_keeper_stays_as_long_as_it_asks_though_its_host_has_gone() {
    let scene = Scene::with_payments("200ms");
    scene.close_books();
    let mut host = scene.bank().opened();
    host.call("pay", json!({ "text": "A-1", "lose": true }));
    scene.wait_for_journal("begin books", 1);
    // The host is killed with its pipe, as hosts do.
    kill_9(host.pid());
    let before = scene.journal("begin books").len();
    scene.wait_for_journal("begin books", before + 2);
    // Whoever asked it how it is would keep it.
    let keeper = scene.keeper_pid();
    scene.open_books();
    until("the keeper has ended", || (!is_alive(keeper)).then_some(()));
    let ended = scene.operation("confirmed", is_confirmed);
    assert_eq!(ended["task"]["state"], "failed", "{ended}");
}

#[test]
fn r4_6_a_workflow_that_is_renamed_or_comes_from_another_file_is_refused_until_somebody_says_what_is_meant() {
    let scene = Scene::with_payments("10m");
    let mut host = scene.bank().opened();
    assert!(host.text("pay", json!({ "text": "A-1" })).starts_with("pay A-1"));
    assert_eq!(host.close(), Some(0));
    let words = |host: &mut Host| host.open()["error"]["message"].as_str().unwrap().to_owned();
    scene.write(&config(&scene, "transfers", "", PROBE));
    let said = words(&mut scene.bank());
    assert!(said.contains("\"transfers\"") && said.contains("taskgate.toml, line 6"), "{said}");
    assert!(said.contains("recorded_as = \"payments\""), "{said}");
    // Nothing is recorded under any other name before it is said.
    scene.write(&config(&scene, "transfers", "recorded_as = \"payments\"", PROBE));
    let mut host = scene.bank().opened();
    assert!(host.text("pay", json!({ "text": "A-1" })).starts_with("pay A-1"));
    assert_eq!(scene.journal("begin pay A-1").len(), 1, "its key counts on");
    assert_eq!(host.close(), Some(0));
    fs::create_dir(scene.path("elsewhere")).unwrap();
    fs::write(scene.path("elsewhere/taskgate.toml"), config(&scene, "payments", "", PROBE)).unwrap();
    let elsewhere =
        || Host::start(scene.taskgate(&["run", "-c", "elsewhere/taskgate.toml", "--name", "bank"]));
    let said = words(&mut elsewhere());
    assert!(said.contains("elsewhere/taskgate.toml") && said.contains("another --name"), "{said}");
}

#[test]
fn r4_6_a_host_that_brings_no_workflows_any_more_is_told_what_is_not_settled() {
    let scene = Scene::with_payments("10m");
    scene.close_books();
    let mut host = scene.bank().opened();
    host.call("pay", json!({ "text": "A-1", "lose": true }));
    scene.operation("it is looked up in vain", |operation| operation["inquiry"]["last"] == "unclear");
    assert_eq!(host.close(), Some(0));
    let server = scene.server("bank");
    let server: Vec<_> = server.iter().map(String::as_str).collect();
    let host = scene.host_running(&server, &["--name", "bank"]).opened();
    host.wait_for_stderr("has no workflow \"payments\" of");
}

#[test]
fn a_broken_workflow_is_told_with_its_place_and_a_cure_and_no_keeper_is_started() {
    let scene = Scene::new();
    scene.write(&config(
        &scene,
        "payments",
        "",
        &PROBE.replace("data.status == 'paid'", "dat.status == 'paid'"),
    ));
    let mut host = scene.bank();
    assert_eq!(host.code(), Some(3));
    host.wait_for_stderr("help: known here");
    let said = host.stderr();
    assert!(said.contains("taskgate.toml:16") && said.contains("dat"), "{said}");
    assert!(!scene.path("state").exists(), "no keeper was started");
}

/// One of a version before workflows would read over them, and make calls without keys.
#[test]
fn r4_6_a_keeper_that_takes_no_notice_of_workflows_is_not_handed_any() {
    let scene = Scene::with_payments("10m");
    fs::create_dir_all(scene.keeper_folder()).unwrap();
    fs::set_permissions(scene.keeper_folder(), fs::Permissions::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(scene.keeper_folder().join("sock")).unwrap();
    let (heard, said) = channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let hello = r#"{"taskgate":{"protocol":1,"oldest":1,"version":"0.0.9","pid":4242,"state":"draining","calls":1}}"#;
            writeln!(stream, "{hello}").unwrap();
            let mut all = String::new();
            let _ = stream.read_to_string(&mut all);
            heard.send(all).unwrap();
        }
    });
    let mut host = scene.bank();
    let answer = host.open();
    let words = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    assert!(words.contains("an older version (version 0.0.9, process 4242)"), "{words}");
    // Nothing but hellos that say what is needed was handed to it.
    let all: Vec<String> = said.try_iter().collect();
    assert!(!all.is_empty());
    for hello in all {
        assert!(hello.starts_with(r#"{"taskgate":{"protocol":2,"#) && hello.lines().count() == 1, "{hello}");
    }
}

/// The books are a server of their own, which needs a secret; a webhook has one too.
#[test]
fn r6_3_secrets_of_workflows_reach_no_file_no_log_and_no_process_list() {
    let mut scene = Scene::new();
    scene.environment.push(("HOOK".into(), "planted-in-a-webhook".into()));
    scene.environment.push(("BOOKS".into(), "planted-for-the-books".into()));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/keeper/server.py");
    let journal = scene.path("journal").display().to_string();
    let text = config(
        &scene,
        "payments",
        "webhook = { url = \"http://127.0.0.1:1/${HOOK}\", headers = { X-Token = \"${HOOK}\" } }",
        &format!("server = \"books\"\n{PROBE}"),
    );
    let books = format!(
        r#"[servers.books]
command = "python3"
args = ["{script}", "{journal}", "bank"]
env = {{ TOKEN_OF_BOOKS = "${{BOOKS}}" }}
[servers.books.tools.books]
effect = "read_only"
"#
    );
    scene.write(&format!("{text}{books}"));
    let mut host = scene.bank().opened();
    host.call("pay", json!({ "text": "A-1", "lose": true }));
    scene.operation("confirmed by another server", is_confirmed);
    assert_eq!(scene.journal("begin pay A-1").len(), 1);
    // What is said of it stays a name, and so does what goes wrong with it.
    let other = json!({ "text": "A-2", "lose": true });
    scene.close_books();
    host.call("pay", other);
    let id = until("another one", || {
        let all = scene.operations();
        let open = all.into_iter().find(is_reconciling)?;
        open["id"].as_str().map(str::to_owned)
    });
    let word = ["resolve", &id, "not-applied", "--reason", "a test"];
    assert!(scene.output(&word).status.success());
    for (path, bytes) in scene.files("state") {
        for secret in ["planted-in-a-webhook", "planted-for-the-books"] {
            assert!(!holds(&bytes, secret), "{secret} in {}", path.display());
        }
    }
    for process in scene.processes() {
        assert!(!process.command.contains("planted"), "{}", process.command);
    }
    assert!(!host.stderr().contains("planted"), "{}", host.stderr());
}
