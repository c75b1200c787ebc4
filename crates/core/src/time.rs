//! Points in time as the records keep them.

use core::fmt;
use core::ops::Add;

/// Wall-clock milliseconds since the Unix epoch.
///
/// What survives a restart is counted in these, so that no database rounds it. What is measured inside one
/// process (timeouts, back-off) is monotonic and lives elsewhere; the two are never subtracted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Milliseconds from `earlier` to `self`; zero if the clock went back in between.
    #[must_use]
    pub fn since(self, earlier: UnixMillis) -> Millis {
        Millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Millis> for UnixMillis {
    type Output = UnixMillis;

    fn add(self, span: Millis) -> UnixMillis {
        UnixMillis(self.0.saturating_add(i64::try_from(span.0).unwrap_or(i64::MAX)))
    }
}

impl fmt::Debug for UnixMillis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// A span of whole milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

impl Millis {
    /// `count` seconds.
    #[must_use]
    pub const fn secs(count: u64) -> Millis {
        Millis(count * 1000)
    }

    /// The same for whoever sleeps.
    #[must_use]
    pub const fn duration(self) -> core::time::Duration {
        core::time::Duration::from_millis(self.0)
    }

    /// `count` minutes.
    #[must_use]
    pub const fn mins(count: u64) -> Millis {
        Millis::secs(count * 60)
    }

    /// `count` hours.
    #[must_use]
    pub const fn hours(count: u64) -> Millis {
        Millis::mins(count * 60)
    }

    /// `count` days.
    #[must_use]
    pub const fn days(count: u64) -> Millis {
        Millis::hours(count * 24)
    }
}

impl Add for Millis {
    type Output = Millis;

    fn add(self, other: Millis) -> Millis {
        Millis(self.0.saturating_add(other.0))
    }
}

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
