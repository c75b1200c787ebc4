//! What a result is made of: the whole, its blocks, its structured content.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use data_encoding::{BASE64, BASE64_MIME_PERMISSIVE, BASE64_NOPAD};
use taskgate_wire::json::{self, Object};

/// Longest media type that is passed on.
const MEDIA_TYPE_MAX: usize = 100;

const JSON: &str = "application/json";

/// A part of a result, and in its `Display` the path by which it is had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The result object, as its server wrote it.
    Whole,
    /// What is in one block of its content, counted from 0.
    Block(usize),
    /// Its structured content.
    Structured,
}

impl Part {
    pub(crate) fn parse(path: &str) -> Option<Part> {
        match path {
            "" => Some(Part::Whole),
            "/structured" => Some(Part::Structured),
            path => {
                let number = path.strip_prefix("/content/")?;
                let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
                let number = number.parse().ok().filter(|_| is_plain)?;
                let part = Part::Block(number);
                // One name for each.
                (part.to_string() == path).then_some(part)
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Whole => Ok(()),
            Part::Block(number) => write!(f, "/content/{number}"),
            Part::Structured => f.write_str("/structured"),
        }
    }
}

/// What a part holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Content {
    /// As its server has it, where that is a media type at all.
    pub(crate) media_type: String,
    /// Out of JSON and base64.
    pub(crate) bytes: Bytes,
    /// Whether they are text.
    pub(crate) is_text: bool,
}

/// A part of `result`; `None` if it has no such part.
pub(crate) fn open(result: &Bytes, part: Part) -> Option<Content> {
    let text = std::str::from_utf8(result).ok()?;
    match part {
        Part::Whole => Some(Content::text(JSON, result.clone())),
        Part::Structured => {
            let structured = json::at(text, &["structuredContent"])?;
            Some(Content::text(JSON, result.slice_ref(structured.as_bytes())))
        }
        Part::Block(number) => {
            let blocks = json::elements(json::at(text, &["content"])?).ok()?;
            Some(Content::of_block(result, blocks.get(number)?))
        }
    }
}

impl Content {
    fn text(media_type: &str, bytes: Bytes) -> Content {
        Content { media_type: media_type.to_owned(), bytes, is_text: true }
    }

    /// What `block`, a slice of `result`, holds. What cannot be taken out is given as the block's own JSON.
    pub(crate) fn of_block(result: &Bytes, block: &str) -> Content {
        let whole = || Content::text(JSON, result.slice_ref(block.as_bytes()));
        let Ok(object) = Object::parse(block) else { return whole() };
        let held = match object.str("type").as_deref() {
            Some("text") => {
                object.str("text").map(|text| Content::text("text/plain", Bytes::from(text.into_owned())))
            }
            Some("image" | "audio") => decoded(&object, "data"),
            Some("resource") => object.object("resource").and_then(|resource| {
                let text = resource.str("text").map(|text| Bytes::from(text.into_owned()));
                let given = resource.str("mimeType");
                match text {
                    Some(text) => Some(Content::text(&media_type(given, "text/plain"), text)),
                    None => decoded(&resource, "blob"),
                }
            }),
            Some(_) | None => None,
        };
        held.unwrap_or_else(whole)
    }
}

/// The bytes of a member in base64. Some servers break its lines, or leave out its end.
fn decoded(object: &Object<'_>, member: &str) -> Option<Content> {
    let base64 = object.str(member)?;
    let base64 = base64.as_bytes();
    let bytes = BASE64
        .decode(base64)
        .or_else(|_| BASE64_NOPAD.decode(base64))
        .or_else(|_| BASE64_MIME_PERMISSIVE.decode(base64))
        .ok()?;
    let media_type = media_type(object.str("mimeType"), "application/octet-stream");
    Some(Content { media_type, bytes: Bytes::from(bytes), is_text: false })
}

/// A media type that can stand in a header; `otherwise` if what was given is none.
fn media_type(given: Option<Cow<'_, str>>, otherwise: &str) -> String {
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let fits = |given: &str| {
        given.len() <= MEDIA_TYPE_MAX
            && given.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
            && given
                .split(';')
                .next()
                .and_then(|kind| kind.trim().split_once('/'))
                .is_some_and(|(kind, sub)| is_token(kind) && is_token(sub))
    };
    given.filter(|given| fits(given)).map_or_else(|| otherwise.to_owned(), Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"content":[{"type":"text","text":"a\nä"},{"type":"image","data":"AAEC","mimeType":"image/png"},
        {"type":"resource","resource":{"uri":"x:1","text":"<p>","mimeType":"text/html"}},
        {"type":"resource","resource":{"uri":"x:2","blob":"AAE"}},{"type":"audio","data":"no base64!"},{"type":"new", "n":1}],
        "structuredContent":{"n" : 1}}"#;

    fn opened(part: Part) -> Content {
        open(&Bytes::from_static(RESULT.as_bytes()), part).unwrap()
    }

    #[test]
    fn r5_7_each_part_is_had_out_of_json_and_base64() {
        assert_eq!(opened(Part::Whole), Content::text(JSON, Bytes::from_static(RESULT.as_bytes())));
        assert_eq!(opened(Part::Structured), Content::text(JSON, Bytes::from_static(b"{\"n\" : 1}")));
        assert_eq!(opened(Part::Block(0)), Content::text("text/plain", Bytes::from("a\nä")));
        let image = opened(Part::Block(1));
        assert_eq!(
            (image.media_type.as_str(), image.is_text, &*image.bytes),
            ("image/png", false, &[0, 1, 2][..])
        );
        assert_eq!(opened(Part::Block(2)), Content::text("text/html", Bytes::from("<p>")));
        let unpadded = opened(Part::Block(3));
        assert_eq!(
            (unpadded.media_type.as_str(), &*unpadded.bytes),
            ("application/octet-stream", &[0, 1][..])
        );
        // What is no base64, and what we do not know, is given as it came.
        assert_eq!(opened(Part::Block(4)).bytes, r#"{"type":"audio","data":"no base64!"}"#);
        assert_eq!(opened(Part::Block(5)), Content::text(JSON, Bytes::from(r#"{"type":"new", "n":1}"#)));
        let result = Bytes::from_static(RESULT.as_bytes());
        assert_eq!(open(&result, Part::Block(6)), None);
        assert_eq!(open(&Bytes::from_static(b"{\"content\":[]}"), Part::Structured), None);
    }

    #[test]
    fn r5_7_a_part_has_one_path() {
        for part in [Part::Whole, Part::Structured, Part::Block(0), Part::Block(17)] {
            assert_eq!(Part::parse(&part.to_string()), Some(part));
        }
        for path in
            ["/", "/content", "/content/", "/content/01", "/content/+1", "/content/-1", "/content/1/", "/x"]
        {
            assert_eq!(Part::parse(path), None, "{path}");
        }
    }

    #[test]
    fn r5_7_only_a_media_type_is_passed_on_as_one() {
        let read = |given: &'static str| media_type(Some(Cow::Borrowed(given)), "text/plain");
        for good in ["image/png", "text/html; charset=utf-8", "application/vnd.x+json"] {
            assert_eq!(read(good), good);
        }
        for bad in ["", "png", "image/", "a/b\r\nx: y", "a b/c", "ä/b"] {
            assert_eq!(read(bad), "text/plain", "{bad}");
        }
    }
}
