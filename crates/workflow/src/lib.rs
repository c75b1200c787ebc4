//! What an operator declares for tools that do something, compiled (R4, design 7). Pure: no clock, no I/O.
//!
//! - [`Workflow`]: the policy, and what it says of a call before anything is recorded ([`Workflow::admit`])
//! - [`ReceiptRule`], [`Signature`]: whether a result holds a receipt, and what it is worth
//! - [`Probe`], [`Fence`], [`Template`]: what a system of record is asked, and what its answer says
//! - [`Expression`]: conditions and values in CEL, checked when they are loaded, bounded when evaluated
//! - [`Facts`], [`Answer`]: what expressions see
//!
//! An expression that fails never counts as `false`: what it would have said stays unknown.

mod check;
mod expression;
mod facts;
mod json;
mod names;
mod probe;
mod receipt;
mod rule;
mod signature;
mod template;
#[cfg(test)]
mod tests;
mod workflow;

pub use expression::{Bad, Expression, Failed, SOURCE_BYTES_MAX, Want};
pub use facts::{ANSWER_BYTES_MAX, ARGUMENTS_BYTES_MAX, Answer, Facts, arguments};
pub use names::{NAMES, Scope};
pub use probe::{Ask, Fence, Look, Pace, Probe, ProbeRequest, ToolAsk};
pub use receipt::{Issuer, Proof, REFERENCE_BYTES_MAX, Receipt, ReceiptRule};
pub use rule::{Hidden, RuleError};
pub use signature::{ED25519_KEY_BYTES, Scheme, Signature};
pub use template::Template;
pub use workflow::{
    Admission, Bounds, Conflict, Forward, Key, Keying, NAME_BYTES_MAX, Object, Refused, Webhook, Workflow,
};
