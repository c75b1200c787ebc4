//! What SQLite's errors mean for us.

use rusqlite::ffi;
use taskgate_store::Error;

/// What SQLite said, in its own words.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text} (code {code})")]
pub(crate) struct Said {
    text: String,
    code: i32,
}

impl Said {
    pub(crate) fn new(text: &str) -> Said {
        Said { text: text.to_owned(), code: 0 }
    }

    pub(crate) fn by(error: &rusqlite::Error) -> Said {
        Said { text: error.to_string(), code: extended_code(error).unwrap_or(0) }
    }
}

/// Why a command or a read came to nothing.
#[derive(Debug)]
pub(crate) enum Problem {
    /// SQLite said no.
    Sql(rusqlite::Error),
    /// We did.
    Store(Error),
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Problem::Sql(error)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Problem::Store(error)
    }
}

impl Problem {
    /// The error to hand out.
    pub(crate) fn into_error(self, place: &str, doing: &'static str) -> Error {
        match self {
            Problem::Sql(error) => error_for(place, doing, &error),
            Problem::Store(error) => error,
        }
    }

    /// Whether it leaves in doubt what is on disk: a write or sync that failed half way (notes 2.7).
    pub(crate) fn is_fatal(&self) -> bool {
        match self {
            Problem::Sql(error) => extended_code(error).is_some_and(is_doubtful),
            Problem::Store(_) => false,
        }
    }
}

/// The error to hand out for what SQLite said.
pub(crate) fn error_for(place: &str, doing: &'static str, error: &rusqlite::Error) -> Error {
    let place = place.to_owned();
    let said = Said::by(error);
    let code = extended_code(error).unwrap_or(0);
    match code & 0xff {
        ffi::SQLITE_FULL => Error::Full { place },
        // The index of the log could not grow; nothing was written yet.
        ffi::SQLITE_IOERR if code == ffi::SQLITE_IOERR_SHMSIZE => Error::Full { place },
        ffi::SQLITE_READONLY | ffi::SQLITE_PERM => Error::ReadOnly { place },
        ffi::SQLITE_CORRUPT => Error::Damaged { place, detail: said.text },
        ffi::SQLITE_NOTADB => Error::Damaged { place, detail: "it is not a database".into() },
        _ => Error::Backend { doing, source: Box::new(said) },
    }
}

/// Everything that can fail while bytes go to the disk. The rest of the family fails before any do.
fn is_doubtful(code: i32) -> bool {
    let before_any = [
        ffi::SQLITE_IOERR_SHMSIZE,
        ffi::SQLITE_IOERR_SHMOPEN,
        ffi::SQLITE_IOERR_SHMMAP,
        ffi::SQLITE_IOERR_SHMLOCK,
        ffi::SQLITE_IOERR_LOCK,
        ffi::SQLITE_IOERR_NOMEM,
    ];
    code & 0xff == ffi::SQLITE_IOERR && !before_any.contains(&code)
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|error| error.extended_code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some("words".into()))
    }

    #[test]
    fn notes_2_7_only_what_leaves_the_disk_in_doubt_is_fatal() {
        for code in
            [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR]
        {
            assert!(Problem::Sql(error(code)).is_fatal(), "{code}");
        }
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_BUSY, ffi::SQLITE_IOERR_SHMSIZE, ffi::SQLITE_CONSTRAINT] {
            assert!(!Problem::Sql(error(code)).is_fatal(), "{code}");
        }
    }

    #[test]
    fn the_words_say_what_to_do() {
        let words = |code| error_for("/data/t.db", "write", &error(code)).to_string();
        assert_eq!(
            words(ffi::SQLITE_FULL),
            "the disk that holds /data/t.db is full; free some space and try again"
        );
        assert!(words(ffi::SQLITE_READONLY_DBMOVED).contains("writable"));
        assert!(words(ffi::SQLITE_CORRUPT_INDEX).contains("damaged (words)"));
        assert!(words(ffi::SQLITE_NOTADB).contains("it is not a database"));
        assert_eq!(words(ffi::SQLITE_BUSY), "could not write");
    }
}
