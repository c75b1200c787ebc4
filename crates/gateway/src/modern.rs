//! What one stateless request says about its client. Nothing of it outlives the request (B-008).

use taskgate_wire::json::{self, Object};
use taskgate_wire::meta::TASKS_EXTENSION;
use taskgate_wire::offers::Offers;
use taskgate_wire::place::RequestMeta;

use crate::level::Level;

#[derive(Clone, Debug)]
pub(crate) struct Modern {
    pub(crate) offers: Offers,
    /// Whether it can be answered by a task (B-055).
    pub(crate) declares_tasks: bool,
    /// Whether it declares the tasks of 2025-11-25, which mean nothing here (B-117) but may be allowed for (Q-016).
    pub(crate) declares_legacy_tasks: bool,
    /// Raw string or number.
    pub(crate) progress_token: Option<String>,
    pub(crate) log_level: Option<Level>,
}

impl Modern {
    /// Whether a capabilities object has a part that the client did not declare (E-007).
    pub(crate) fn lacks(&self, required: &str) -> bool {
        let Ok(required) = Object::parse(required) else { return false };
        required.members().any(|part| match part.name.as_ref() {
            "elicitation" => {
                self.offers.elicitation.is_none()
                    || (!self.offers.url() && asks(part.value, "url"))
                    || (!self.offers.form() && asks(part.value, "form"))
            }
            "sampling" => match self.offers.sampling.as_deref() {
                None => true,
                Some(ours) => {
                    ["tools", "context"].iter().any(|name| asks(part.value, name) && !asks(ours, name))
                }
            },
            "roots" => self.offers.roots.is_none(),
            "extensions" => json::at(part.value, &[TASKS_EXTENSION]).is_none() || !self.declares_tasks,
            _ => true,
        })
    }

    pub(crate) fn of(meta: &RequestMeta<'_>) -> Modern {
        Modern {
            offers: Offers::from_capabilities(meta.capabilities),
            declares_tasks: meta.declares_tasks,
            declares_legacy_tasks: json::at(meta.capabilities, &["tasks"]).is_some_and(json::is_object),
            progress_token: meta.progress_token.map(String::from),
            log_level: meta.log_level.as_deref().and_then(Level::parse),
        }
    }
}

/// Whether a capability names this part of it.
fn asks(capability: &str, part: &str) -> bool {
    json::at(capability, &[part]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_007_what_a_client_lacks_is_seen_part_by_part() {
        let modern = Modern {
            offers: Offers::from_capabilities(r#"{"elicitation":{"form":{}}}"#),
            declares_tasks: false,
            declares_legacy_tasks: false,
            progress_token: None,
            log_level: None,
        };
        assert!(!modern.lacks(r#"{"elicitation":{"form":{}}}"#));
        assert!(modern.lacks(r#"{"elicitation":{"url":{}}}"#));
        assert!(modern.lacks(r#"{"sampling":{}}"#));
        assert!(modern.lacks(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
    }
}
