//! A text without its values, where it cannot be read as what it should be.

use super::tree::Format;

/// A text that cannot be read, or that is shown where something is wrong with it: values are replaced byte by byte, so that
/// places in it stay what they are.
pub(crate) fn without_values(text: &str, format: Format) -> String {
    let mut out = String::with_capacity(text.len());
    let mut is_comment = false;
    for line in text.split_inclusive('\n') {
        match format {
            Format::Json => json_line(line, &mut is_comment, &mut out),
            Format::Yaml => yaml_line(line, &mut out),
        }
    }
    out
}

/// Texts that are no names, numbers and comments. `is_comment`: a comment began on a line before.
fn json_line(line: &str, is_comment: &mut bool, out: &mut String) {
    let mut rest = line;
    if *is_comment {
        let end = rest.find("*/");
        *is_comment = end.is_none();
        let (words, after) = rest.split_at(end.unwrap_or(rest.len()));
        stars(words, out);
        rest = after;
    }
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '/') || c.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(comment) = from.strip_prefix("//") {
            out.push_str("//");
            return stars(comment, out);
        }
        if let Some(comment) = from.strip_prefix("/*") {
            out.push_str("/*");
            let end = comment.find("*/");
            *is_comment = end.is_none();
            let (words, after) = comment.split_at(end.map_or(comment.len(), |end| end + 2));
            stars(words, out);
            rest = after;
        } else if from.starts_with('"') {
            let (text, after) = from.split_at(text_length(from));
            let is_name = after.trim_start().starts_with(':');
            out.push_str(if is_name { text } else { "\"" });
            if !is_name {
                let inner = text.get(1..).unwrap_or_default();
                let open = inner.strip_suffix('"').unwrap_or(inner);
                stars(open, out);
                out.push_str(&inner[open.len()..]);
            }
            rest = after;
        } else {
            out.push(if from.starts_with('/') { '/' } else { '*' });
            rest = &from[1..];
        }
    }
    out.push_str(rest);
}

/// Bytes of the text that begins here, with its quotes; up to the end of the line if it has no end.
fn text_length(from: &str) -> usize {
    let mut is_escaped = false;
    for (at, next) in from.char_indices().skip(1) {
        match next {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    from.len()
}

/// All that stands behind a name, or behind a dash.
fn yaml_line(line: &str, out: &mut String) {
    let indent = line.len() - line.trim_start().len();
    let name =
        line.find(": ").map(|at| at + 2).or_else(|| line.trim_end().ends_with(':').then_some(line.len()));
    let dash = line[indent..].starts_with("- ").then_some(indent + 2);
    let shown = name.or(dash).unwrap_or(indent);
    out.push_str(&line[..shown]);
    stars(&line[shown..], out);
}

/// A star for each byte, so that places stay what they are; ends of lines are kept.
fn stars(text: &str, out: &mut String) {
    for byte in text.bytes() {
        out.push(match byte {
            b'\n' => '\n',
            b'\r' => '\r',
            _ => '*',
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_cannot_be_read_keeps_its_places() {
        let text = "{\n \"a\": \"hünter2\", // hunter2\n \"b\": [\"hunter2\" \"c\\\"hunter2\n";
        let shown = without_values(text, Format::Json);
        assert_eq!(shown.len(), text.len());
        assert!(
            !shown.contains("unter2") && !shown.contains("nter2") && shown.contains("\"a\": \""),
            "{shown}"
        );
        let text = "a:\n  b: hunter2\n  - hunter2\n  hunter2\n";
        let shown = without_values(text, Format::Yaml);
        assert_eq!(shown, "a:\n  b: *******\n  - *******\n  *******\n");
    }
}
