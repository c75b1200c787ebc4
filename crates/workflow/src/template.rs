//! A URL with expressions in braces.

use std::ops::Range;

use crate::expression::{Bad, Expression, Failed, Want};
use crate::facts::Table;
use crate::names::Scope;

/// Longest URL that is asked for, in bytes.
const URL_BYTES_MAX: usize = 8 << 10;

/// A URL in which expressions stand in braces: `https://bank.example/payments/{key}`. What they give is
/// percent-encoded, so that it is always one piece of the path or query.
#[derive(Debug)]
pub struct Template {
    source: String,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Plain(String),
    Computed(Expression),
}

impl Template {
    /// Reads `source`.
    ///
    /// # Errors
    /// [`Bad`]: what is wrong and where. Scheme, host and port are plain text, so that nothing that a caller says can
    /// send the request elsewhere.
    pub fn compile(source: &str) -> Result<Template, Bad> {
        let bad = |what: &str, help: &str, at: Range<usize>| {
            Err(Bad { what: what.to_owned(), help: help.to_owned(), at })
        };
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(c) = source.get(at..).and_then(|rest| rest.chars().next()) {
            match c {
                '{' => {
                    if !authority_is_over(&pieces, &plain) {
                        return bad(
                            "an expression stands in the scheme, host or port of the URL",
                            "write these out: only the path and the query may be computed",
                            at..at + 1,
                        );
                    }
                    let Some(end) = closing(source, at) else {
                        return bad("`{` has no `}`", "write the expression in braces: {key}", at..at + 1);
                    };
                    let inside = source.get(at + 1..end).unwrap_or_default();
                    let expression = Expression::compile(inside, Scope::Operation, Want::Text)
                        .map_err(|bad| Bad { at: bad.at.start + at + 1..bad.at.end + at + 1, ..bad })?;
                    pieces.push(Piece::Plain(std::mem::take(&mut plain)));
                    pieces.push(Piece::Computed(expression));
                    at = end + 1;
                }
                '}' => return bad("`}` has no `{`", "write it as %7D if it belongs to the URL", at..at + 1),
                c if !c.is_ascii_graphic() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '|') => {
                    return bad(
                        "a URL cannot have this character",
                        "percent-encode it",
                        at..at + c.len_utf8(),
                    );
                }
                '#' => return bad("a request has no fragment", "leave it out", at..source.len()),
                c => {
                    plain.push(c);
                    at += 1;
                }
            }
        }
        pieces.push(Piece::Plain(plain));
        Ok(Template { source: source.to_owned(), pieces })
    }

    /// As it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What stands before the first expression: scheme, host, port, and the beginning of the path.
    #[must_use]
    pub fn prefix(&self) -> &str {
        match self.pieces.first() {
            Some(Piece::Plain(plain)) => plain,
            Some(Piece::Computed(_)) | None => "",
        }
    }

    /// Whether an expression names it.
    #[must_use]
    pub fn uses(&self, name: &str) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Plain(_) => false,
            Piece::Computed(expression) => expression.uses(name),
        })
    }

    pub(crate) fn fill(&self, table: &Table<'_>) -> Result<String, Failed> {
        let mut url = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Plain(plain) => url.push_str(plain),
                Piece::Computed(expression) => {
                    let text = table.text(expression)?;
                    // Each of these would ask about something else: the whole list, or the folder above.
                    if text.is_empty() || text == "." || text == ".." {
                        return Err(Failed::Piece);
                    }
                    encode(&text, &mut url);
                }
            }
        }
        if url.len() > URL_BYTES_MAX { Err(Failed::TooLarge("the URL")) } else { Ok(url) }
    }
}

fn authority_is_over(pieces: &[Piece], plain: &str) -> bool {
    !pieces.is_empty() || plain.split_once("://").is_some_and(|(_, rest)| rest.contains('/'))
}

/// Where the brace at `open` is closed, braces of maps and in texts apart.
fn closing(source: &str, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in source.char_indices().filter(|(at, _)| *at >= open) {
        match (quote, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(mark), c) if mark == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '{') => depth += 1,
            (None, '}') => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            (None, _) => {}
        }
    }
    None
}

/// RFC 3986: everything but unreserved characters.
fn encode(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push(char::from(HEX[usize::from(byte >> 4)]));
            out.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}
