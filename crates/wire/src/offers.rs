//! What a client can be asked for, and what we therefore declare to a back.

use taskgate_core::task::{Question, QuestionKind};

use crate::json::{self, Object};
use crate::meta;
use crate::rpc_error::RpcError;
use crate::version::Version;

/// The parts of a client's capabilities that let a back ask something. Equal offers may share a back session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Offers {
    /// Raw `elicitation` object in canonical form.
    pub elicitation: Option<String>,
    /// Raw `sampling` object in canonical form.
    pub sampling: Option<String>,
    /// Raw `roots` object in canonical form.
    pub roots: Option<String>,
}

impl Offers {
    /// A client that can be asked nothing.
    #[must_use]
    pub fn none() -> Offers {
        Offers::default()
    }

    /// Reads a client's capabilities object, of either era. What is no object counts as absent.
    #[must_use]
    pub fn from_capabilities(capabilities: &str) -> Offers {
        let Ok(capabilities) = Object::parse(capabilities) else { return Offers::none() };
        let part = |name| {
            let value = capabilities.get(name).filter(|value| json::is_object(value))?;
            String::from_utf8(json::canonical(value)).ok()
        };
        Offers { elicitation: part("elicitation"), sampling: part("sampling"), roots: part("roots") }
    }

    /// Reads the params of a legacy `initialize`, as far as `negotiated` can carry what they offer (G-004).
    #[must_use]
    pub fn from_initialize(params: &str, negotiated: Version) -> Offers {
        let capabilities = json::at(params, &["capabilities"]).unwrap_or("{}");
        let mut offers = Offers::from_capabilities(capabilities);
        if !negotiated.has_form_elicitation() {
            offers.elicitation = None;
        } else if !negotiated.has_url_elicitation() && offers.elicitation.is_some() {
            offers.elicitation = Some(String::from("{}"));
        }
        offers
    }

    /// Whether nothing can be asked.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Offers::none()
    }

    /// Whether a form may be put to the user. An empty declaration means form only (A-101, B-141).
    #[must_use]
    pub fn form(&self) -> bool {
        self.elicitation.as_deref().is_some_and(|modes| has(modes, "form") || !has(modes, "url"))
    }

    /// Whether a URL may be put to the user.
    #[must_use]
    pub fn url(&self) -> bool {
        self.elicitation.as_deref().is_some_and(|modes| has(modes, "url"))
    }

    /// Whether a question of this kind may be asked (A-102, B-099).
    #[must_use]
    pub fn can_ask(&self, kind: QuestionKind) -> bool {
        match kind {
            QuestionKind::Form => self.form(),
            QuestionKind::Url => self.url(),
            QuestionKind::Sampling => self.sampling.is_some(),
            QuestionKind::Roots => self.roots.is_some(),
        }
    }

    /// Whether this very question may be asked: its kind is declared, and so are the tools that sampling makes use of
    /// (A-114, B-099).
    #[must_use]
    pub fn takes(&self, question: &Question) -> bool {
        let sampling = self.sampling.as_deref().unwrap_or("{}");
        self.can_ask(question.kind) && (!uses_tools(question) || has(sampling, "tools"))
    }

    /// What a server is told that asks something which may not be asked: `-32602` where another mode or form of the same
    /// was declared, else `-32601`. `None` if it may.
    #[must_use]
    pub fn refuses(&self, question: &Question) -> Option<RpcError> {
        if self.takes(question) {
            return None;
        }
        Some(match question.kind {
            QuestionKind::Form | QuestionKind::Url if self.elicitation.is_some() => {
                RpcError::invalid_params("This elicitation mode was not declared")
            }
            QuestionKind::Sampling if self.sampling.is_some() => {
                RpcError::invalid_params("Sampling with tools was not declared")
            }
            QuestionKind::Form | QuestionKind::Url | QuestionKind::Sampling | QuestionKind::Roots => {
                RpcError::method_not_found(question.kind.method())
            }
        })
    }

    /// The capabilities object that we declare to a back of `version`: nothing that the client lacks, nothing
    /// that the version lacks, no legacy `tasks`, no `roots.listChanged`. A modern back hears
    /// of the tasks extension.
    #[must_use]
    pub fn capabilities_json(&self, version: Version) -> String {
        self.write(version, version.has_tasks_b())
    }

    /// The same without the tasks extension, for a call that must not become a task.
    #[must_use]
    pub fn capabilities_json_without_tasks(&self, version: Version) -> String {
        self.write(version, false)
    }

    fn write(&self, version: Version, has_tasks: bool) -> String {
        let mut parts = Vec::new();
        if let Some(elicitation) = &self.elicitation {
            if version.has_url_elicitation() {
                parts.push(format!("\"elicitation\":{elicitation}"));
            } else if version.has_form_elicitation() && self.form() {
                parts.push(String::from("\"elicitation\":{}"));
            }
        }
        if let Some(sampling) = &self.sampling {
            // Its settings are new in 2025-11-25.
            let settings = if version.has_url_elicitation() { sampling.as_str() } else { "{}" };
            parts.push(format!("\"sampling\":{settings}"));
        }
        if self.roots.is_some() {
            parts.push(String::from("\"roots\":{}"));
        }
        if has_tasks {
            parts.push(format!("\"extensions\":{{\"{}\":{{}}}}", meta::TASKS_EXTENSION));
        }
        format!("{{{}}}", parts.join(","))
    }

    /// The text that a record keeps.
    #[must_use]
    pub fn to_stored(&self) -> String {
        let parts =
            [("elicitation", &self.elicitation), ("sampling", &self.sampling), ("roots", &self.roots)];
        let written = parts.iter().filter_map(|(name, part)| Some(format!("\"{name}\":{}", part.as_ref()?)));
        format!("{{{}}}", written.collect::<Vec<_>>().join(","))
    }

    /// Reads [`Offers::to_stored`] back.
    #[must_use]
    pub fn from_stored(text: &str) -> Offers {
        Offers::from_capabilities(text)
    }

    /// The capabilities object that a question of this kind needs, for a `-32021` (B-014).
    #[must_use]
    pub fn required_for(kind: QuestionKind) -> &'static str {
        match kind {
            QuestionKind::Form => "{\"elicitation\":{\"form\":{}}}",
            QuestionKind::Url => "{\"elicitation\":{\"url\":{}}}",
            QuestionKind::Sampling => "{\"sampling\":{}}",
            QuestionKind::Roots => "{\"roots\":{}}",
        }
    }
}

/// Sampling with tools has a capability of its own from 2025-11-25 on.
fn uses_tools(question: &Question) -> bool {
    let params = crate::result::text(&question.params).unwrap_or("{}");
    let is_there = |name| json::at(params, &[name]).is_some_and(|value| !json::is_null(value));
    question.kind == QuestionKind::Sampling && (is_there("tools") || is_there("toolChoice"))
}

fn has(modes: &str, mode: &str) -> bool {
    json::at(modes, &[mode]).is_some_and(json::is_object)
}
