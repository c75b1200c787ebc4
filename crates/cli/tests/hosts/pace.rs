//! How long things take.

use std::sync::OnceLock;
use std::time::Duration;

/// The times of a play, in the real world unless asked otherwise.
pub(crate) struct Pace {
    scale: u32,
}

pub(crate) fn pace() -> &'static Pace {
    static PACE: OnceLock<Pace> = OnceLock::new();
    PACE.get_or_init(|| {
        #[expect(clippy::disallowed_methods, reason = "the only way to tell a test program how to run")]
        let asked = std::env::var("TASKGATE_PLAYS").ok();
        match asked.as_deref() {
            None => Pace { scale: 1 },
            Some("brisk") => Pace { scale: 10 },
            Some(other) => panic!("TASKGATE_PLAYS is {other:?}; only brisk is known"),
        }
    })
}

impl Pace {
    /// So many seconds of a play.
    pub(crate) fn seconds(&self, seconds: u32) -> Duration {
        Duration::from_secs(seconds.into()) / self.scale
    }

    /// The long tool.
    pub(crate) fn tool(&self) -> Duration {
        self.seconds(150)
    }

    /// After this a client gives up.
    pub(crate) fn client(&self) -> Duration {
        self.seconds(60)
    }

    /// How many turns such a time takes, if taskgate waits as long in each as it does by default.
    pub(crate) fn turns(&self, time: Duration) -> usize {
        usize::try_from(time.as_millis().div_ceil(self.seconds(45).as_millis())).unwrap()
    }

    /// Flags of `taskgate run`: its own defaults, but for a play in short.
    pub(crate) fn flags(&self) -> &'static [&'static str] {
        if self.scale == 1 { &[] } else { &["--answer-within", "4500ms"] }
    }

    /// Whether the client's timeout is its SDK's own.
    pub(crate) fn is_real(&self) -> bool {
        self.scale == 1
    }
}
