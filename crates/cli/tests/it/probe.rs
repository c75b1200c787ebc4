//! `probe`: what a server can do, for people and for programs.

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{DemoServer, folder, run_in, said};

/// Takes away what differs from run to run.
fn steady(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let line = line.split(" answered at ").next().unwrap_or_default();
        let line = line.split("sha256 ").next().unwrap_or_default();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[test]
fn r2_3_a_manifest_is_shown_for_each_dialect() {
    let folder = folder(&[]);
    for dialect in ["b", "a", "plain"] {
        let server = DemoServer::start(dialect);
        let output = run_in(folder.path(), &["probe", &server.url]);
        assert_snapshot!(dialect, steady(&said(&output)));
    }
}

#[test]
fn r2_3_a_manifest_is_data_with_json() {
    let server = DemoServer::start("b");
    let folder = folder(&[("taskgate.toml", &format!("[servers.demo]\nurl = \"{}\"\n", server.url))]);
    let output = run_in(folder.path(), &["probe", "demo", "--config", "taskgate.toml", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let manifest: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(manifest["server"], "demo");
    assert_eq!(manifest["protocol_version"], "2026-07-28");
    assert_eq!(manifest["tasks"]["dialect"], "b");
    assert_eq!(manifest["tools"].as_array().unwrap().len(), 6);
    assert_eq!(manifest["tools"][0]["sha256"].as_str().unwrap().len(), 64);
    let evidence: Value = serde_json::from_str(manifest["evidence"][0]["result"].as_str().unwrap()).unwrap();
    assert_eq!(evidence["supportedVersions"][0], "2026-07-28");
}

#[test]
fn a_server_that_cannot_be_reached_has_its_own_exit_code() {
    let folder = folder(&[("mcp.json", r#"{"mcpServers":{"a":{"command":"a"}}}"#)]);
    let gone = run_in(folder.path(), &["probe", "--", "/does/not/exist"]);
    assert_eq!(gone.status.code(), Some(6), "{}", said(&gone));
    assert!(said(&gone).contains("/does/not/exist does not start"), "{}", said(&gone));
    assert_snapshot!(said(&run_in(folder.path(), &["probe", "b", "--mcp-json", "mcp.json"])));
}
