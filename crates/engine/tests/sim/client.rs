//! A client: it calls, asks again, cancels, answers and waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taskgate_core::id::TaskId;
use taskgate_core::task::{CancelRule, QuestionKey};
use taskgate_engine::back::Reply;
use taskgate_engine::engine::{Answered, SubmitError, Submitted};
use taskgate_engine::{Engine, Handle};
use taskgate_sim::{Line, Random};
use taskgate_store::Whose;
use tokio::time::{sleep, timeout};

use crate::sim::World;
use crate::wish::Told;

/// What became of an answer that a client gave, by its text.
pub(crate) type Answers = Mutex<BTreeMap<String, Gave>>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gave {
    /// Nobody told the client.
    Unheard,
    Taken,
    Refused,
}

/// How long a client waits for the end of a call: an hour more than any should take, since the clock may be put back.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

pub(crate) struct Client {
    pub(crate) engine: Arc<Engine>,
    pub(crate) world: Arc<World>,
    pub(crate) number: usize,
    pub(crate) random: Random,
    pub(crate) is_last: bool,
}

impl Client {
    /// Gets everything done that it wants, one after the other.
    pub(crate) async fn run(mut self) -> Result<(), String> {
        let mine: Vec<usize> = {
            let wishes = self.world.wishes.lock();
            (0..wishes.len()).filter(|index| wishes[*index].client == self.number).collect()
        };
        for index in mine {
            self.rest(400).await;
            if self.submit(index).await? {
                self.cancel(index).await?;
                self.wait(index).await?;
            }
        }
        if self.is_last { self.look_around().await } else { Ok(()) }
    }

    /// Answers what is asked in calls of its own that it never heard of, until none of them is left.
    async fn look_around(&mut self) -> Result<(), String> {
        let me = crate::wish::who(self.number);
        loop {
            let Ok(mut open) = self.engine.list(Whose::Principal(&me), None, 100).await else {
                sleep(Duration::from_secs(1)).await;
                continue;
            };
            open.retain(|summary| summary.task().ending().is_none());
            if open.is_empty() {
                return Ok(());
            }
            for summary in open {
                let asked = summary.task().outstanding();
                let Some(key) = asked.and_then(|asked| asked.questions().keys().next().cloned()) else {
                    continue;
                };
                if let Ok(Some(mut handle)) = self.engine.find(&me, summary.id()).await {
                    self.world.tally.count("a question in a call that its client never heard of");
                    self.answer(summary.id(), &key, &mut handle).await?;
                }
            }
            sleep(Duration::from_secs(1)).await;
        }
    }

    async fn rest(&mut self, millis: usize) {
        sleep(Duration::from_millis(self.random.below(millis) as u64)).await;
    }

