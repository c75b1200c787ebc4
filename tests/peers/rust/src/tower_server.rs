//! tower-mcp 0.25.0 with `with_tasks()`: both eras, with deviations.

use std::sync::Arc;

use serde_json::{Value, json};
use tower_mcp::async_task::MemoryTaskStore;
use tower_mcp::protocol::{InputRequests, TaskSupportMode};
use tower_mcp::transport::http::HttpTransport;
use tower_mcp::transport::stdio::BidirectionalStdioTransport;
use tower_mcp::{
    CallToolResult, Error, JsonRpcError, McpRouter, TaskContext, TaskOutcome, Tool, ToolBuilder,
};

use crate::Failure;
use crate::tools::{self, Call, End, Spec};

pub async fn stdio() -> Result<(), Failure> {
    BidirectionalStdioTransport::new(router()).run().await?;
    Ok(())
}

pub fn http() -> axum::Router {
    HttpTransport::new(router()).with_sampling().into_router_at("/mcp")
}

fn router() -> McpRouter {
    let mut router =
        McpRouter::new().server_info("tower-odd", "1.0.0").task_store(Arc::new(MemoryTaskStore::new()));
    for spec in tools::specs() {
        router = router.tool(tool(&spec));
    }
    router.with_tasks()
}

fn refused(text: &str) -> JsonRpcError {
    JsonRpcError { code: tools::REFUSED, message: text.to_owned(), data: None }
}

fn said(end: End) -> Result<CallToolResult, Error> {
    match end {
        End::Text(text) => Ok(CallToolResult::text(text)),
        End::ToolError(text) => Ok(CallToolResult::error(text)),
        End::Refused(text) => Err(Error::JsonRpc(refused(&text))),
    }
}

async fn as_task(task: TaskContext, name: &str, args: Value) -> Result<TaskOutcome, Error> {
    if name != "confirm_deploy" {
        return tokio::select! {
            () = task.cancelled() => Err(Error::TaskCancelled),
            end = tools::run(name, &args) => match end {
                End::Refused(text) => Ok(TaskOutcome::Failed(refused(&text))),
                other => Ok(TaskOutcome::Completed(said(other)?)),
            },
        };
    }
    let mut call = Call::begin(name, &args);
    let target = args["target"].as_str().unwrap_or_default();
    let requests: InputRequests = serde_json::from_value(json!({ tools::KEY: {
        "method": "elicitation/create",
        "params": { "mode": "form", "message": tools::question(target), "requestedSchema": tools::form() },
    }}))?;
    let answers = task.require_input(requests).await?;
    call.ended();
    let answer = serde_json::to_value(answers.get(tools::KEY)).unwrap_or_default();
    Ok(TaskOutcome::Completed(CallToolResult::text(tools::verdict(&answer, target))))
}

fn tool(spec: &Spec) -> Tool {
    let name = spec.name;
    let mut builder = ToolBuilder::new(name).description(spec.about).input_schema(spec.schema.clone());
    if spec.read_only {
        builder = builder.read_only();
    }
    let plain = move |args: Value| async move { said(tools::run(name, &args).await) };
    match spec.tasks {
        None => builder.handler(plain).build(),
        // A live handler alone makes it a tool that needs a task.
        Some(true) => builder.live_task_handler(move |task, args| as_task(task, name, args)).build(),
        Some(false) => builder
            .live_task_handler(move |task, args| as_task(task, name, args))
            .fallback_handler(plain)
            .task_support(TaskSupportMode::Optional)
            .build(),
    }
}
