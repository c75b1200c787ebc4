//! A workflow whose name is changed between two starts (R4.6).

use serde_json::{Value, json};

use crate::support::{DemoServer, Gateway, config, folder, modern, run_in, said};

const SERVE: [&str; 4] = ["serve", "--until-stdin-ends", "--config", "taskgate.toml"];

fn workflow(demo: &DemoServer, section: &str, more: &str) -> String {
    let workflow = format!(
        "[workflows.{section}]
{more}
server = \"demo\"
tools = [\"payment\"]
idempotency = {{ mode = \"derived\", key = \"args.order\" }}
[workflows.{section}.probe]
tool = \"payment_status\"
arguments = {{ order = \"key\" }}
applied_when = \"data.status == 'paid' && data.order == key\"
first = \"1h\"
"
    );
    config(&demo.url, &workflow) + "payment_status.effect = \"read_only\"\n"
}

fn pays(gateway: &Gateway) -> Value {
    let arguments = json!({ "order": "A-1", "to": "ACME", "amount": 5, "lose_answer": true });
    modern(&gateway.url, "tools/call", "payment", json!({ "name": "payment", "arguments": arguments }))
}

#[test]
fn r4_6_a_renamed_workflow_pays_once() {
    let demo = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &workflow(&demo, "payments", ""))]);
    let configure = |section: &str, more: &str| {
        std::fs::write(folder.path().join("taskgate.toml"), workflow(&demo, section, more)).unwrap();
    };
    let gateway = Gateway::start(folder.path());
    let first = pays(&gateway);
    assert_eq!(demo.begun("payment", "A-1"), 1);
    // Killed while nobody knows what became of it.
    drop(gateway);
    configure("renamed", "");
    let refused = run_in(folder.path(), &SERVE);
    assert_eq!(refused.status.code(), Some(3));
    let words = said(&refused);
    for part in [
        "\"renamed\"",
        "\"payments\"",
        "taskgate.toml, line 1",
        "1 operation that is not settled and 1 key",
        "recorded_as = \"payments\"",
        "recorded_as = \"renamed\"",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    configure("renamed", "recorded_as = \"payments\"");
    let gateway = Gateway::start(folder.path());
    let again = pays(&gateway);
    assert_eq!(demo.begun("payment", "A-1"), 1, "it is the same operation: {again}");
    assert_eq!(again["result"]["taskId"], first["result"]["taskId"], "{first} {again}");
    drop(gateway);
    // Somebody says that it is meant as a new one.
    configure("renamed", "recorded_as = \"renamed\"");
    let gateway = Gateway::start(folder.path());
    drop(gateway);
    // Gone altogether: that is told.
    let without = config(&demo.url, "");
    std::fs::write(folder.path().join("taskgate.toml"), without).unwrap();
    let told = run_in(folder.path(), &SERVE);
    assert_eq!(told.status.code(), Some(0));
    assert!(said(&told).contains("no workflow of this name any more"), "{}", said(&told));
}

/// Its server renamed in the same edit: nothing but the tool's name is left of it.
#[test]
fn r4_6_a_workflow_that_is_renamed_with_its_server_pays_once() {
    let demo = DemoServer::start("b");
    let before = workflow(&demo, "payments", "");
    let folder = folder(&[("taskgate.toml", &before)]);
    let gateway = Gateway::start(folder.path());
    pays(&gateway);
    drop(gateway);
    let after = |more: &str| workflow(&demo, "renamed", more).replace("demo", "shop");
    let file = folder.path().join("taskgate.toml");
    std::fs::write(&file, after("")).unwrap();
    let refused = run_in(folder.path(), &SERVE);
    assert_eq!(refused.status.code(), Some(3), "{}", said(&refused));
    assert!(said(&refused).contains("recorded_as = \"payments\""), "{}", said(&refused));
    std::fs::write(&file, after("recorded_as = \"payments\"")).unwrap();
    let gateway = Gateway::start(folder.path());
    pays(&gateway);
    assert_eq!(demo.begun("payment", "A-1"), 1);
}
