//! What stands for a long result: its short parts, its beginning, and how the rest is had.

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use taskgate_core::id::TaskId;
use taskgate_core::time::UnixMillis;
use taskgate_wire::content::text_block;
use taskgate_wire::json::{self, string_literal};
use taskgate_wire::text::SafeText;
use taskgate_wire::time;

use super::parts::{Content, Part, open};
use crate::handle_tool;

/// Of the bound, what goes to short parts that stay, and what to the beginning; and the most that either gets.
const STAY: (usize, usize) = (4, 16 * 1024);
const BEGINNING: (usize, usize) = (16, 4 * 1024);

/// Parts that are linked one by one. All others are in the whole.
const LINKS_MAX: usize = 8;

/// The name under which `_meta` tells programs what the text tells people.
const META_NAME: &str = "taskgate/result";

/// A result that is too long.
pub(super) struct Kept {
    pub(super) id: TaskId,
    pub(super) tool: String,
    pub(super) result: Bytes,
    pub(super) is_error: bool,
    /// Until when it is kept.
    pub(super) expires: Option<UnixMillis>,
    /// Of the whole, as a resource.
    pub(super) uri: String,
    /// Of the whole, over HTTP.
    pub(super) url: Option<String>,
    /// Whether the reader has `taskgate_task`.
    pub(super) names_tool: bool,
    pub(super) inline_max: usize,
}

/// The blocks that stay, and what is said of those that do not.
#[derive(Default)]
struct Short {
    blocks: Vec<String>,
    links: Vec<String>,
    /// What names each of them behind the address of the whole.
    paths: Vec<String>,
    /// For `_meta`, one object each.
    parts: Vec<String>,
    has_beginning: bool,
    /// Blocks that neither stay nor are linked.
    others: usize,
}

/// A result object in the place of the long one: shorter than the bound, whatever that one holds.
pub(super) fn write(kept: &Kept) -> Bytes {
    let text = std::str::from_utf8(&kept.result).unwrap_or("{}");
    let share = |(part, most): (usize, usize)| (kept.inline_max / part).min(most);
    let (mut room, cut) = (share(STAY), share(BEGINNING));
    let mut short = Short::default();
    let mut stays = |raw: &str| {
        let does = raw.len() <= cut && raw.len() <= room;
        if does {
            room -= raw.len();
        }
        does
    };
    let structured = json::at(text, &["structuredContent"]);
    // It is for programs, to which a part of it would be no use.
    let whole_structured = structured.filter(|structured| stays(structured));
    let content = json::at(text, &["content"]).and_then(|content| json::elements(content).ok());
    for (number, block) in content.unwrap_or_default().into_iter().enumerate() {
        if stays(block) {
            short.blocks.push(block.to_owned());
        } else if block.len() > cut && short.links.len() < LINKS_MAX {
            let held = Content::of_block(&kept.result, block);
            if held.is_text {
                short.begin(&held, cut);
            }
            short.link(kept, Part::Block(number), &held);
        } else {
            short.others += 1;
        }
    }
    if whole_structured.is_none()
        && let Some(held) = open(&kept.result, Part::Structured)
    {
        if short.blocks.is_empty() {
            short.begin(&held, cut);
        }
        short.link(kept, Part::Structured, &held);
    }
    let digest = sha256(&kept.result);
    let words = words(kept, &short, &digest);
    let whole =
        Content { media_type: "application/json".to_owned(), bytes: kept.result.clone(), is_text: true };
    let meta = meta(kept, &short, &digest);
    let all = [text_block(&words)].into_iter().chain(short.links);
    short.blocks.extend(all);
    short.blocks.push(link(&kept.uri, &name(&kept.tool, Part::Whole), &whole, Some(&digest)));
    let mut out = format!("{{\"content\":[{}]", short.blocks.join(","));
    if let Some(structured) = whole_structured {
        out.push_str(",\"structuredContent\":");
        out.push_str(structured);
    }
    out.push_str(&format!(",\"isError\":{},\"_meta\":{{\"{META_NAME}\":{meta}}}}}", kept.is_error));
    Bytes::from(out)
}

impl Short {
    /// Shows the beginning of the first text that is too long.
    fn begin(&mut self, held: &Content, bytes_max: usize) {
        if self.has_beginning {
            return;
        }
        let text = std::str::from_utf8(&held.bytes).unwrap_or_default();
        let beginning = beginning(text, bytes_max);
        if !beginning.is_empty() {
            self.has_beginning = true;
            self.blocks.push(text_block(beginning));
        }
    }

