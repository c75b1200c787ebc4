//! Points in time as they stand on the wire.

use jiff::Timestamp;
use taskgate_core::time::UnixMillis;

/// RFC 3339 in UTC with milliseconds: `2026-09-01T08:00:00.000Z`.
#[must_use]
pub fn write(at: UnixMillis) -> String {
    let at = Timestamp::from_millisecond(at.0).unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{at:.3}")
}

/// Reads RFC 3339: milliseconds and `Z` from TypeScript, microseconds from Python 1.x, `+00:00` with micro-
/// or nanoseconds from FastMCP 4, rmcp and pmcp. `None` for anything else.
///
/// Leniency: any-time
#[must_use]
pub fn parse(text: &str) -> Option<UnixMillis> {
    let at: Timestamp = text.trim().parse().ok()?;
    Some(UnixMillis(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_037_times_are_written_in_utc_with_milliseconds() {
        assert_eq!(write(UnixMillis(1_788_249_600_000)), "2026-09-01T08:00:00.000Z");
        assert_eq!(write(UnixMillis(1_788_249_600_007)), "2026-09-01T08:00:00.007Z");
        assert_eq!(write(UnixMillis(i64::MAX)), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn x_014_times_of_every_peer_are_read() {
        for text in [
            "2026-09-01T08:00:00Z",
            "2026-09-01T08:00:00.000Z",
            "2026-09-01T08:00:00.000123Z",
            "2026-09-01T08:00:00.000123+00:00",
            "2026-09-01T10:00:00.000123456+02:00",
        ] {
            assert_eq!(parse(text), Some(UnixMillis(1_788_249_600_000)), "{text}");
        }
        for text in ["", "yesterday", "2026-09-01", "2026-09-01T08:00:00"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
