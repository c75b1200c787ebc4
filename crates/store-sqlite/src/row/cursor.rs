//! One row, column by column.

use rusqlite::Row;
use rusqlite::types::FromSql;
use taskgate_store::codec::Place;

use crate::fault::Problem;

pub(super) struct Cursor<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(row: &'a Row<'a>) -> Cursor<'a> {
        Cursor { row, next: 0 }
    }

    /// The next column, which is named for errors: a value of another type is as bad as a number that stands for
    /// nothing.
    pub(super) fn take<T: FromSql>(&mut self, place: Place<'_>, column: &'static str) -> Result<T, Problem> {
        let value = self.row.get(self.next);
        self.next += 1;
        value.map_err(|error| match error.sqlite_error() {
            Some(_) => error.into(),
            None => place.corrupt(column).into(),
        })
    }
}
