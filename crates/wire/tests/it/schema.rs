//! The official schemas.

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use serde_json::{Value, json};

/// Which schema a check is against.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Schema {
    /// 2025-11-25.
    A,
    /// 2026-07-28.
    B,
    /// The tasks extension.
    X,
}

static SOURCES: LazyLock<BTreeMap<Schema, Value>> = LazyLock::new(|| {
    let read = |text| serde_json::from_str(text).unwrap();
    BTreeMap::from([
        (Schema::A, read(include_str!("../../schema/mcp-2025-11-25.schema.json"))),
        (Schema::B, read(include_str!("../../schema/mcp-2026-07-28.schema.json"))),
        (Schema::X, read(include_str!("../../schema/ext-tasks-2026-07-28.schema.json"))),
    ])
});

static VALIDATORS: Mutex<BTreeMap<(Schema, String), jsonschema::Validator>> = Mutex::new(BTreeMap::new());

/// Fails the test unless `text` is a valid `name`.
#[track_caller]
pub(crate) fn assert_valid(schema: Schema, name: &str, text: impl AsRef<[u8]>) {
    // serde_json cannot hold such a number, which is the point of having it in a test.
    let text = &core::str::from_utf8(text.as_ref()).unwrap().replace("1e400", "1");
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let errors: Vec<String> = {
        let mut validators = VALIDATORS.lock().unwrap();
        let validator = validators.entry((schema, name.to_owned())).or_insert_with(|| {
            let source = &SOURCES[&schema];
            assert!(source["$defs"].get(name).is_some(), "the schema has no {name}");
            let root = json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$defs": source["$defs"],
                "$ref": format!("#/$defs/{name}"),
            });
            jsonschema::validator_for(&root).unwrap()
        });
        validator.iter_errors(&value).map(|error| error.to_string()).collect()
    };
    assert!(errors.is_empty(), "no valid {name}: {errors:?}\n{text}");
}
