//! `${NAME}` in values: what stands in the environment.

use crate::environment::Environment;

/// Why a value could not be completed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Incomplete {
    /// The variable is not set.
    #[error("the environment variable {0} is not set")]
    Unset(String),
    /// It does not end, or names nothing.
    #[error("\"${{\" is not followed by a name and \"}}\"")]
    Form,
}

impl Incomplete {
    /// What to do about it.
    pub(crate) fn help(&self) -> String {
        match self {
            Incomplete::Unset(name) => {
                format!("set {name} where taskgate is started, or write ${{{name}:-a value}}")
            }
            Incomplete::Form => {
                "write ${NAME} for a variable, or $${ for these characters themselves".to_owned()
            }
        }
    }
}

/// Puts in what the environment says: `${NAME}`, or `${NAME:-otherwise}`. `$${` stands for `${` itself.
pub(crate) fn expand(text: &str, environment: &Environment) -> Result<String, Incomplete> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let end = from.find('}').ok_or(Incomplete::Form)?;
        let inside = &from[2..end];
        let (name, otherwise) = match inside.split_once(":-") {
            Some((name, otherwise)) => (name, Some(otherwise)),
            None => (inside, None),
        };
        // Some hosts write `${env:NAME}`.
        let name = name.strip_prefix("env:").unwrap_or(name);
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return Err(Incomplete::Form);
        }
        match (environment.text(name), otherwise) {
            (Some(value), None) => out.push_str(value),
            (Some(value), Some(_)) if !value.is_empty() => out.push_str(value),
            (_, Some(otherwise)) => out.push_str(otherwise),
            (None, None) => return Err(Incomplete::Unset(name.to_owned())),
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(text: &str) -> Result<String, Incomplete> {
        expand(text, &Environment::of([("TOKEN", "abc"), ("EMPTY", "")]))
    }

    #[test]
    fn names_are_replaced_wherever_they_stand() {
        assert_eq!(with("Bearer ${TOKEN}!").unwrap(), "Bearer abc!");
        assert_eq!(with("${TOKEN}${env:TOKEN}").unwrap(), "abcabc");
        assert_eq!(with("${EMPTY}").unwrap(), "");
        assert_eq!(with("${EMPTY:-x}${NONE:-y}${TOKEN:-z}").unwrap(), "xyabc");
        assert_eq!(with("$TOKEN $5 $${TOKEN}").unwrap(), "$TOKEN $5 ${TOKEN}");
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(with("${NONE}"), Err(Incomplete::Unset("NONE".to_owned())));
        for bad in ["${", "${}", "${a b}", "${TOKEN"] {
            assert_eq!(with(bad), Err(Incomplete::Form), "{bad}");
        }
    }
}
