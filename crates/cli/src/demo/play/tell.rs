//! What the play says while it goes on.

use tokio::time::Instant;

use crate::ui::{Tone, Ui};

/// The narrator: it counts seconds, and remembers whether every promise held.
pub(super) struct Tell {
    ui: Ui,
    begun: Instant,
    broken: u32,
}

impl Tell {
    pub(super) fn new(ui: Ui) -> Tell {
        Tell { ui, begun: Instant::now(), broken: 0 }
    }

    /// The title of an act.
    pub(super) fn act(&self, title: &str) {
        self.ui.out("");
        self.ui.out(&self.ui.tone(Tone::Strong, title));
    }

    /// Something that happens.
    pub(super) fn say(&self, words: &str) {
        let seconds = format!("{:5.1} s", self.begun.elapsed().as_secs_f64());
        self.ui.out(&format!("{}  {words}", self.ui.tone(Tone::Dim, &seconds)));
    }

    /// Something that is sent to the gateway.
    pub(super) fn sent(&self, words: &str) {
        self.say(&format!("{} {words}", self.ui.tone(Tone::Accent, "→")));
    }

    /// Something that the gateway answers.
    pub(super) fn heard(&self, words: &str) {
        self.say(&format!("{} {words}", self.ui.tone(Tone::Accent, "←")));
    }

    /// A promise, and whether it held.
    pub(super) fn check(&mut self, held: bool, promise: &str, seen: &str) {
        if held {
            self.say(&format!("{} {promise}", self.ui.tone(Tone::Good, "held:")));
        } else {
            self.broken += 1;
            self.say(&format!("{} {promise}; seen: {seen}", self.ui.tone(Tone::Bad, "BROKEN:")));
        }
    }

    /// How many promises did not hold.
    pub(super) fn broken(&self) -> u32 {
        self.broken
    }

    /// A line that belongs to what was said before.
    pub(super) fn more(&self, words: &str) {
        self.ui.out(&format!("         {words}"));
    }
}
