//! Peers' words, made safe to store, log and show (R6.3).

use std::fmt;

/// Text that cannot move a cursor, hide or reorder anything, or fill a screen. Only this module makes one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SafeText(String);

/// Characters of a status message: two lines of a terminal, and too few to carry a whole result.
pub const STATUS_CHARS_MAX: usize = 200;

impl SafeText {
    /// Cleans `text`: terminal escapes, control characters, bidirectional and invisible marks go, runs of
    /// white space become one space, and at most `chars_max` characters stay, the last of them `…` if more
    /// were there.
    #[must_use]
    pub fn new(text: &str, chars_max: usize) -> SafeText {
        let mut clean = String::new();
        let mut count = 0;
        let mut is_spaced = false;
        let mut chars = text.chars();
        while let Some(next) = chars.next() {
            match next {
                '\u{1B}' => skip_escape(&mut chars),
                '\u{9B}' => skip_csi(&mut chars),
                '\u{9D}' | '\u{90}' | '\u{98}' | '\u{9E}' | '\u{9F}' => skip_string(&mut chars),
                next if next.is_whitespace() => is_spaced = true,
                next if next.is_control() || is_invisible(next) => {}
                next => {
                    let wanted = if is_spaced && count > 0 { 2 } else { 1 };
                    if count + wanted > chars_max {
                        shorten(&mut clean, count, chars_max);
                        return SafeText(clean);
                    }
                    if wanted == 2 {
                        clean.push(' ');
                    }
                    clean.push(next);
                    count += wanted;
                    is_spaced = false;
                }
            }
        }
        SafeText(clean)
    }

    /// A status message of at most [`STATUS_CHARS_MAX`] characters.
    #[must_use]
    pub fn status(text: &str) -> SafeText {
        SafeText::new(text, STATUS_CHARS_MAX)
    }

    /// The clean text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The clean text, owned.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// Whether nothing was left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn shorten(clean: &mut String, count: usize, chars_max: usize) {
    if count >= chars_max {
        clean.pop();
    }
    if chars_max > 0 {
        clean.push('…');
    }
}

/// Behind ESC: a CSI or string sequence, or one character.
fn skip_escape(chars: &mut core::str::Chars<'_>) {
    match chars.next() {
        Some('[') => skip_csi(chars),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(chars),
        // Two-byte sequences such as a charset switch have intermediates before their end.
        Some(' '..='/') => {
            chars.next();
        }
        Some(_) | None => {}
    }
}

/// Parameters and intermediates up to a final byte.
fn skip_csi(chars: &mut core::str::Chars<'_>) {
    for next in chars.by_ref() {
        if !(' '..='?').contains(&next) {
            return;
        }
    }
}

/// Everything up to BEL, ST or the end.
fn skip_string(chars: &mut core::str::Chars<'_>) {
    while let Some(next) = chars.next() {
        match next {
            '\u{7}' | '\u{9C}' => return,
            '\u{1B}' => {
                chars.next();
                return;
            }
            _ => {}
        }
    }
}

fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFFB}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn r6_3_escapes_marks_and_controls_go() {
        for (dirty, clean) in [
            ("plain", "plain"),
            ("\u{1B}[31mred\u{1B}[0m", "red"),
            ("\u{1B}]8;;https://evil.example\u{7}link\u{1B}]8;;\u{1B}\\", "link"),
            ("\u{9B}2Jgone", "gone"),
            ("a\u{202E}b\u{2066}c\u{200B}d", "abcd"),
            ("two\r\nlines\tand  gaps ", "two lines and gaps"),
            ("nul\u{0}bell\u{7}", "nulbell"),
            ("tag\u{E0041}", "tag"),
        ] {
            assert_eq!(SafeText::new(dirty, 80).as_str(), clean, "{dirty:?}");
        }
    }

    #[test]
    fn r6_3_long_text_is_cut_and_says_so() {
        assert_eq!(SafeText::new("abcdef", 4).as_str(), "abc…");
        assert_eq!(SafeText::new("abc def", 4).as_str(), "abc…");
        assert_eq!(SafeText::new("abcd", 4).as_str(), "abcd");
        assert_eq!(SafeText::new("abcd", 0).as_str(), "");
    }

    proptest! {
        #[test]
        fn r6_3_whatever_comes_in_is_bounded_and_clean(text: String, max in 0_usize..40) {
            let clean = SafeText::new(&text, max);
            prop_assert!(clean.as_str().chars().count() <= max);
            prop_assert!(!clean.as_str().chars().any(|char| char.is_control() || is_invisible(char)));
            prop_assert_eq!(SafeText::new(clean.as_str(), max), clean);
        }
    }
}
