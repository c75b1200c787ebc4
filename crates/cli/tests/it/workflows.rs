//! What is told about workflows that cannot be, and about ones that can.

use insta::assert_snapshot;

use crate::support::{folder, run_in, said, taskgate};

const SERVERS: &str = r#"[servers.bank]
url = "http://127.0.0.1:1/mcp"
[servers.bank.tools.find_payment]
effect = "read_only"
[servers.local]
command = "local"
"#;

fn check(workflows: &str) -> String {
    let folder = folder(&[("taskgate.toml", &format!("{SERVERS}\n{workflows}"))]);
    said(&run_in(folder.path(), &["config", "check", "taskgate.toml"]))
}

/// A sound one to begin with, and `more` behind it.
fn payments(more: &str) -> String {
    check(&format!("[workflows.payments]\nserver = \"bank\"\ntools = [\"pay\"]\n{more}"))
}

#[test]
fn a_whole_workflow_is_sound() {
    let text = format!(
        "{SERVERS}{}",
        r#"
[workflows.payments]
server = "bank"
tools = ["pay", "refund"]
effect = "consequential"
mode = "auto"
deadline = "30m"
ttl_max = "2h"
running = 4
create_time = "10s"
create_attempts = 2
status_read_attempts = 5
result_time = "30s"
object = "'account/' + args.to"
version = "args.version"
intended_effect = "'pays ' + string(args.amount) + ' to ' + args.to"
on_conflict = "queue"
settle = "10m"
replay = "keyed"
replay_window = "24h"
resend = true
owners = ["treasury"]
webhook = { url = "https://hooks.example/T/${HOOK}", headers = { X-Token = "${HOOK}" } }

[workflows.payments.idempotency]
mode = "derived"
key = "args.order_id"
forward = { header = "Idempotency-Key" }

[workflows.payments.receipt]
when = '''
data.status == "paid"
  && data.order_id == key'''
not_applied_when = 'data.status == "refused" && data.order_id == key'
reference = "data.transaction_id"
issued_by = "signature"
signature = { algorithm = "hmac_sha256", secret = "${SECRET}", over = "data.transaction_id + '|' + key", given = "data.signature" }

[workflows.payments.probe]
tool = "find_payment"
arguments = { order_id = "key", filter = "{'to': args.to, 'versions': [args.version]}" }
applied_when = "size(data.payments) > 0"
not_applied_when = "size(data.payments) == 0"
first = "2s"
every = "10s"
budget_time = "6h"
budget_attempts = 50

[workflows.payments.fence]
tool = "cancel_by_key"
arguments = { key = "key" }
fenced_when = "data.cancelled"

[workflows.mails]
server = "local"
tools = ["send"]
effect = "reversible"
idempotency = { mode = "required", forward = { argument = "key" } }
probe = { get = "http://127.0.0.1:1/mails/{key}", applied_when = "status == 200" }

[workflows.looks]
server = "local"
tools = ["list"]
effect = "read_only"
"#
    );
    let folder = folder(&[("taskgate.toml", &text)]);
    let mut command = taskgate(&["config", "check", "taskgate.toml"]);
    command.current_dir(folder.path()).env("HOOK", "abc").env("SECRET", "0123456789abcdef");
    let output = command.output().unwrap();
    assert_eq!(
        said(&output),
        "exit 0\n--- stdout\nthe configuration is sound; servers: bank, local\n--- stderr\nadvice: \
         workflows.payments.fence: it must void the requests sent so far, and not refuse the key for good: once it is \
         certain that nothing was done, `resend` or the next call sends it again. If cancel_by_key can only refuse a key, \
         use `settle` instead\n"
    );
    // Without the environment it is told which variables are missing, and nothing of what they would have been.
    assert_snapshot!(said(&run_in(folder.path(), &["config", "check", "taskgate.toml"])));
}

