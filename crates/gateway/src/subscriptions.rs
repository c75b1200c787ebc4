//! `subscriptions/listen` (B-106 to B-112, B-131 to B-136, X-041, X-042).

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, StreamExt};
use taskgate_client::Notice;
use taskgate_core::id::TaskId;
use taskgate_engine::Handle;
use taskgate_engine::back::BackKey;
use taskgate_store::record::Record;
use taskgate_wire::dialect::b;
use taskgate_wire::json::{self, Object, string_literal};
use taskgate_wire::message;
use taskgate_wire::meta::{META, SUBSCRIPTION_ID};
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::splice::{Edit, splice};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::dispatch::{Exchange, Failure, Via, text};
use crate::modern::Modern;
use crate::reply::{Reply, delivered};
use crate::results::{self, Tool};
use crate::view::view;
use crate::watches::Watched;

/// What a client wants to hear of, as far as it can.
#[derive(Debug, Default)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    uris: BTreeSet<String>,
}

impl Filter {
    /// Reads the raw filter.
    fn read(raw: &str) -> Result<Filter, RpcError> {
        let object =
            Object::parse(raw).map_err(|_| RpcError::invalid_params("params.notifications is no object"))?;
        let flag = |name| match object.get(name) {
            None | Some("false" | "null") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(RpcError::invalid_params(format!("params.notifications.{name} is no boolean"))),
        };
        let uris = match object.get("resourceSubscriptions").filter(|uris| !json::is_null(uris)) {
            None => BTreeSet::new(),
            Some(uris) => json::elements(uris)
                .ok()
                .and_then(|all| all.into_iter().map(|uri| json::string(uri).map(String::from)).collect())
                .ok_or_else(|| {
                    RpcError::invalid_params("params.notifications.resourceSubscriptions is no list of URIs")
                })?,
        };
        Ok(Filter {
            tools: flag("toolsListChanged")?,
            prompts: flag("promptsListChanged")?,
            resources: flag("resourcesListChanged")?,
            uris,
        })
    }

    fn is_empty(&self) -> bool {
        !(self.tools || self.prompts || self.resources) && self.uris.is_empty()
    }

    /// The part that the server announces.
    fn narrow(&mut self, capabilities: &str) {
        let says = |path: &[&str]| json::at(capabilities, path) == Some("true");
        self.tools &= says(&["tools", "listChanged"]);
        self.prompts &= says(&["prompts", "listChanged"]);
        self.resources &= says(&["resources", "listChanged"]);
        if !says(&["resources", "subscribe"]) {
            self.uris.clear();
        }
    }

    /// As the acknowledgement lists it.
    fn to_json(&self) -> String {
        let mut parts = Vec::new();
        for (name, wanted) in [
            ("toolsListChanged", self.tools),
            ("promptsListChanged", self.prompts),
            ("resourcesListChanged", self.resources),
        ] {
            if wanted {
                parts.push(format!("\"{name}\":true"));
            }
        }
        if !self.uris.is_empty() {
            let uris: Vec<String> = self.uris.iter().map(|uri| string_literal(uri)).collect();
            parts.push(format!("\"resourceSubscriptions\":[{}]", uris.join(",")));
        }
        format!("{{{}}}", parts.join(","))
    }

    /// The notification that a notice becomes, if it is wanted (B-112, B-132).
    fn notification(&self, notice: &Notice, subscription: &str) -> Option<Bytes> {
        let bare = Bytes::from_static(b"{}");
        let (method, params) = match notice {
            Notice::ToolsChanged if self.tools => ("notifications/tools/list_changed", &bare),
            Notice::PromptsChanged if self.prompts => ("notifications/prompts/list_changed", &bare),
            Notice::ResourcesChanged if self.resources => ("notifications/resources/list_changed", &bare),
            Notice::ResourceUpdated(params) => {
                let uri = json::at(text(params), &["uri"]).and_then(json::string)?;
                if !self.uris.contains(uri.as_ref()) {
                    return None;
                }
                ("notifications/resources/updated", params)
            }
            Notice::ToolsChanged
            | Notice::PromptsChanged
            | Notice::ResourcesChanged
            | Notice::Log(_)
            | Notice::ElicitationComplete(_) => return None,
        };
        let named = splice(text(params), &[Edit::set(&[META, SUBSCRIPTION_ID], subscription)]).ok()?;
        Some(message::notification(method, Some(text(&named))))
    }
}

