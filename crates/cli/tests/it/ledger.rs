//! `serve` with workflows: what the ledger knows afterwards, in the file that it leaves.

use std::io::{BufRead, BufReader};
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use taskgate_core::operation::{Doubt, HandOff, Inquiry, Outcome, Stage, Verdict};
use taskgate_store::Store;
use taskgate_store::ledger::{LedgerEntry, Which};
use taskgate_store::record::{KeyScope, Object};
use taskgate_store_sqlite::SqliteStore;

use crate::support::{DemoServer, Gateway, Legacy, Running, folder, modern, taskgate};

const PLACE: &str = "[listen]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"taskgate.db\"\n";

fn config(server: &str, workflows: &str) -> String {
    format!("{PLACE}[servers.demo]\n{server}\n{workflows}")
}

fn at(server: &DemoServer) -> String {
    format!("url = \"{}\"", server.url)
}

/// A call without a task; a client of this kind waits for the answer.
fn call(legacy: &Legacy<'_>, tool: &str, arguments: Value, key: &str) -> Value {
    let meta = json!({ "taskgate/idempotency-key": key });
    legacy.request("tools/call", json!({ "name": tool, "arguments": arguments, "_meta": meta }))
}

/// Stops the gateway and reads what it leaves: each operation with its history.
fn left(mut gateway: Gateway, folder: &Path) -> Vec<(LedgerEntry, Vec<String>)> {
    gateway.running.signal(Signal::SIGTERM);
    assert_eq!(gateway.running.code(), Some(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteStore::open(&folder.join("taskgate.db")).unwrap();
        let mut all = Vec::new();
        for entry in store.operations(Which::All, None, 100).await.unwrap() {
            let history = store.history(&entry.id).await.unwrap();
            all.push((entry, history.into_iter().flat_map(|it| it.lines).collect()));
        }
        store.close().await;
        all
    })
}

fn of_key<'a>(left: &'a [(LedgerEntry, Vec<String>)], key: &str) -> &'a (LedgerEntry, Vec<String>) {
    let is_it = |entry: &LedgerEntry| entry.key.as_ref().is_some_and(|it| it.text == key);
    left.iter().find(|(entry, _)| is_it(entry)).unwrap_or_else(|| panic!("no {key} in {left:?}"))
}

const APPLIED: Stage = Stage::Settled(Outcome::Reported(Verdict::Applied));

fn tells(lines: &[String], words: &str) {
    assert!(lines.iter().any(|line| line.contains(words)), "no {words:?} in {lines:#?}");
}

