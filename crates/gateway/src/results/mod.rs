//! The long result of a tool with a workflow: kept apart, and told of by its beginning and a handle (R5.7, design 10).
//!
//! What a server returned is stored whole, and a workflow's receipt rule sees it whole. Only what is shown is bounded:
//! [`bounded`] gives a record in which the short form stands in the result's place, so that every front shows it as it
//! would show a result. The whole is had by `resources/read`, by HTTP and by `taskgate_task`, each of which finds the
//! task as `tasks/get` does (R6.1).
//!
//! - `parts`: what a result is made of, each part under its own path
//! - `preview`: the short form
//! - `read`: the resources methods, as far as they are ours

mod parts;
mod preview;
pub(crate) mod read;

use std::borrow::Cow;

use bytes::Bytes;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Ending, State};
use taskgate_store::record::{Call, Record};

pub(crate) use parts::{Content, Part, open};
use preview::Kept;

use crate::gateway::Gateway;

/// The smallest bound on what is answered in whole: what stands for a long result has less than this.
pub const INLINE_MIN: usize = 16 * 1024;

/// The authority part of our URIs is the store's: a gateway behind us has its own, and is asked for those.
pub(crate) fn root(tag: &str) -> String {
    format!("taskgate://{tag}/results/")
}

/// Whether whoever reads a result sees `taskgate_task` among its tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tool {
    Listed,
    NotListed,
}

/// The record as it may be shown: with the short form of its result, if that is a long one of a tool with a workflow.
pub(crate) async fn bounded<'r>(gateway: &Gateway, record: &'r Record, tool: Tool) -> Cow<'r, Record> {
    let Some(Ending::Returned { result, is_error }) = record.task.ending() else {
        return Cow::Borrowed(record);
    };
    // Nearly all results are shorter than any bound, and cost no more than this.
    if result.len() <= INLINE_MIN {
        return Cow::Borrowed(record);
    }
    let Some(inline_max) = inline_max(gateway, &record.call) else { return Cow::Borrowed(record) };
    if result.len() <= inline_max {
        return Cow::Borrowed(record);
    }
    let kept = Kept {
        id: record.id.clone(),
        tool: record.call.tool.clone(),
        result: result.clone(),
        is_error: *is_error,
        expires: record.task.expires(),
        uri: uri(gateway, &record.id, Part::Whole),
        url: url(gateway, record),
        names_tool: tool == Tool::Listed,
        inline_max,
    };
    let is_error = *is_error;
    // It reads and hashes all of it, which may be many megabytes.
    let short = match tokio::task::spawn_blocking(move || preview::write(&kept)).await {
        Ok(short) => short,
        // We are going down. What is too long is not shown all the same.
        Err(_) => Bytes::from(format!("{{\"content\":[],\"isError\":{is_error}}}")),
    };
    let mut shown = record.clone();
    if let State::Over { ending: Ending::Returned { result, .. }, .. } = &mut shown.task.state {
        *result = short;
    }
    Cow::Owned(shown)
}

/// Up to which length a call's result is answered in whole; `None` for a tool without a workflow. What was called under
/// a workflow that is configured no more keeps to the general bound.
pub(crate) fn inline_max(gateway: &Gateway, call: &Call) -> Option<usize> {
    let workflow = gateway.server(&call.server).and_then(|policy| policy.workflows.get(&call.tool).cloned());
    let general = gateway.config.limits.result_inline;
    match (workflow, &call.intent) {
        (Some(workflow), _) => Some(workflow.inline_max.unwrap_or(general).max(INLINE_MIN)),
        (None, Some(_)) => Some(general.max(INLINE_MIN)),
        (None, None) => None,
    }
}

/// The URI of a part of a task's result.
pub(crate) fn uri(gateway: &Gateway, id: &TaskId, part: Part) -> String {
    format!("{}{}{part}", gateway.results_root, id.expose())
}

/// Where a whole result is had by HTTP. Only callers over HTTP are the ones that a GET can come from.
fn url(gateway: &Gateway, record: &Record) -> Option<String> {
    if !record.principal.is_shared() {
        return None;
    }
    let address = gateway.address.get()?;
    let policy = gateway.server(&record.call.server)?;
    Some(format!("http://{address}{}{HTTP_FOLDER}{}", policy.path.trim_end_matches('/'), record.id.expose()))
}

/// What stands on a page for one block of a result that is longer than a page.
pub(crate) fn block_link(gateway: &Gateway, record: &Record, result: &Bytes, number: usize) -> String {
    let part = Part::Block(number);
    let held = open(result, part).unwrap_or(Content {
        media_type: String::new(),
        bytes: Bytes::new(),
        is_text: true,
    });
    preview::link(&uri(gateway, &record.id, part), &preview::name(&record.call.tool, part), &held, None)
}

/// What stands between a server's path and a task's id.
pub(crate) const HTTP_FOLDER: &str = "/results/";

/// The id and the part that the end of a URI or a path names, if it could be one of ours.
pub(crate) fn place(rest: &str) -> Option<(TaskId, Part)> {
    let (id, part) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some((TaskId::parse(id).ok()?, Part::parse(part)?))
}
