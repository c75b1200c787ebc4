//! JSON as text: splices, canonical form, hostile input.

use proptest::prelude::*;
use serde_json::Value;
use taskgate_wire::json::{self, Object};
use taskgate_wire::splice::{Edit, splice};

fn text(bytes: impl AsRef<[u8]>) -> String {
    String::from_utf8(bytes.as_ref().to_vec()).unwrap()
}

#[test]
fn what_no_edit_names_keeps_every_byte() {
    let body = r#"{ "big":12345678901234567890123,"float":1e400 , "dup":1,"dup" : 2,"\u0061b":"\ud83d\ude00\/",
        "vendor.x":[1.10, {"z":0,"a":0}] ,"_meta" : { "keep" : 1.0 , "drop":2 }, "type":"hologram" }"#;
    let edits = [
        Edit::remove(&["_meta", "drop"]),
        Edit::set(&["_meta", "new", "deep"], "true"),
        Edit::set(&["type"], "null"),
        Edit::set(&["last"], "[]"),
    ];
    assert_eq!(
        text(splice(body, &edits).unwrap()),
        r#"{ "big":12345678901234567890123,"float":1e400 , "dup":1,"dup" : 2,"\u0061b":"\ud83d\ude00\/",
        "vendor.x":[1.10, {"z":0,"a":0}] ,"_meta" : { "keep" : 1.0 ,"new":{"deep":true}}, "type":null ,"last":[]}"#
    );
}

