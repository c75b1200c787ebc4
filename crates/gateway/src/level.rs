//! How grave a log message is (A-LIFE's eight levels, from `debug` to `emergency`).

/// From the least grave to the gravest.
const NAMES: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A level by its rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Level(usize);

impl Level {
    pub(crate) fn parse(name: &str) -> Option<Level> {
        NAMES.iter().position(|known| *known == name).map(Level)
    }

    pub(crate) fn as_str(self) -> &'static str {
        NAMES.get(self.0).copied().unwrap_or("emergency")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_140_levels_are_ordered() {
        assert!(Level::parse("debug") < Level::parse("info"));
        assert!(Level::parse("error") < Level::parse("emergency"));
        assert_eq!(Level::parse("loud"), None);
        assert_eq!(Level::parse("alert").map(Level::as_str), Some("alert"));
    }
}
