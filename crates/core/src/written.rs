//! What became of a write that the store answered by an error (notes 2.7).
//!
//! An error says that something went wrong, and not that nothing was done: the commit may have been made, and its answer
//! lost. So whoever asked for the write looks at what is stored now, and decides by that.
//!
//! The store promises that a command which it has answered, also by an error, changes nothing any more.

/// What a look at the store showed, of the record that was to be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stored {
    /// There is none, and there was none, or one that may have been deleted since.
    Nothing,
    /// There is none any more of what nobody deletes as it was before the write.
    Gone,
    /// It is at this version.
    Version {
        /// Which.
        version: u64,
        /// Whether it is what was to be written, to the last part.
        is_ours: bool,
    },
    /// The store could not say.
    Unreadable,
}

/// What became of the write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Written {
    /// It was done, whatever the error said.
    Done,
    /// It was not, and it will not be: it may be asked for again.
    NotDone,
    /// Somebody else wrote, or deleted what was to be changed.
    Overtaken,
    /// Nobody can say yet. Nothing may be decided on this record before somebody can.
    InDoubt,
}

/// Decides what became of a write of `version` that was answered by an error.
///
/// Version 1 makes a record, under an id that nobody else can have drawn: where it is stored, that was this write. Of what is
/// finished the record is deleted in time, and of nothing else (INV-30): where one is gone that was not finished, this write
/// finished it.
///
/// # Source
/// notes 2.7, INV-45
#[must_use]
pub fn written(version: u64, stored: Stored) -> Written {
    match stored {
        Stored::Unreadable => Written::InDoubt,
        Stored::Nothing if version <= 1 => Written::NotDone,
        Stored::Nothing => Written::Overtaken,
        Stored::Gone => Written::Done,
        Stored::Version { .. } if version <= 1 => Written::Done,
        Stored::Version { version: found, is_ours: true } if found == version => Written::Done,
        Stored::Version { version: found, .. } if found < version => Written::NotDone,
        Stored::Version { .. } => Written::Overtaken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_45_what_is_stored_decides_and_not_the_error() {
        let at = |version, is_ours| Stored::Version { version, is_ours };
        for (version, stored, expected) in [
            (1, Stored::Nothing, Written::NotDone),
            (1, at(1, true), Written::Done),
            // Somebody has cancelled it since.
            (1, at(2, false), Written::Done),
            (5, at(5, true), Written::Done),
            (5, at(4, false), Written::NotDone),
            (5, at(5, false), Written::Overtaken),
            (5, at(6, false), Written::Overtaken),
            (5, Stored::Nothing, Written::Overtaken),
            (5, Stored::Gone, Written::Done),
            (1, Stored::Unreadable, Written::InDoubt),
            (5, Stored::Unreadable, Written::InDoubt),
        ] {
            assert_eq!(written(version, stored), expected, "{version} {stored:?}");
        }
    }
}