#[test]
fn repeated_names_that_are_edited_all_go() {
    let body = r#"{"a":1,"b":2,"a":3,"\u0061":4}"#;
    assert_eq!(text(splice(body, &[Edit::set(&["a"], "5")]).unwrap()), r#"{"b":2,"\u0061":5}"#);
    assert_eq!(text(splice(body, &[Edit::remove(&["a"])]).unwrap()), r#"{"b":2}"#);
}

#[test]
fn edits_of_one_place_happen_in_order() {
    let edits = [Edit::set(&["a", "x"], "1"), Edit::set(&["a"], r#"{"y":2}"#), Edit::set(&["a", "z"], "3")];
    assert_eq!(text(splice(r#"{"a":0}"#, &edits).unwrap()), r#"{"a":{"y":2,"z":3}}"#);
    let edits = [Edit::remove(&["a"]), Edit::remove(&["a", "b"])];
    assert_eq!(text(splice(r#"{"a":{"b":1}}"#, &edits).unwrap()), "{}");
    assert_eq!(text(splice(r#"{"a":7}"#, &[Edit::remove(&["a", "b"])]).unwrap()), r#"{"a":7}"#);
}

#[test]
fn only_objects_can_be_edited() {
    for body in ["", "[]", "null", "{", r#"{"a":1}x"#, r#"{"a":01}"#, r#"{"a":"\x"}"#, "{\"a\":\"\n\"}"] {
        assert!(splice(body, &[Edit::remove(&["a"])]).is_err(), "{body}");
    }
    assert!(splice("{}", &[Edit::remove(&[])]).is_err());
}

#[test]
fn hostile_nesting_is_an_error() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let fits = format!("{}1{}", open.repeat(128), close.repeat(128));
        assert_eq!(json::check(&fits), Ok(()));
        let deep = format!("{}1{}", open.repeat(129), close.repeat(129));
        assert_eq!(json::check(&deep).unwrap_err().what, "nested too deeply");
        let huge = open.repeat(1_000_000);
        assert!(json::check(&huge).is_err());
        assert_eq!(json::duplicate_member(&huge), None);
        assert_eq!(json::canonical(&deep), deep.as_bytes());
    }
}

#[test]
fn the_last_of_repeated_members_is_read() {
    let object =
        Object::parse(r#"{"a":1,"a":"x\ny","n":18446744073709551615,"t":true,"o":{"p":[ ]}}"#).unwrap();
    assert_eq!(object.str("a").as_deref(), Some("x\ny"));
    assert_eq!(object.u64("n"), Some(u64::MAX));
    assert_eq!(object.bool("t"), Some(true));
    assert_eq!(object.object("o").unwrap().get("p"), Some("[ ]"));
    assert_eq!(object.members().count(), 5);
}

#[test]
fn canonical_form_ignores_how_it_was_written_and_rounds_no_number() {
    let one = json::canonical(r#" {"b":[1, 2.50,1e400],"a":"\u0041\/", "c":0,"c":9007199254740993 } "#);
    assert_eq!(text(one), r#"{"a":"A/","b":[1,2.50,1e400],"c":9007199254740993}"#);
    assert_ne!(json::canonical(r#""\ud800""#), json::canonical(r#""\ud801""#));
}

#[test]
fn duplicates_are_found_at_any_depth() {
    assert_eq!(json::duplicate_member(r#"{"a":[{"x":1,"\u0078":2}]}"#).as_deref(), Some("x"));
    assert_eq!(json::duplicate_member(r#"{"a":{"x":1},"b":{"x":1}}"#), None);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map("[a-d]", value(), 0..4).prop_map(|map| map.into_iter().collect())
}

type OwnEdit = (Vec<String>, Option<Value>);

fn edits() -> impl Strategy<Value = Vec<OwnEdit>> {
    prop::collection::vec((prop::collection::vec("[a-e]", 1..4), prop::option::of(value())), 0..5)
}

/// The plain way: decode, edit the tree.
fn edit_tree(tree: &mut Value, path: &[String], new: &Option<Value>) {
    let (head, rest) = path.split_first().unwrap();
    if !tree.is_object() {
        if new.is_none() {
            return;
        }
        *tree = Value::Object(serde_json::Map::new());
    }
    let members = tree.as_object_mut().unwrap();
    if !rest.is_empty() {
        if new.is_some() || members.contains_key(head) {
            edit_tree(members.entry(head.clone()).or_insert(Value::Null), rest, new);
        }
    } else if let Some(new) = new {
        members.insert(head.clone(), new.clone());
    } else {
        members.remove(head);
    }
}

proptest! {
    #[test]
    fn a_splice_equals_decode_edit_encode(tree in object(), edits in edits(), is_pretty: bool) {
        let body = if is_pretty { serde_json::to_string_pretty(&tree) } else { serde_json::to_string(&tree) }.unwrap();
        let paths: Vec<Vec<&str>> = edits.iter().map(|(path, _)| path.iter().map(String::as_str).collect()).collect();
        let ours: Vec<Edit<'_>> = edits.iter().zip(&paths).map(|((_, value), path)| match value {
            Some(value) => Edit::set(path, value.to_string()),
            None => Edit::remove(path),
        }).collect();
        let spliced = text(splice(&body, &ours).unwrap());
        let mut expected = tree;
        for (path, new) in &edits {
            edit_tree(&mut expected, path, new);
        }
        prop_assert_eq!(serde_json::from_str::<Value>(&spliced).unwrap(), expected);
        let heads: Vec<&str> = paths.iter().map(|path| path[0]).collect();
        let untouched = |body: &str| -> Vec<(String, String)> {
            let object = Object::parse(body).unwrap();
            let all = object.members().filter(|member| !heads.contains(&member.name.as_ref()));
            all.map(|member| (member.name.into_owned(), member.value.to_owned())).collect()
        };
        prop_assert_eq!(untouched(&spliced), untouched(&body));
    }

    #[test]
    fn we_accept_what_a_strict_parser_accepts(body in "[\\[\\]{}\",:0-9eE.+\\- a\\\\ntrue]{0,24}") {
        let is_json = serde_json::from_str::<&serde_json::value::RawValue>(body.trim()).is_ok();
        prop_assert_eq!(json::check(&body).is_ok(), is_json, "{}", body);
    }

    #[test]
    fn generated_json_is_read_and_canonical_form_is_stable(tree in value()) {
        let body = tree.to_string();
        prop_assert_eq!(json::check(&body), Ok(()));
        let once = json::canonical(&body);
        prop_assert_eq!(serde_json::from_slice::<Value>(&once).unwrap(), tree.clone());
        let pretty = serde_json::to_string_pretty(&tree).unwrap();
        prop_assert_eq!(json::canonical(&pretty), once);
    }

    #[test]
    fn string_literals_come_back(words: String) {
        let literal = json::string_literal(&words);
        prop_assert_eq!(serde_json::from_str::<String>(&literal).unwrap(), words.clone());
        prop_assert_eq!(json::string(&literal).unwrap(), words);
    }
}
