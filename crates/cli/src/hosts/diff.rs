//! An edit as people read it.

use similar::{ChangeTag, TextDiff};

/// Lines of an unchanged text around a change.
const CONTEXT: usize = 3;
/// Characters of a line that are shown; a file may be all on one line.
const LINE_CHARS_MAX: usize = 400;

/// What a line of a difference is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tag {
    Place,
    Same,
    Gone,
    New,
}

/// The lines of a unified difference of two texts, without the two that name the files. Empty if they are the same.
pub(crate) fn lines(old: &str, new: &str) -> Vec<(Tag, String)> {
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        lines.push((Tag::Place, hunk.header().to_string().trim_end().to_owned()));
        let changes: Vec<_> = hunk.iter_changes().collect();
        for change in &changes {
            let (tag, sign) = match change.tag() {
                ChangeTag::Equal => (Tag::Same, ' '),
                ChangeTag::Delete => (Tag::Gone, '-'),
                ChangeTag::Insert => (Tag::New, '+'),
            };
            lines.push((tag, format!("{sign}{}", printable(change.value()))));
            if change.missing_newline() {
                lines.push((Tag::Same, "\\ no end of line at the end of the file".to_owned()));
            }
        }
    }
    shorten(&mut lines);
    lines
}

/// Without what could move the cursor or reorder the line.
pub(crate) fn printable(line: &str) -> String {
    let strange = |c: char| {
        (c.is_control() && c != '\t')
            || matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
    };
    line.trim_end_matches(['\n', '\r']).chars().map(|c| if strange(c) { '\u{FFFD}' } else { c }).collect()
}

/// Cuts lines that no terminal could show: around the first character that differs from the line's counterpart.
fn shorten(lines: &mut [(Tag, String)]) {
    let long = |line: &str| line.chars().count() > LINE_CHARS_MAX;
    for at in 0..lines.len() {
        if !long(&lines[at].1) {
            continue;
        }
        let counterpart = match lines[at].0 {
            Tag::Gone => lines.get(at + 1).filter(|(tag, _)| *tag == Tag::New),
            Tag::Place | Tag::Same | Tag::New => None,
        };
        let Some((_, other)) = counterpart.cloned() else {
            lines[at].1 = window(&lines[at].1, 0);
            continue;
        };
        let alike =
            lines[at].1.chars().skip(1).zip(other.chars().skip(1)).take_while(|(a, b)| a == b).count();
        lines[at].1 = window(&lines[at].1, alike);
        if long(&other) {
            lines[at + 1].1 = window(&other, alike);
        }
    }
}

fn window(line: &str, first: usize) -> String {
    let start = first.saturating_sub(LINE_CHARS_MAX / 4);
    let mut chars = line.chars();
    let sign = chars.next().unwrap_or(' ');
    let shown: String = chars.clone().skip(start).take(LINE_CHARS_MAX).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if chars.count() > start + LINE_CHARS_MAX { "…" } else { "" };
    format!("{sign}{before}{shown}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(old: &str, new: &str) -> String {
        lines(old, new).into_iter().map(|(_, line)| line + "\n").collect()
    }

    #[test]
    fn a_difference_is_a_unified_one() {
        assert_eq!(text("a\nb\nc\n", "a\nx\nc\n"), "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n");
        assert_eq!(text("a\n", "a\n"), "");
        assert!(text("a", "b").contains("\\ no end of line"));
    }

    #[test]
    fn a_long_line_is_cut_around_its_change() {
        let long = "x".repeat(3000);
        let shown = text(&format!("{long}old{long}\n"), &format!("{long}new{long}\n"));
        assert!(shown.contains("old") && shown.contains("new"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= LINE_CHARS_MAX + 3), "{shown}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("\ta\u{1b}[2Jb\u{202e}\r\n"), "\ta\u{FFFD}[2Jb\u{FFFD}");
    }
}
