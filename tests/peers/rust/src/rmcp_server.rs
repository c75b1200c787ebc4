//! rmcp 3.11.0 with its tasks extension: dialect B.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, ElicitRequest, GetTaskParams, GetTaskResult, Implementation, InputRequest,
    InputRequiredResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations, UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use rmcp::{ErrorData, ServerHandler, ServiceExt};
use serde_json::{Value, json};

use crate::Failure;
use crate::tools::{self, Call, End};

#[derive(Clone, Default)]
struct Server {
    tasks: TaskManager,
}

pub async fn stdio() -> Result<(), Failure> {
    let (read, write) = rmcp::transport::io::stdio();
    Server::default().serve((read, write)).await?.waiting().await?;
    Ok(())
}

pub fn http() -> axum::Router {
    let server = Server::default();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    axum::Router::new().route_service("/mcp", service)
}

fn ask(target: &str) -> Result<InputRequest, ErrorData> {
    let asked: ElicitRequest = serde_json::from_value(json!({
        "method": "elicitation/create",
        "params": { "mode": "form", "message": tools::question(target), "requestedSchema": tools::form() },
    }))
    .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    Ok(InputRequest::Elicitation(asked))
}

fn said(end: End) -> Result<CallToolResult, ErrorData> {
    match end {
        End::Text(text) => Ok(CallToolResult::success(vec![ContentBlock::text(text)])),
        End::ToolError(text) => Ok(CallToolResult::error(vec![ContentBlock::text(text)])),
        End::Refused(text) => Err(ErrorData::new(rmcp::model::ErrorCode(tools::REFUSED), text, None)),
    }
}

async fn as_task(ctx: TaskContext, name: String, args: Value) -> Result<CallToolResult, TaskExit> {
    if name != "confirm_deploy" {
        return tokio::select! {
            () = ctx.cancelled() => Err(TaskExit::Cancelled),
            end = tools::run(&name, &args) => said(end).map_err(TaskExit::Error),
        };
    }
    let mut call = Call::begin(&name, &args);
    let target = args["target"].as_str().unwrap_or_default();
    let answer = ctx.request_input(tools::KEY, ask(target)?).await?;
    call.ended();
    Ok(said(End::Text(tools::verdict(&answer, target)))?)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
            .with_server_info(Implementation::new("rmcp-b", "1.0.0"))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = Vec::new();
        for spec in tools::specs() {
            let schema = spec.schema.as_object().cloned().unwrap_or_default();
            let tool = Tool::new(spec.name, spec.about, schema);
            tools.push(tool.with_annotations(ToolAnnotations::new().read_only(spec.read_only)));
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.to_string();
        let args = Value::Object(request.arguments.unwrap_or_default());
        let Some(spec) = tools::specs().into_iter().find(|spec| spec.name == name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool {name}"), None));
        };
        let knows_tasks = context.client_capabilities().is_some_and(|caps| caps.supports_tasks());
        if spec.tasks.is_some() && knows_tasks {
            let options = TaskOptions::new().with_poll_interval_ms(200);
            let task = self.tasks.spawn(options, move |ctx| Box::pin(as_task(ctx, name, args)));
            return Ok(CallToolResponse::Task(CreateTaskResult::new(task)));
        }
        if name == "confirm_deploy" {
            let target = args["target"].as_str().unwrap_or_default();
            let Some(answers) = request.input_responses else {
                // The call goes on in the client's next request, which brings the answer.
                std::mem::forget(Call::begin(&name, &args));
                let requests = [(tools::KEY.to_owned(), ask(target)?)].into();
                return Ok(InputRequiredResult::from_input_requests(requests).into());
            };
            let answer = answers.get(tools::KEY).cloned().unwrap_or_default();
            return Ok(said(End::Text(tools::verdict(&answer, target)))?.into());
        }
        tokio::select! {
            () = context.ct.cancelled() => Err(ErrorData::internal_error("cancelled", None)),
            end = tools::run(&name, &args) => Ok(said(end)?.into()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}