/// A workflow on `echo`, which gives back whatever receipt it is told to.
fn receipts(rule: &str) -> String {
    format!(
        "[workflows.payments]
server = \"demo\"
tools = [\"echo\"]
idempotency = {{ mode = \"required\" }}
[workflows.payments.receipt]
reference = \"data.id\"
{rule}
"
    )
}

#[test]
fn r4_3_a_receipt_that_the_server_issued_confirms_this_payment_and_no_other() {
    let server = DemoServer::start("plain");
    let rule = receipts("when = \"data.status == 'paid' && data.order == key\"\nissued_by = \"server\"");
    let folder = folder(&[("taskgate.toml", &config(&at(&server), &rule))]);
    let gateway = Gateway::start(folder.path());
    let legacy = Legacy::open(&gateway.url);
    let paid = json!({ "status": "paid", "order": "A-1", "id": "tx-1" }).to_string();
    for (key, text) in [("A-1", paid.as_str()), ("A-2", &paid), ("A-3", r#"{"status":"paid"}"#)] {
        let said = call(&legacy, "echo", json!({ "text": text }), key);
        assert_eq!(said["result"]["content"][0]["text"], *text, "{said}");
    }
    let left = left(gateway, folder.path());
    let (own, lines) = of_key(&left, "A-1");
    assert_eq!(own.operation.stage, Stage::Settled(Outcome::Confirmed(Verdict::Applied)));
    assert_eq!(own.operation.receipt.as_ref().map(|it| it.as_str()), Some("tx-1"));
    tells(lines, "settled confirmed_applied receipt tx-1");
    // The receipt of another payment.
    let (other, _) = of_key(&left, "A-2");
    assert_eq!((&other.operation.stage, &other.operation.receipt), (&APPLIED, &None));
    // The rule cannot be evaluated: that says nothing, and somebody is told.
    let (failed, lines) = of_key(&left, "A-3");
    assert_eq!((&failed.operation.stage, &failed.operation.receipt), (&APPLIED, &None));
    assert!(matches!(failed.operation.inquiry, Inquiry::Person { why: HandOff::RuleFailed, .. }));
    tells(lines, "the receipt rule failed");
}

#[test]
fn r4_3_a_signed_receipt_confirms_if_its_signature_fits_this_payment() {
    let server = DemoServer::start("plain");
    let rule = receipts(
        "when = \"data.status == 'paid'\"\nissued_by = \"signature\"\nsignature = { algorithm = \"hmac_sha256\", \
         secret = \"0123456789abcdef\", over = \"data.id + '|' + key\", given = \"data.signature\" }",
    );
    let folder = folder(&[("taskgate.toml", &config(&at(&server), &rule))]);
    let gateway = Gateway::start(folder.path());
    let legacy = Legacy::open(&gateway.url);
    // HMAC-SHA256 of `tx-1|A-1`.
    let signature = "035f8534be1f33df520d15a63e531270cc32186b5d742ac0499561f6c80e6ea0";
    let text = json!({ "status": "paid", "id": "tx-1", "signature": signature }).to_string();
    for key in ["A-1", "A-2"] {
        call(&legacy, "echo", json!({ "text": text }), key);
    }
    let left = left(gateway, folder.path());
    let (own, _) = of_key(&left, "A-1");
    assert_eq!(own.operation.stage, Stage::Settled(Outcome::Confirmed(Verdict::Applied)));
    let (other, lines) = of_key(&left, "A-2");
    assert_eq!((&other.operation.stage, &other.operation.receipt), (&APPLIED, &None));
    tells(lines, "its signature does not fit");
}

#[test]
fn design_7_a_task_stays_working_while_its_lost_answer_is_looked_up_and_over_a_kill() {
    let server = DemoServer::start("plain");
    let workflow = format!(
        "[workflows.payments]
server = \"demo\"
tools = [\"payment\"]
object = \"'account/' + args.to\"
intended_effect = \"'pays ' + string(args.amount)\"
on_conflict = \"refuse\"
idempotency = {{ mode = \"derived\", key = \"string(args.amount) + ' to ' + args.to\" }}
probe = {{ get = \"{}\", applied_when = \"status == 200 && object == 'nobody'\", first = \"1h\" }}
",
        server.effects
    );
    let limits = "[limits]\ntask_after = \"0s\"\n";
    let folder = folder(&[("taskgate.toml", &format!("{limits}{}", config(&at(&server), &workflow)))]);
    let mut gateway = Gateway::start(folder.path());
    let payment = json!({ "name": "payment", "arguments": { "to": "X", "amount": 5, "lose_answer": true } });
    let created = modern(&gateway.url, "tools/call", "payment", payment.clone());
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
    let looks = |url: &str| loop {
        let task = modern(url, "tasks/get", &id, json!({ "taskId": id }))["result"].clone();
        assert_eq!(task["status"], "working", "{task}");
        if task["statusMessage"].as_str().is_some_and(|words| words.contains("being looked up")) {
            break;
        }
    };
    looks(&gateway.url);
    gateway.running.signal(Signal::SIGKILL);
    assert_eq!(gateway.running.code(), None);
    let gateway = Gateway::start(folder.path());
    looks(&gateway.url);
    // The same payment again is this task; another one on the account waits for nobody and is refused.
    let again = modern(&gateway.url, "tools/call", "payment", payment);
    assert_eq!(again["result"]["taskId"], id, "{again}");
    let more = json!({ "name": "payment", "arguments": { "to": "X", "amount": 6 } });
    let refused = modern(&gateway.url, "tools/call", "payment", more);
    assert_eq!(refused["error"]["data"]["reason"], "object_busy", "{refused}");
    assert_eq!(server.begun("payment", "5 to X"), 1);
    let left = left(gateway, folder.path());
    let (entry, _) = of_key(&left, "5 to X");
    assert_eq!((left.len(), &entry.operation.stage), (1, &Stage::Unknown(Doubt::AnswerLost)));
    assert!(matches!(entry.operation.inquiry, Inquiry::Reconciling { tries: 0, .. }), "{entry:?}");
    assert_eq!(refused["error"]["data"]["operation"], entry.id.0);
    assert_eq!(entry.key.as_ref().map(|key| key.scope), Some(KeyScope::Tenant));
    let intent = entry.intent.as_ref().unwrap();
    assert_eq!((intent.workflow.0.as_str(), intent.effect.as_deref()), ("payments", Some("pays 5")));
    assert!(matches!(&intent.object, Some(Object { name, .. }) if name == "account/X"), "{intent:?}");
}

/// The key is derived from nothing that the server is given, so it can only have it from us.
const FORWARDS: &str = "[workflows.reports]
server = \"demo\"
tools = [\"slow_report\"]
effect = \"reversible\"
idempotency = { mode = \"derived\", key = \"'report-' + string(args.seconds)\", forward = { argument = \"title\" } }
";

#[test]
fn r4_6_every_kind_of_server_gets_the_key_and_the_work_once_over_http() {
    for dialect in ["plain", "a", "b"] {
        let server = DemoServer::start(dialect);
        let folder = folder(&[("taskgate.toml", &config(&at(&server), FORWARDS))]);
        for _ in 0..2 {
            // The second time after a restart: keys are kept with the operation.
            let gateway = Gateway::start(folder.path());
            let legacy = Legacy::open(&gateway.url);
            let params = json!({ "name": "slow_report", "arguments": { "seconds": 0 } });
            let said = legacy.request("tools/call", params);
            let text = said["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{said}"));
            assert!(text.contains("\"report-0\" is ready"), "{dialect}: {said}");
        }
        assert_eq!(server.begun("slow_report", "report-0"), 1, "{dialect}");
    }
}

#[test]
fn r4_6_a_server_gets_the_key_and_the_work_once_over_stdio() {
    // The demo server speaks 2026-07-28 over HTTP only.
    for dialect in ["plain", "a"] {
        let folder = folder(&[]);
        let server = format!(
            "command = \"{}\"\nargs = [\"demo-server\", \"--stdio\", \"--dialect\", \"{dialect}\", \"--journal\", \
             \"journal\"]\ncwd = {:?}",
            env!("CARGO_BIN_EXE_taskgate"),
            folder.path().to_str().unwrap()
        );
        std::fs::write(folder.path().join("taskgate.toml"), config(&server, FORWARDS)).unwrap();
        let gateway = Gateway::start(folder.path());
        let legacy = Legacy::open(&gateway.url);
        for _ in 0..2 {
            let params = json!({ "name": "slow_report", "arguments": { "seconds": 0 } });
            let said = legacy.request("tools/call", params);
            let text = said["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{said}"));
            assert!(text.contains("\"report-0\" is ready"), "{dialect}: {said}");
        }
        let journal = std::fs::read_to_string(folder.path().join("journal")).unwrap();
        let begun = journal.lines().filter(|line| line.contains("report-0") && line.contains("begun"));
        assert_eq!(begun.count(), 1, "{dialect}: {journal}");
    }
}

#[test]
fn design_7_a_probe_of_another_server_that_has_no_such_tool_is_told_once_that_server_says_what_it_has() {
    let (bank, books) = (DemoServer::start("plain"), DemoServer::start("plain"));
    let text = format!(
        "{}[servers.books]\nurl = \"{}\"\n[servers.books.tools]\nfind_payment.effect = \"read_only\"
[workflows.payments]
server = \"demo\"
tools = [\"payment\"]
idempotency = {{ mode = \"derived\", key = \"args.to\" }}
probe = {{ server = \"books\", tool = \"find_payment\", arguments = {{ to = \"key\" }}, applied_when = \"data.found\" }}
",
        config(&at(&bank), ""),
        books.url
    );
    let folder = folder(&[("taskgate.toml", &text)]);
    let mut command = taskgate(&["serve", "--until-stdin-ends", "--json", "--config", "taskgate.toml"]);
    command.current_dir(folder.path());
    let mut running = Running::start(command);
    let urls = [running.line(), running.line()];
    let demo = urls.iter().find(|line| line["server"] == "demo").unwrap()["url"].as_str().unwrap().to_owned();
    let stderr = BufReader::new(running.child.stderr.take().unwrap());
    // The test's own time limit ends this if it is never said.
    let warning = stderr.lines().map(Result::unwrap).find(|line| line.contains("find_payment")).unwrap();
    assert!(
        warning.contains("WARN") && warning.contains("payments") && warning.contains("books"),
        "{warning}"
    );
    // The rest goes on, and so do its calls.
    let legacy = Legacy::open(&demo);
    let said =
        legacy.request("tools/call", json!({ "name": "payment", "arguments": { "to": "X", "amount": 5 } }));
    assert_eq!(said["result"]["content"][0]["text"], "Paid 5 to X.", "{said}");
    assert_eq!(bank.begun("payment", "5 to X"), 1);
}
