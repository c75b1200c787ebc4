use taskgate_core::gate::ToolMode;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{Effect, Replay};

use super::text;
use crate::{Bounds, Conflict, Key, Keying, Object, Refused, Scope, Workflow};

fn workflow(keying: Keying) -> Workflow {
    Workflow {
        name: "payments".to_owned(),
        server: ServerName("bank".to_owned()),
        tools: vec!["pay".to_owned()],
        effect: Effect::Consequential,
        mode: ToolMode::Auto,
        replay: Replay::Never,
        resend: false,
        bounds: Bounds::default(),
        inline_max: None,
        keying,
        forward: None,
        object: Some(text("'account/' + args.to", Scope::Keyed)),
        version: Some(text("args.version", Scope::Keyed)),
        intended_effect: Some(text("'pays ' + string(args.amount) + ' as ' + key", Scope::Keyed)),
        conflict: Conflict::Refuse,
        receipt: None,
        probe: None,
        settle: None,
        fence: None,
        owners: Vec::new(),
        webhook: None,
    }
}

const ARGUMENTS: &str = r#"{"order":7,"to":"ann","version":3,"amount":1.5}"#;

#[test]
fn r4_1_key_object_version_and_intended_effect_follow_from_the_arguments() {
    let derived = workflow(Keying::Derived(text("'order-' + string(args.order)", Scope::Call)));
    let admission = derived.admit("pay", ARGUMENTS, None).unwrap();
    assert_eq!(admission.key, Some(Key { text: "order-7".to_owned(), is_business: true }));
    let object = Object { name: "account/ann".to_owned(), version: Some("3".to_owned()) };
    assert_eq!(admission.object, Some(object));
    assert_eq!(admission.effect_text.as_deref(), Some("pays 1.5 as order-7"));
    assert_eq!(derived.admit("pay", ARGUMENTS, Some("order-7")).unwrap().key, admission.key);
    assert_eq!(derived.admit("pay", ARGUMENTS, Some("other")), Err(Refused::KeyDiffers));
}

#[test]
fn r4_6_a_key_is_the_callers_or_missing() {
    let required = workflow(Keying::Required);
    assert_eq!(required.admit("pay", ARGUMENTS, None), Err(Refused::KeyMissing));
    let key = required.admit("pay", ARGUMENTS, Some("k")).unwrap().key;
    assert_eq!(key, Some(Key { text: "k".to_owned(), is_business: false }));
    assert_eq!(required.admit("pay", ARGUMENTS, Some("")), Err(Refused::Length { what: "idempotency key" }));
    // The words for people need a key here, and without one they cannot be found.
    assert!(matches!(workflow(Keying::PerRequest).admit("pay", ARGUMENTS, None), Err(Refused::Rule { .. })));
}

#[test]
fn a_value_that_cannot_be_told_refuses_the_call_without_repeating_it() {
    let derived = workflow(Keying::Derived(text("args.order", Scope::Call)));
    let mut out = String::new();
    for arguments in [
        "{}",
        r#"{"order":1.5,"to":"secret-9","version":1,"amount":1}"#,
        r#"{"order":"","to":"secret-9","version":1,"amount":1}"#,
        r#"{"order":1,"to":5,"version":1,"amount":1}"#,
        r#"{"order":1,"to":"x","version":null,"amount":1}"#,
        r#"{"order":1,"to":"x","version":1,"amount":["secret-9"]}"#,
        r#"{"order":{"secret-9":1},"to":"x"}"#,
        "{\"order\":",
    ] {
        let refused = derived.admit("pay", arguments, None).unwrap_err();
        out.push_str(&format!("{arguments}\n    {refused}\n"));
        assert!(!format!("{refused} {refused:?}").contains("secret-9"));
    }
    let long = format!(r#"{{"order":"{}"}}"#, "x".repeat(256));
    out.push_str(&format!("long\n    {}\n", derived.admit("pay", &long, None).unwrap_err()));
    out.push_str(&format!("{}\n{}\n", Refused::KeyMissing, Refused::KeyDiffers));
    insta::assert_snapshot!(out);
}
