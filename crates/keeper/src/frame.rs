//! The frames between a pipe and the keeper.
//!
//! # Shape
//! `u32` length of the payload, `u8` kind, `u64` sequence, payload; numbers are little-endian. A sequence counts up
//! from 1 in each direction of one attachment. The pipe's sequence, with the attachment's id, names a message for
//! ever (design 4): the same one sent again after the keeper's death is recognised.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes before the payload.
pub const HEADER: usize = 13;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pipe → keeper, once and first: what is attached, as JSON. It holds the environment, so it is never logged.
    Attach = 1,
    /// Both ways: one JSON-RPC message, without a line end.
    Message = 2,
    /// Keeper → pipe: like [`Kind::Message`], and the pipe says with [`Kind::Ack`] when its host has it.
    Result = 3,
    /// Pipe → keeper: everything up to the keeper's frame of this sequence was written to the host.
    Ack = 4,
    /// Pipe → keeper: the host closed its end. What is under way may still be answered.
    Close = 5,
    /// Keeper → pipe: the attachment is served from now on.
    Ready = 6,
    /// Keeper → pipe: a line that the server wrote on its stderr.
    Stderr = 7,
    /// Keeper → pipe: a line of the keeper's own for the person who reads the host's log.
    Notice = 8,
    /// Keeper → pipe: it cannot be served, and why, in words. Nothing more comes.
    Refused = 9,
    /// Keeper → pipe: nothing more comes; the payload is one of [`End`]'s words.
    End = 10,
    /// Pipe → keeper: how long ago the host sent the message of this sequence, which comes next; milliseconds as a
    /// little-endian `u64`. Before what is sent again, or could not be sent at once.
    Age = 11,
}

impl Kind {
    fn read(byte: u8) -> Option<Kind> {
        const ALL: [Kind; 11] = [
            Kind::Attach,
            Kind::Message,
            Kind::Result,
            Kind::Ack,
            Kind::Close,
            Kind::Ready,
            Kind::Stderr,
            Kind::Notice,
            Kind::Refused,
            Kind::End,
            Kind::Age,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Why the keeper says [`Kind::End`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The host had closed its end and everything was answered.
    Done,
    /// A person stopped the keeper: start none until the host wants something.
    Stopped,
    /// The keeper gives way to a newer one: come back at once.
    GaveWay,
}

impl End {
    /// Its word in the payload.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            End::Done => "done",
            End::Stopped => "stopped",
            End::GaveWay => "gave-way",
        }
    }

    /// Reads the word. One that a later version made up counts as [`End::GaveWay`]: to come back is always right.
    #[must_use]
    pub fn read(payload: &[u8]) -> End {
        match payload {
            b"done" => End::Done,
            b"stopped" => End::Stopped,
            _ => End::GaveWay,
        }
    }
}

/// One frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// Its number in its direction, or for [`Kind::Ack`] the number that it confirms.
    pub sequence: u64,
    /// What it carries.
    pub payload: Bytes,
}

// Payloads are secrets: calls, results, environments.
impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({:?}, {}, {} bytes)", self.kind, self.sequence, self.payload.len())
    }
}

/// Why bytes are no frames. The connection is of no use any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Broken {
    /// It is longer than what is taken.
    #[error("a frame of {length} bytes is longer than the limit of {max}")]
    TooLong {
        /// What it says of itself.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// There is no such kind.
    #[error("there is no frame of kind {0}")]
    Kind(u8),
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, broken)
    }
}

/// The bytes before a payload of `length` bytes.
///
/// # Errors
/// [`Broken::TooLong`] for a payload that no header can announce.
pub fn header(kind: Kind, sequence: u64, length: usize) -> Result<[u8; HEADER], Broken> {
    let announced = u32::try_from(length).map_err(|_| Broken::TooLong { length, max: u32::MAX as usize })?;
    let mut header = [0; HEADER];
    let mut rest = &mut header[..];
    rest.put_u32_le(announced);
    rest.put_u8(kind as u8);
    rest.put_u64_le(sequence);
    Ok(header)
}

