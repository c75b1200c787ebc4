//! What a back's answer to `server/discover` says about its era (D-014 to D-023).

use crate::json::{self, Object};
use crate::message::{Outcome, Response};
use crate::rpc_error::{RpcError, code, strings};

/// The conclusion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is modern and speaks these versions; legacy dates among them mean "through `initialize`" (D-014).
    Modern {
        /// As listed, in order.
        versions: Vec<String>,
    },
    /// It is modern and did not like our request: correct it, do not fall back (D-015).
    CorrectAndRetry(RpcError),
    /// It may be legacy: try `initialize` (D-016 to D-018, D-022).
    TryInitialize,
    /// Says nothing: authorize, then ask again (D-019).
    Authorize,
    /// Says nothing: wait, then ask again, and remember nothing (D-020).
    Later,
}

/// Judges an HTTP answer. `body` is the response message, if the body held one; it is looked at whatever the
/// status is.
#[must_use]
pub fn judge_http(status: u16, body: Option<&Response>) -> Verdict {
    match status {
        401 | 403 => Verdict::Authorize,
        408 | 425 | 429 | 500..=599 => Verdict::Later,
        _ => judge(body),
    }
}

/// Judges an answer on a pipe; nothing came within the time-out for `None`.
#[must_use]
pub fn judge_stdio(answer: Option<&Response>) -> Verdict {
    judge(answer)
}

/// Not one particular error means legacy: whatever is no discover result and no modern error does (B-027).
///
/// Leniency: any-discover-error
fn judge(answer: Option<&Response>) -> Verdict {
    match answer.map(Response::outcome) {
        Some(Outcome::Result(result)) => {
            versions(result).map_or(Verdict::TryInitialize, |versions| Verdict::Modern { versions })
        }
        Some(Outcome::Error(error)) => {
            let error = RpcError::read(error);
            match error.code {
                code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_VERSION => {
                    Verdict::CorrectAndRetry(error)
                }
                _ => Verdict::TryInitialize,
            }
        }
        None => Verdict::TryInitialize,
    }
}

/// The versions of a valid discover result.
fn versions(result: &str) -> Option<Vec<String>> {
    let result = Object::parse(result).ok()?;
    let has_capabilities = result.get("capabilities").is_some_and(json::is_object);
    let versions = strings(result.get("supportedVersions")?);
    (has_capabilities && !versions.is_empty()).then_some(versions)
}
