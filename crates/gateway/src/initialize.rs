//! What we say of a server, and of ourselves, when a client opens (A-007, B-018).

use std::sync::Arc;

use taskgate_client::Manifest;
use taskgate_core::id::Principal;
use taskgate_engine::back::BackKey;
use taskgate_wire::handshake::{self, OfferTasks};
use taskgate_wire::listing::Cache;
use taskgate_wire::message::Request;
use taskgate_wire::rpc_error::RpcError;

use crate::config::ServerPolicy;
use crate::dispatch::{Exchange, Failure, Via, text};
use crate::gateway::Gateway;
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
    let result = handshake::initialize_result(&says.back, opening.version, tasks(&says, principal), OWN_INFO)
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
    let listing = exchange.gateway.config.listing;
    let cache = Cache { ttl: listing.ttl, is_public: listing.is_public };
    let result = handshake::discover_result(&says.back, tasks(&says, &exchange.principal), OWN_INFO, cache)
        .map_err(|malformed| RpcError::upstream_fault(&malformed.to_string()))?;
    Ok(Reply::result(exchange.request.id(), text(&result)))
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
