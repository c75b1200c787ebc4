//! The official schemas, and which of their types a message has to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Value, json};

/// The version of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Version {
    /// 2025-06-18.
    V18,
    /// 2025-11-25, whose tasks are dialect A.
    V25,
    /// 2026-07-28, with the tasks extension.
    V28,
}

/// One of the files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum File {
    /// The core of a version.
    Core(Version),
    /// The tasks extension.
    Tasks,
}

/// A type of a file.
pub(crate) type Type = (File, &'static str);

impl Version {
    pub(crate) fn named(name: &str) -> Option<Version> {
        match name {
            "2025-06-18" => Some(Version::V18),
            "2025-11-25" => Some(Version::V25),
            "2026-07-28" => Some(Version::V28),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Version::V18 => "2025-06-18",
            Version::V25 => "2025-11-25",
            Version::V28 => "2026-07-28",
        }
    }
}

static SOURCES: LazyLock<BTreeMap<File, Value>> = LazyLock::new(|| {
    let read = |text| serde_json::from_str(text).unwrap();
    BTreeMap::from([
        (File::Core(Version::V18), read(include_str!("../../../wire/schema/mcp-2025-06-18.schema.json"))),
        (File::Core(Version::V25), read(include_str!("../../../wire/schema/mcp-2025-11-25.schema.json"))),
        (File::Core(Version::V28), read(include_str!("../../../wire/schema/mcp-2026-07-28.schema.json"))),
        (File::Tasks, read(include_str!("../../../wire/schema/ext-tasks-2026-07-28.schema.json"))),
    ])
});

/// Where a file keeps its types.
fn types(file: File) -> (&'static str, &'static Value) {
    let source = &SOURCES[&file];
    let place = if source.get("$defs").is_some() { "$defs" } else { "definitions" };
    (place, &source[place])
}

pub(crate) fn has(of: Type) -> bool {
    types(of.0).1.get(of.1).is_some()
}

/// What keeps `value` from being of that type.
pub(crate) fn errors(of: Type, value: &Value) -> Vec<String> {
    static VALIDATORS: Mutex<BTreeMap<Type, Arc<Validator>>> = Mutex::new(BTreeMap::new());
    let validator = {
        let mut validators = VALIDATORS.lock().unwrap();
        let known = validators.entry(of).or_insert_with(|| {
            let (place, all) = types(of.0);
            assert!(has(of), "no such type: {of:?}");
            let root = json!({
                "$schema": SOURCES[&of.0]["$schema"].as_str().unwrap_or("https://json-schema.org/draft/2020-12/schema"),
                place: all,
                "$ref": format!("#/{place}/{}", of.1),
            });
            Arc::new(jsonschema::validator_for(&root).unwrap())
        });
        Arc::clone(known)
    };
    let name = of.1;
    validator
        .iter_errors(value)
        .map(|error| {
            let text: String = error.to_string().chars().take(300).collect();
            format!("no {name}: {text} at {:?}", error.instance_path().to_string())
        })
        .collect()
}

/// Members that a type names, its parents' too.
pub(crate) fn members(of: Type) -> BTreeSet<String> {
    gathered(of.0, &types(of.0).1[of.1])
}

fn gathered(file: File, schema: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let Some(properties) = schema["properties"].as_object() {
        found.extend(properties.keys().cloned());
    }
    if let Some(other) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        found.append(&mut gathered(file, &types(file).1[other]));
    }
    for kind in ["allOf", "anyOf", "oneOf"] {
        for one in schema[kind].as_array().into_iter().flatten() {
            found.append(&mut gathered(file, one));
        }
    }
    found
}