#[test]
fn servers_and_tools_that_are_not_there_or_there_twice_are_told() {
    assert_snapshot!(check(
        r#"[workflows.a]
server = "bnak"
tools = ["pay"]

[workflows.b]
server = "bank"
tools = ["refund", "find_payment"]

[workflows.c]
server = "bank"
tools = ["refund", "refund"]
probe = { server = "ledger", tool = "x", arguments = { k = "key" }, applied_when = "data.a" }

[workflows.d]
tools = []
"#
    ));
}

#[test]
fn expressions_are_pointed_into() {
    assert_snapshot!(payments(
        r#"object = "'account/' + arg.to"
version = "args.version * 1.5"
intended_effect = "args.to == 'x'"
idempotency = { mode = "derived", key = "args.order +" }

[workflows.payments.receipt]
when = '''
data.status == "paid"
  && result.order == key'''
reference = "data.\"id\".foo()"
issued_by = "server"

[workflows.payments.probe]
get = "https://bank.example/{data.id}"
applied_when = "lower(data.status) == 'paid'"
not_applied_when = "status = 404"
"#
    ));
}

#[test]
fn limits_that_contradict_each_other_are_told() {
    assert_snapshot!(payments(
        r#"deadline = "3h"
ttl_max = "2h"
running = 0
settle = "8h"
replay = "keyed"
probe = { get = "https://bank.example/{key}", applied_when = "status == 200", not_applied_when = "status == 404", first = "7h", every = "10ms", budget_time = "6h", budget_attempts = 0 }
"#
    ));
    assert_snapshot!(payments("ttl_max = \"8d\"\nreplay_window = \"1h\"\nreplay = \"natural\"\n"));
}

#[test]
fn keys_that_could_not_work_are_told() {
    assert_snapshot!(payments("idempotency = { mode = \"derived\" }\n"));
    assert_snapshot!(payments(
        "idempotency = { mode = \"required\", key = \"args.a\", forward = { meta = \"io.modelcontextprotocol/key\" } }\n"
    ));
    assert_snapshot!(payments("idempotency = { forward = { argument = \"a\", header = \"X\" } }\n"));
    assert_snapshot!(payments("idempotency = { forward = { header = \"Authorization\" } }\n"));
    assert_snapshot!(check(
        "[workflows.a]\nserver = \"local\"\ntools = [\"a\"]\nidempotency = { forward = { header = \"Idempotency-Key\" } }\n"
    ));
}

#[test]
fn r4_3_a_receipt_that_proves_nothing_is_told() {
    assert_snapshot!(payments("receipt = { when = \"data.status == 'paid'\", reference = \"data.id\" }\n"));
    assert_snapshot!(payments(
        "receipt = { when = \"data.status == 'paid'\", reference = \"data.id\", issued_by = \"server\" }\n"
    ));
    assert_snapshot!(payments(
        r#"[workflows.payments.receipt]
when = "data.key == key"
reference = "data.id"
issued_by = "signature"
signature = { algorithm = "ed25519", public_key = "abc", over = "data.id", given = "data.signature" }
"#
    ));
    assert_snapshot!(payments(
        r#"[workflows.payments.receipt]
when = "data.key == key"
reference = "data.id"
issued_by = "server"
signature = { algorithm = "hmac_sha256", secret = "short", over = "data.id", given = "data.signature" }
"#
    ));
}

#[test]
fn r4_5_a_probe_that_cannot_be_asked_is_told() {
    let probe = |probe: &str| payments(&format!("probe = {{ {probe}, applied_when = \"data.found\" }}\n"));
    assert_snapshot!(probe("tool = \"cancel\", arguments = { key = \"key\" }"));
    assert_snapshot!(probe("tool = \"find_payment\""));
    assert_snapshot!(probe(
        "tool = \"find_payment\", arguments = { key = \"key\" }, headers = { a = \"b\" }"
    ));
    assert_snapshot!(probe("get = \"http://bank.example/{key}\""));
    assert_snapshot!(probe("get = \"https://bank.example/{key}\", tool = \"find_payment\""));
    assert_snapshot!(payments("probe = { applied_when = \"data.found\" }\n"));
}

