//! What cannot be told from a configuration to be wrong, and yet often is.

use taskgate_workflow::{Ask, Expression, Keying, Workflow};

use super::Config;

/// One piece of advice for each thing that is worth a second look.
pub(crate) fn advice(config: &Config) -> Vec<String> {
    config.workflows.iter().flat_map(|workflow| [fence(workflow), no_key(workflow)]).flatten().collect()
}

/// Whoever makes a call without a key has a person decide, if its answer is lost.
fn no_key(workflow: &Workflow) -> Option<String> {
    match workflow.keying {
        Keying::PerRequest => {}
        Keying::Required | Keying::Derived(_) => return None,
    }
    let uses = |rules: &[Option<&Expression>]| rules.iter().flatten().any(|rule| rule.uses("key"));
    let asks = |ask: &Ask| match ask {
        Ask::Tool(ask) => ask.arguments.iter().any(|(_, value)| value.uses("key")),
        Ask::Get { url, .. } => url.uses("key"),
    };
    let receipt = workflow.receipt.as_ref();
    let probe = workflow.probe.as_ref();
    let fence = workflow.fence.as_ref();
    let by_key = [
        (
            "receipt",
            receipt
                .is_some_and(|it| uses(&[Some(&it.when), it.not_applied_when.as_ref(), Some(&it.reference)])),
        ),
        (
            "probe",
            probe.is_some_and(|it| {
                asks(&it.ask) || uses(&[Some(&it.applied_when), it.not_applied_when.as_ref()])
            }),
        ),
        (
            "fence",
            fence.is_some_and(|it| {
                uses(&[Some(&it.fenced_when)]) || it.ask.arguments.iter().any(|(_, value)| value.uses("key"))
            }),
        ),
    ];
    let (rule, _) = by_key.into_iter().find(|(_, uses)| *uses)?;
    Some(format!(
        "workflows.{}.{rule}: it looks for `key`, which a call need not have with idempotency.mode = \"per_request\": one without \
         ends with a person. Use \"required\" or \"derived\", or let the server take `operation` as its reference",
        workflow.name
    ))
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