/// The types of a method of a client's or server's request: the request, and its result unless that depends.
pub(crate) fn request(version: Version, method: &str) -> Option<(Type, Type)> {
    let core = File::Core(version);
    let tasks = if version == Version::V28 { File::Tasks } else { core };
    let is_modern = version == Version::V28;
    let pair = match method {
        "initialize" if !is_modern => (core, "InitializeRequest", "InitializeResult"),
        "ping" if !is_modern => (core, "PingRequest", "EmptyResult"),
        "server/discover" if is_modern => (core, "DiscoverRequest", "DiscoverResult"),
        "subscriptions/listen" if is_modern => {
            (core, "SubscriptionsListenRequest", "SubscriptionsListenResult")
        }
        "tools/list" => (core, "ListToolsRequest", "ListToolsResult"),
        "tools/call" => (core, "CallToolRequest", "CallToolResult"),
        "prompts/list" => (core, "ListPromptsRequest", "ListPromptsResult"),
        "prompts/get" => (core, "GetPromptRequest", "GetPromptResult"),
        "resources/list" => (core, "ListResourcesRequest", "ListResourcesResult"),
        "resources/templates/list" => (core, "ListResourceTemplatesRequest", "ListResourceTemplatesResult"),
        "resources/read" => (core, "ReadResourceRequest", "ReadResourceResult"),
        "resources/subscribe" if !is_modern => (core, "SubscribeRequest", "EmptyResult"),
        "resources/unsubscribe" if !is_modern => (core, "UnsubscribeRequest", "EmptyResult"),
        "completion/complete" => (core, "CompleteRequest", "CompleteResult"),
        "logging/setLevel" if !is_modern => (core, "SetLevelRequest", "EmptyResult"),
        "elicitation/create" => (core, "ElicitRequest", "ElicitResult"),
        "sampling/createMessage" => (core, "CreateMessageRequest", "CreateMessageResult"),
        "roots/list" => (core, "ListRootsRequest", "ListRootsResult"),
        "tasks/get" => (tasks, "GetTaskRequest", "GetTaskResult"),
        "tasks/cancel" => (tasks, "CancelTaskRequest", "CancelTaskResult"),
        "tasks/list" if !is_modern => (core, "ListTasksRequest", "ListTasksResult"),
        "tasks/result" if !is_modern => (core, "GetTaskPayloadRequest", "GetTaskPayloadResult"),
        "tasks/update" if is_modern => (tasks, "UpdateTaskRequest", "UpdateTaskResult"),
        _ => return None,
    };
    let (file, request, result) = pair;
    has((file, request)).then_some(((file, request), (file, result)))
}

/// The type of a notification.
pub(crate) fn notification(version: Version, method: &str) -> Option<Type> {
    let core = File::Core(version);
    let of = match method {
        "notifications/initialized" => (core, "InitializedNotification"),
        "notifications/cancelled" => (core, "CancelledNotification"),
        "notifications/progress" => (core, "ProgressNotification"),
        "notifications/message" => (core, "LoggingMessageNotification"),
        "notifications/tools/list_changed" => (core, "ToolListChangedNotification"),
        "notifications/prompts/list_changed" => (core, "PromptListChangedNotification"),
        "notifications/resources/list_changed" => (core, "ResourceListChangedNotification"),
        "notifications/resources/updated" => (core, "ResourceUpdatedNotification"),
        "notifications/roots/list_changed" => (core, "RootsListChangedNotification"),
        "notifications/tasks/status" => (core, "TaskStatusNotification"),
        "notifications/elicitation/complete" => (core, "ElicitationCompleteNotification"),
        "notifications/subscriptions/acknowledged" => (core, "SubscriptionsAcknowledgedNotification"),
        "notifications/tasks" if version == Version::V28 => (File::Tasks, "TaskStatusNotification"),
        _ => return None,
    };
    has(of).then_some(of)
}

/// Whether it is the server that asks this.
pub(crate) fn is_servers(method: &str) -> bool {
    matches!(method, "elicitation/create" | "sampling/createMessage" | "roots/list")
}

/// Members of the params of a request or notification of that type.
pub(crate) fn params(of: Type) -> BTreeSet<String> {
    fn find(schema: &Value) -> Vec<&Value> {
        let mut found: Vec<&Value> = schema["properties"].get("params").into_iter().collect();
        found.extend(schema["allOf"].as_array().into_iter().flatten().flat_map(find));
        found
    }
    let (_, all) = types(of.0);
    find(&all[of.1]).into_iter().flat_map(|schema| gathered(of.0, schema)).collect()
}
