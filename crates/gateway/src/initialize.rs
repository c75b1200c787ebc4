//! What we say of a server, and of ourselves, when a client opens (A-007, B-018).

use std::borrow::Cow;
use std::sync::Arc;

use taskgate_client::Manifest;
use taskgate_core::id::Principal;
use taskgate_engine::back::BackKey;
use taskgate_store::Unfetched;
use taskgate_wire::handshake::{self, BackSelf, OfferTasks};
use taskgate_wire::listing::Cache;
use taskgate_wire::message::Request;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::splice::{Edit, splice};

use crate::config::{Sees, ServerPolicy};
use crate::dispatch::{Exchange, Failure, Via, text};
use crate::gateway::Gateway;
use crate::handle_tool;
use crate::modern::Modern;
use crate::reply::Reply;
use crate::session::Negotiated;

/// Stands in for a server that does not name itself.
pub(crate) const OWN_INFO: &str =
    concat!("{\"name\":\"taskgate\",\"version\":\"", env!("CARGO_PKG_VERSION"), "\"}");

/// An `initialize` that went well.
pub(crate) struct Opened {
    pub(crate) negotiated: Negotiated,
    pub(crate) result: String,
}

/// Answers `initialize`. The server is opened first, with what this client offers, so that nothing is
/// announced that it was not asked about in this session (R2.2).
pub(crate) async fn open(
    gateway: &Arc<Gateway>,
    policy: &ServerPolicy,
    principal: &Principal,
    request: &Request,
) -> Result<Opened, RpcError> {
    let opening = handshake::read_opening(request.params())?;
    let key = BackKey {
        server: policy.name.clone(),
        principal: principal.clone(),
        offers: opening.offers.to_stored(),
    };
    let upstream = gateway.upstreams.session(&key).await.map_err(|unreachable| {
        tracing::warn!(server = %key.server, error = %unreachable, "server cannot be reached");
        RpcError::internal(unreachable.to_string())
    })?;
    let says = upstream.says();
    let back = with_results(policy, welcome(gateway, policy, principal, &says.back).await);
    let result = handshake::initialize_result(&back, opening.version, tasks(&says, principal), OWN_INFO)
        .map_err(|malformed| RpcError::upstream_fault(&malformed.to_string()))?;
    Ok(Opened {
        negotiated: Negotiated {
            principal: principal.clone(),
            server: policy.name.clone(),
            version: opening.version,
            offers: opening.offers,
            client_info: opening.client_info.unwrap_or_else(|| "{}".to_owned()),
        },
        result: text(&result).to_owned(),
    })
}

/// Answers `server/discover`.
pub(crate) async fn discover(exchange: &Exchange, modern: &Modern) -> Result<Reply, Failure> {
    let upstream = exchange.upstream(&Via::Modern(modern.clone())).await?;
    let says = upstream.says();
    let back = if modern.declares_tasks {
        Cow::Borrowed(&says.back)
    } else {
        welcome(&exchange.gateway, &exchange.policy, &exchange.principal, &says.back).await
    };
    let back = with_results(&exchange.policy, back);
    let listing = exchange.gateway.config.listing;
    let cache = Cache { ttl: listing.ttl, is_public: listing.is_public };
    let result = handshake::discover_result(&back, tasks(&says, &exchange.principal), OWN_INFO, cache)
        .map_err(|malformed| RpcError::upstream_fault(&malformed.to_string()))?;
    Ok(Reply::result(exchange.request.id(), text(&result)))
}

/// What the server says of itself, and behind its instructions what a client that comes back may still want to hear
/// of. A client that is shown no tasks of before is told nothing (design 4).
async fn welcome<'b>(
    gateway: &Gateway,
    policy: &ServerPolicy,
    principal: &Principal,
    back: &'b BackSelf,
) -> Cow<'b, BackSelf> {
    if policy.sees != Sees::Principal || principal.is_shared() {
        return Cow::Borrowed(back);
    }
    let left = match gateway.engine.unfetched(principal).await {
        Ok(left) => left,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "earlier calls could not be counted");
            return Cow::Borrowed(back);
        }
    };
    let Some(words) = still_there(left) else { return Cow::Borrowed(back) };
    let instructions = match &back.instructions {
        Some(theirs) => format!("{theirs}\n\n{words}"),
        None => words,
    };
    Cow::Owned(BackSelf { instructions: Some(instructions), ..back.clone() })
}

/// Long results of tools with a workflow are read as resources, which are ours where the server has none (R5.7).
fn with_results<'b>(policy: &ServerPolicy, back: Cow<'b, BackSelf>) -> Cow<'b, BackSelf> {
    if policy.workflows.is_empty() || back.has(&["resources"]) {
        return back;
    }
    match splice(&back.capabilities, &[Edit::set(&["resources"], "{}")]) {
        Ok(capabilities) => {
            let capabilities = text(&capabilities).to_owned();
            Cow::Owned(BackSelf { capabilities, ..back.into_owned() })
        }
        Err(_) => back,
    }
}

/// One sentence on the calls of before; nothing if there are none.
fn still_there(left: Unfetched) -> Option<String> {
    let Unfetched { running, ended } = left;
    let there = match (running, ended) {
        (0, 0) => return None,
        (_, 0) => format!("{running} still running"),
        (0, _) => format!("{ended} with a result that was not fetched yet"),
        (_, _) => format!("{running} still running, {ended} with a result that was not fetched yet"),
    };
    let list = handle_tool::NAME;
    Some(format!("Calls made before: {there}; {list} with {{\"action\":\"list\"}} shows them."))
}

/// Who answers, as results name it (B-006).
pub(crate) fn server_info(says: &Manifest) -> &str {
    says.back.server_info.as_deref().unwrap_or(OWN_INFO)
}

/// Every tool can be called as a task, since we make tasks ourselves where the server makes none (X-001, G-006).
fn tasks(says: &Manifest, principal: &Principal) -> OfferTasks {
    if says.back.has(&["tools"]) {
        OfferTasks::Yes { is_identified: !principal.is_shared() }
    } else {
        OfferTasks::No
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn design_4_what_is_left_from_before_is_said_in_one_sentence_or_not_at_all() {
        let words = |running, ended| still_there(Unfetched { running, ended });
        assert_eq!(words(0, 0), None);
        assert_eq!(
            words(1, 2).unwrap(),
            "Calls made before: 1 still running, 2 with a result that was not fetched yet; taskgate_task with \
             {\"action\":\"list\"} shows them."
        );
        assert!(words(3, 0).unwrap().starts_with("Calls made before: 3 still running; "));
        assert!(
            words(0, 1).unwrap().starts_with("Calls made before: 1 with a result that was not fetched yet; ")
        );
    }
}
