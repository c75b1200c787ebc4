//! Many commands, one commit.
//!
//! One thread writes. It waits for one command, takes as many more as are there, runs them in one transaction,
//! commits, and only then answers all of them (notes 0.4, 2.11): the more wait, the fewer commits each costs.
//!
//! A command that has something to refuse writes nothing and lets the others be. One that fails takes the batch
//! with it: everything is rolled back and the commands are run again, each in its own transaction. That is cheaper
//! than a savepoint for each.

mod job;
mod log;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use taskgate_seeded::Bug;
use taskgate_store::Error;
use tokio::sync::{mpsc, oneshot, watch};

use crate::command::Command;
use crate::fault::{Problem, Said};
use crate::health::Health;
use crate::open::Lock;
use job::{Job, Slot};
use log::Log;

/// Commands that may wait. Whoever comes after waits before the queue; the gateway refuses long before (INV-40).
const QUEUE_MAX: usize = 1024;

/// Commands in one commit, after the first. Notes 4.3.
const BATCH_MAX: usize = 256;

type Jobs = Vec<Box<dyn Job>>;

#[derive(Debug)]
pub(crate) struct Writer {
    health: Arc<Health>,
    queue: Mutex<Option<mpsc::Sender<Box<dyn Job>>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    ended: watch::Receiver<()>,
}

impl Writer {
    pub(crate) fn start(database: Connection, lock: Lock, health: Arc<Health>) -> Result<Writer, Error> {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let (ends, ended) = watch::channel(());
        let mut thread = Thread { database, health: Arc::clone(&health), log: Log::default() };
        let thread = thread::Builder::new()
            .name("taskgate-writer".into())
            .spawn(move || {
                thread.run(jobs);
                // In this order: what waits for the end may open the file anew.
                drop(thread);
                drop(lock);
                drop(ends);
            })
            .map_err(|error| Error::Backend { doing: "start the writer", source: Box::new(error) })?;
        Ok(Writer { health, queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), ended })
    }

    /// Resolves when what `command` did is on disk.
    pub(crate) async fn run<C: Command>(&self, command: C) -> Result<C::Outcome, Error> {
        self.health.check()?;
        let Some(queue) = self.queue.lock().clone() else { return Err(Error::Closed) };
        let (reply, answer) = oneshot::channel();
        if queue.send(Box::new(Slot::new(command, reply))).await.is_err() {
            return Err(self.health.gone());
        }
        // The thread ends when nobody can send any more.
        drop(queue);
        answer.await.unwrap_or_else(|_| Err(self.health.gone()))
    }

    /// Takes no more commands and waits for those taken.
    pub(crate) async fn close(&self) {
        self.queue.lock().take();
        // The other half sends nothing; it is dropped at the end.
        let _ = self.ended.clone().changed().await;
    }

    /// As [`Writer::close`], on the calling thread.
    pub(crate) fn join(&self) {
        self.queue.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // A panic there was reported when it happened.
            let _ = thread.join();
        }
    }
}

struct Thread {
    database: Connection,
    health: Arc<Health>,
    log: Log,
}

impl Thread {
    fn run(&mut self, mut jobs: mpsc::Receiver<Box<dyn Job>>) {
        let mut batch = Jobs::with_capacity(BATCH_MAX + 1);
        while let Some(first) = jobs.blocking_recv() {
            batch.push(first);
            while batch.len() <= BATCH_MAX {
                match jobs.try_recv() {
                    Ok(job) => batch.push(job),
                    Err(_) => break,
                }
            }
            self.log.count(batch.len());
            self.commit(&mut batch);
            if let Err(error) = self.log.tend(&self.database, jobs.is_empty()) {
                self.give_up_if_fatal(&Problem::Sql(error));
            }
        }
    }

    fn commit(&mut self, batch: &mut Jobs) {
        match self.attempt(batch) {
            Ok(()) => batch.drain(..).for_each(|job| job.answer(Ok(()))),
            Err(problem) if self.give_up_if_fatal(&problem) => {
                batch.drain(..).for_each(|job| job.answer(Err(self.health.gone())));
            }
            Err(problem) if batch.len() == 1 => {
                if let Some(job) = batch.pop() {
                    let error = problem.into_error(self.health.place(), job.doing());
                    job.answer(Err(error));
                }
            }
            Err(_) => {
                for job in batch.drain(..) {
                    self.commit(&mut vec![job]);
                }
            }
        }
    }

    fn attempt(&self, batch: &mut Jobs) -> Result<(), Problem> {
        if let Some(error) = self.health.broken() {
            return Err(error.into());
        }
        self.execute("BEGIN IMMEDIATE")?;
        if taskgate_seeded::is(Bug::AnswerBeforeCommit) {
            let done = batch.iter_mut().try_for_each(|job| job.run(&self.database));
            batch.drain(..).for_each(|job| job.answer(Ok(())));
            return done.and_then(|()| Ok(self.execute("COMMIT")?));
        }
        let done = batch
            .iter_mut()
            .try_for_each(|job| job.run(&self.database))
            .and_then(|()| Ok(self.execute("COMMIT")?));
        // Some errors end the transaction by themselves.
        if done.is_err() && !self.database.is_autocommit() {
            self.execute("ROLLBACK")?;
        }
        done
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.database.prepare_cached(sql)?.execute([]).map(drop)
    }

    /// SQLite moves the log into the file when a database is closed, and deletes it. Of one that broke, all is left to the
    /// next process as it is: it makes durable what it reads before it believes it.
    fn let_go(&self) {
        let without = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = self.database.set_db_config(without, true) {
            tracing::warn!(%error, "the log may be moved into the file at the end");
        }
    }

    fn give_up_if_fatal(&self, problem: &Problem) -> bool {
        match problem {
            Problem::Sql(error) if problem.is_fatal() => {
                self.health.break_down(&Said::by(error));
                self.let_go();
                true
            }
            Problem::Sql(_) | Problem::Store(_) => false,
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if thread::panicking() {
            self.health.break_down(&Said::new("the writer panicked"));
            self.let_go();
        }
    }
}
