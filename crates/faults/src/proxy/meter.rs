//! Where an HTTP/1.1 message ends, however its bytes come.

/// Reads along, byte by byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Meter {
    at: At,
    head: Vec<u8>,
    is_answer: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum At {
    Head,
    Sized(usize),
    /// The line that says how long the next chunk is.
    ChunkSize(Vec<u8>),
    /// So many bytes, and the line end after them.
    Chunk(usize),
    /// Lines until an empty one.
    Trailer(Vec<u8>),
    ToTheEnd,
    Over,
}

impl Meter {
    pub(super) fn request() -> Meter {
        Meter { at: At::Head, head: Vec::new(), is_answer: false }
    }

    pub(super) fn answer() -> Meter {
        Meter { is_answer: true, ..Meter::request() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.at == At::Over
    }

    /// Takes as many of `bytes` as belong to this message, and says how many those are.
    pub(super) fn take(&mut self, bytes: &[u8]) -> usize {
        for (count, byte) in bytes.iter().enumerate() {
            if self.is_over() {
                return count;
            }
            self.step(*byte);
        }
        bytes.len()
    }

    fn step(&mut self, byte: u8) {
        match &mut self.at {
            At::Head => {
                self.head.push(byte);
                if self.head.ends_with(b"\r\n\r\n") {
                    self.at = self.body();
                    self.head.clear();
                }
            }
            At::Sized(left) => {
                *left -= 1;
                if *left == 0 {
                    self.at = At::Over;
                }
            }
            At::ChunkSize(line) => {
                line.push(byte);
                if line.ends_with(b"\r\n") {
                    let text = String::from_utf8_lossy(line);
                    let digits = text.split(';').next().unwrap_or_default().trim();
                    let size = usize::from_str_radix(digits, 16).unwrap_or(0);
                    self.at = if size == 0 { At::Trailer(Vec::new()) } else { At::Chunk(size + 2) };
                }
            }
            At::Chunk(left) => {
                *left -= 1;
                if *left == 0 {
                    self.at = At::ChunkSize(Vec::new());
                }
            }
            At::Trailer(line) => {
                line.push(byte);
                if line.ends_with(b"\r\n") {
                    self.at = if line.len() == 2 { At::Over } else { At::Trailer(Vec::new()) };
                }
            }
            At::ToTheEnd | At::Over => {}
        }
    }

    fn body(&self) -> At {
        let text = String::from_utf8_lossy(&self.head).to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|word| word.parse::<u16>().ok()).unwrap_or_default();
        if self.is_answer && (status < 200 || status == 204 || status == 304) {
            // 1xx is not the answer yet, and none of the parts sends it.
            return At::Over;
        }
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        if value("transfer-encoding:").is_some_and(|coding| coding.contains("chunked")) {
            return At::ChunkSize(Vec::new());
        }
        match value("content-length:").and_then(|length| length.parse().ok()) {
            Some(0) => At::Over,
            Some(length) => At::Sized(length),
            None if self.is_answer => At::ToTheEnd,
            None => At::Over,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the bytes are cut up, the message ends at the same place.
    fn ends_at(mut meter: Meter, text: &str, end: usize) {
        for step in 1..=text.len() {
            let mut fresh = meter.clone();
            let taken: usize = text.as_bytes().chunks(step).map(|chunk| fresh.take(chunk)).sum();
            assert_eq!((taken, fresh.is_over()), (end, true), "{text:?} by {step}");
        }
        assert!(!{
            meter.take(&text.as_bytes()[..end - 1]);
            meter.is_over()
        });
    }

    #[test]
    fn a_message_ends_where_its_head_says() {
        let sized = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET";
        ends_at(Meter::request(), sized, sized.len() - 3);
        ends_at(Meter::request(), "GET / HTTP/1.1\r\nhost: x\r\n\r\nGET", 27);
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\n\r\nHTTP";
        ends_at(Meter::answer(), chunked, chunked.len() - 4);
        ends_at(Meter::answer(), "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\nHTTP", 44);
        ends_at(Meter::answer(), "HTTP/1.1 204 No Content\r\n\r\nHTTP", 27);
    }

    #[test]
    fn an_answer_without_a_length_ends_with_its_connection() {
        let mut meter = Meter::answer();
        assert_eq!(meter.take(b"HTTP/1.1 200 OK\r\n\r\nabc"), 22);
        assert!(!meter.is_over());
    }
}
