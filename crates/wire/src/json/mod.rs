//! JSON as text: looked at through borrowed slices, never decoded into a tree.

mod canonical;
mod object;
pub(crate) mod scan;
mod text;

pub use canonical::{canonical, duplicate_member};
pub(crate) use object::is_named;
pub use object::{Member, Object, at, elements, is_null, is_object, string};
pub use text::string_literal;
pub(crate) use text::{push_literal, unescape, unescape_counting};

/// Why a text is not JSON, or not the kind of JSON that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}, at byte {at}")]
pub struct SyntaxError {
    /// The byte where reading stopped.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Checks that `text` is exactly one JSON value, nested no deeper than we read.
///
/// # Errors
/// [`SyntaxError`] says where it is not.
pub fn check(text: &str) -> Result<(), SyntaxError> {
    let mut scanner = scan::Scanner::new(text);
    scanner.space();
    scanner.value(0)?;
    scanner.end()
}
