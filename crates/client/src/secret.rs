//! A text that is never shown.

use std::ffi::{OsStr, OsString};
use std::fmt;

/// A credential, or an environment value that may be one. `Debug` hides it; [`Secret::expose`] gives it.
///
/// It is nearly always text. Environment values may be other bytes, which only a process can be given.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(OsString);

impl Secret {
    /// Takes `text` as a secret.
    #[must_use]
    pub fn new(text: impl Into<OsString>) -> Secret {
        Secret(text.into())
    }

    /// The text itself; nothing if it is no text. Call it to hand it to the server it belongs to, never to log or to
    /// answer.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    /// The same, whether it is text or not.
    #[must_use]
    pub fn expose_os(&self) -> &OsStr {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
