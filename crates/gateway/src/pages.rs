//! A tool result cut into pages that fit into a model's context (R5.7).

use std::borrow::Cow;

use taskgate_wire::json::{self, Object, string_literal};

/// The content blocks of each page, as raw JSON. One page at least; it is the whole result if that fits.
pub(crate) fn pages(result: &str, bytes_max: usize) -> Vec<Vec<String>> {
    let mut pages = Pages { bytes_max, done: Vec::new(), page: Vec::new(), bytes: 0 };
    let blocks =
        json::at(result, &["content"]).and_then(|content| json::elements(content).ok()).unwrap_or_default();
    if blocks.is_empty()
        && let Some(structured) = json::at(result, &["structuredContent"])
    {
        pages.text(structured);
    }
    for block in blocks {
        match text_of(block) {
            Some(text) if block.len() > bytes_max => pages.text(&text),
            Some(_) | None => pages.block(block.to_owned()),
        }
    }
    pages.finish()
}

/// The text of a block that is nothing but text.
fn text_of(block: &str) -> Option<Cow<'_, str>> {
    let block = Object::parse(block).ok()?;
    (block.str("type")? == "text").then(|| block.str("text"))?
}

struct Pages {
    bytes_max: usize,
    done: Vec<Vec<String>>,
    page: Vec<String>,
    bytes: usize,
}

impl Pages {
    fn block(&mut self, block: String) {
        if self.bytes + block.len() > self.bytes_max && !self.page.is_empty() {
            self.turn();
        }
        self.bytes += block.len();
        self.page.push(block);
    }

    /// Cuts a long text between characters.
    fn text(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let mut end = rest.len().min(self.bytes_max.max(4));
            while !rest.is_char_boundary(end) {
                end -= 1;
            }
            let (part, more) = rest.split_at(end);
            self.block(format!("{{\"type\":\"text\",\"text\":{}}}", string_literal(part)));
            rest = more;
        }
    }

    fn turn(&mut self) {
        self.done.push(std::mem::take(&mut self.page));
        self.bytes = 0;
    }

    fn finish(mut self) -> Vec<Vec<String>> {
        if !self.page.is_empty() || self.done.is_empty() {
            self.turn();
        }
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_7_a_small_result_is_one_page_of_its_own_blocks() {
        let result =
            r#"{"content":[ {"type":"text","text":"a"},{"type":"image","data":"x","mimeType":"image/png"}]}"#;
        assert_eq!(
            pages(result, 1_000),
            [[r#"{"type":"text","text":"a"}"#, r#"{"type":"image","data":"x","mimeType":"image/png"}"#]]
        );
        assert_eq!(pages("{}", 10), [Vec::<String>::new()]);
    }

    #[test]
    fn r5_7_a_long_text_is_cut_between_characters_and_loses_none() {
        let text = "äöü€".repeat(50);
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}");
        let pages = pages(&result, 64);
        assert!(pages.len() > 5);
        let whole: String =
            pages.iter().flatten().map(|block| text_of(block).unwrap().into_owned()).collect();
        assert_eq!(whole, text);
    }

    #[test]
    fn r5_7_structured_content_alone_is_shown_as_text() {
        let result = r#"{"content":[],"structuredContent":{"n":1}}"#;
        assert_eq!(pages(result, 100), [[r#"{"type":"text","text":"{\"n\":1}"}"#]]);
    }
}
