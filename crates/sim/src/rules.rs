//! What an operator could say of the simulated server's tools: one workflow for each way of finding out.

use bytes::Bytes;
use taskgate_core::budget::Allowance;
use taskgate_core::id::{ServerName, WorkflowName};
use taskgate_core::operation::Verdict;
use taskgate_core::time::Millis;
use taskgate_engine::rules::{About, Asks, Look, Receipted, Request, RuleFailed, Rules, Said, Webhook};
use taskgate_store::record::Intent;

use crate::server::{FENCE, LOOK, TAKES_AT_MOST, about};

/// How the effect of a call is found out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Flow {
    /// Look-ups that prove something once what could still arrive has had its time.
    Settles,
    /// The same, and what is confirmed not applied is sent again.
    SendsAgain,
    /// A fence before each look-up.
    Fences,
    /// Look-ups that never prove that nothing was done: a person decides in the end.
    Open,
    /// A receipt in the result; nothing else can be asked.
    Receipts,
    /// A rule that cannot be evaluated: a person decides.
    Broken,
}

impl Flow {
    /// All of them.
    pub const ALL: [Flow; 6] =
        [Flow::Settles, Flow::SendsAgain, Flow::Fences, Flow::Open, Flow::Receipts, Flow::Broken];

    /// What a call of this workflow is recorded with; `call` is its name.
    #[must_use]
    pub fn intent(self, call: &str) -> Intent {
        Intent { workflow: WorkflowName(format!("{self:?}")), object: None, effect: Some(call.to_owned()) }
    }

    /// The workflow of that name.
    #[must_use]
    pub fn named(workflow: &WorkflowName) -> Option<Flow> {
        Flow::ALL.into_iter().find(|flow| format!("{flow:?}") == workflow.0)
    }
}

/// The rules of all [`Flow`]s. The call's name is the intended effect that it was recorded with, so that it can be asked
/// after when its task is gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flows;

fn ask(tool: &str, of: &About<'_>) -> Result<Request, RuleFailed> {
    let Some(call) = &of.intent.effect else { return Err(RuleFailed("no name".to_owned())) };
    Ok(Request::Tool { server: ServerName("s".to_owned()), tool: tool.to_owned(), params: about(call) })
}

fn body<'a>(said: &Said<'a>) -> &'a [u8] {
    match said {
        Said::Tool { result, .. } => result,
        Said::Http { body, .. } => body,
    }
}

impl Rules for Flows {
    fn receipt(&self, about: &About<'_>, result: &Bytes, _: bool) -> Result<Option<Receipted>, RuleFailed> {
        if Flow::named(&about.intent.workflow) != Some(Flow::Receipts) {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(result);
        let receipt = text.split('"').skip_while(|part| *part != "receipt").nth(2);
        Ok(receipt
            .map(|reference| Receipted::Proof { reference: reference.to_owned(), verdict: Verdict::Applied }))
    }

    fn asks(&self, workflow: &WorkflowName) -> Option<Asks> {
        let settle = Some(Millis(TAKES_AT_MOST));
        let asks = Asks {
            first: Millis::secs(1),
            every: Millis::secs(2),
            budget: Some(Allowance { time: Millis::mins(10), attempts: 40 }),
            settle: None,
            resend: false,
        };
        match Flow::named(workflow)? {
            Flow::Settles => Some(Asks { settle, ..asks }),
            Flow::SendsAgain => Some(Asks { settle, resend: true, ..asks }),
            Flow::Fences | Flow::Open | Flow::Broken => Some(asks),
            Flow::Receipts => None,
        }
    }

    fn probe(&self, about: &About<'_>) -> Result<Request, RuleFailed> {
        if Flow::named(&about.intent.workflow) == Some(Flow::Broken) {
            return Err(RuleFailed("no such member".to_owned()));
        }
        ask(LOOK, about)
    }

    fn judge(&self, _: &About<'_>, answer: &Said<'_>) -> Result<Look, RuleFailed> {
        match body(answer) {
            b"yes" => Ok(Look::Applied),
            b"no" => Ok(Look::NotApplied),
            b"huh" => Ok(Look::Unclear("it says neither".to_owned())),
            _ => Err(RuleFailed("no such member".to_owned())),
        }
    }

    fn fence(&self, about: &About<'_>) -> Result<Option<Request>, RuleFailed> {
        if Flow::named(&about.intent.workflow) != Some(Flow::Fences) {
            return Ok(None);
        }
        ask(FENCE, about).map(Some)
    }

    fn is_fenced(&self, _: &About<'_>, answer: &Said<'_>) -> Result<bool, RuleFailed> {
        Ok(body(answer) == b"fenced")
    }

    fn owners(&self, _: &WorkflowName) -> Vec<String> {
        vec!["ann".to_owned()]
    }

    fn webhook(&self, _: &WorkflowName) -> Option<Webhook> {
        Some(Webhook { url: "https://hooks.example/1".to_owned(), headers: vec![] })
    }
}
