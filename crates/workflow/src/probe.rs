//! Probes: how the system of record is asked whether an effect was made; and fences, by which it is told to take the
//! request no more.

use taskgate_core::budget::Allowance;
use taskgate_core::id::ServerName;
use taskgate_core::time::Millis;
use taskgate_wire::json;

use crate::expression::{Expression, Failed};
use crate::facts::{Answer, Facts, Table};
use crate::rule::{Hidden, RuleError};
use crate::template::Template;

/// How the system of record is asked.
#[derive(Debug)]
pub struct Probe {
    /// Whom and what.
    pub ask: Ask,
    /// Says that the effect was made.
    pub applied_when: Expression,
    /// Says that the system of record does not have it. By itself that proves nothing (R4.5).
    pub not_applied_when: Option<Expression>,
    /// How often, and for how long.
    pub pace: Pace,
}

/// How often the system of record is asked, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pace {
    /// Wait before the first probe.
    pub first: Millis,
    /// Wait before the second. It grows from there.
    pub every: Millis,
    /// What all probes of one operation may take; `None`: as the limits say.
    pub budget: Option<Allowance>,
}

/// How the system of record is told to void the requests that were sent so far.
#[derive(Debug)]
pub struct Fence {
    /// The tool that does it.
    pub ask: ToolAsk,
    /// Says that it agreed. After that a negative answer of the probe confirms.
    pub fenced_when: Expression,
}

/// Whom is asked what.
#[derive(Debug)]
pub enum Ask {
    /// A tool.
    Tool(ToolAsk),
    /// A URL.
    Get {
        /// Which.
        url: Template,
        /// Sent with it.
        headers: Vec<(String, Hidden)>,
    },
}

/// A tool and its arguments.
#[derive(Debug)]
pub struct ToolAsk {
    /// Whose it is.
    pub server: ServerName,
    /// Its name.
    pub tool: String,
    /// Its arguments, by name.
    pub arguments: Vec<(String, Expression)>,
}

/// A request about one operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProbeRequest {
    /// A `tools/call`.
    Tool {
        /// To which server.
        server: ServerName,
        /// Which tool.
        tool: String,
        /// The request's `params`, as JSON.
        params: String,
    },
    /// An HTTP GET. Redirects are not followed: they would carry the headers elsewhere.
    Get {
        /// Where.
        url: String,
        /// What is sent with it.
        headers: Vec<(String, Hidden)>,
    },
}

/// What an answer of the system of record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Look {
    /// It has the effect.
    Applied,
    /// It has not.
    NotApplied,
    /// Neither, for this reason.
    Unclear(&'static str),
}

impl ToolAsk {
    fn request(&self, key: &str, table: &Table<'_>) -> Result<ProbeRequest, RuleError> {
        let mut params = format!("{{\"name\":{},\"arguments\":{{", json::string_literal(&self.tool));
        for (at, (name, value)) in self.arguments.iter().enumerate() {
            if at > 0 {
                params.push(',');
            }
            params.push_str(&json::string_literal(name));
            params.push(':');
            let value = table.json(value);
            params.push_str(&value.map_err(RuleError::of(&format!("{key}.arguments.{name}")))?);
        }
        params.push_str("}}");
        Ok(ProbeRequest::Tool { server: self.server.clone(), tool: self.tool.clone(), params })
    }
}

impl Probe {
    /// What is to be asked about an operation.
    ///
    /// # Errors
    /// [`RuleError`] if it cannot be computed.
    pub fn request(&self, facts: Facts<'_>) -> Result<ProbeRequest, RuleError> {
        let table = Table::new(facts, None);
        match &self.ask {
            Ask::Tool(ask) => ask.request("probe", &table),
            Ask::Get { url, headers } => {
                let url = url.fill(&table).map_err(RuleError::of("probe.get"))?;
                Ok(ProbeRequest::Get { url, headers: headers.clone() })
            }
        }
    }

    /// What `answer` says.
    ///
    /// # Errors
    /// [`RuleError`] if the rules cannot be evaluated; then it says nothing.
    pub fn judge(&self, facts: Facts<'_>, answer: Answer<'_>) -> Result<Look, RuleError> {
        // A rule that does not look at the status was not written for errors: "not found" and "out of order" look
        // alike to it.
        let sees_errors = |rule: &Expression| rule.uses("status") || rule.uses("answer");
        if answer.is_error() {
            let rules = [Some(&self.applied_when), self.not_applied_when.as_ref()];
            if !rules.into_iter().flatten().any(sees_errors) {
                return Ok(Look::Unclear("the system of record answered with an error"));
            }
        }
        let table = Table::new(facts, Some(answer));
        let truth = |rule: &Expression, name: &str| {
            if answer.is_error() && !sees_errors(rule) {
                return Ok(false);
            }
            table.truth(rule).map_err(RuleError::of(name))
        };
        let applied = truth(&self.applied_when, "probe.applied_when")?;
        let not_applied = match &self.not_applied_when {
            Some(rule) => truth(rule, "probe.not_applied_when")?,
            None => false,
        };
        Ok(match (applied, not_applied) {
            (true, false) => Look::Applied,
            (false, true) => Look::NotApplied,
            (true, true) => Look::Unclear("applied_when and not_applied_when both hold"),
            (false, false) => Look::Unclear("neither applied_when nor not_applied_when holds"),
        })
    }
}

impl Fence {
    /// What is to be sent.
    ///
    /// # Errors
    /// [`RuleError`] if it cannot be computed.
    pub fn request(&self, facts: Facts<'_>) -> Result<ProbeRequest, RuleError> {
        self.ask.request("fence", &Table::new(facts, None))
    }

    /// Whether the system of record agreed.
    ///
    /// # Errors
    /// [`RuleError`] if the rule cannot be evaluated; then it did not.
    pub fn is_fenced(&self, facts: Facts<'_>, answer: Answer<'_>) -> Result<bool, RuleError> {
        if answer.is_error() && !self.fenced_when.uses("answer") {
            return Ok(false);
        }
        Table::new(facts, Some(answer)).truth(&self.fenced_when).map_err(RuleError::of("fence.fenced_when"))
    }
}

impl Failed {
    /// Whether waiting may help: data that was not there may come.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Failed::Missing(_)
            | Failed::MissingOther
            | Failed::Types { .. }
            | Failed::NoMembers(_)
            | Failed::Kind { .. }
            | Failed::Unreadable(_)
            | Failed::Twice(_)
            | Failed::Both
            | Failed::Arithmetic
            | Failed::Index
            | Failed::Empty
            | Failed::Other => true,
            Failed::TooLong | Failed::TooLarge(_) | Failed::Gone(_) | Failed::Piece => false,
        }
    }
}
