//! A stateless call that was asked something and comes again with the answers (B-122 to B-130, G-013).

use bytes::Bytes;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Question, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::record::Record;
use taskgate_wire::errors;
use taskgate_wire::json;
use taskgate_wire::mrtr::{self, Retry};
use taskgate_wire::offers::Offers;
use taskgate_wire::question;
use taskgate_wire::rpc_error::RpcError;

use crate::calls::{self, Checked, Start};
use crate::dispatch::{Exchange, Failure, text};
use crate::modern::Modern;
use crate::reply::Reply;
use crate::tasks_a::find_id;
use crate::tasks_b::take_answers;
use crate::wait::{self, Wait};

/// How long a client may take to answer, unless the work must be over before.
const STATE_LIFE: Millis = Millis::hours(24);

const PURPOSE: &str = "tools/call";

/// What the state leads to: a task, whose id follows.
const TASK: &str = "task:";

/// What the state leads to: nothing yet, since the call never began.
const AGAIN: &str = "again";

/// The `requestState` that leads back to a call: sealed, and bound to the caller, the tool and the arguments. It
/// holds nothing but the task's id; what the server itself wants back stays with us (G-014).
pub(crate) fn seal(checked: &Checked<'_>, record: &Record) -> String {
    let now = checked.exchange.gateway.engine.clock().now();
    let expires = UnixMillis(record.deadline.0.min((now + STATE_LIFE).0));
    let payload = format!("{TASK}{}", record.id.expose());
    write(checked.exchange, &checked.tool, checked.digest(), expires, &payload)
}

/// Goes on with the call that the state leads to. It is not made again, unless it never began.
pub(crate) async fn go_on(checked: Checked<'_>, retry: Retry<'_>) -> Result<Reply, Failure> {
    let Some(state) = retry.request_state else {
        return Err(
            RpcError::invalid_params("inputResponses without the requestState that they belong to").into()
        );
    };
    let opened = open(&checked, &state);
    let payload = opened.ok_or_else(|| {
        RpcError::invalid_params("requestState does not belong to this request, or has expired")
    })?;
    if payload == AGAIN {
        return calls::again(checked).await;
    }
    let id = payload
        .strip_prefix(TASK)
        .and_then(|id| TaskId::parse(id).ok())
        .ok_or_else(RpcError::unknown_task)?;
    let handle = find_id(checked.exchange, &id).await?;
    take_answers(&checked.exchange.gateway, &handle, retry.answers).await?;
    let until = Wait::Until(checked.until());
    wait::wait(&checked, handle, until, Start::Fresh).await
}

/// A server that wants a URL visited before it begins said so by a code that stateless clients do not have: they
/// are asked for it, and make the call again (X-033, E-009).
pub(crate) fn url_first(
    exchange: &Exchange,
    modern: &Modern,
    arguments: &str,
    error: Bytes,
) -> Result<Reply, Failure> {
    let urls = errors::url_elicitations(text(&error));
    if urls.is_empty() {
        return Err(Failure::Theirs(error));
    }
    if !modern.offers.url() {
        let required = Offers::required_for(QuestionKind::Url);
        return Err(RpcError::missing_capability("A URL must be visited first", required).into());
    }
    let read = |url: &&str| question::read("elicitation/create", Some(url), None).ok();
    let questions: Vec<(String, Question)> = urls
        .iter()
        .filter_map(read)
        .enumerate()
        .map(|(at, question)| (format!("url-{}", at + 1), question))
        .collect();
    let tool = exchange.request.param("name").and_then(json::string).unwrap_or_default();
    let expires = exchange.gateway.engine.clock().now() + STATE_LIFE;
    let state = write(exchange, &tool, &calls::digest(&tool, arguments), expires, AGAIN);
    let asked = questions.iter().map(|(key, question)| (key.as_str(), question));
    Ok(Reply::result(exchange.request.id(), text(&mrtr::write(asked, Some(&state)))))
}

fn write(exchange: &Exchange, tool: &str, digest: &[u8; 32], expires: UnixMillis, payload: &str) -> String {
    let sealed =
        exchange.gateway.sealer.seal(PURPOSE, &bound(exchange, tool, digest), expires, payload.as_bytes());
    format!("v1.{sealed}")
}

fn open(checked: &Checked<'_>, state: &str) -> Option<String> {
    let gateway = &checked.exchange.gateway;
    let now = gateway.engine.clock().now();
    let sealed = state.strip_prefix("v1.")?;
    let bound = bound(checked.exchange, &checked.tool, checked.digest());
    String::from_utf8(gateway.sealer.open(PURPOSE, &bound, now, sealed).ok()?).ok()
}

fn bound<'b>(exchange: &'b Exchange, tool: &'b str, digest: &'b [u8; 32]) -> [&'b [u8]; 4] {
    [exchange.principal.as_str().as_bytes(), exchange.policy.name.0.as_bytes(), tool.as_bytes(), digest]
}
