//! What a server last printed: free text, and no sign of failure; quoted when it fails.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_wire::text::SafeText;
use tokio::io::AsyncRead;

use super::input::{Input, Read};
use crate::hears::Voice;

/// Lines kept.
const LINES: usize = 20;
/// Lines quoted in an error.
const QUOTED: usize = 3;
/// Bytes of a line that are looked at.
const LINE_BYTES_MAX: usize = 16 << 10;

/// The last lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stderr(Arc<Mutex<VecDeque<SafeText>>>);

impl Stderr {
    /// Reads to the end, keeping the last lines and telling all of them.
    pub(crate) async fn read(self, voice: &Voice, source: impl AsyncRead + Unpin) {
        let mut input = Input::new(source, LINE_BYTES_MAX);
        loop {
            let line = match input.next().await {
                Read::Line(line) => line,
                Read::TooLong { head, .. } => head,
                Read::End => return,
            };
            let line = voice.line(&line);
            if line.is_empty() {
                continue;
            }
            voice.stderr(&line);
            self.keep(line);
        }
    }

    /// Keeps a line that it printed elsewhere.
    pub(crate) fn keep(&self, line: SafeText) {
        let mut lines = self.0.lock();
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
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
    use crate::config::{InheritEnv, ServerConfig, Transport};
    use crate::secret::Secret;

    #[tokio::test]
    async fn r6_3_the_last_lines_are_kept_clean() {
        let stderr = Stderr::default();
        let mut said: String = (0..100).map(|n| format!("line {n}\n")).collect();
        said.push_str("\x1b[31mred\x1b[0m alert\n\n");
        said.push_str("key 123456789 refused\n");
        let transport = Transport::Stdio {
            command: "s".into(),
            args: vec![],
            env: vec![("KEY".to_owned(), Secret::new("123456789"))],
            cwd: None,
            inherit_env: InheritEnv::Nothing,
        };
        let voice = Voice::new(&ServerConfig::new("s", transport));
        stderr.clone().read(&voice, said.as_bytes()).await;
        assert_eq!(stderr.quote(), "; it last said: line 99 | red alert | key [KEY] refused");
    }
}
