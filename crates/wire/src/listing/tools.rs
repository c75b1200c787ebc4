//! `tools/list`: read, and rewritten for each front.

use std::borrow::Cow;

use bytes::Bytes;
use taskgate_core::gate::TaskSupport;

use super::Cache;
use super::cache;
use crate::header;
use crate::json::{self, Object};
use crate::message::Malformed;
use crate::splice::{Edit, splice};
use crate::version::Version;

/// One tool, as its server lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tool<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Whether it may be called as a task; absent and unknown words mean that it may not.
    pub support: TaskSupport,
    /// What its server says about its effect; a hint, no more.
    pub read_only_hint: Option<bool>,
    /// The raw entry, for digests.
    pub raw: &'a str,
    /// The raw schema of its arguments.
    pub input_schema: Option<&'a str>,
    /// The raw schema of its structured results.
    pub output_schema: Option<&'a str>,
}

impl<'a> Tool<'a> {
    /// The schema of its arguments, if some of them are mirrored into headers (B-045).
    #[must_use]
    pub fn mirroring(&self) -> Option<&'a str> {
        self.input_schema.filter(|schema| schema.contains(header::MARK))
    }

    /// Why it must not be called over HTTP, nor shown to those who would: the marks in its schema break the rules
    /// (B-045).
    #[must_use]
    pub fn marks_fault(&self) -> Option<&'static str> {
        self.mirroring().and_then(header::marks_fault)
    }
}

/// Reads the tools of a `tools/list` result. An entry without a name is left out: nobody could call it.
///
/// # Errors
/// [`Malformed`] if the result has no list of tools.
pub fn read_tools(result: &str) -> Result<Vec<Tool<'_>>, Malformed> {
    Ok(entries(result)?.into_iter().filter_map(read_tool).collect())
}

fn entries(result: &str) -> Result<Vec<&str>, Malformed> {
    let tools = Object::parse(result)?.get("tools");
    let tools = tools.ok_or(Malformed::Envelope { what: "the result has no tools", id: None })?;
    Ok(json::elements(tools)?)
}

fn read_tool(raw: &str) -> Option<Tool<'_>> {
    let tool = Object::parse(raw).ok()?;
    let support = match json::at(raw, &["execution", "taskSupport"]).and_then(json::string).as_deref() {
        Some("optional") => TaskSupport::Optional,
        Some("required") => TaskSupport::Required,
        Some(_) | None => TaskSupport::Forbidden,
    };
    Some(Tool {
        name: tool.str("name")?,
        support,
        read_only_hint: tool.object("annotations").and_then(|annotations| annotations.bool("readOnlyHint")),
        raw,
        input_schema: tool.get("inputSchema"),
        output_schema: tool.get("outputSchema"),
    })
}

/// The word for it in `execution.taskSupport`.
#[must_use]
pub fn support_word(support: TaskSupport) -> &'static str {
    match support {
        TaskSupport::Forbidden => "forbidden",
        TaskSupport::Optional => "optional",
        TaskSupport::Required => "required",
    }
}

/// How `tools/list` is shown.
pub struct Rewrite<'a> {
    /// The version of the client that reads it.
    pub front: Version,
    /// What to say about calling a tool as a task, for fronts that have dialect A; `None` says nothing. Other
    /// fronts never see it (G-001, B-149).
    pub support: &'a dyn Fn(&Tool<'_>) -> Option<TaskSupport>,
    /// Tools that may be answered by a handle, so their results cannot keep to an `outputSchema`.
    pub hides_output_schema: &'a dyn Fn(&str) -> bool,
    /// Tools that are not shown at all.
    pub hides: &'a dyn Fn(&Tool<'_>) -> bool,
    /// The raw entry of a tool of ours, put at the end. Give it on the last page only.
    pub own_tool: Option<&'a str>,
    /// The cache hints, for fronts that have them.
    pub cache: Cache,
}

impl std::fmt::Debug for Rewrite<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rewrite")
            .field("front", &self.front)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// Rewrites a `tools/list` result. Entries, and members of entries, that need no change keep their bytes.
///
/// # Errors
/// [`Malformed`] if the result has no list of tools.
pub fn rewrite_tools(result: &str, rewrite: &Rewrite<'_>) -> Result<Bytes, Malformed> {
    let mut out = String::from("[");
    let mut push = |entry: &str| {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(entry);
    };
    for raw in entries(result)? {
        // What cannot be read is not shown: it could not be called either.
        let Some(tool) = read_tool(raw) else { continue };
        if (rewrite.hides)(&tool) {
            continue;
        }
        let edits = tool_edits(&tool, rewrite);
        if edits.is_empty() {
            push(raw);
        } else {
            let entry = splice(raw, &edits)?;
            push(core::str::from_utf8(&entry).unwrap_or(raw));
        }
    }
    if let Some(own) = rewrite.own_tool {
        push(own);
    }
    out.push(']');
    let mut edits = vec![Edit::set(&["tools"], out)];
    edits.extend(cache::edits(rewrite.front, rewrite.cache));
    splice(result, &edits)
}

fn tool_edits(tool: &Tool<'_>, rewrite: &Rewrite<'_>) -> Vec<Edit<'static>> {
    let front = rewrite.front;
    let has = |name| json::at(tool.raw, &[name]).is_some();
    let mut edits = Vec::new();
    let support = if front.has_tasks_a() { (rewrite.support)(tool) } else { None };
    match support {
        Some(support) => {
            let word = format!("\"{}\"", support_word(support));
            if json::at(tool.raw, &["execution", "taskSupport"]) != Some(word.as_str()) {
                edits.push(Edit::set(&["execution", "taskSupport"], word));
            }
        }
        None if has("execution") => edits.push(Edit::remove(&["execution"])),
        None => {}
    }
    if let Some(schema) = tool.output_schema {
        let is_foreign = !front.has_structured_output()
            || (!front.has_any_structured_output() && json::at(schema, &["type"]) != Some("\"object\""));
        if is_foreign || (rewrite.hides_output_schema)(&tool.name) {
            edits.push(Edit::remove(&["outputSchema"]));
        }
    }
    if has("icons") && !front.has_icons() {
        edits.push(Edit::remove(&["icons"]));
    }
    if has("title") && !front.has_titles() {
        edits.push(Edit::remove(&["title"]));
    }
    if has("annotations") && !front.has_tool_annotations() {
        edits.push(Edit::remove(&["annotations"]));
    }
    edits
}
