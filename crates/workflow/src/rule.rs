//! Rules that failed, and secrets that do not show themselves.

use std::fmt;

use crate::expression::Failed;

/// A rule that could not be evaluated. What it would have said stays unknown (design 7).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{rule}` cannot be evaluated: {why}")]
pub struct RuleError {
    /// Which rule, as its key in the workflow: `receipt.when`.
    pub rule: String,
    /// Why, without anything that the data says.
    pub why: Failed,
}

impl RuleError {
    pub(crate) fn of(rule: &str) -> impl FnOnce(Failed) -> RuleError + '_ {
        move |why| RuleError { rule: rule.to_owned(), why }
    }
}

/// A credential. `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(String);

impl Hidden {
    /// Takes `text` as a credential.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Hidden {
        Hidden(text.into())
    }

    /// The text. Call it to hand it to whom it belongs, never to log or to answer.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(…)")
    }
}
