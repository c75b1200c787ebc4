//! What a server writes to stderr: free text, and no sign of failure; quoted when it fails.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_wire::text::SafeText;
use tokio::io::AsyncRead;

use super::input::{Input, Read};

/// Lines kept.
const LINES: usize = 20;
/// Lines quoted in an error.
const QUOTED: usize = 3;
/// Characters kept of a line.
const CHARS: usize = 300;
/// Bytes of a line that are looked at.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The last lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stderr(Arc<Mutex<VecDeque<SafeText>>>);

impl Stderr {
    /// Reads to the end, keeping the last lines and logging all at debug level under the server's name.
    pub(crate) async fn read(self, server: &str, source: impl AsyncRead + Unpin) {
        let mut input = Input::new(source, LINE_BYTES_MAX);
        loop {
            let line = match input.next().await {
                Read::Line(line) => line,
                Read::TooLong { head, .. } => head,
                Read::End => return,
            };
            let line = SafeText::new(&String::from_utf8_lossy(&line), CHARS);
            if line.is_empty() {
                continue;
            }
            tracing::debug!(server, stderr = line.as_str(), "a server wrote to stderr");
            let mut lines = self.0.lock();
            if lines.len() == LINES {
                lines.pop_front();
            }
            lines.push_back(line);
        }
    }

    /// `; it last said: …`, or nothing if it said nothing.
    pub(crate) fn quote(&self) -> String {
        let lines = self.0.lock();
        let last: Vec<&str> =
            lines.iter().skip(lines.len().saturating_sub(QUOTED)).map(SafeText::as_str).collect();
        if last.is_empty() { String::new() } else { format!("; it last said: {}", last.join(" | ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r6_3_the_last_lines_are_kept_clean() {
        let stderr = Stderr::default();
        let mut said: String = (0..100).map(|n| format!("line {n}\n")).collect();
        said.push_str("\x1b[31mred\x1b[0m alert\n\n");
        stderr.clone().read("s", said.as_bytes()).await;
        assert_eq!(stderr.quote(), "; it last said: line 98 | line 99 | red alert");
    }
}
