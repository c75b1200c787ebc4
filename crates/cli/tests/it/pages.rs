//! Generated pages are committed, and up to date. `UPDATE=1 cargo test -p taskgate-cli pages` writes them.

use std::path::PathBuf;

use crate::support::{run_in, said};

#[expect(clippy::disallowed_methods, reason = "UPDATE speaks to the test, not to taskgate")]
fn page(file: &str, command: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    let output = run_in(&std::env::temp_dir(), &["config", command]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let fresh = String::from_utf8(output.stdout).unwrap();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fresh, "docs/{file} is out of date: run UPDATE=1 cargo test -p taskgate-cli pages");
}

#[test]
fn the_configuration_reference_is_up_to_date() {
    page("configuration.md", "reference");
}

#[test]
fn the_configuration_schema_is_up_to_date() {
    page("config.schema.json", "schema");
}
