//! The workflows of the configuration as the engine's rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use taskgate_core::id::{ServerName, WorkflowName};
use taskgate_engine::rules::{
    About, Asks, Hidden, Look, Receipted, Request, RuleFailed, Rules, Said, Webhook,
};
use taskgate_workflow::{self as workflow, Answer, Facts, ProbeRequest, Proof, RuleError, Workflow};

/// All workflows, by name.
#[derive(Debug, Default)]
pub(crate) struct Workflows(BTreeMap<String, Arc<Workflow>>);

impl Workflows {
    pub(crate) fn new(workflows: &[Arc<Workflow>]) -> Workflows {
        Workflows(workflows.iter().map(|workflow| (workflow.name.clone(), workflow.clone())).collect())
    }

    /// What workflows ask of `server` that it does not have: the workflow, its rule, and the tool. Whether a server has a
    /// tool is known only from its own list.
    pub(crate) fn missing<'a>(
        &'a self,
        server: &ServerName,
        has: impl Fn(&str) -> bool,
    ) -> Vec<(&'a str, &'static str, &'a str)> {
        let asked = self.0.values().flat_map(|workflow| {
            workflow.asked_tools().map(|(rule, ask)| (workflow.name.as_str(), rule, ask))
        });
        asked
            .filter(|(_, _, ask)| ask.server == *server && !has(&ask.tool))
            .map(|(workflow, rule, ask)| (workflow, rule, ask.tool.as_str()))
            .collect()
    }

    fn find(&self, name: &WorkflowName) -> Option<&Workflow> {
        self.0.get(&name.0).map(Arc::as_ref)
    }

    /// An operation outlives the configuration that it was made under.
    fn need(&self, name: &WorkflowName) -> Result<&Workflow, RuleFailed> {
        self.find(name).ok_or_else(|| RuleFailed("there is no such workflow any more".to_owned()))
    }
}

fn facts<'a>(about: &About<'a>) -> Facts<'a> {
    let object = about.intent.object.as_ref();
    Facts {
        tool: about.tool,
        arguments: about.params.and_then(|params| std::str::from_utf8(params).ok()).map(workflow::arguments),
        key: about.key.map(|key| key.text.as_str()),
        object: object.map(|object| object.name.as_str()),
        version: object.and_then(|object| object.version.as_deref()),
        operation: &about.operation.0,
        created: about.created,
    }
}

fn answer<'a>(said: &Said<'a>) -> Answer<'a> {
    match *said {
        Said::Tool { result, is_error: _ } => Answer::Tool(result),
        Said::Http { status, body } => Answer::Web { status, body },
    }
}

fn failed(error: RuleError) -> RuleFailed {
    RuleFailed(error.to_string())
}

fn hidden(headers: Vec<(String, workflow::Hidden)>) -> Vec<(String, Hidden)> {
    headers.into_iter().map(|(name, value)| (name, Hidden(value.expose().to_owned()))).collect()
}

fn request(request: ProbeRequest) -> Request {
    match request {
        ProbeRequest::Tool { server, tool, params } => {
            Request::Tool { server, tool, params: Bytes::from(params) }
        }
        ProbeRequest::Get { url, headers } => Request::Get { url, headers: hidden(headers) },
    }
}

impl Rules for Workflows {
    fn receipt(&self, about: &About<'_>, result: &Bytes, _: bool) -> Result<Option<Receipted>, RuleFailed> {
        let Some(rule) = self.find(&about.intent.workflow).and_then(|workflow| workflow.receipt.as_ref())
        else {
            return Ok(None);
        };
        let found = rule.find(facts(about), Answer::Tool(result)).map_err(failed)?;
        Ok(found.map(|receipt| {
            let why = match receipt.proof {
                Proof::Issued => {
                    return Receipted::Proof { reference: receipt.reference, verdict: receipt.verdict };
                }
                Proof::Unverified => "nobody can tell who issued it",
                Proof::Forged => "its signature does not fit",
            };
            Receipted::Unproved {
                note: format!("a receipt, {}, which proves nothing: {why}", receipt.reference),
            }
        }))
    }

    fn asks(&self, name: &WorkflowName) -> Option<Asks> {
        let workflow = self.find(name)?;
        let pace = workflow.probe.as_ref()?.pace;
        Some(Asks {
            first: pace.first,
            every: pace.every,
            budget: pace.budget,
            settle: workflow.settle,
            resend: workflow.resend,
        })
    }

    fn probe(&self, about: &About<'_>) -> Result<Request, RuleFailed> {
        let workflow = self.need(&about.intent.workflow)?;
        let probe = workflow.probe.as_ref();
        let probe = probe.ok_or_else(|| RuleFailed("the workflow has no probe any more".to_owned()))?;
        probe.request(facts(about)).map(request).map_err(failed)
    }

    fn judge(&self, about: &About<'_>, said: &Said<'_>) -> Result<Look, RuleFailed> {
        let workflow = self.need(&about.intent.workflow)?;
        let probe = workflow.probe.as_ref();
        let probe = probe.ok_or_else(|| RuleFailed("the workflow has no probe any more".to_owned()))?;
        Ok(match probe.judge(facts(about), answer(said)).map_err(failed)? {
            workflow::Look::Applied => Look::Applied,
            workflow::Look::NotApplied => Look::NotApplied,
            workflow::Look::Unclear(why) => Look::Unclear(why.to_owned()),
        })
    }

    fn fence(&self, about: &About<'_>) -> Result<Option<Request>, RuleFailed> {
        let workflow = self.need(&about.intent.workflow)?;
        let Some(fence) = &workflow.fence else { return Ok(None) };
        fence.request(facts(about)).map(|asked| Some(request(asked))).map_err(failed)
    }

    fn is_fenced(&self, about: &About<'_>, said: &Said<'_>) -> Result<bool, RuleFailed> {
        let workflow = self.need(&about.intent.workflow)?;
        let Some(fence) = &workflow.fence else { return Ok(false) };
        fence.is_fenced(facts(about), answer(said)).map_err(failed)
    }

    fn owners(&self, name: &WorkflowName) -> Vec<String> {
        self.find(name).map(|workflow| workflow.owners.clone()).unwrap_or_default()
    }

    fn webhook(&self, name: &WorkflowName) -> Option<Webhook> {
        let webhook = self.find(name)?.webhook.as_ref()?;
        Some(Webhook { url: webhook.url.clone(), headers: hidden(webhook.headers.clone()) })
    }
}
