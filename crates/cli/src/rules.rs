//! The workflows of the configuration as the engine's rules.
//!
//! - `brought`: those that come to the keeper with its hosts
//! - `notes`: what the keeper remembers of those whose hosts have gone

mod brought;
mod notes;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use taskgate_core::id::{ServerName, WorkflowName};
use taskgate_core::time::Millis;
use taskgate_engine::rules::{
    About, Asks, Hidden, Look, Receipted, Request, RuleFailed, Rules, Said, Webhook,
};
use taskgate_workflow::{self as workflow, Answer, Facts, ProbeRequest, Proof, RuleError, Workflow};

pub(crate) use self::brought::Kept;
use self::notes::Notes;

/// All workflows, by name. Those of a configuration are there from its start to its end; those of the keeper's hosts come
/// and go.
#[derive(Debug, Default)]
pub(crate) struct Workflows {
    here: RwLock<BTreeMap<String, Vec<Here>>>,
    /// What is remembered of workflows whose rules are not here; none where all are here that there are.
    notes: Option<Notes>,
}

/// One that is here, for the tools of one server: two servers have the same where a host has a process of its own.
#[derive(Debug)]
struct Here {
    server: ServerName,
    workflow: Arc<Workflow>,
    /// Whether its system of record can be asked.
    is_open: bool,
}

impl Workflows {
    pub(crate) fn new(workflows: &[Arc<Workflow>]) -> Workflows {
        let here = |workflow: &Arc<Workflow>| Here {
            server: workflow.server.clone(),
            workflow: workflow.clone(),
            is_open: true,
        };
        let named = workflows.iter().map(|workflow| (workflow.name.clone(), vec![here(workflow)]));
        Workflows { here: RwLock::new(named.collect()), notes: None }
    }

    /// What workflows ask of `server` that it does not have: the workflow, its rule, and the tool. Whether a server has a
    /// tool is known only from its own list.
    pub(crate) fn missing(
        &self,
        server: &ServerName,
        has: impl Fn(&str) -> bool,
    ) -> Vec<(String, &'static str, String)> {
        let here = self.here.read();
        let workflows = here.values().filter_map(|here| here.last()).map(|here| &here.workflow);
        let asked = workflows.flat_map(|workflow| {
            workflow.asked_tools().map(|(rule, ask)| (workflow.name.clone(), rule, ask))
        });
        asked
            .filter(|(_, _, ask)| ask.server == *server && !has(&ask.tool))
            .map(|(workflow, rule, ask)| (workflow, rule, ask.tool.clone()))
            .collect()
    }

    fn find(&self, name: &WorkflowName) -> Option<Arc<Workflow>> {
        let here = self.here.read();
        let here = here.get(&name.0)?;
        let open = here.iter().rev().find(|here| here.is_open);
        open.or_else(|| here.last()).map(|here| here.workflow.clone())
    }

    /// An operation outlives the configuration that it was made under.
    fn need(&self, name: &WorkflowName) -> Result<Arc<Workflow>, RuleFailed> {
        self.find(name).ok_or_else(|| RuleFailed("there is no such workflow any more".to_owned()))
    }
}

/// How a system of record is asked, once its rules come of which nothing is known.
const UNKNOWN: Asks =
    Asks { first: Millis::secs(2), every: Millis::secs(30), budget: None, settle: None, resend: false };

fn pace(workflow: &Workflow) -> Option<Asks> {
    let pace = workflow.probe.as_ref()?.pace;
    Some(Asks {
        first: pace.first,
        every: pace.every,
        budget: pace.budget,
        settle: workflow.settle,
        resend: workflow.resend,
    })
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
        let workflow = self.find(&about.intent.workflow);
        let Some(rule) = workflow.as_ref().and_then(|workflow| workflow.receipt.as_ref()) else {
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
        match (self.find(name), &self.notes) {
            (Some(workflow), _) => pace(&workflow),
            (None, Some(notes)) => notes.asks(&name.0).unwrap_or(Some(UNKNOWN)),
            (None, None) => None,
        }
    }

    fn is_awaited(&self, name: &WorkflowName) -> bool {
        let here = self.here.read();
        let is_open = here.get(&name.0).is_some_and(|here| here.iter().any(|here| here.is_open));
        self.notes.is_some() && !is_open
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
        match (self.find(name), &self.notes) {
            (Some(workflow), _) => workflow.owners.clone(),
            (None, Some(notes)) => notes.owners(&name.0),
            (None, None) => Vec::new(),
        }
    }

    fn webhook(&self, name: &WorkflowName) -> Option<Webhook> {
        let workflow = self.find(name)?;
        let webhook = workflow.webhook.as_ref()?;
        Some(Webhook { url: webhook.url.clone(), headers: hidden(webhook.headers.clone()) })
    }
}
