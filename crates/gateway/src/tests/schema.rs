//! Whether what we send is what the official schemas allow.

use std::sync::LazyLock;

use serde_json::{Value, json};

static A: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../wire/schema/mcp-2025-11-25.schema.json")).unwrap()
});
static B: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../wire/schema/mcp-2026-07-28.schema.json")).unwrap()
});
static X: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../wire/schema/ext-tasks-2026-07-28.schema.json")).unwrap()
});

fn check(schema: &Value, name: &str, value: &Value) {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/$defs/{name}"),
        "$defs": schema["$defs"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?} in {value}");
}

/// Checks against 2025-11-25.
pub(crate) fn is_a(name: &str, value: &Value) {
    check(&A, name, value);
}

/// Checks against 2026-07-28.
pub(crate) fn is_b(name: &str, value: &Value) {
    check(&B, name, value);
}

/// Checks against the tasks extension.
pub(crate) fn is_x(name: &str, value: &Value) {
    check(&X, name, value);
}
