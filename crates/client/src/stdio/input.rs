//! Cutting a server's output into lines, within bounds.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// A line without its end.
    Line(Bytes),
    /// A line longer than the bound; its first and last bytes, the rest was thrown away as it came.
    TooLong { head: Bytes, tail: Bytes },
    /// There is no more.
    End,
}

/// How much of a line that is too long is kept at either end, to tell whose it is.
const KEPT: usize = 512;

/// Lines up to this length are copied out of the buffer.
const COPIED_MAX: usize = 8 << 10;

/// Reads lines from `source`.
#[derive(Debug)]
pub(crate) struct Input<S> {
    source: S,
    buffer: BytesMut,
    /// Up to where the buffer is known to hold no newline.
    searched: usize,
    line_bytes_max: usize,
}

impl<S: AsyncRead + Unpin> Input<S> {
    pub(crate) fn new(source: S, line_bytes_max: usize) -> Input<S> {
        Input { source, buffer: BytesMut::new(), searched: 0, line_bytes_max }
    }

    /// The next line. An error of the pipe is its end.
    pub(crate) async fn next(&mut self) -> Read {
        let mut overlong: Option<Bytes> = None;
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', fresh) {
                let mut line = self.buffer.split_to(self.searched + at + 1);
                self.searched = 0;
                line.truncate(line.len() - 1);
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                // A small message of its own does not keep the whole buffer alive.
                let line =
                    if line.len() <= COPIED_MAX { Bytes::copy_from_slice(&line) } else { line.freeze() };
                let too_long = line.len() > self.line_bytes_max;
                return match overlong {
                    Some(head) => Read::TooLong { head, tail: last_of(&line) },
                    None if too_long => Read::TooLong { head: first_of(&line), tail: last_of(&line) },
                    None => Read::Line(line),
                };
            }
            self.searched = self.buffer.len();
            let bound = if overlong.is_some() { 1 << 20 } else { self.line_bytes_max };
            if self.buffer.len() > bound {
                let kept = self.buffer.split_off(self.buffer.len() - KEPT.min(self.buffer.len()));
                overlong.get_or_insert_with(|| first_of(&self.buffer));
                self.buffer = kept;
                self.searched = self.buffer.len();
            }
            self.buffer.reserve(64 << 10);
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => {
                    // What stands after the last newline is no message: its writer died over it.
                    return Read::End;
                }
                Ok(_) => {}
            }
        }
    }
}

fn first_of(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(line.get(..KEPT).unwrap_or(line))
}

fn last_of(line: &[u8]) -> Bytes {
    Bytes::copy_from_slice(line.get(line.len().saturating_sub(KEPT)..).unwrap_or(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_cut_whatever_the_chunks() {
        let mut input = Input::new(&b"one\r\ntwo\n\nlast without an end"[..], 100);
        assert_eq!(input.next().await, Read::Line(Bytes::from_static(b"one")));
        assert_eq!(input.next().await, Read::Line(Bytes::from_static(b"two")));
        assert_eq!(input.next().await, Read::Line(Bytes::from_static(b"")));
        assert_eq!(input.next().await, Read::End);
    }

    #[tokio::test]
    async fn a_line_beyond_the_bound_costs_no_memory_and_the_next_is_read() {
        let mut flood = vec![b'a'; 10];
        flood.extend(vec![b'x'; 5 << 20]);
        flood.extend(b"zzz\nnext\n");
        let mut input = Input::new(&flood[..], 1000);
        let Read::TooLong { head, tail } = input.next().await else { panic!("it was taken") };
        assert!(head.starts_with(b"aaaaaaaaaax") && tail.ends_with(b"xzzz"));
        assert!(input.buffer.capacity() < 2 << 20, "{}", input.buffer.capacity());
        assert_eq!(input.next().await, Read::Line(Bytes::from_static(b"next")));
    }
}
