//! What a client answers to a question: checked, and written for the back that asked.

use bytes::Bytes;
use taskgate_core::task::QuestionKind;

use crate::json::{self, Object};
use crate::meta::{self, META, RELATED_TASK};
use crate::rpc_error::{RpcError, code};
use crate::splice::{Edit, splice};
use crate::text::SafeText;

/// Checks that an answer has the shape that its question asks for. Numbers in a form may be fractions
///
///
/// # Errors
/// `-32602`, saying what is wrong; the question stays outstanding.
pub fn check(kind: QuestionKind, answer: &str) -> Result<(), RpcError> {
    let wrong = |what: &str| Err(RpcError::invalid_params(format!("The answer to {} {what}", kind.method())));
    let Ok(answer) = Object::parse(answer) else { return wrong("is no object") };
    match kind {
        QuestionKind::Form | QuestionKind::Url => {
            match answer.str("action").as_deref() {
                Some("accept" | "decline" | "cancel") => {}
                Some(_) | None => return wrong("has no action of accept, decline or cancel"),
            }
            match (kind, answer.get("content")) {
                (_, None) => Ok(()),
                // Clients that write every optional field.
                (_, Some("null")) => Ok(()),
                (QuestionKind::Url, Some(_)) => wrong("has content, though a URL is only consented to"),
                (_, Some(content)) => match Object::parse(content) {
                    Ok(content) if content.members().all(|member| is_form_value(member.value)) => Ok(()),
                    Ok(_) => wrong("has a value that a form cannot have"),
                    Err(_) => wrong("has a content that is no object"),
                },
            }
        }
        QuestionKind::Sampling => {
            if !matches!(answer.str("role").as_deref(), Some("user" | "assistant")) {
                return wrong("has no role of user or assistant");
            }
            if answer.str("model").is_none() {
                return wrong("names no model");
            }
            match answer.get("content") {
                Some(content) if content.starts_with(['{', '[']) => Ok(()),
                Some(_) | None => wrong("has no content"),
            }
        }
        QuestionKind::Roots => {
            let roots = answer.get("roots").and_then(|roots| json::elements(roots).ok());
            match roots {
                Some(roots) if roots.iter().all(|root| has_uri(root)) => Ok(()),
                Some(_) => wrong("has a root without a URI"),
                None => wrong("has no list of roots"),
            }
        }
    }
}

fn is_form_value(value: &str) -> bool {
    match value.as_bytes().first() {
        Some(b'[') => json::elements(value)
            .is_ok_and(|elements| elements.into_iter().all(|element| element.starts_with('"'))),
        Some(b'{') | None => false,
        Some(_) => value != "null",
    }
}

fn has_uri(root: &str) -> bool {
    json::at(root, &["uri"]).is_some_and(|uri| uri.starts_with('"'))
}

/// An answer as the `result` of a response to a dialect A back, with the back's own task id.
#[must_use]
pub fn for_a(answer: &str, back_task: Option<&str>) -> Bytes {
    let related = [META, RELATED_TASK];
    let mut edits = vec![Edit::remove(&["resultType"]), null_content(answer)];
    match back_task {
        Some(id) => edits.push(Edit::set(&related, meta::related_task_value(id))),
        None => edits.push(Edit::remove(&related)),
    }
    splice(answer, &edits).unwrap_or_else(|_| Bytes::copy_from_slice(answer.as_bytes()))
}

/// An answer as a value of `inputResponses` for a dialect B back: a bare result without related-task metadata
/// (B-088, X-021).
#[must_use]
pub fn for_b(answer: &str) -> Bytes {
    let mut edits = vec![Edit::remove(&["resultType"]), null_content(answer)];
    if meta::modern::is_meta_only(answer, &[RELATED_TASK]) {
        edits.push(Edit::remove(&[META]));
    } else {
        edits.push(Edit::remove(&[META, RELATED_TASK]));
    }
    splice(answer, &edits).unwrap_or_else(|_| Bytes::copy_from_slice(answer.as_bytes()))
}

/// `content: null` is read as absent and never passed on. Otherwise an edit that changes nothing.
fn null_content(answer: &str) -> Edit<'static> {
    match json::at(answer, &["content"]) {
        Some("null") => Edit::remove(&["content"]),
        Some(_) | None => Edit::remove(&["resultType"]),
    }
}

/// What an error instead of an answer means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// It can be said as an answer: an elicitation was cancelled or declined.
    Answer(&'static str),
    /// It cannot: there is no answer, for this reason (X-029, B-147).
    NoAnswer(String),
}

/// Turns a client's error into what a back can be told.
#[must_use]
pub fn from_error(kind: QuestionKind, error: &str) -> Refused {
    let error = RpcError::read(error);
    match kind {
        QuestionKind::Form | QuestionKind::Url => {
            let is_declined =
                error.code == code::USER_REJECTED || error.message.to_ascii_lowercase().contains("decline");
            Refused::Answer(if is_declined { "{\"action\":\"decline\"}" } else { "{\"action\":\"cancel\"}" })
        }
        QuestionKind::Sampling | QuestionKind::Roots => {
            let said = SafeText::new(&error.message, 120);
            Refused::NoAnswer(format!(
                "the client answered {} with error {}: {said}",
                kind.method(),
                error.code
            ))
        }
    }
}

/// What a back is told when a client that cannot say no has not answered in time.
///
/// # Errors
/// The error to answer with, where no answer says it.
pub fn gave_up(kind: QuestionKind) -> Result<&'static str, RpcError> {
    match kind {
        QuestionKind::Form | QuestionKind::Url => Ok("{\"action\":\"cancel\"}"),
        QuestionKind::Sampling | QuestionKind::Roots => {
            Err(RpcError::new(code::USER_REJECTED, "Nobody answered in time"))
        }
    }
}
