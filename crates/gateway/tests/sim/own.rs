//! The tasks that the server makes of its own.

use taskgate_core::operation::Upstream as Theirs;
use taskgate_core::task::Question;
use taskgate_core::time::Millis;
use taskgate_engine::back::{Accepted, Answer, Look, LookError, Reply, Stand};

use crate::server::{Job, Own, Server, State, result};

impl Server {
    pub(crate) fn begin_own(&self, state: &mut State, id: u64, job: Job) {
        self.tally.count("a task of the server's own");
        let task_id = format!("up-{}-{id}", job.call);
        let question = (job.can_ask && state.random.one_in(2)).then(|| {
            let (name, question) = self.question(state);
            (name.clone(), Question { back_key: Some(name), ..question })
        });
        let due = state.now + 10 + state.random.below(20_000) as u64;
        let own =
            Own { call: job.call.clone(), due, question, ended: None, is_cancelled: false, acts: job.acts };
        state.own.insert(task_id.clone(), own);
        let upstream = Theirs { task_id, session: None };
        let accepted = Answer::Task(Accepted { upstream, look: look(Stand::Working, vec![]) });
        state.note(&job.key, &accepted);
        job.reply(accepted);
    }

    pub(crate) fn finish_own(&self, state: &mut State, id: &str) {
        let Some((call, acts)) = state.own.get(id).map(|own| (own.call.clone(), own.acts)) else { return };
        let text = state.done(&call, acts);
        if let Some(own) = state.own.get_mut(id) {
            own.ended = Some(result(&text, false));
        }
    }

    pub(crate) fn look(&self, upstream: &Theirs) -> Result<Look, LookError> {
        let mut state = self.state.lock();
        if state.random.one_in(20) {
            self.tally.count("a failed status read");
            return Err(LookError::Transient("no answer".to_owned()));
        }
        let Some(own) = state.own.get(&upstream.task_id) else { return Err(LookError::UnknownTask) };
        Ok(match (&own.question, &own.ended) {
            _ if own.is_cancelled => look(Stand::Cancelled, vec![]),
            (_, Some(ended)) => look(Stand::Ended(Box::new(ended.clone())), vec![]),
            (Some((name, question)), None) => {
                look(Stand::InputRequired, vec![(name.clone(), question.clone())])
            }
            (None, None) => look(Stand::Working, vec![]),
        })
    }

    pub(crate) fn answer(&self, upstream: &Theirs, key: &str, reply: &Reply) -> Result<(), LookError> {
        let mut state = self.state.lock();
        if state.random.one_in(20) {
            return Err(LookError::Transient("no answer".to_owned()));
        }
        let due = state.now + 10 + state.random.below(2_000) as u64;
        let Some(own) = state.own.get_mut(&upstream.task_id) else { return Err(LookError::UnknownTask) };
        if own.question.as_ref().is_some_and(|(name, _)| name == key) {
            own.question = None;
            own.due = due;
        }
        if let Reply::Result(answer) = reply {
            state.answered(key, answer);
        }
        self.changed.notify_one();
        Ok(())
    }

    pub(crate) fn cancel(&self, upstream: &Theirs) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let Some(own) = state.own.get_mut(&upstream.task_id)
            && own.ended.is_none()
        {
            if state.random.one_in(2) {
                self.tally.count("stopped when asked to");
                own.ended = Some(Answer::Lost("cancelled".to_owned()));
                own.is_cancelled = true;
            } else {
                // It does not listen, and asks no longer.
                own.question = None;
            }
            self.changed.notify_one();
        }
    }
}

fn look(stand: Stand, questions: Vec<(String, Question)>) -> Look {
    Look { stand, message: None, last_updated_at: None, poll: Some(Millis(500)), questions }
}
