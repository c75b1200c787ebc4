//! Envelopes that we author around bodies that may be anyone's.

use bytes::Bytes;

use crate::id::RequestId;
use crate::json::push_literal;
use crate::rpc_error::RpcError;

/// A request. `params` is the text of an object.
#[must_use]
pub fn request(id: &RequestId, method: &str, params: Option<&str>) -> Bytes {
    call(Some(id), method, params)
}

/// A notification. `params` is the text of an object.
#[must_use]
pub fn notification(method: &str, params: Option<&str>) -> Bytes {
    call(None, method, params)
}

/// The answer to a request that went well. `result` is the text of an object.
#[must_use]
pub fn success(id: &RequestId, result: &str) -> Bytes {
    let mut out = start(result.len() + id.as_json().len());
    push_id(&mut out, id);
    out.push_str(",\"result\":");
    out.push_str(result);
    out.push('}');
    Bytes::from(out)
}

/// The answer to a request that did not. Without an id the member is left out, as both schemas have it.
#[must_use]
pub fn error(id: Option<&RequestId>, error: &RpcError) -> Bytes {
    error_raw(id, &error.to_json())
}

/// Like [`error`], with the error object's text.
#[must_use]
pub fn error_raw(id: Option<&RequestId>, error: &str) -> Bytes {
    let mut out = start(error.len() + 32);
    if let Some(id) = id {
        push_id(&mut out, id);
    }
    out.push_str(",\"error\":");
    out.push_str(error);
    out.push('}');
    Bytes::from(out)
}

fn call(id: Option<&RequestId>, method: &str, params: Option<&str>) -> Bytes {
    let mut out = start(method.len() + params.map_or(0, str::len) + 32);
    if let Some(id) = id {
        push_id(&mut out, id);
    }
    out.push_str(",\"method\":");
    push_literal(&mut out, method);
    if let Some(params) = params {
        out.push_str(",\"params\":");
        out.push_str(params);
    }
    out.push('}');
    Bytes::from(out)
}

fn start(len: usize) -> String {
    let mut out = String::with_capacity(len + 48);
    out.push_str("{\"jsonrpc\":\"2.0\"");
    out
}

fn push_id(out: &mut String, id: &RequestId) {
    out.push_str(",\"id\":");
    out.push_str(id.as_json());
}
