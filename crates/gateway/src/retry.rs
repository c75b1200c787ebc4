//! A stateless call that was asked something and comes again with the answers (B-122 to B-130, G-013).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Question, QuestionKey, QuestionKind};
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_engine::Handle;
use taskgate_store::record::Record;
use taskgate_wire::errors;
use taskgate_wire::json::{self, Object};
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

/// What the state leads to: a call that is recorded, described by what follows.
const RECORDED: &str = "recorded:";

/// What the state leads to: nothing yet, since the call never began.
const AGAIN: &str = "again";

/// The result that asks a client for what a recorded call waits for (B-124).
///
/// Its `requestState` leads back to the call: sealed, and bound to the caller, the tool and the arguments. It holds the
/// task's id and what the questions are called here; what the server itself wants back stays with us (G-014).
pub(crate) fn ask(checked: &Checked<'_>, record: &Record, open: &BTreeMap<QuestionKey, Question>) -> Reply {
    let names = names(open);
    let now = checked.exchange.gateway.engine.clock().now();
    let expires = UnixMillis(record.deadline.0.min((now + STATE_LIFE).0));
    let payload = Asked::write(&record.id, &names);
    let state = write(checked.exchange, &checked.tool, checked.digest(), expires, &payload);
    let questions = names.into_iter().zip(open.values()).map(|((_, name), question)| (name, question));
    Reply::result(checked.exchange.request.id(), text(&mrtr::write(questions, Some(&state))))
}

/// What the questions of one round are called towards the client: as their server calls them, so that a client that
/// knows that server knows them too. If it gave them no names, or one name twice, they are called by our keys.
///
/// A server may use a name again in a later round. That cannot mix them up, since each round's state says which of our
/// keys a name stood for (B-092).
fn names(open: &BTreeMap<QuestionKey, Question>) -> Vec<(&QuestionKey, &str)> {
    let own: BTreeSet<_> = open.values().filter_map(|question| question.back_key.as_deref()).collect();
    let are_distinct = own.len() == open.len();
    let named = open.iter().map(|(key, question)| match &question.back_key {
        Some(name) if are_distinct => (key, name.as_str()),
        Some(_) | None => (key, key.0.as_str()),
    });
    named.collect()
}

/// What a state says of the recorded call that it leads to.
struct Asked {
    task: TaskId,
    /// Our keys of the questions, by the names under which they were asked.
    keys: BTreeMap<String, String>,
}

impl Asked {
    fn write(task: &TaskId, names: &[(&QuestionKey, &str)]) -> String {
        let mut keys = String::new();
        for (key, name) in names {
            let comma = if keys.is_empty() { "" } else { "," };
            keys.push_str(&format!("{comma}{}:{}", json::string_literal(name), json::string_literal(&key.0)));
        }
        format!("{RECORDED}{{\"task\":\"{}\",\"asked\":{{{keys}}}}}", task.expose())
    }

    /// Nothing if we did not write it.
    fn read(payload: &str) -> Option<Asked> {
        let object = Object::parse(payload.strip_prefix(RECORDED)?).ok()?;
        let task = TaskId::parse(&object.str("task")?).ok()?;
        let asked = Object::parse(object.get("asked")?).ok()?;
        let keys = asked
            .members()
            .map(|member| Some((member.name.into_owned(), json::string(member.value)?.into_owned())))
            .collect::<Option<_>>()?;
        Some(Asked { task, keys })
    }

    /// The answers by our keys. What was not asked is left out (B-130).
    fn answers<'a>(&self, named: Vec<(String, &'a str)>) -> Vec<(String, &'a str)> {
        let key = |(name, answer)| Some((self.keys.get::<String>(&name)?.clone(), answer));
        named.into_iter().filter_map(key).collect()
    }
}

/// Goes on with the call that the state leads to. It is not made again, unless it never began.
pub(crate) async fn go_on(checked: Checked<'_>, retry: Retry<'_>) -> Result<Reply, Failure> {
    let opened = retry.request_state.and_then(|state| open(&checked, &state));
    let payload = opened.ok_or_else(|| {
        RpcError::invalid_params("requestState does not belong to this request, or has expired")
    })?;
    if payload == AGAIN {
        return calls::again(checked).await;
    }
    let asked = Asked::read(&payload).ok_or_else(RpcError::unknown_task)?;
    let handle = find_id(checked.exchange, &asked.task).await?;
    take_answers(&checked.exchange.gateway, &handle, asked.answers(retry.answers)).await?;
    let until = Wait::Until(checked.until());
    wait::wait(&checked, handle, until, Start::Fresh).await
}

/// Takes the answers that came with the call itself, by the names that its questions have. True if there was one that
/// is asked for; what is still open is asked then, and what nobody asked for is ignored (B-130).
///
/// We always give a state, so nobody has to do this. A client that lost it, or that knows a server whose own questions
/// have none, is served and not refused: the official conformance suite is one.
pub(crate) async fn take_ahead(checked: &Checked<'_>, handle: &Handle) -> Result<bool, Failure> {
    let record = handle.record();
    let Some(open) = record.task.outstanding() else { return Ok(false) };
    let names = names(open.questions());
    let answer = |(key, name): &(&QuestionKey, &str)| {
        let (_, answer) = checked.ahead.iter().find(|(given, _)| given == name)?;
        Some((key.0.clone(), *answer))
    };
    let answers: Vec<_> = names.iter().filter_map(answer).collect();
    let is_any = !answers.is_empty();
    take_answers(&checked.exchange.gateway, handle, answers).await?;
    Ok(is_any)
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
