//! `tools/list`, as each client may see it (X-004, B-148, B-149; design 3).

use taskgate_core::gate::{TaskSupport, ToolMode};
use taskgate_wire::json;
use taskgate_wire::listing::{self, Cache, Rewrite, Tool};
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::version::Era;

use crate::dispatch::{Exchange, Failure, Via, text};
use crate::handle_tool;
use crate::passthrough;
use crate::reply::Reply;
use crate::results;

pub(crate) async fn list(exchange: &Exchange, via: &Via) -> Result<Reply, Failure> {
    let upstream = exchange.upstream(via).await?;
    let result = passthrough::fetch(exchange, via, &upstream).await?;
    let raw = text(&result);
    // Ours comes behind the server's last page.
    let is_last = json::at(raw, &["nextCursor"]).is_none_or(json::is_null);
    let wants_handles = via.tool() == results::Tool::Listed;
    let own = (wants_handles && is_last).then(|| handle_tool::definition(via.version(), &exchange.principal));
    let says = upstream.says();
    let cache = match says.back.version.era() {
        Era::Modern => Cache::read(raw),
        Era::Legacy => {
            let listing = exchange.gateway.config.listing;
            Cache { ttl: listing.ttl, is_public: listing.is_public }
        }
    };
    let policy = &exchange.policy;
    // A handle may stand in for the result of any tool that is not always answered at once.
    let may_be_handle = |name: &str| wants_handles && policy.tool(name, false).mode != ToolMode::Sync;
    let rewrite = Rewrite {
        front: via.version(),
        support: &|_: &Tool<'_>| Some(TaskSupport::Optional),
        // A result that is too long is told of by its beginning, which keeps to no schema (R5.7).
        hides_output_schema: &|name| may_be_handle(name) || policy.workflows.contains_key(name),
        hides: &|tool| {
            (wants_handles && tool.name == handle_tool::NAME)
                || (says.mirrors && tool.marks_fault().is_some())
        },
        own_tool: own.as_deref(),
        cache,
    };
    let list = listing::rewrite_tools(raw, &rewrite)
        .map_err(|malformed| RpcError::upstream_fault(&malformed.to_string()))?;
    Ok(Reply::result(exchange.request.id(), text(&list)))
}
