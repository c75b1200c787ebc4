//! What the engine asks of an operator's workflows (design 7). It links no expression language: whoever starts it hands
//! the rules in.

use bytes::Bytes;
use taskgate_core::budget::Allowance;
use taskgate_core::id::{OperationId, ServerName, WorkflowName};
use taskgate_core::operation::Verdict;
use taskgate_core::time::{Millis, UnixMillis};
use taskgate_store::ledger::LedgerEntry;
use taskgate_store::record::{Intent, Key, Record};

/// The rules of all workflows.
///
/// An error never means "no": what it would have said stays unknown, and the history says so (design 7).
pub trait Rules: Send + Sync + 'static {
    /// What a result of the operation's own tool proves.
    ///
    /// # Errors
    /// Why the rule could not be evaluated, in words for a person and without payloads.
    fn receipt(
        &self,
        about: &About<'_>,
        result: &Bytes,
        is_error: bool,
    ) -> Result<Option<Receipted>, RuleFailed>;

    /// How the system of record is asked what became of an effect; `None` if only a person can tell.
    fn asks(&self, workflow: &WorkflowName) -> Option<Asks>;

    /// What is to be asked about an operation.
    ///
    /// # Errors
    /// As for [`Rules::receipt`]. An operation whose task is gone has no arguments any more.
    fn probe(&self, about: &About<'_>) -> Result<Request, RuleFailed>;

    /// What the answer says.
    ///
    /// # Errors
    /// As for [`Rules::receipt`].
    fn judge(&self, about: &About<'_>, answer: &Said<'_>) -> Result<Look, RuleFailed>;

    /// What tells the system of record to take the request no more; `None` where there is nothing that does.
    ///
    /// # Errors
    /// As for [`Rules::receipt`].
    fn fence(&self, about: &About<'_>) -> Result<Option<Request>, RuleFailed>;

    /// Whether it agreed.
    ///
    /// # Errors
    /// As for [`Rules::receipt`]; then it did not.
    fn is_fenced(&self, about: &About<'_>, answer: &Said<'_>) -> Result<bool, RuleFailed>;

    /// Whether a workflow's rules are not here now and may still come, as with a host of the keeper: what is to be asked
    /// waits for them. What is known without them (`asks`, `owners`) is answered all the same.
    fn is_awaited(&self, _: &WorkflowName) -> bool {
        false
    }

    /// Who decides when nothing else can, by name.
    fn owners(&self, workflow: &WorkflowName) -> Vec<String>;

    /// Who is told when an operation waits for a person.
    fn webhook(&self, workflow: &WorkflowName) -> Option<Webhook>;
}

/// No workflows: only a person can tell what became of an effect in doubt.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRules;

impl Rules for NoRules {
    fn receipt(&self, _: &About<'_>, _: &Bytes, _: bool) -> Result<Option<Receipted>, RuleFailed> {
        Ok(None)
    }

    fn asks(&self, _: &WorkflowName) -> Option<Asks> {
        None
    }

    fn probe(&self, _: &About<'_>) -> Result<Request, RuleFailed> {
        Err(RuleFailed("there is no such workflow any more".to_owned()))
    }

    fn judge(&self, _: &About<'_>, _: &Said<'_>) -> Result<Look, RuleFailed> {
        Err(RuleFailed("there is no such workflow any more".to_owned()))
    }

    fn fence(&self, _: &About<'_>) -> Result<Option<Request>, RuleFailed> {
        Ok(None)
    }

    fn is_fenced(&self, _: &About<'_>, _: &Said<'_>) -> Result<bool, RuleFailed> {
        Ok(false)
    }

    fn owners(&self, _: &WorkflowName) -> Vec<String> {
        Vec::new()
    }

    fn webhook(&self, _: &WorkflowName) -> Option<Webhook> {
        None
    }
}

/// The operation that a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its id.
    pub operation: &'a OperationId,
    /// What the workflow made of the call.
    pub intent: &'a Intent,
    /// Its key, if it has one.
    pub key: Option<&'a Key>,
    /// The server.
    pub server: &'a ServerName,
    /// The tool.
    pub tool: &'a str,
    /// The `params` object of the call; `None` once its task is gone (R5.5).
    pub params: Option<&'a Bytes>,
    /// When it was made.
    pub created: UnixMillis,
}

impl<'a> About<'a> {
    /// The operation of a record; `None` for a call of no workflow.
    #[must_use]
    pub fn record(record: &'a Record) -> Option<About<'a>> {
        Some(About {
            operation: &record.operation_id,
            intent: record.call.intent.as_ref()?,
            key: record.call.key.as_ref(),
            server: &record.call.server,
            tool: &record.call.tool,
            params: Some(&record.call.params),
            created: record.task.lifetime.created,
        })
    }

    /// An operation whose task is gone; `None` for one of no workflow.
    #[must_use]
    pub fn entry(entry: &'a LedgerEntry) -> Option<About<'a>> {
        Some(About {
            operation: &entry.id,
            intent: entry.intent.as_ref()?,
            key: entry.key.as_ref(),
            server: &entry.server,
            tool: &entry.tool,
            params: None,
            created: entry.created,
        })
    }
}

/// Why a rule could not be evaluated, in words for a person.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct RuleFailed(pub String);

/// What a result was found to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Receipted {
    /// A receipt that the system of record issued: it confirms (R4.3).
    Proof {
        /// The system of record's own name for the effect.
        reference: String,
        /// What it says.
        verdict: Verdict,
    },
    /// One of which nobody can tell who issued it: evidence, no more.
    Unproved {
        /// What it is and why it proves nothing, for the history.
        note: String,
    },
}

/// How the system of record is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asks {
    /// Wait before the first look-up.
    pub first: Millis,
    /// Wait before the second. It grows from there.
    pub every: Millis,
    /// What all look-ups of one operation may take; `None`: as the limits say (R5.4).
    pub budget: Option<Allowance>,
    /// How long after the end of an attempt's exchange its request may still have its effect; `None` if nobody says.
    pub settle: Option<Millis>,
    /// Whether what is confirmed not applied is sent again by itself, while its task is not over.
    pub resend: bool,
}

/// A question to a system of record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// A `tools/call`.
    Tool {
        /// To which server.
        server: ServerName,
        /// Which tool.
        tool: String,
        /// The request's `params`, as JSON.
        params: Bytes,
    },
    /// An HTTP GET. Redirects are not followed: they would carry the headers elsewhere.
    Get {
        /// Where.
        url: String,
        /// What is sent with it.
        headers: Vec<(String, Hidden)>,
    },
}

/// A value that must not be seen in logs (R6.3).
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hidden(…)")
    }
}

/// What a system of record said.
#[derive(Clone, Copy, Debug)]
pub enum Said<'a> {
    /// A tool's result.
    Tool {
        /// The object's bytes.
        result: &'a [u8],
        /// Whether it says `isError: true`.
        is_error: bool,
    },
    /// The answer to a GET.
    Http {
        /// Its status.
        status: u16,
        /// Its body.
        body: &'a [u8],
    },
}

/// What an answer of the system of record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// It has the effect.
    Applied,
    /// It has not. By itself that proves nothing (R4.5).
    NotApplied,
    /// Neither, for this reason.
    Unclear(String),
}

/// Who is told when an operation waits for a person.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Webhook {
    /// Where.
    pub url: String,
    /// What is sent with it.
    pub headers: Vec<(String, Hidden)>,
}
