//! Receipts: what a system of record says of an effect in a tool's result, and how it is known that it says so (R4.3).

use taskgate_core::operation::Verdict;

use crate::expression::Expression;
use crate::facts::{Answer, Facts, Table};
use crate::rule::RuleError;
use crate::signature::Signature;

/// Longest reference that is kept, in bytes.
pub const REFERENCE_BYTES_MAX: usize = 256;

/// How a receipt is found in a tool's result.
#[derive(Debug)]
pub struct ReceiptRule {
    /// Says that the effect was made.
    pub when: Expression,
    /// Says that it was not, for certain.
    pub not_applied_when: Option<Expression>,
    /// The system of record's own name for it.
    pub reference: Expression,
    /// Who is known to have issued it.
    pub issuer: Issuer,
}

/// Who is known to have issued a receipt.
#[derive(Debug)]
pub enum Issuer {
    /// The server: the operator declared that it speaks as the system of record.
    Server,
    /// Whoever holds the key of this signature.
    Signer(Box<Signature>),
    /// Nobody who is known: such a receipt is kept as evidence, and confirms nothing.
    Unknown,
}

/// A receipt that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The system of record's own name for the effect, at most [`REFERENCE_BYTES_MAX`] bytes.
    pub reference: String,
    /// What it says.
    pub verdict: Verdict,
    /// What it is worth.
    pub proof: Proof,
}

/// What a receipt is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The system of record issued it: it confirms.
    Issued,
    /// Nobody can tell who issued it: evidence, no more.
    Unverified,
    /// Its signature does not fit: evidence of something, and no proof of what it says.
    Forged,
}

impl Receipt {
    /// Whether it settles the outcome (R4.3).
    #[must_use]
    pub fn confirms(&self) -> bool {
        self.proof == Proof::Issued
    }
}

impl ReceiptRule {
    /// Whether it names something of this very operation. A rule that does not would take the receipt of another.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        let bound = |expression: &Expression| {
            ["key", "operation", "args", "object"].iter().any(|name| expression.uses(name))
        };
        let conditions = bound(&self.when) && self.not_applied_when.as_ref().is_none_or(bound);
        match &self.issuer {
            Issuer::Server | Issuer::Unknown => conditions,
            Issuer::Signer(signature) => conditions || bound(&signature.over),
        }
    }

    /// Looks for a receipt in `answer`, the result of the operation's own tool.
    ///
    /// # Errors
    /// [`RuleError`] if the rule cannot be evaluated, or says both; then nothing is known.
    pub fn find(&self, facts: Facts<'_>, answer: Answer<'_>) -> Result<Option<Receipt>, RuleError> {
        let table = Table::new(facts, Some(answer));
        let truth = |rule: &Expression, name: &str| {
            // As with probes: what a tool says of an error is no receipt, unless the rule looks at the whole of it.
            if answer.is_error() && !rule.uses("answer") {
                return Ok(false);
            }
            table.truth(rule).map_err(RuleError::of(name))
        };
        let applied = truth(&self.when, "receipt.when")?;
        let not_applied = match &self.not_applied_when {
            Some(rule) => truth(rule, "receipt.not_applied_when")?,
            None => false,
        };
        let verdict = match (applied, not_applied) {
            (true, false) => Verdict::Applied,
            (false, true) => Verdict::NotApplied,
            (false, false) => return Ok(None),
            (true, true) => return Err(RuleError::of("receipt")(crate::Failed::Both)),
        };
        let mut reference = table.text(&self.reference).map_err(RuleError::of("receipt.reference"))?;
        if reference.is_empty() {
            return Err(RuleError::of("receipt.reference")(crate::Failed::Empty));
        }
        let mut end = REFERENCE_BYTES_MAX.min(reference.len());
        while !reference.is_char_boundary(end) {
            end -= 1;
        }
        reference.truncate(end);
        let proof = match &self.issuer {
            Issuer::Server => Proof::Issued,
            Issuer::Unknown => Proof::Unverified,
            Issuer::Signer(signature) => {
                if signature.verify(&table)? {
                    Proof::Issued
                } else {
                    Proof::Forged
                }
            }
        };
        Ok(Some(Receipt { reference, verdict, proof }))
    }
}
