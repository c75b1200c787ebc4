//! What a back says about a task of its own.

use bytes::Bytes;
use taskgate_core::task::Question;
use taskgate_core::time::Millis;

use super::{Status, UpstreamFault};
use crate::json::{self, Object};
use crate::text::SafeText;

/// A back's status.
pub type BackStatus = Status;

/// A back's task, in whichever dialect it came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackTask {
    /// The back's id. Python 1.30 puts colons into it; no alphabet is assumed.
    ///
    /// Leniency: any-task-id
    pub id: String,
    /// Where it stands, in the back's own dialect: *failed* in A may still have a result.
    pub status: BackStatus,
    /// What the back says beside it.
    pub message: Option<SafeText>,
    /// How long it lives from its creation; `None` for unlimited, and for a back that does not say.
    pub ttl: Option<Millis>,
    /// How soon to ask again.
    pub poll: Option<Millis>,
    /// Dialect B: all outstanding questions, by the back's keys.
    pub inputs: Vec<(String, Question)>,
    /// Dialect B: what the call returned, in kept form.
    pub result: Option<Bytes>,
    /// Dialect B: the error that the call was answered with.
    pub error: Option<Bytes>,
}

pub(super) fn read_fields(
    object: &Object<'_>,
    ttl_name: &str,
    poll_name: &str,
) -> Result<BackTask, UpstreamFault> {
    let id = object.str("taskId").filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| UpstreamFault::new("a task without an id"))?.into_owned();
    let status = match object.str("status").as_deref() {
        Some("working") => Status::Working,
        Some("input_required") => Status::InputRequired,
        Some("completed") => Status::Completed,
        Some("failed") => Status::Failed,
        Some("cancelled") => Status::Cancelled,
        Some(other) => {
            let other = SafeText::new(other, 40);
            return Err(UpstreamFault::new(format!("a task with the unknown status {other}")));
        }
        None => return Err(UpstreamFault::new("a task without a status")),
    };
    Ok(BackTask {
        id,
        status,
        message: object
            .str("statusMessage")
            .map(|text| SafeText::status(&text))
            .filter(|text| !text.is_empty()),
        ttl: object.get(ttl_name).and_then(millis),
        poll: object.get(poll_name).and_then(millis),
        inputs: Vec::new(),
        result: None,
        error: None,
    })
}

/// Milliseconds as backs write them: fractions are rounded up, less than one is one. `None` for
/// `null` and for what is no number.
fn millis(value: &str) -> Option<Millis> {
    if json::is_null(value) {
        return None;
    }
    if let Ok(whole) = value.parse::<u64>() {
        return Some(Millis(whole.max(1)));
    }
    let number: f64 = value.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let whole = number.ceil().max(1.0) as u64;
    Some(Millis(whole))
}
