//! The params of a request without what speaks to us: they go on to a server in no dialect at all.

use bytes::Bytes;
use taskgate_wire::json::Object;
use taskgate_wire::message::{Malformed, Request};
use taskgate_wire::meta::{
    CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, META, PROGRESS_TOKEN, PROTOCOL_VERSION, RELATED_TASK,
};
use taskgate_wire::splice::{Edit, splice};

use crate::level::Level;

/// The member of `_meta` by which a client names its operation (R4.6).
pub(crate) const IDEMPOTENCY_KEY: &str = "taskgate/idempotency-key";

/// Members of `_meta` that are about the way to us.
const OURS: [&str; 7] = [
    PROTOCOL_VERSION,
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROGRESS_TOKEN,
    RELATED_TASK,
    IDEMPOTENCY_KEY,
];

const OUR_PATHS: [[&str; 2]; 7] = [
    [META, PROTOCOL_VERSION],
    [META, CLIENT_CAPABILITIES],
    [META, CLIENT_INFO],
    [META, LOG_LEVEL],
    [META, PROGRESS_TOKEN],
    [META, RELATED_TASK],
    [META, IDEMPOTENCY_KEY],
];

/// Takes out what is ours and the members named in `also`. Bytes that need no change are shared, not copied.
///
/// `log_level` is put in: a modern server sends log messages only to requests that ask for them (B-140, X-044).
pub(crate) fn clean(request: &Request, also: &[&str], log_level: Option<Level>) -> Result<Bytes, Malformed> {
    let params = request.params().unwrap_or("{}");
    let bytes = request.params_bytes().unwrap_or_else(|| Bytes::from_static(b"{}"));
    let meta = request.param(META).and_then(|meta| Object::parse(meta).ok());
    let also: Vec<[&str; 1]> =
        also.iter().filter(|name| request.param(name).is_some()).map(|name| [*name]).collect();
    let mut edits: Vec<Edit<'_>> = also.iter().map(|path| Edit::remove(path)).collect();
    if let Some(meta) = meta {
        if meta.members().all(|member| OURS.contains(&member.name.as_ref())) {
            edits.push(Edit::remove(&[META]));
        } else {
            let present = OUR_PATHS.iter().filter(|path| meta.get(path[1]).is_some());
            edits.extend(present.map(|path| Edit::remove(path)));
        }
    }
    if let Some(level) = log_level {
        edits.push(Edit::set(&[META, LOG_LEVEL], format!("\"{}\"", level.as_str())));
    }
    if edits.is_empty() { Ok(bytes) } else { splice(params, &edits) }
}

/// The raw progress token of a request: a string or a number (A-079).
pub(crate) fn progress_token(request: &Request) -> Option<&str> {
    let token = taskgate_wire::json::at(request.param(META)?, &[PROGRESS_TOKEN])?;
    (!token.starts_with(['n', 't', 'f', '{', '['])).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taskgate_wire::message::{Message, parse};

    fn request(params: &str) -> Request {
        let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{params}}}");
        let Message::Request(request) = parse(Bytes::from(text)).unwrap() else { panic!("a request") };
        request
    }

    #[test]
    fn x_021_what_speaks_to_us_goes_and_the_rest_keeps_its_bytes() {
        for (before, after) in [
            (r#"{ "name" : "a", "arguments":{"n":1.0e2} }"#, r#"{ "name" : "a", "arguments":{"n":1.0e2} }"#),
            (r#"{"name":"a","_meta":{"progressToken":7}}"#, r#"{"name":"a"}"#),
            (
                r#"{"name":"a","_meta":{"progressToken":7,"traceparent":"00-1"}}"#,
                r#"{"name":"a","_meta":{"traceparent":"00-1"}}"#,
            ),
            (r#"{"name":"a","task":{"ttl":1}}"#, r#"{"name":"a"}"#),
        ] {
            let clean = clean(&request(before), &["task"], None).unwrap();
            assert_eq!(std::str::from_utf8(&clean).unwrap(), after);
        }
    }

    #[test]
    fn a_079_a_token_is_a_string_or_a_number() {
        for (token, expected) in [("7", Some("7")), ("\"a\"", Some("\"a\"")), ("null", None), ("{}", None)] {
            let request = request(&format!("{{\"_meta\":{{\"progressToken\":{token}}}}}"));
            assert_eq!(progress_token(&request), expected);
        }
    }
}