    fn link(&mut self, kept: &Kept, part: Part, held: &Content) {
        let digest = sha256(&held.bytes);
        let uri = format!("{}{part}", kept.uri);
        self.paths.push(part.to_string());
        self.links.push(link(&uri, &name(&kept.tool, part), held, Some(&digest)));
        self.parts.push(format!(
            "{{\"uri\":{},\"mimeType\":{},\"bytes\":{},\"sha256\":\"{digest}\"}}",
            string_literal(&uri),
            string_literal(&held.media_type),
            held.bytes.len()
        ));
    }
}

/// As much of a text as fits into `bytes_max` bytes of a JSON string, cut between characters.
pub(super) fn beginning(text: &str, bytes_max: usize) -> &str {
    let mut written = 0;
    for (at, next) in text.char_indices() {
        written += match next {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            '\0'..='\u{1F}' => 6,
            next => next.len_utf8(),
        };
        if written > bytes_max {
            return text.get(..at).unwrap_or_default();
        }
    }
    text
}

/// A `resource_link`. Versions without such blocks are given it in words (G-005).
pub(super) fn link(uri: &str, name: &str, held: &Content, digest: Option<&str>) -> String {
    let bytes = held.bytes.len();
    let digest = digest.map_or_else(String::new, |digest| format!(", SHA-256 {digest}"));
    format!(
        "{{\"type\":\"resource_link\",\"uri\":{},\"name\":{},\"description\":\"{bytes} bytes{digest}\",\
\"mimeType\":{},\"size\":{bytes}}}",
        string_literal(uri),
        string_literal(name),
        string_literal(&held.media_type)
    )
}

/// What a part is called.
pub(super) fn name(tool: &str, part: Part) -> String {
    let tool = SafeText::new(tool, 80);
    match part {
        Part::Whole => format!("whole result of {tool}"),
        Part::Block(number) => format!("block {number} of the result of {tool}"),
        Part::Structured => format!("structured content of the result of {tool}"),
    }
}

/// What a reader is told: what this is, and the ways to the rest.
fn words(kept: &Kept, short: &Short, digest: &str) -> String {
    let Kept { uri, inline_max, .. } = kept;
    let id = kept.id.expose();
    let shown = if short.has_beginning { "above is its beginning" } else { "it is kept apart" };
    let mut words = format!(
        "The result of {} is {} bytes long (SHA-256 {digest}), more than the {inline_max} that are answered in whole; {shown}.",
        SafeText::new(&kept.tool, 80),
        kept.result.len(),
    );
    if let Some(expires) = kept.expires {
        words.push_str(&format!(" All of it is kept until {}.", time::write(expires)));
    }
    words.push_str(" Do not call the tool again for the rest.");
    if kept.names_tool {
        words.push_str(&format!(
            " To see it page by page, call {} with {{\"action\":\"result\",\"taskId\":\"{id}\",\"page\":1}}.",
            handle_tool::NAME
        ));
    }
    words.push_str(&format!(" As a resource it is {uri}, read in pieces of up to {inline_max} bytes."));
    if let Some(url) = &kept.url {
        words.push_str(&format!(" GET {url} gives it in whole or, with Range, in part."));
    }
    if !short.paths.is_empty() {
        let behind = if kept.url.is_some() { "either address" } else { "that address" };
        let paths = short.paths.join(", ");
        words.push_str(&format!(" Behind {behind}, {paths} is that part alone, out of JSON and base64."));
    }
    if short.others > 0 {
        words.push_str(&format!(" {} more of its blocks are only in the whole.", short.others));
    }
    words
}

fn meta(kept: &Kept, short: &Short, digest: &str) -> String {
    let mut meta = format!(
        "{{\"taskId\":\"{}\",\"bytes\":{},\"sha256\":\"{digest}\",\"inlineMax\":{},\"uri\":{}",
        kept.id.expose(),
        kept.result.len(),
        kept.inline_max,
        string_literal(&kept.uri)
    );
    if let Some(url) = &kept.url {
        meta.push_str(&format!(",\"url\":{}", string_literal(url)));
    }
    if let Some(expires) = kept.expires {
        meta.push_str(&format!(",\"expiresAt\":\"{}\"", time::write(expires)));
    }
    meta.push_str(&format!(",\"parts\":[{}]}}", short.parts.join(",")));
    meta
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}
