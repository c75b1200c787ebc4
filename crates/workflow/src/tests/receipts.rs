use hmac::{Hmac, KeyInit, Mac};
use ring::signature::{Ed25519KeyPair, KeyPair};
use sha2::Sha256;
use taskgate_core::operation::Verdict;

use super::{bool, facts, text};
use crate::{Answer, Expression, Failed, Hidden, Issuer, Proof, ReceiptRule, Scheme, Scope, Signature};

const RESULT: &str =
    r#"{"content":[{"type":"text","text":"{\"id\":\"tx-1\",\"order\":\"order-7\",\"state\":\"paid\"}"}]}"#;

fn rule(issuer: Issuer) -> ReceiptRule {
    ReceiptRule {
        when: bool("data.state == 'paid' && data.order == key", Scope::Receipt),
        not_applied_when: Some(bool("data.state == 'refused' && data.order == key", Scope::Receipt)),
        reference: text("data.id", Scope::Receipt),
        issuer,
    }
}

fn find(rule: &ReceiptRule, result: &str) -> Option<crate::Receipt> {
    rule.find(facts("{}"), Answer::Tool(result.as_bytes())).unwrap()
}

#[test]
fn r4_3_a_receipt_confirms_only_if_it_is_known_who_issued_it() {
    let found = find(&rule(Issuer::Server), RESULT).unwrap();
    assert_eq!((found.reference.as_str(), found.verdict, found.confirms()), ("tx-1", Verdict::Applied, true));
    let found = find(&rule(Issuer::Unknown), RESULT).unwrap();
    assert!(!found.confirms() && found.proof == Proof::Unverified);
    let refused = RESULT.replace("paid", "refused");
    assert_eq!(find(&rule(Issuer::Server), &refused).unwrap().verdict, Verdict::NotApplied);
    assert_eq!(find(&rule(Issuer::Server), &RESULT.replace("paid", "pending")), None);
}

#[test]
fn r4_3_what_a_tool_says_of_an_error_is_no_receipt_unless_the_rule_looks_at_that() {
    let error = RESULT.replacen('{', "{\"isError\":true,", 1);
    assert_eq!(find(&rule(Issuer::Server), &error), None);
    assert_eq!(
        find(&rule(Issuer::Server), r#"{"isError":true,"content":[{"type":"text","text":"no luck"}]}"#),
        None
    );
    let looks = ReceiptRule {
        when: bool("answer.isError && data.state == 'paid' && data.order == key", Scope::Receipt),
        ..rule(Issuer::Server)
    };
    assert!(find(&looks, &error).unwrap().confirms());
}

#[test]
fn r4_3_a_receipt_of_another_operation_is_none_of_this() {
    assert_eq!(find(&rule(Issuer::Server), &RESULT.replace("order-7", "order-8")), None);
    let unbound = ReceiptRule {
        when: bool("data.state == 'paid'", Scope::Receipt),
        not_applied_when: None,
        ..rule(Issuer::Server)
    };
    assert!(!unbound.is_bound() && rule(Issuer::Server).is_bound());
    let half = ReceiptRule {
        not_applied_when: Some(bool("data.state == 'refused'", Scope::Receipt)),
        ..rule(Issuer::Server)
    };
    assert!(!half.is_bound());
}

fn signed(scheme: Scheme) -> ReceiptRule {
    let over: Expression = text("data.id + '|' + key + '|' + data.state", Scope::Receipt);
    let given = text("data.signature", Scope::Receipt);
    ReceiptRule {
        when: bool("data.state == 'paid'", Scope::Receipt),
        not_applied_when: None,
        ..rule(Issuer::Signer(Box::new(Signature { scheme, over, given })))
    }
}

fn with_signature(signature: &[u8], is_hex: bool) -> String {
    let signature = if is_hex {
        data_encoding::HEXLOWER.encode(signature)
    } else {
        data_encoding::BASE64.encode(signature)
    };
    format!(
        r#"{{"content":[],"structuredContent":{{"id":"tx-1","state":"paid","signature":"{signature}"}}}}"#
    )
}

#[test]
fn r4_3_a_signature_is_checked() {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"shared secret").unwrap();
    mac.update(b"tx-1|order-7|paid");
    let mac = mac.finalize().into_bytes().to_vec();
    let rule = signed(Scheme::HmacSha256(Hidden::new("shared secret")));
    for is_hex in [true, false] {
        let result = with_signature(&mac, is_hex);
        assert_eq!(find(&rule, &result).unwrap().proof, Proof::Issued);
        // Every part that was signed counts.
        assert_eq!(find(&rule, &result.replace("tx-1", "tx-2")).unwrap().proof, Proof::Forged);
        let other = signed(Scheme::HmacSha256(Hidden::new("another secret")));
        assert_eq!(find(&other, &result).unwrap().proof, Proof::Forged);
        let facts = crate::Facts { key: Some("order-8"), ..facts("{}") };
        let found = rule.find(facts, Answer::Tool(result.as_bytes())).unwrap().unwrap();
        assert_eq!(found.proof, Proof::Forged);
    }
    assert_eq!(find(&rule, &with_signature(b"", true)).unwrap().proof, Proof::Forged);
    assert_eq!(find(&rule, &with_signature(&mac[..16], true)).unwrap().proof, Proof::Forged);

    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
    let key = data_encoding::BASE64.encode(pair.public_key().as_ref());
    let rule = signed(Scheme::ed25519(&key).unwrap());
    let result = with_signature(pair.sign(b"tx-1|order-7|paid").as_ref(), false);
    assert_eq!(find(&rule, &result).unwrap().proof, Proof::Issued);
    assert_eq!(find(&rule, &result.replace("paid", "paid ")), None);
    assert_eq!(find(&rule, &result.replace("tx-1", "tx-9")).unwrap().proof, Proof::Forged);
    assert!(Scheme::ed25519("abc").is_none());
}

