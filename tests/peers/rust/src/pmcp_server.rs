//! pmcp 2.23.0 with a task store: both eras, with deviations.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pmcp::server::cancellation::RequestHandlerExtra;
use pmcp::server::task_store::{CreatedTask, InMemoryTaskStore, StoreConfig, TaskStore};
use pmcp::server::{ToolHandler, ToolOutput};
use pmcp::types::protocol::{LATEST_PROTOCOL_VERSION, PROTOCOL_VERSION_2026_07_28, ProtocolVersion};
use pmcp::types::tasks::TaskStatus;
use pmcp::types::{CallToolResult, Content, TaskSupport, ToolAnnotations, ToolExecution, ToolInfo};
use pmcp::{Error, Server};
use serde_json::{Value, json};

use crate::Failure;
use crate::tools::{self, Call, End, Spec};

pub async fn stdio() -> Result<(), Failure> {
    server()?.run_stdio().await?;
    Ok(())
}

pub fn http() -> Result<axum::Router, Failure> {
    let inner = pmcp::axum::concurrent_router(Arc::new(server()?));
    // It answers at the root; the other fixtures answer at /mcp.
    Ok(axum::Router::new().nest("/mcp", inner))
}

fn server() -> Result<Server, Failure> {
    // The defaults, a read in five seconds and a hundred tasks, would only make tests slow and few.
    let config =
        StoreConfig { default_poll_interval_ms: 200, max_tasks_per_owner: 100_000, ..StoreConfig::default() };
    let store: Arc<dyn TaskStore> = Arc::new(InMemoryTaskStore::with_config(config));
    let mut builder = Server::builder().name("pmcp-odd").version("1.0.0").with_supported_protocol_versions([
        ProtocolVersion(LATEST_PROTOCOL_VERSION.to_owned()),
        ProtocolVersion(PROTOCOL_VERSION_2026_07_28.to_owned()),
    ]);
    for spec in tools::specs() {
        builder = builder.tool(spec.name, Handler { spec, store: Arc::clone(&store) });
    }
    Ok(builder.task_store(store).build()?)
}

struct Handler {
    spec: Spec,
    store: Arc<dyn TaskStore>,
}

fn said(end: End) -> Result<CallToolResult, Error> {
    match end {
        End::Text(text) => Ok(CallToolResult::new(vec![Content::text(text)])),
        End::ToolError(text) => Ok(CallToolResult::error(vec![Content::text(text)])),
        End::Refused(text) => {
            Err(Error::Protocol { code: pmcp::ErrorCode(tools::REFUSED), message: text, data: None })
        }
    }
}

#[async_trait]
impl ToolHandler for Handler {
    fn metadata(&self) -> Option<ToolInfo> {
        let mut info =
            ToolInfo::new(self.spec.name, Some(self.spec.about.to_owned()), self.spec.schema.clone());
        info.annotations = Some(ToolAnnotations::new().with_read_only(self.spec.read_only));
        info.execution = self.spec.tasks.map(|required| {
            let support = if required { TaskSupport::Required } else { TaskSupport::Optional };
            ToolExecution::new().with_task_support(support)
        });
        Some(info)
    }

    async fn handle(&self, _: Value, _: RequestHandlerExtra) -> pmcp::Result<Value> {
        Err(Error::internal("only handle_output is called"))
    }

    async fn handle_output(&self, args: Value, extra: RequestHandlerExtra) -> pmcp::Result<ToolOutput> {
        let name = self.spec.name;
        if self.spec.tasks.is_some() && extra.will_create_task() {
            let store = Arc::clone(&self.store);
            let target = args["target"].as_str().unwrap_or_default().to_owned();
            extra.on_task_created(move |created| {
                tokio::spawn(work(store, created, name, args));
            });
            // The store makes the real id after this value was returned.
            let mut shape = json!({ "taskId": "made-by-the-store", "status": "working", "ttl": 600_000 });
            if name == "confirm_deploy" {
                shape["status"] = json!("input_required");
                shape["inputRequests"] = json!({ tools::KEY: {
                    "method": "elicitation/create",
                    "params": {
                        "mode": "form", "message": tools::question(&target), "requestedSchema": tools::form(),
                    },
                }});
            }
            return Ok(ToolOutput::Payload(shape));
        }
        if name == "confirm_deploy" {
            return Err(Error::UnsupportedCapability("confirm_deploy asks only in a task".to_owned()));
        }
        tokio::select! {
            () = extra.cancelled() => Err(Error::Cancelled),
            end = tools::run(name, &args) => Ok(ToolOutput::Result(said(end)?)),
        }
    }
}

async fn ended(store: &dyn TaskStore, id: &str, owner: &str) -> bool {
    store.get(id, owner).await.map_or(true, |task| task.status.is_terminal())
}

/// Does what the task is for; in this SDK the store is told of everything by the server's own code.
async fn work(store: Arc<dyn TaskStore>, created: CreatedTask, name: &'static str, args: Value) {
    let (id, owner) = (created.task.task_id.clone(), created.owner_id.clone());
    let tick = Duration::from_millis(50);
    let cancelled = async {
        while !ended(&*store, &id, &owner).await {
            tokio::time::sleep(tick).await;
        }
    };
    let end = if name == "confirm_deploy" {
        let mut call = Call::begin(name, &args);
        let target = args["target"].as_str().unwrap_or_default();
        let answered = async {
            loop {
                if let Ok(snapshot) = store.task_input_snapshot(&id, &owner).await
                    && let Some(answer) = snapshot.input_responses.get(tools::KEY)
                {
                    return serde_json::to_value(answer).unwrap_or_default();
                }
                tokio::time::sleep(tick).await;
            }
        };
        tokio::select! {
            () = cancelled => return,
            answer = answered => {
                call.ended();
                End::Text(tools::verdict(&answer, target))
            }
        }
    } else {
        tokio::select! {
            () = cancelled => return,
            end = tools::run(name, &args) => end,
        }
    };
    let status = match said(end) {
        Ok(result) => match store.set_result(&id, &owner, result).await {
            Ok(_) => TaskStatus::Completed,
            Err(_) => TaskStatus::Failed,
        },
        Err(error) => {
            let text = error.to_string();
            let told = json!({ "code": tools::REFUSED, "message": text });
            if let Ok(told) = serde_json::from_value(told) {
                let _ = store.set_error(&id, &owner, told).await;
            }
            TaskStatus::Failed
        }
    };
    if let Err(error) = store.update_status(&id, &owner, status, None).await {
        eprintln!("pmcp: {error}");
    }
}
