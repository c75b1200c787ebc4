//! A tool result cut into pages that fit into a model's context (R5.7).

use std::borrow::Cow;

use taskgate_wire::content::is_said;
use taskgate_wire::json::{self, Object, string_literal};

/// A result in pages of about `bytes_max` bytes.
pub(crate) struct Paged<'r> {
    /// The content blocks of each page, as raw JSON. One page at least; it is the whole content if that fits.
    pub(crate) content: Vec<Vec<String>>,
    /// Content and structured content, where both are there.
    both: Option<(&'r str, &'r str)>,
    bytes_max: usize,
}

/// Cuts a result. A block that is longer than a page and cannot be cut has a page of its own; with `link` that stands in
/// its place, given its number.
pub(crate) fn pages<'r>(
    result: &'r str,
    bytes_max: usize,
    link: Option<&dyn Fn(usize) -> String>,
) -> Paged<'r> {
    let mut pages = Pages::new(bytes_max);
    let content = json::at(result, &["content"]);
    let blocks = content.and_then(|content| json::elements(content).ok()).unwrap_or_default();
    let structured = json::at(result, &["structuredContent"]);
    let both = if blocks.is_empty() { None } else { content.zip(structured) };
    if blocks.is_empty()
        && let Some(structured) = structured
    {
        pages.text(structured);
    }
    for (number, block) in blocks.into_iter().enumerate() {
        if block.len() <= bytes_max {
            pages.block(block.to_owned());
            continue;
        }
        match (text_of(block), link) {
            (Some(text), _) => pages.text(&text),
            (None, Some(link)) => pages.block(link(number)),
            (None, None) => pages.block(block.to_owned()),
        }
    }
    Paged { content: pages.finish(), both, bytes_max }
}

impl Paged<'_> {
    /// All pages: behind the content those of the structured content, unless the content says the same.
    pub(crate) fn all(self) -> Vec<Vec<String>> {
        let mut all = self.content;
        if let Some((content, structured)) = self.both
            && !is_said(content, structured)
        {
            let mut pages = Pages::new(self.bytes_max);
            pages.text(structured);
            all.extend(pages.finish());
        }
        all
    }
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
    fn new(bytes_max: usize) -> Pages {
        Pages { bytes_max, done: Vec::new(), page: Vec::new(), bytes: 0 }
    }

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
            pages(result, 1_000, None).all(),
            [[r#"{"type":"text","text":"a"}"#, r#"{"type":"image","data":"x","mimeType":"image/png"}"#]]
        );
        assert_eq!(pages("{}", 10, None).all(), [Vec::<String>::new()]);
    }

    #[test]
    fn r5_7_a_long_text_is_cut_between_characters_and_loses_none() {
        let text = "äöü€".repeat(50);
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}");
        let pages = pages(&result, 64, None).all();
        assert!(pages.len() > 5);
        let whole: String =
            pages.iter().flatten().map(|block| text_of(block).unwrap().into_owned()).collect();
        assert_eq!(whole, text);
    }

    #[test]
    fn r5_7_structured_content_alone_is_shown_as_text() {
        let result = r#"{"content":[],"structuredContent":{"n":1}}"#;
        assert_eq!(pages(result, 100, None).all(), [[r#"{"type":"text","text":"{\"n\":1}"}"#]]);
    }

    #[test]
    fn r5_7_structured_content_that_no_text_says_has_pages_of_its_own() {
        let said = r#"{"content":[{"type":"text","text":"{\"n\": 1}"}],"structuredContent":{"n":1}}"#;
        assert_eq!(pages(said, 100, None).all().len(), 1);
        let other = r#"{"content":[{"type":"text","text":"see there"}],"structuredContent":{"n":1}}"#;
        let all = pages(other, 100, None).all();
        assert_eq!(all[1], [r#"{"type":"text","text":"{\"n\":1}"}"#]);
    }

    #[test]
    fn r5_7_a_block_that_cannot_be_cut_is_linked_where_that_is_wanted() {
        let image = format!("{{\"type\":\"image\",\"data\":\"{}\"}}", "A".repeat(100));
        let result = format!("{{\"content\":[{{\"type\":\"text\",\"text\":\"a\"}},{image}]}}");
        assert_eq!(pages(&result, 64, None).all()[1], [image.as_str()]);
        let link = |number: usize| format!("[{number}]");
        assert_eq!(pages(&result, 64, Some(&link)).all(), [[r#"{"type":"text","text":"a"}"#, "[1]"]]);
    }
}
