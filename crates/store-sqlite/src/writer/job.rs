//! A command with the way back to whoever gave it.

use rusqlite::Connection;
use taskgate_store::Error;
use tokio::sync::oneshot;

use crate::command::Command;
use crate::fault::Problem;

/// A command of any kind.
pub(super) trait Job: Send {
    /// Writes what there is to write. It may be run again after a rollback.
    fn run(&mut self, database: &Connection) -> Result<(), Problem>;

    /// Answers, after the commit or instead of it.
    fn answer(self: Box<Self>, committed: Result<(), Error>);

    /// What the command does, for errors.
    fn doing(&self) -> &'static str;
}

pub(super) struct Slot<C: Command> {
    command: C,
    outcome: Option<C::Outcome>,
    reply: oneshot::Sender<Result<C::Outcome, Error>>,
}

impl<C: Command> Slot<C> {
    pub(super) fn new(command: C, reply: oneshot::Sender<Result<C::Outcome, Error>>) -> Slot<C> {
        Slot { command, outcome: None, reply }
    }
}

impl<C: Command> Job for Slot<C> {
    fn run(&mut self, database: &Connection) -> Result<(), Problem> {
        self.outcome = Some(self.command.run(database)?);
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), Error>) {
        let Slot { outcome, reply, .. } = *self;
        // Who asked may have stopped waiting; what was committed stays.
        let _ = reply.send(committed.and_then(|()| outcome.ok_or(Error::Closed)));
    }

    fn doing(&self) -> &'static str {
        C::DOING
    }
}
