//! Multi-round-trip requests: a result that asks, and the same call again with the answers (B-122 to B-130).

use bytes::Bytes;
use taskgate_core::task::Question;

use crate::json::{self, Object, push_literal, string_literal};
use crate::message::Malformed;
use crate::question;
use crate::rpc_error::RpcError;
use crate::splice::{Edit, splice};

/// What a back wants before it goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputRequired {
    /// Its questions by its own keys, in its order. May be none: then the call may be repeated at once.
    pub questions: Vec<(String, Question)>,
    /// What must come back byte for byte (G-014).
    pub request_state: Option<String>,
}

/// Why a back's answer cannot be used (G-025).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UpstreamFault(pub String);

impl UpstreamFault {
    pub(crate) fn new(what: impl Into<String>) -> UpstreamFault {
        UpstreamFault(what.into())
    }
}

/// Reads a back's `resultType: "input_required"`.
///
/// # Errors
/// [`UpstreamFault`]: it has neither questions nor state, or a question that nobody knows (B-124).
pub fn read(result: &str) -> Result<InputRequired, UpstreamFault> {
    let object = Object::parse(result).map_err(|error| UpstreamFault::new(error.to_string()))?;
    let questions = match object.get("inputRequests") {
        Some(requests) => read_questions(requests)?,
        None => Vec::new(),
    };
    let request_state = object.str("requestState").map(String::from);
    if questions.is_empty() && request_state.is_none() {
        return Err(UpstreamFault::new("input is required, but neither questions nor a state are given"));
    }
    Ok(InputRequired { questions, request_state })
}

/// Reads an `inputRequests` object.
///
/// # Errors
/// [`UpstreamFault`]: it is no object, or an entry is no question.
pub(crate) fn read_questions(requests: &str) -> Result<Vec<(String, Question)>, UpstreamFault> {
    let requests =
        Object::parse(requests).map_err(|_| UpstreamFault::new("inputRequests is no object of requests"))?;
    let read = |member: json::Member<'_>| {
        let key = member.name.into_owned();
        let question = question::read_entry(member.value, Some(key.clone())).map_err(|error| {
            UpstreamFault::new(format!("an input request cannot be read: {}", error.message))
        })?;
        Ok((key, question))
    };
    requests.members().map(read).collect()
}

/// Writes a result that asks a client (B-124). `request_state` is ours, signed (G-013).
#[must_use]
pub fn write<'q>(
    questions: impl Iterator<Item = (&'q str, &'q Question)>,
    request_state: Option<&str>,
) -> Bytes {
    let mut out = String::from("{\"resultType\":\"input_required\"");
    let requests = requests_json(questions);
    if requests != "{}" {
        out.push_str(",\"inputRequests\":");
        out.push_str(&requests);
    }
    if let Some(state) = request_state {
        out.push_str(",\"requestState\":");
        push_literal(&mut out, state);
    }
    out.push('}');
    Bytes::from(out)
}

/// An `inputRequests` object.
pub(crate) fn requests_json<'q>(questions: impl Iterator<Item = (&'q str, &'q Question)>) -> String {
    let mut out = String::from("{");
    for (at, (key, question)) in questions.enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_literal(&mut out, key);
        out.push(':');
        out.push_str(&question::to_b(question));
    }
    out.push('}');
    out
}

/// What a client's retry brings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Retry<'a> {
    /// Raw answers by key.
    pub answers: Vec<(String, &'a str)>,
    /// The state it was given.
    pub request_state: Option<String>,
}

/// Reads `inputResponses` and `requestState` from params. Neither there means that it is no retry.
///
/// # Errors
/// `-32602`: one of them has the wrong shape (B-130).
pub fn read_retry(params: &str) -> Result<Option<Retry<'_>>, RpcError> {
    let object = Object::parse(params).map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let answers = object.get("inputResponses");
    let state = object.get("requestState");
    if answers.is_none() && state.is_none() {
        return Ok(None);
    }
    let answers = answers.map_or(Ok(Vec::new()), read_answers)?;
    let request_state = match state.map(json::string) {
        None => None,
        Some(Some(state)) => Some(state.into_owned()),
        Some(None) => return Err(RpcError::invalid_params("requestState is no string")),
    };
    Ok(Some(Retry { answers, request_state }))
}

/// Reads an `inputResponses` object: raw answers by key. The last of repeated keys counts.
///
/// # Errors
/// `-32602`: it is no object (B-130).
pub fn read_answers(responses: &str) -> Result<Vec<(String, &str)>, RpcError> {
    let responses = Object::parse(responses)
        .map_err(|_| RpcError::invalid_params("inputResponses is no object of answers"))?;
    let mut answers: Vec<(String, &str)> = Vec::new();
    for member in responses.members() {
        answers.retain(|(key, _)| *key != member.name);
        answers.push((member.name.into_owned(), member.value));
    }
    Ok(answers)
}

/// Puts answers and a back's own state into the params of the call that is repeated, and takes away what the
/// client had there (B-128, B-129).
///
/// # Errors
/// [`Malformed`] if `params` is no object.
pub fn retry_params(
    params: &str,
    answers: &[(String, Bytes)],
    request_state: Option<&str>,
) -> Result<Bytes, Malformed> {
    let answers = if answers.is_empty() {
        Edit::remove(&["inputResponses"])
    } else {
        Edit::set(&["inputResponses"], answers_json(answers))
    };
    let state = match request_state {
        Some(state) => Edit::set(&["requestState"], string_literal(state)),
        None => Edit::remove(&["requestState"]),
    };
    splice(params, &[answers, state])
}

/// An `inputResponses` object; the answers are as [`answer::for_b`](crate::answer::for_b) gives them.
#[must_use]
pub fn answers_json(answers: &[(String, Bytes)]) -> String {
    let mut out = String::from("{");
    for (at, (key, answer)) in answers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push_literal(&mut out, key);
        out.push(':');
        out.push_str(core::str::from_utf8(answer).unwrap_or("{}"));
    }
    out.push('}');
    out
}