    /// Whether there is a task to wait for.
    async fn submit(&mut self, index: usize) -> Result<bool, String> {
        loop {
            let (new, known, by) = {
                let mut wishes = self.world.wishes.lock();
                let wish = &mut wishes[index];
                if wish.by == Told::Nothing && wish.id.is_none() && wish.is_begun {
                    self.world.tally.count("a call made anew because nobody could say");
                    wish.give_up();
                }
                wish.is_begun = true;
                (wish.call(), wish.id.clone(), wish.by)
            };
            // Now and then a client asks again for what it has, as one that lost the answer would (INV-16).
            if known.is_some() && (by == Told::Nothing || !self.random.one_in(3)) {
                return Ok(true);
            }
            let line = Arc::new(Line(self.world.server.clone()));
            let handle = match self.engine.submit(new, line).await {
                Ok(Submitted::Started(handle)) => handle,
                Ok(Submitted::Joined(handle) | Submitted::Again(handle)) => {
                    self.world.tally.count("a call joined");
                    handle
                }
                Ok(Submitted::Known(entry)) => {
                    let mut wishes = self.world.wishes.lock();
                    let wish = &mut wishes[index];
                    if !self.world.is_expired(&entry.task) {
                        return Err("INV-30, INV-48: a task was purged before its time".to_owned());
                    }
                    self.world.tally.count("a duplicate whose task was gone");
                    if wish.id.as_ref().is_some_and(|known| *known != entry.task) {
                        self.world.given_free(wish)?;
                    }
                    wish.id = Some(entry.task.clone());
                    return Ok(false);
                }
                Err(SubmitError::Store(_)) => {
                    // It was not recorded, so it is the same call when it is made again.
                    self.world.wishes.lock()[index].is_begun = false;
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
                Err(SubmitError::InDoubt(_)) => {
                    self.world.tally.count("a call in doubt");
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
                Err(SubmitError::ObjectBusy(_)) => {
                    self.world.tally.count("an object that was busy");
                    self.world.wishes.lock()[index].is_begun = false;
                    sleep(Duration::from_secs(30)).await;
                    continue;
                }
                Err(error) => return Err(error.to_string()),
            };
            let record = handle.record();
            let mut wishes = self.world.wishes.lock();
            if known.is_some_and(|known| known != record.id) {
                self.world.given_free(&mut wishes[index])?;
            }
            wishes[index].id = Some(record.id.clone());
            wishes[index].see(&record)?;
            return Ok(true);
        }
    }

    async fn cancel(&mut self, index: usize) -> Result<(), String> {
        if !self.random.one_in(6) {
            return Ok(());
        }
        let rule = if self.random.one_in(2) { CancelRule::Promise } else { CancelRule::Wish };
        let id = self.id(index);
        self.rest(600).await;
        if let Ok(Some(record)) = self.engine.cancel(&crate::wish::who(self.number), &id, rule).await {
            self.world.tally.count(format!("a cancel: {rule:?}"));
            self.world.wishes.lock()[index].see(&record)?;
        }
        Ok(())
    }

    /// Waits for the end, and answers what is asked meanwhile.
    async fn wait(&mut self, index: usize) -> Result<(), String> {
        let id = self.id(index);
        let mut handle = loop {
            match self.engine.find(&crate::wish::who(self.number), &id).await {
                Ok(Some(handle)) => break handle,
                Ok(None) if self.world.is_expired(&id) => {
                    self.world.tally.count("a task that was gone before its client looked");
                    return Ok(());
                }
                Ok(None) => return Err("INV-01, INV-48: an id that a client was given is unknown".to_owned()),
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        };
        loop {
            let record = handle.record();
            self.world.wishes.lock()[index].see(&record)?;
            if record.task.ending().is_some() {
                if self.is_last {
                    self.world.tally.count("a task waited for to its end");
                }
                return Ok(());
            }
            let asked = record.task.outstanding().and_then(|asked| asked.questions().keys().next().cloned());
            match asked {
                Some(key) => self.answer(&id, &key, &mut handle).await?,
                None => {
                    if timeout(PATIENCE, handle.changed()).await.is_err() {
                        let record = handle.record();
                        let (task, operation) = (&record.task, &record.operation);
                        return Err(format!("INV-35, INV-02: nobody was woken: {task:?}, {operation:?}"));
                    }
                }
            }
        }
    }

    /// Answers a question, now and then twice at once, and now and then one that is not asked (INV-20).
    async fn answer(&mut self, id: &TaskId, key: &QuestionKey, handle: &mut Handle) -> Result<(), String> {
        self.rest(800).await;
        if self.random.one_in(4) {
            // One that was never asked, and the one before.
            let number: u32 =
                key.0.trim_start_matches("in-").parse().map_err(|_| "a strange key".to_owned())?;
            for other in [QuestionKey("in-999".to_owned()), QuestionKey(format!("in-{}", number - 1))] {
                if let Ok(Some(Answered::Taken)) = self.give(id, &other).await {
                    return Err(format!("INV-20: an answer to {} was taken", other.0));
                }
            }
            self.world.tally.count("an answer to what was not asked");
        }
        let (first, second) = if self.random.one_in(3) {
            tokio::join!(self.give(id, key), self.give(id, key))
        } else {
            (self.give(id, key).await, Ok(None))
        };
        if let (Ok(Some(Answered::Taken)), Ok(Some(Answered::Taken))) = (&first, &second) {
            return Err(format!("INV-20: two answers to {} were taken", key.0));
        }
        if let Ok(Some(Answered::Taken)) = first {
            self.world.tally.count("an answer taken");
            let again = self.give(id, key).await;
            if let Ok(Some(Answered::Taken)) = again {
                return Err(format!("INV-20: {} was answered twice", key.0));
            }
        }
        // What comes of it is shown in time; if the answer was refused, so is what was asked.
        let _ = timeout(Duration::from_secs(1), handle.changed()).await;
        Ok(())
    }

    async fn give(&self, id: &TaskId, key: &QuestionKey) -> Result<Option<Answered>, ()> {
        let text = {
            let mut answers = self.world.answers.lock();
            let text = format!("{{\"action\":\"accept\",\"content\":{{\"n\":{}}}}}", answers.len());
            answers.insert(text.clone(), Gave::Unheard);
            text
        };
        let reply = Reply::Result(Bytes::from(text.clone().into_bytes()));
        let answered =
            self.engine.answer(&crate::wish::who(self.number), id, key, reply).await.map_err(drop)?;
        let gave = match answered {
            Some(Answered::Taken) => Gave::Taken,
            Some(Answered::NotOutstanding) | None => Gave::Refused,
        };
        self.world.answers.lock().insert(text, gave);
        Ok(answered)
    }

    fn id(&self, index: usize) -> TaskId {
        self.world.wishes.lock()[index].id.clone().unwrap()
    }
}
