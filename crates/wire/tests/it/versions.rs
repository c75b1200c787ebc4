//! What each version can carry, and what becomes of the rest (G-005).

use bytes::Bytes;
use serde_json::{Value, json};
use taskgate_wire::listing::{self, Cache, Rewrite};
use taskgate_wire::version::Version;
use taskgate_wire::{content, result};

const OLD: [Version; 4] =
    [Version::V2025_11_25, Version::V2025_06_18, Version::V2025_03_26, Version::V2024_11_05];

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn everything() -> Bytes {
    let result = json!({
        "content": [
            {"type": "text", "text": "plain", "annotations": {"audience": ["user"]}, "x": 1},
            {"type": "audio", "data": "AAECAw==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///r", "name": "r", "title": "R", "icons": [{"src": "i"}]},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ],
        "structuredContent": {"n": 1},
        "isError": false,
    });
    Bytes::from(result.to_string())
}

#[test]
fn g_005_a_tool_result_has_what_each_version_knows_and_the_rest_as_text() {
    let shown = OLD.map(|version| {
        let shown: Value = serde_json::from_slice(&result::for_legacy(&everything(), version)).unwrap();
        format!("{}\n{}", version.as_str(), serde_json::to_string_pretty(&shown).unwrap())
    });
    insta::assert_snapshot!(shown.join("\n\n"));
}

#[test]
fn g_005_structured_content_that_no_text_says_is_said() {
    let said = |content: Value, structured: Value| {
        let sent = Bytes::from(json!({"content": content, "structuredContent": structured}).to_string());
        let shown = result::for_legacy(&sent, Version::V2025_03_26);
        let shown: Value = serde_json::from_slice(&shown).unwrap();
        assert_eq!(shown.get("structuredContent"), None);
        shown["content"].as_array().unwrap().len()
    };
    let block = |words: &str| json!({"type": "text", "text": words});
    for (content, structured, blocks) in [
        (json!([]), json!({"a": 1}), 1),
        (json!([block("{ \"a\": 1 }")]), json!({"a": 1}), 1),
        (json!([block("done")]), json!({"a": 1}), 2),
        (json!([{"type": "image", "data": "AA==", "mimeType": "image/png"}]), json!({"a": 1}), 2),
        // Python servers wrap a plain value, and say it plainly.
        (json!([block("seven")]), json!({"result": "seven"}), 1),
        (json!([block("7")]), json!({"result": 7}), 1),
        (json!([block("8")]), json!({"result": 7}), 2),
    ] {
        assert_eq!(said(content.clone(), structured.clone()), blocks, "{content} {structured}");
    }
}

#[test]
fn g_005_a_prompt_that_holds_audio_loses_none_of_it() {
    let sent = json!({"messages": [
        {"role": "user", "content": {"type": "text", "text": "listen"}},
        {"role": "assistant", "content": {"type": "audio", "data": "AAEC", "mimeType": "audio/ogg"}, "x": 1},
    ]});
    let sent = Bytes::from(sent.to_string());
    let shown = result::for_legacy(&sent, Version::V2024_11_05);
    insta::assert_snapshot!(text(&shown));
    let known = result::for_legacy(&sent, Version::V2025_03_26);
    assert_eq!(known.as_ptr(), sent.as_ptr(), "nothing to change, so not even a copy");
}

#[test]
fn g_005_tools_are_listed_as_each_version_knows_them() {
    let listed = r#"{"tools":[{"name":"t","title":"T","icons":[],"inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"execution":{"taskSupport":"required"},"x":1e400}]}"#;
    let shown = OLD.map(|front| {
        let rewrite = Rewrite {
            front,
            support: &|_| None,
            hides_output_schema: &|_| false,
            hides: &|_| false,
            own_tool: None,
            cache: Cache::NONE,
        };
        let shown = listing::rewrite_tools(listed, &rewrite).unwrap();
        format!("{} {}", front.as_str(), text(&shown))
    });
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn g_005_blocks_that_a_version_knows_keep_their_bytes() {
    let known = r#"[ {"type" : "text", "text":"a\u0062", "n":1.0}, {"type":"hologram"}, 7 ]"#;
    for version in Version::SUPPORTED {
        assert_eq!(content::blocks_for(known, version), None);
        assert_eq!(content::messages_for(r#"[{"role":"user","content":{"type":"text"}}, 7]"#, version), None);
    }
    let one_foreign = r#"[ {"type" : "text", "n":1.0},{"type":"resource_link","uri":"x:1"}]"#;
    assert_eq!(
        content::blocks_for(one_foreign, Version::V2025_03_26).as_deref(),
        Some(r#"[{"type" : "text", "n":1.0},{"type":"text","text":"x:1"}]"#)
    );
}

#[test]
fn a_008_d_002_each_version_with_a_handshake_is_answered_with_itself() {
    for version in OLD {
        assert_eq!(Version::negotiate(version.as_str()), version);
        assert_eq!(Version::parse(version.as_str()), Some(version));
        assert_eq!(version.has_batches(), version == Version::V2025_03_26, "D-005");
    }
    assert_eq!(Version::negotiate("2026-07-28"), Version::NEWEST_LEGACY);
    assert_eq!(Version::negotiate("2024-10-07"), Version::NEWEST_LEGACY);
}