/// A whole frame in one piece, for one write.
///
/// # Errors
/// As [`header`].
pub fn encode(kind: Kind, sequence: u64, payload: &[u8]) -> Result<Bytes, Broken> {
    let mut bytes = BytesMut::with_capacity(HEADER + payload.len());
    bytes.put_slice(&header(kind, sequence, payload.len())?);
    bytes.put_slice(payload);
    Ok(bytes.freeze())
}

/// Takes frames out of bytes that come in pieces.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    max: usize,
}

impl Decoder {
    /// One that takes payloads of at most `max` bytes.
    #[must_use]
    pub fn new(max: usize) -> Decoder {
        Decoder { buffer: BytesMut::with_capacity(16 << 10), max }
    }

    /// Where the next bytes go; there is room for some.
    pub fn space(&mut self) -> &mut BytesMut {
        // The rest of a frame that has begun is read in as few pieces as it comes.
        let wanted = match self.buffer.first_chunk::<4>() {
            Some(length) => (u32::from_le_bytes(*length) as usize).min(self.max) + HEADER,
            None => HEADER,
        };
        self.buffer.reserve(wanted.saturating_sub(self.buffer.len()).clamp(4 << 10, 1 << 20));
        &mut self.buffer
    }

    /// Takes bytes that were read elsewhere.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next frame, if all of it is there.
    ///
    /// # Errors
    /// [`Broken`]; it says so from then on.
    pub fn take(&mut self) -> Result<Option<Frame>, Broken> {
        let Some(mut header) = self.buffer.get(..HEADER) else { return Ok(None) };
        let length = header.get_u32_le() as usize;
        let kind = header.get_u8();
        let sequence = header.get_u64_le();
        if length > self.max {
            return Err(Broken::TooLong { length, max: self.max });
        }
        let kind = Kind::read(kind).ok_or(Broken::Kind(kind))?;
        if self.buffer.len() < HEADER + length {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        let payload = self.buffer.split_to(length).freeze();
        Ok(Some(Frame { kind, sequence, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain(decoder: &mut Decoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.take().unwrap()).collect()
    }

    fn frames() -> impl Strategy<Value = Vec<Frame>> {
        let kind = (1_u8..=11).prop_map(|byte| Kind::read(byte).unwrap());
        let payload = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        let frame = (kind, any::<u64>(), payload).prop_map(|(kind, sequence, payload)| Frame {
            kind,
            sequence,
            payload,
        });
        prop::collection::vec(frame, 0..12)
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in_however_they_are_cut(
            frames in frames(), cuts in prop::collection::vec(1_usize..40, 1..20)
        ) {
            let mut bytes = Vec::new();
            for frame in &frames {
                bytes.extend_from_slice(&encode(frame.kind, frame.sequence, &frame.payload).unwrap());
            }
            let mut decoder = Decoder::new(200);
            let mut out = Vec::new();
            let mut rest = &bytes[..];
            let mut cuts = cuts.iter().cycle();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                decoder.extend(piece);
                out.extend(drain(&mut decoder));
                rest = after;
            }
            prop_assert_eq!(out, frames);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic_and_without_growing(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut decoder = Decoder::new(64);
            decoder.extend(&bytes);
            for _ in 0..40 {
                if !matches!(decoder.take(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_is_read() {
        let mut decoder = Decoder::new(8);
        decoder.extend(&encode(Kind::Message, 1, &[0; 9]).unwrap()[..HEADER]);
        assert_eq!(decoder.take(), Err(Broken::TooLong { length: 9, max: 8 }));
    }

    #[test]
    fn a_kind_that_does_not_exist_breaks_the_connection() {
        let mut bytes = encode(Kind::End, 1, b"done").unwrap().to_vec();
        bytes[4] = 99;
        let mut decoder = Decoder::new(8);
        decoder.extend(&bytes);
        assert_eq!(decoder.take(), Err(Broken::Kind(99)));
    }

    #[test]
    fn debug_shows_no_payload() {
        let frame = Frame { kind: Kind::Attach, sequence: 1, payload: Bytes::from_static(b"hunter2") };
        assert_eq!(format!("{frame:?}"), "Frame(Attach, 1, 7 bytes)");
    }
}