#[test]
fn rules_that_hang_on_nothing_are_told() {
    assert_snapshot!(payments(
        r#"on_conflict = "refuse"
version = "args.v"
settle = "10m"
resend = true
owners = []
webhook = { url = "http://hooks.example/" }
fence = { tool = "cancel", fenced_when = "data.ok" }
"#
    ));
    assert_snapshot!(payments(
        r#"effect = "read_only"
replay = "natural"
on_conflict = "queue"
object = "args.id"
probe = { get = "https://bank.example/{key}", applied_when = "status == 200" }
"#
    ));
}

/// Each of these would confirm whatever is answered, or stop what it is to protect.
#[test]
fn r4_3_rules_that_look_at_nothing_of_an_answer_are_told() {
    assert_snapshot!(payments(
        r#"settle = "10m"
[workflows.payments.receipt]
when = "key != ''"
not_applied_when = "args.dry == true"
reference = "data.id"
issued_by = "signature"
signature = { algorithm = "hmac_sha256", secret = "0123456789abcdef", over = "key", given = "key" }

[workflows.payments.probe]
get = "https://bank.example/{key}"
applied_when = "true"
not_applied_when = "args.order != ''"

[workflows.payments.fence]
tool = "cancel"
arguments = { key = "key" }
fenced_when = "true"
"#
    ));
    assert_snapshot!(payments(
        "probe = { get = \"https://bank.example/{key}\", applied_when = \"data.a == 1\", not_applied_when = \"data.a == 1\" }\n"
    ));
}

#[test]
fn r4_6_a_key_that_is_the_same_for_all_calls_is_told() {
    for key in ["'payments'", "tool"] {
        let said = payments(&format!("idempotency = {{ mode = \"derived\", key = \"{key}\" }}\n"));
        assert!(said.contains("all calls would be one and the same"), "{said}");
    }
}

#[test]
fn r4_2_a_fence_that_would_act_without_a_record_or_only_looks_is_told() {
    let fence = |tool: &str, more: &str| {
        payments(&format!(
            "probe = {{ get = \"https://bank.example/{{key}}\", applied_when = \"data.a\", not_applied_when = \"data.b\" }}\n\
             fence = {{ tool = \"{tool}\", arguments = {{ key = \"key\" }}, fenced_when = \"data.ok\" }}\n{more}"
        ))
    };
    assert_snapshot!(fence("pay", ""));
    assert_snapshot!(fence("refund", "[workflows.refunds]\nserver = \"bank\"\ntools = [\"refund\"]\n"));
    assert_snapshot!(fence("find_payment", ""));
}

#[test]
fn what_is_missing_is_told_by_its_name() {
    assert_snapshot!(payments(
        "webhook = {}\nreceipt = { reference = \"data.id\", issued_by = \"server\" }\nprobe = { get = \"https://bank.example/{key}\" }\n"
    ));
}

/// A task that lives for no time cannot be made.
#[test]
fn times_in_which_nothing_can_be_done_are_told() {
    assert_snapshot!(payments("ttl_max = \"0s\"\n"));
    assert_snapshot!(payments("deadline = \"10ms\"\n[limits]\nttl_max_anonymous = \"0s\"\n"));
}

#[test]
fn a_rule_that_looks_for_a_key_that_a_call_need_not_have_is_advised_against() {
    let text = r#"[servers.bank]
url = "http://127.0.0.1:9/mcp"
[workflows.payments]
server = "bank"
tools = ["pay"]
probe = { get = "http://127.0.0.1:9/payments/{key}", applied_when = "status == 200" }
"#;
    let folder = folder(&[("taskgate.toml", text)]);
    let told = said(&run_in(folder.path(), &["config", "check", "taskgate.toml"]));
    assert!(told.starts_with("exit 0"), "{told}");
    assert!(told.contains("advice: workflows.payments.probe: it looks for `key`"), "{told}");
    let by_operation = text.replace("{key}", "{operation}");
    std::fs::write(folder.path().join("taskgate.toml"), by_operation).unwrap();
    let told = said(&run_in(folder.path(), &["config", "check", "taskgate.toml"]));
    assert!(!told.contains("advice"), "{told}");
}
