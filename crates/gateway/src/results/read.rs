//! The resources methods, as far as they are ours: kept results are read here, everything else is the server's.

use bytes::Bytes;
use data_encoding::BASE64;
use taskgate_core::task::Ending;
use taskgate_store::record::Record;
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::listing::{self, Cache};
use taskgate_wire::rpc_error::{RpcError, code};

use super::preview::beginning;
use super::{Content, inline_max, open, place};
use crate::dispatch::{Exchange, Failure, Via};
use crate::initialize::OWN_INFO;
use crate::passthrough;
use crate::reply::Reply;
use crate::tasks_a::find_id;

/// Answers `resources/read`, `resources/list` and `resources/templates/list`.
///
/// A URI of ours goes nowhere else. Where a tool has a workflow, we announce resources whether or not the server has any;
/// for one that has none, we say so ourselves.
pub(crate) async fn handle(exchange: &Exchange, via: &Via) -> Result<Reply, Failure> {
    let method = exchange.request.method();
    let uri = exchange.request.param("uri").and_then(json::string).filter(|_| method == "resources/read");
    if let Some(uri) = &uri
        && let Some(rest) = uri.strip_prefix(exchange.gateway.results_root.as_str())
    {
        return read(exchange, via, uri, rest).await;
    }
    if exchange.policy.workflows.is_empty() || exchange.upstream(via).await?.says().back.has(&["resources"]) {
        return passthrough::pass(exchange, via).await;
    }
    match (method, uri) {
        ("resources/list", _) => own(exchange, via, "{\"resources\":[]}"),
        ("resources/templates/list", _) => own(exchange, via, "{\"resourceTemplates\":[]}"),
        (_, Some(uri)) => Err(not_found(via, &uri).into()),
        (_, None) => Err(RpcError::invalid_params("params.uri is missing or no string").into()),
    }
}

/// A piece of a kept result.
async fn read(exchange: &Exchange, via: &Via, uri: &str, rest: &str) -> Result<Reply, Failure> {
    let asked = rest.split('#').next().unwrap_or_default();
    let (path, query) = asked.split_once('?').map_or((asked, None), |(path, query)| (path, Some(query)));
    let from = match query {
        None => Some(0),
        Some(query) => query.strip_prefix("from=").and_then(|from| from.parse::<usize>().ok()),
    };
    let (Some((id, part)), Some(from)) = (place(path), from) else {
        exchange.gateway.misses.one_more(&exchange.principal).await;
        return Err(not_found(via, uri).into());
    };
    let record = match find_id(exchange, &id).await {
        Ok(handle) => handle.record(),
        Err(Failure::Ours(error)) if error == RpcError::unknown_task() => {
            return Err(not_found(via, uri).into());
        }
        Err(failure) => return Err(failure),
    };
    let Some(result) = returned(&record) else { return Err(not_found(via, uri).into()) };
    let bytes_max =
        inline_max(&exchange.gateway, &record.call).unwrap_or(exchange.gateway.config.limits.result_inline);
    let base = format!("{}{path}", exchange.gateway.results_root);
    let named = uri.to_owned();
    let piece = tokio::task::spawn_blocking(move || {
        let held = open(&result, part)?;
        write(&held, &base, &named, from, bytes_max)
    });
    let piece = piece.await.map_err(|_| RpcError::internal("The gateway is stopping"))?;
    match piece {
        Some(piece) => own(exchange, via, &piece),
        None => Err(not_found(via, uri).into()),
    }
}

/// The result of a task that returned one.
pub(crate) fn returned(record: &Record) -> Option<Bytes> {
    match record.task.ending() {
        Some(Ending::Returned { result, .. }) => Some(result.clone()),
        Some(Ending::Raised { .. } | Ending::Faulted(_) | Ending::Cancelled) | None => None,
    }
}