/// Opens a subscription and holds it until its client goes, nothing is left to say, or we stop.
pub(crate) async fn listen(exchange: &Exchange, modern: &Modern) -> Result<Reply, Failure> {
    let gateway = &exchange.gateway;
    let listen = b::read_listen(exchange.request.param("notifications"))?;
    if listen.names_tasks && !modern.declares_tasks {
        return Err(RpcError::tasks_extension_required().into());
    }
    let mut filter = Filter::read(listen.notifications)?;
    let limits = &gateway.config.limits;
    if listen.tasks.len() + filter.uris.len() > limits.filter_max {
        return Err(RpcError::too_many("tasks and resources in one subscription", limits.filter_max).into());
    }
    let _held = gateway
        .listens
        .take(&exchange.principal)
        .ok_or_else(|| RpcError::too_many("open subscriptions", gateway.listens.max()))?;

    let (mut notices, _watched) =
        if filter.is_empty() { (None, Vec::new()) } else { watch(exchange, modern, &mut filter).await? };
    let mut handles = Vec::new();
    for id in &listen.tasks {
        // Q-026: unknown and foreign ids are left out without a word.
        match own(exchange, id).await? {
            Some(handle) => handles.push(handle),
            None => gateway.misses.one_more(&exchange.principal).await,
        }
    }

    let subscription = exchange.request.id().as_json();
    let records: Vec<_> = handles.iter().map(Handle::record).collect();
    let ids: Vec<&TaskId> = records.iter().map(|record| &record.id).collect();
    let acknowledged =
        b::acknowledged(subscription, listen.names_tasks.then_some(ids.as_slice()), &filter.to_json());
    exchange.outlet.send(acknowledged);
    let push = async |record: &Record| {
        let shown = results::bounded(gateway, record, Tool::NotListed).await;
        let news = b::notification(&view(&gateway.engine, &shown), subscription);
        exchange.outlet.send_with(news, delivered(record));
    };
    // Q-027: one snapshot each, which closes the gap between creation and listening.
    for record in &records {
        push(record).await;
    }
    let mut changes: FuturesUnordered<_> = handles
        .into_iter()
        .zip(&records)
        .filter(|(_, record)| record.task.ending().is_none())
        .map(|(handle, _)| next(handle))
        .collect();

    while !(changes.is_empty() && notices.is_none()) {
        tokio::select! {
            biased;
            () = exchange.stopping.cancelled() => break,
            // A pipe that closed, or a stream whose reader fell too far behind to be told.
            () = exchange.outlet.closed() => break,
            Some((handle, record)) = changes.next() => {
                push(&record).await;
                if record.task.ending().is_none() {
                    changes.push(next(handle));
                }
            }
            notice = recv(&mut notices) => match notice {
                Ok(notice) => {
                    if let Some(message) = filter.notification(&notice, subscription) {
                        exchange.outlet.send(message);
                    }
                }
                Err(RecvError::Lagged(_)) => {}
                // The server session ended: the client listens again (B-135).
                Err(RecvError::Closed) => notices = None,
            },
        }
    }
    // B-135, G-021; over stdio the id is closed by Q-028's notification as well, which the pipe adds.
    Ok(Reply::result(exchange.request.id(), text(&b::listen_result(subscription))))
}

async fn next(mut handle: Handle) -> (Handle, std::sync::Arc<Record>) {
    let record = handle.changed().await;
    (handle, record)
}

async fn recv(notices: &mut Option<broadcast::Receiver<Notice>>) -> Result<Notice, RecvError> {
    match notices {
        Some(notices) => notices.recv().await,
        None => std::future::pending().await,
    }
}

async fn own(exchange: &Exchange, id: &TaskId) -> Result<Option<Handle>, Failure> {
    let found = exchange.gateway.engine.find(&exchange.principal, id).await?;
    Ok(found.filter(|handle| exchange.policy.shows(&handle.record().call.server)))
}

/// Listens to the server for what it announces of the filter.
async fn watch(
    exchange: &Exchange,
    modern: &Modern,
    filter: &mut Filter,
) -> Result<(Option<broadcast::Receiver<Notice>>, Vec<Watched>), Failure> {
    let via = Via::Modern(modern.clone());
    let upstream = exchange.upstream(&via).await?;
    filter.narrow(&upstream.says().back.capabilities);
    if filter.is_empty() {
        return Ok((None, Vec::new()));
    }
    let notices = upstream.notices();
    let key: BackKey = via.back_key(exchange);
    let mut watched = Vec::new();
    for uri in std::mem::take(&mut filter.uris) {
        // A result of ours never changes, and is no business of the server's.
        if results::read::is_own(exchange, &uri) {
            continue;
        }
        // A resource that the server will not announce is left out of the acknowledgement.
        if let Ok(held) = exchange.gateway.watches.resource(&upstream, &key, &uri).await {
            watched.push(held);
            filter.uris.insert(uri);
        }
    }
    Ok(((!filter.is_empty()).then_some(notices), watched))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_112_only_what_was_asked_for_and_is_announced_is_accepted() {
        let raw =
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["file:///a"]}"#;
        let mut filter = Filter::read(raw).unwrap();
        filter.narrow(r#"{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true}}"#);
        assert_eq!(filter.to_json(), r#"{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}"#);
        assert!(filter.notification(&Notice::PromptsChanged, "7").is_none());
        let changed = filter.notification(&Notice::ToolsChanged, "7").unwrap();
        assert_eq!(
            text(&changed),
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}"#
        );
        let updated = |uri: &str| Notice::ResourceUpdated(Bytes::from(format!("{{\"uri\":\"{uri}\"}}")));
        assert!(filter.notification(&updated("file:///b"), "7").is_none());
        assert!(filter.notification(&updated("file:///a"), "7").is_some());
    }

    #[test]
    fn b_108_a_filter_of_the_wrong_shape_is_refused() {
        for raw in [
            "[]",
            r#"{"toolsListChanged":1}"#,
            r#"{"resourceSubscriptions":[1]}"#,
            r#"{"resourceSubscriptions":"x"}"#,
        ] {
            assert!(Filter::read(raw).is_err(), "{raw}");
        }
    }
}
