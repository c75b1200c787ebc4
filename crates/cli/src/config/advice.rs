//! What cannot be told from a configuration to be wrong, and yet often is.

use taskgate_workflow::Workflow;

use super::Config;

/// One piece of advice for each thing that is worth a second look.
pub(crate) fn advice(config: &Config) -> Vec<String> {
    config.workflows.iter().filter_map(|workflow| fence(workflow)).collect()
}

/// A fence that refuses the key for good would refuse what is sent under it later.
fn fence(workflow: &Workflow) -> Option<String> {
    let fence = workflow.fence.as_ref()?;
    let by_key = fence.ask.arguments.iter().any(|(_, value)| value.uses("key"));
    if !(by_key || workflow.resend) {
        return None;
    }
    let again = if workflow.resend { "`resend` or the next call" } else { "the next call" };
    Some(format!(
        "workflows.{}.fence: it must void the requests sent so far, and not refuse the key for good: once it is certain that \
         nothing was done, {again} sends it again. If {} can only refuse a key, use `settle` instead",
        workflow.name, fence.ask.tool
    ))
}