/// `ReadResourceResult` from byte `from` on; `None` if nothing begins there. If more follows it says so, to programs in
/// `_meta` and to readers in an item of its own.
fn write(held: &Content, base: &str, named: &str, from: usize, bytes_max: usize) -> Option<String> {
    let total = held.bytes.len();
    if from >= total && from > 0 {
        return None;
    }
    let (value, to) = if held.is_text {
        let text = std::str::from_utf8(&held.bytes).ok()?.get(from..)?;
        let piece = beginning(text, bytes_max);
        (format!("\"text\":{}", string_literal(piece)), from + piece.len())
    } else {
        let to = total.min(from + bytes_max / 4 * 3);
        (format!("\"blob\":\"{}\"", BASE64.encode(held.bytes.get(from..to)?)), to)
    };
    let media_type = string_literal(&held.media_type);
    let mut out =
        format!("{{\"contents\":[{{\"uri\":{},\"mimeType\":{media_type},{value}}}", string_literal(named));
    let next = (to < total).then(|| format!("{base}?from={to}"));
    if let Some(next) = &next {
        let words = format!("These were bytes {from} to {} of {total}. What follows is {next}", to - 1);
        out.push_str(&format!(
            ",{{\"uri\":{},\"mimeType\":\"text/plain\",\"text\":{}}}",
            string_literal(&format!("{base}#more")),
            string_literal(&words)
        ));
    }
    out.push_str(&format!(
        "],\"_meta\":{{\"taskgate/piece\":{{\"from\":{from},\"to\":{to},\"bytes\":{total}"
    ));
    if let Some(next) = &next {
        out.push_str(&format!(",\"next\":{}", string_literal(next)));
    }
    out.push_str("}}}");
    Some(out)
}

/// A result of our own, kept by nobody (B-153).
fn own(exchange: &Exchange, via: &Via, result: &str) -> Result<Reply, Failure> {
    let shown = listing::for_front(result, via.version(), Cache::NONE)
        .map_err(|malformed| RpcError::internal(malformed.to_string()))?;
    Ok(via.result(exchange.request.id(), &shown, OWN_INFO))
}

/// One answer for a URI that is unknown, expired, someone else's or no URI of ours (R6.1, G-015, E-010).
fn not_found(via: &Via, uri: &str) -> RpcError {
    let code = if via.version().is_modern() { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
    RpcError::new(code, "Resource not found").with_data(format!("{{\"uri\":{}}}", string_literal(uri)))
}

/// Whether a URI is one of ours. A kept result never changes, so there is nothing to listen for.
pub(crate) fn is_own(exchange: &Exchange, uri: &str) -> bool {
    uri.starts_with(exchange.gateway.results_root.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(text: &str) -> Content {
        Content { media_type: "text/plain".to_owned(), bytes: Bytes::from(text.to_owned()), is_text: true }
    }

    #[test]
    fn r5_7_pieces_of_a_text_are_cut_between_characters_and_lose_nothing() {
        let text = "ä\"\u{1}€\n".repeat(100);
        let (mut from, mut whole) = (0, String::new());
        loop {
            let piece = write(&held(&text), "t:x", "t:x", from, 64).unwrap();
            let shown = json::elements(json::at(&piece, &["contents"]).unwrap()).unwrap();
            let shown = json::at(shown[0], &["text"]).unwrap();
            assert!(shown.len() <= 64 + 2, "{shown}");
            whole.push_str(&json::string(shown).unwrap());
            let piece = json::at(&piece, &["_meta", "taskgate/piece"]).unwrap().to_owned();
            let Some(next) = json::at(&piece, &["next"]).and_then(json::string) else { break };
            from = next.strip_prefix("t:x?from=").unwrap().parse().unwrap();
        }
        assert_eq!(whole, text);
        // Nothing begins within a character, nor behind the end.
        assert_eq!(write(&held(&text), "t:x", "t:x", 1, 64), None);
        assert_eq!(write(&held(&text), "t:x", "t:x", text.len(), 64), None);
        assert!(write(&held(""), "t:x", "t:x", 0, 64).is_some());
    }
}
