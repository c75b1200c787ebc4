//! What a workflow says of a call before anything is recorded: its key, what it is about, and how the server gets the key.

use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::id::WorkflowName;
use taskgate_store::record::{Conflict, Intent, Key, KeyScope, Object};
use taskgate_wire::json;
use taskgate_wire::meta::META;
use taskgate_wire::rpc_error::RpcError;
use taskgate_wire::splice::{Edit, splice};
use taskgate_wire::text::SafeText;
use taskgate_workflow::{self as workflow, Admission, Forward, Workflow};

use crate::calls::sentence;
use crate::dispatch::Failure;
use crate::params::IDEMPOTENCY_KEY;
use crate::upstream::{self, Upstream};

/// A call that may be made.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) key: Option<Key>,
    /// What its workflow says of it, for the record.
    pub(crate) intent: Option<Intent>,
    forward: Option<Forward>,
}

impl Admitted {
    /// A call without a workflow.
    pub(crate) fn plain(key: Option<String>) -> Admitted {
        Admitted { key: key.map(Key::of_caller), intent: None, forward: None }
    }

    /// A call of `workflow` (R4.1).
    fn of(workflow: &Workflow, admission: Admission) -> Admitted {
        let conflict = match workflow.conflict {
            workflow::Conflict::Allow => Conflict::Allow,
            workflow::Conflict::Refuse => Conflict::Refuse,
            workflow::Conflict::Queue => Conflict::Queue,
        };
        let object = |workflow::Object { name, version }| Object { name, version, conflict };
        let key = |workflow::Key { text, is_business }| Key {
            text,
            scope: if is_business { KeyScope::Tenant } else { KeyScope::Caller },
        };
        Admitted {
            key: admission.key.map(key),
            intent: Some(Intent {
                workflow: WorkflowName(workflow.name.clone()),
                object: admission.object.map(object),
                effect: admission.effect_text,
            }),
            forward: workflow.forward.clone(),
        }
    }

    /// Puts the key where the server takes it. What is there already with another value is refused: nobody could tell
    /// which of the two counts.
    pub(crate) fn forward(&self, params: Bytes) -> Result<Bytes, RpcError> {
        let (Some(forward), Some(key)) = (&self.forward, &self.key) else { return Ok(params) };
        let key = key.text.as_str();
        let path = match forward {
            Forward::Argument(name) => ["arguments", name.as_str()],
            Forward::Meta(name) => [META, name.as_str()],
            // The header is made from it where requests are sent, also when this one is sent again after a restart.
            Forward::Header(_) => [META, IDEMPOTENCY_KEY],
        };
        if let Forward::Header(name) = forward
            && !fits_header(key)
        {
            let message = format!(
                "The idempotency key cannot stand in the header {name}: use visible ASCII, without spaces at its ends"
            );
            return Err(RpcError::invalid_params(message));
        }
        let text = std::str::from_utf8(&params).unwrap_or("{}");
        if let Some(there) = json::at(text, &path) {
            // A number is the same as its digits.
            if json::string(there).as_deref().unwrap_or(there) == key {
                return Ok(params);
            }
            let message = format!(
                "params.{}.{} is there already, and is not the idempotency key",
                path[0],
                SafeText::new(path[1], 80)
            );
            return Err(RpcError::invalid_params(message));
        }
        let edit = Edit::set(&path, json::string_literal(key));
        splice(text, &[edit]).map_err(|malformed| RpcError::invalid_params(malformed.to_string()))
    }
}

/// Whether whoever reads the header finds the key as it was: other bytes are read in many ways, and outer spaces by nobody.
fn fits_header(key: &str) -> bool {
    key.trim_matches(' ') == key && key.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

/// Refuses a call whose outcome could never be looked up, since the tools that its workflow would ask are not there. What
/// they are is known only from the server's own list. Tools of other servers are asked when they are needed.
pub(crate) async fn can_be_looked_up(
    workflow: &Workflow,
    upstream: &Arc<dyn Upstream>,
) -> Result<(), Failure> {
    for (rule, ask) in workflow.asked_tools().filter(|(_, ask)| ask.server == workflow.server) {
        if upstream::tool(upstream, &ask.tool).await?.is_none() {
            let tool = SafeText::new(&ask.tool, 80);
            tracing::warn!(
                workflow = workflow.name,
                server = %workflow.server,
                tool = tool.as_str(),
                "a workflow's {rule} names a tool that its server does not have; its calls are refused"
            );
            let message = format!(
                "The call was not made: what becomes of it could not be looked up, since the server has no tool {tool}, which \
                 the {rule} of workflow {} asks",
                SafeText::new(&workflow.name, 80)
            );
            return Err(RpcError::internal(message).into());
        }
    }
    Ok(())
}

/// Has the workflow look at a call of one of its tools.
pub(crate) fn admit(
    workflow: &Workflow,
    tool: &str,
    arguments: &str,
    given: Option<String>,
) -> Result<Admitted, RpcError> {
    match workflow.admit(tool, arguments, given.as_deref()) {
        Ok(admission) => Ok(Admitted::of(workflow, admission)),
        Err(refused) => {
            tracing::debug!(workflow = workflow.name, %refused, "call refused");
            Err(RpcError::invalid_params(sentence(&refused.to_string())))
        }
    }
}
