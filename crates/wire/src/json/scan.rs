//! One pass over JSON text that checks its grammar and remembers where things lie.
//!
//! No recursion: a bit per open bracket says what it is, so hostile nesting meets [`DEPTH_MAX`] and not the
//! end of the stack.

use core::ops::Range;

use super::SyntaxError;

/// Levels of nesting that are read. One bit of a `u128` for each; the deepest real body seen has fewer than
/// 20.
pub(crate) const DEPTH_MAX: u32 = 128;

/// Where one member of an object lies.
#[derive(Clone, Debug)]
pub(crate) struct RawMember {
    /// From behind `{` or `,` to before `,` or `}`, white space included.
    pub(crate) chunk: Range<usize>,
    /// The name without its quotes.
    pub(crate) name: Range<usize>,
    /// Whether the name has escapes.
    pub(crate) is_escaped: bool,
    /// The value without white space around it.
    pub(crate) value: Range<usize>,
}

pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    pub(crate) pos: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str) -> Scanner<'a> {
        Scanner { bytes: text.as_bytes(), pos: 0 }
    }

    pub(crate) fn fail<T>(&self, what: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { at: self.pos, what })
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.pos).copied()
    }

    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.pos += 1;
        }
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), SyntaxError> {
        self.space();
        if self.peek().is_none() { Ok(()) } else { self.fail("something follows the value") }
    }

    /// A string; the range is what stands between the quotes.
    fn string(&mut self) -> Result<(Range<usize>, bool), SyntaxError> {
        self.pos += 1;
        let start = self.pos;
        let mut is_escaped = false;
        loop {
            self.pos += plain_run(self.bytes.get(self.pos..).unwrap_or_default());
            match self.peek() {
                Some(b'"') => {
                    self.pos += 1;
                    return Ok((start..self.pos - 1, is_escaped));
                }
                Some(b'\\') => {
                    is_escaped = true;
                    self.pos += 1;
                    self.escape()?;
                }
                Some(_) => return self.fail("a control character in a string"),
                None => return self.fail("a string without an end"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.pos += 1,
            Some(b'u') => {
                let digits = self.bytes.get(self.pos + 1..self.pos + 5);
                if !digits.is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) {
                    return self.fail("an escape without four hex digits");
                }
                self.pos += 5;
            }
            Some(_) | None => return self.fail("an unknown escape"),
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.pos;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.pos += 1;
        }
        if self.pos == start { self.fail("a number without a digit") } else { Ok(()) }
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        if self.peek() == Some(b'-') {
            self.pos += 1;
        }
        if self.peek() == Some(b'0') {
            self.pos += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.pos += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.pos += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.pos += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), SyntaxError> {
        if self.bytes.get(self.pos..).is_some_and(|rest| rest.starts_with(word)) {
            self.pos += word.len();
            Ok(())
        } else {
            self.fail("an unknown word")
        }
    }

    /// A member's name and the colon behind it.
    fn name(&mut self) -> Result<(Range<usize>, bool), SyntaxError> {
        if self.peek() != Some(b'"') {
            return self.fail("a member's name is missing");
        }
        let name = self.string()?;
        self.space();
        if self.peek() != Some(b':') {
            return self.fail("a colon is missing");
        }
        self.pos += 1;
        self.space();
        Ok(name)
    }

    /// Any value, which begins here; `above` levels are open around it.
    pub(crate) fn value(&mut self, above: u32) -> Result<Range<usize>, SyntaxError> {
        let start = self.pos;
        let mut depth = above;
        let mut objects = 0_u128;
        'value: loop {
            match self.peek() {
                Some(open @ (b'{' | b'[')) => {
                    if depth >= DEPTH_MAX {
                        return self.fail("nested too deeply");
                    }
                    self.pos += 1;
                    self.space();
                    // `{` and `}` are two apart in ASCII, as are `[` and `]`.
                    if self.peek() == Some(open + 2) {
                        self.pos += 1;
                    } else {
                        depth += 1;
                        objects = (objects << 1) | u128::from(open == b'{');
                        if open == b'{' {
                            self.name()?;
                        }
                        continue 'value;
                    }
                }
                Some(b'"') => {
                    self.string()?;
                }
                Some(b't') => self.word(b"true")?,
                Some(b'f') => self.word(b"false")?,
                Some(b'n') => self.word(b"null")?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                Some(_) => return self.fail("no value begins like this"),
                None => return self.fail("a value is missing"),
            }
            while depth > above {
                self.space();
                match (self.peek(), objects & 1 == 1) {
                    (Some(b','), is_object) => {
                        self.pos += 1;
                        self.space();
                        if is_object {
                            self.name()?;
                        }
                        continue 'value;
                    }
                    (Some(b'}'), true) | (Some(b']'), false) => {
                        self.pos += 1;
                        depth -= 1;
                        objects >>= 1;
                    }
                    (Some(_), _) => return self.fail("a comma or the end of a list is missing"),
                    (None, _) => return self.fail("the text ends too soon"),
                }
            }
            return Ok(start..self.pos);
        }
    }

    /// The members of an object that begins here.
    pub(crate) fn members(&mut self, above: u32) -> Result<Vec<RawMember>, SyntaxError> {
        self.members_with(above, |scanner, _, above| scanner.value(above))
    }

    /// Like [`Scanner::members`], with a look at each value: `read` is given the name's range.
    pub(crate) fn members_with(
        &mut self,
        above: u32,
        mut read: impl FnMut(&mut Scanner<'a>, Range<usize>, u32) -> Result<Range<usize>, SyntaxError>,
    ) -> Result<Vec<RawMember>, SyntaxError> {
        if self.peek() != Some(b'{') {
            return self.fail("an object was expected");
        }
        if above >= DEPTH_MAX {
            return self.fail("nested too deeply");
        }
        self.pos += 1;
        let mut members = Vec::new();
        let mut start = self.pos;
        self.space();
        if self.peek() == Some(b'}') {
            self.pos += 1;
            return Ok(members);
        }
        loop {
            let (name, is_escaped) = self.name()?;
            let value = read(self, name.clone(), above + 1)?;
            self.space();
            members.push(RawMember { chunk: start..self.pos, name, is_escaped, value });
            match self.peek() {
                Some(b',') => {
                    self.pos += 1;
                    start = self.pos;
                    self.space();
                }
                Some(b'}') => {
                    self.pos += 1;
                    return Ok(members);
                }
                Some(_) => return self.fail("a comma or the end of an object is missing"),
                None => return self.fail("the text ends too soon"),
            }
        }
    }

    /// The elements of an array that begins here.
    pub(crate) fn elements(&mut self, above: u32) -> Result<Vec<Range<usize>>, SyntaxError> {
        self.elements_with(above, Scanner::value)
    }

    /// Like [`Scanner::elements`], with a look at each.
    pub(crate) fn elements_with(
        &mut self,
        above: u32,
        mut read: impl FnMut(&mut Scanner<'a>, u32) -> Result<Range<usize>, SyntaxError>,
    ) -> Result<Vec<Range<usize>>, SyntaxError> {
        if self.peek() != Some(b'[') {
            return self.fail("an array was expected");
        }
        if above >= DEPTH_MAX {
            return self.fail("nested too deeply");
        }
        self.pos += 1;
        let mut elements = Vec::new();
        self.space();
        if self.peek() == Some(b']') {
            self.pos += 1;
            return Ok(elements);
        }
        loop {
            elements.push(read(self, above + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => {
                    self.pos += 1;
                    self.space();
                }
                Some(b']') => {
                    self.pos += 1;
                    return Ok(elements);
                }
                Some(_) => return self.fail("a comma or the end of an array is missing"),
                None => return self.fail("the text ends too soon"),
            }
        }
    }
}

/// Strings longer than this are read in wide blocks; the blocks cost more than they save on short ones.
const SHORT: usize = 64;
const BLOCK: usize = 32;

/// How many bytes from the start are neither a quote, a backslash nor a control character.
fn plain_run(bytes: &[u8]) -> usize {
    let (start, rest) = bytes.split_at(bytes.len().min(SHORT));
    let run = plain_words(start);
    if run < start.len() {
        return run;
    }
    let (blocks, _) = rest.as_chunks::<BLOCK>();
    // No branch inside, so that the compiler can look at the whole block at once.
    let is_plain = |block: &&[u8; BLOCK]| {
        !block.iter().fold(false, |hit, &byte| hit | (byte == b'"') | (byte == b'\\') | (byte < 0x20))
    };
    let skipped = blocks.iter().take_while(is_plain).count() * BLOCK;
    run + skipped + plain_words(rest.get(skipped..).unwrap_or_default())
}

/// The same, eight at a time.
fn plain_words(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut run = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        let quote = word ^ (ONES * b'"' as u64);
        let slash = word ^ (ONES * b'\\' as u64);
        // A borrow can only flag bytes above a true hit, so the lowest flag is always right.
        let hits = (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let hits = hits & HIGH;
        if hits != 0 {
            return run + hits.trailing_zeros() as usize / 8;
        }
        run += 8;
    }
    run + rest.iter().take_while(|&&byte| byte != b'"' && byte != b'\\' && byte >= 0x20).count()
}
