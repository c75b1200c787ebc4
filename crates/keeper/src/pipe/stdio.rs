//! The host's end: its messages on our stdin, ours on its stdout. Plain blocking calls on plain threads: between a
//! message's arrival and its leaving there is one wake-up and no queue.

use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::os::fd::AsFd;

use bytes::{Bytes, BytesMut};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Read at once.
const PIECE: usize = 64 << 10;

/// What came on stdin.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Line {
    /// A line, without its end.
    Message(Bytes),
    /// One that is longer than the limit; it was skipped.
    TooLong,
    /// The host closed its end.
    End,
}

/// Cuts stdin into lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    buffer: BytesMut,
    /// No line ends before this place of the buffer.
    looked: usize,
    piece: Vec<u8>,
    max: usize,
    is_skipping: bool,
    is_over: bool,
}

impl<R: Read + AsFd> Lines<R> {
    pub(crate) fn new(input: R, max: usize) -> Lines<R> {
        Lines {
            input,
            buffer: BytesMut::new(),
            looked: 0,
            piece: vec![0; PIECE],
            max,
            is_skipping: false,
            is_over: false,
        }
    }

    /// Waits for the next line. A failing stdin counts as closed: there is nobody who could be told.
    pub(crate) fn next(&mut self) -> Line {
        loop {
            if let Some(line) = self.take() {
                return line;
            }
            if self.is_over {
                // What comes without a line end before the end is a message all the same.
                let rest = std::mem::take(&mut self.buffer);
                self.looked = 0;
                let was_skipping = std::mem::take(&mut self.is_skipping);
                return match (was_skipping, rest.is_empty()) {
                    (true, _) => Line::TooLong,
                    (false, true) => Line::End,
                    (false, false) => Line::Message(rest.freeze()),
                };
            }
            match self.input.read(&mut self.piece) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.buffer.extend_from_slice(self.piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(&self.input, PollFlags::POLLIN),
                Err(_) => self.is_over = true,
            }
        }
    }

    fn take(&mut self) -> Option<Line> {
        let fresh = self.buffer.get(self.looked..).unwrap_or_default();
        let Some(at) = fresh.iter().position(|&byte| byte == b'\n') else {
            if self.buffer.len() > self.max {
                self.is_skipping = true;
                self.buffer.clear();
            }
            self.looked = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.looked + at + 1);
        self.looked = 0;
        line.truncate(line.len() - 1);
        if std::mem::take(&mut self.is_skipping) || line.len() > self.max {
            return Some(Line::TooLong);
        }
        Some(Line::Message(line.freeze()))
    }
}

/// Writes one message a line, each in one piece.
#[derive(Debug)]
pub(crate) struct Out(File);

impl Out {
    pub(crate) fn stdout() -> io::Result<Out> {
        Ok(Out(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
    }

    /// # Errors
    /// The host closed its end.
    pub(crate) fn message(&mut self, message: &[u8]) -> io::Result<()> {
        write_both(&mut self.0, message, b"\n")
    }
}

/// Writes two pieces by one call where the system takes them.
pub(crate) fn write_both<W: Write + AsFd>(out: &mut W, first: &[u8], second: &[u8]) -> io::Result<()> {
    let total = first.len() + second.len();
    let mut written = 0;
    while written < total {
        let left = [
            first.get(written.min(first.len())..).unwrap_or_default(),
            second.get(written.saturating_sub(first.len())..).unwrap_or_default(),
        ];
        match out.write_vectored(&left.map(IoSlice::new)) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A host may share its end with one that wants it so.
            Err(error) if error.kind() == ErrorKind::WouldBlock => wait(out, PollFlags::POLLOUT),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn wait(end: &impl AsFd, flags: PollFlags) {
    // A failing wait is followed by a call that says what is wrong.
    let _ = poll(&mut [PollFd::new(end.as_fd(), flags)], PollTimeout::NONE);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn read(pieces: &[&str], max: usize) -> Vec<Line> {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let pieces: Vec<String> = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        let writer = std::thread::spawn(move || {
            for piece in pieces {
                ours.write_all(piece.as_bytes()).unwrap();
            }
        });
        let mut lines = Lines::new(theirs, max);
        let mut read = Vec::new();
        loop {
            match lines.next() {
                Line::End => break,
                line @ (Line::Message(_) | Line::TooLong) => read.push(line),
            }
        }
        writer.join().unwrap();
        read
    }

    fn message(text: &'static str) -> Line {
        Line::Message(Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn a_121_lines_are_read_however_they_are_cut_and_overlong_ones_skipped() {
        assert_eq!(
            read(&["on", "e\ntw", "o\n", "much too long a line\nthree"], 8),
            [message("one"), message("two"), Line::TooLong, message("three")]
        );
    }

    #[test]
    fn a_stdin_that_does_not_block_is_waited_for() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        theirs.set_nonblocking(true).unwrap();
        let reader = std::thread::spawn(move || Lines::new(theirs, 8).next());
        ours.write_all(b"late\n").unwrap();
        assert_eq!(reader.join().unwrap(), message("late"));
    }

    #[test]
    fn two_pieces_arrive_whole_also_where_the_reader_is_slow() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let long = vec![b'x'; 1 << 20];
        let expected = long.len() + 1;
        let writer = std::thread::spawn(move || write_both(&mut ours, &long, b"\n").unwrap());
        let mut all = Vec::new();
        theirs.read_to_end(&mut all).unwrap();
        writer.join().unwrap();
        assert_eq!((all.len(), all.last()), (expected, Some(&b'\n')));
    }
}