#[test]
fn a_rule_that_fails_finds_no_receipt_and_says_why() {
    let rule = rule(Issuer::Server);
    let failed = |result: &str| rule.find(facts("{}"), Answer::Tool(result.as_bytes())).unwrap_err();
    assert_eq!(
        failed("{}").to_string(),
        "`receipt.when` cannot be evaluated: a member is looked for in null"
    );
    let missing = RESULT.replace("state", "status");
    assert_eq!(
        failed(&missing).to_string(),
        "`receipt.when` cannot be evaluated: `state` is missing in the data"
    );
    assert_eq!(failed("rubbish").why, Failed::Unreadable("the tool's result"));
    // A result that contradicts itself is no receipt, whichever of the two a reader would take.
    let twice = RESULT.replace("{\\\"id", "{\\\"state\\\":\\\"refused\\\",\\\"id");
    assert_eq!(failed(&twice).why, Failed::Twice("the answer"));
    let twice = RESULT.replacen('{', "{\"content\":[],", 1);
    assert_eq!(failed(&twice).why, Failed::Twice("the tool's result"));
    let twice = r#"{"structuredContent":{"state":"refused","id":"tx-1","order":"order-7","state":"paid"}}"#;
    assert_eq!(failed(twice).why, Failed::Twice("the tool's result"));
    let large = format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}",
        "x".repeat(crate::ANSWER_BYTES_MAX + 1)
    );
    // What stands beside the data may be long (R5.7).
    let image = format!("[{{\"type\":\"image\",\"data\":\"{}\"}},", "x".repeat(crate::ANSWER_BYTES_MAX));
    let beside = RESULT.replacen('[', &image, 1);
    let found = rule.find(facts("{\"order\":\"A-1\"}"), Answer::Tool(beside.as_bytes()));
    assert_eq!(found, rule.find(facts("{\"order\":\"A-1\"}"), Answer::Tool(RESULT.as_bytes())));
    assert_eq!(failed(&large).why, Failed::TooLarge("the answer"));
    assert!(failed(&RESULT.replace("id\\\":\\\"tx-1", "id\\\":\\\"")).why == Failed::Empty);
    let both = ReceiptRule {
        not_applied_when: Some(bool("data.order == key", Scope::Receipt)),
        ..super::receipts::rule(Issuer::Server)
    };
    assert_eq!(both.find(facts("{}"), Answer::Tool(RESULT.as_bytes())).unwrap_err().why, Failed::Both);
}
