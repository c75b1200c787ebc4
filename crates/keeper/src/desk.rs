//! What a person's commands ask of a store's tasks and operations, answered by the process that owns it.

mod operations;

use std::io;
use std::sync::Arc;

use serde_json::value::RawValue;
use taskgate_core::id::TaskId;
use taskgate_core::task::{Ending, Fault, Found, State};
use taskgate_core::time::UnixMillis;
use taskgate_engine::Engine;
use taskgate_engine::engine::CancelError;
use taskgate_store::Whose;
use taskgate_store::record::Record;
use taskgate_store::summary::Summary;

use crate::control::{OfStore, Outcome, PAGE_MAX, Questions, Task};

/// Answers for one engine. Who asks is the user of this process, and nobody else (R4.9).
pub(crate) struct Desk {
    engine: Arc<Engine>,
}

impl Desk {
    pub(crate) fn new(engine: Arc<Engine>) -> Desk {
        Desk { engine }
    }

    pub(crate) async fn answer(&self, questions: &mut Questions, asked: OfStore) -> io::Result<()> {
        match asked {
            OfStore::Tasks { after, limit } => questions.say(&self.tasks(after, limit).await).await,
            OfStore::Task { id } => questions.say(&self.find(&id).await.map(|summary| task(&summary))).await,
            OfStore::Outcome { id } => {
                questions.say(&self.load(&id).await.map(|record| outcome(&record))).await
            }
            OfStore::Cancel { id } => {
                questions.say(&self.cancel(&id).await.map(|record| task(&Summary::of(record)))).await
            }
            OfStore::Operations(wanted) => questions.say(&self.operations(wanted).await).await,
            OfStore::Operation { id } => questions.say(&self.operation(&id).await).await,
            OfStore::Reconcile { id } => questions.say(&self.reconcile(&id).await).await,
            OfStore::Resolve(word) => questions.say(&self.resolve(word).await).await,
        }
    }

    async fn tasks(&self, after: Option<(i64, String)>, limit: usize) -> Result<Vec<Task>, String> {
        let after = after.and_then(|(created, id)| Some((UnixMillis(created), TaskId::parse(&id).ok()?)));
        let listed = self.engine.list(Whose::Everyone, after, limit.min(PAGE_MAX)).await;
        listed.map(|tasks| tasks.iter().map(task).collect()).map_err(|error| error.to_string())
    }

    /// Finds a task by its id, or by the first characters of one.
    async fn find(&self, id: &str) -> Result<Summary, String> {
        let unknown = || format!("no task {id:?} is kept; `taskgate tasks` lists them");
        let mut after = None;
        let mut found = Vec::new();
        loop {
            let page = self
                .engine
                .list(Whose::Everyone, after, PAGE_MAX)
                .await
                .map_err(|error| error.to_string())?;
            let last = page.last().map(|summary| (summary.created(), summary.id().clone()));
            let is_last = page.len() < PAGE_MAX;
            for summary in page {
                if summary.id().expose() == id {
                    return Ok(summary);
                }
                if summary.id().expose().starts_with(id) {
                    found.push(summary);
                }
            }
            if is_last || last.is_none() {
                break;
            }
            after = last;
        }
        match (found.pop(), found.is_empty()) {
            (Some(summary), true) => Ok(summary),
            (Some(_), false) => Err(format!("several tasks begin with {id:?}; write more of the id")),
            (None, _) => Err(unknown()),
        }
    }

    /// The same with its payloads.
    async fn load(&self, id: &str) -> Result<Record, String> {
        let summary = self.find(id).await?;
        let loaded = self.engine.store().load(summary.principal(), summary.id()).await;
        loaded.map_err(|error| error.to_string())?.ok_or_else(|| format!("no task {id:?} is kept any more"))
    }

    async fn cancel(&self, id: &str) -> Result<Record, String> {
        let summary = self.find(id).await?;
        let rule = taskgate_core::task::CancelRule::Wish;
        match self.engine.cancel(summary.principal(), summary.id(), rule).await {
            Ok(Some(record)) => Ok((*record).clone()),
            Ok(None) => Err(format!("no task {id:?} is kept")),
            Err(CancelError::AlreadyOver(record)) => Ok((*record).clone()),
            Err(CancelError::Store(error)) => Err(error.to_string()),
        }
    }
}

fn task(summary: &Summary) -> Task {
    let (state, message) = match &summary.task().state {
        State::Working => ("working", None),
        State::InputRequired(_) => ("input_required", None),
        State::Over { ending, .. } => match ending {
            Ending::Cancelled => ("cancelled", None),
            Ending::Returned { is_error: false, .. } => ("completed", None),
            Ending::Returned { is_error: true, .. } => {
                ("failed", Some("the tool says that it failed".to_owned()))
            }
            Ending::Raised { .. } => ("failed", Some("the server answered with an error".to_owned())),
            Ending::Faulted(fault) => ("failed", Some(fault_words(fault))),
        },
    };
    Task {
        id: summary.id().expose().to_owned(),
        state: state.to_owned(),
        tool: summary.tool().to_owned(),
        server: summary.server().0.clone(),
        scope: summary.principal().as_str().to_owned(),
        created_ms: summary.created().0,
        updated_ms: summary.updated().0,
        // Of a call that came by no pipe nobody can tell.
        fetched: (summary.is_returned() && summary.notes_fetch()).then(|| summary.fetched().is_some()),
        message,
    }
}

fn fault_words(fault: &Fault) -> String {
    match fault {
        Fault::NeverSent(words) => format!("never sent: {words}"),
        Fault::OutcomeUnknown(words) => format!("nobody knows whether it happened: {words}"),
        Fault::DeadlinePassed => "its deadline passed".to_owned(),
        Fault::UpstreamLost => "the server no longer knows its own task".to_owned(),
        Fault::UpstreamFault(words) => format!("the server made no sense: {words}"),
        Fault::NoAnswer(words) => format!("a question could not be answered: {words}"),
        Fault::BudgetSpent(words) => format!("given up: {words}"),
        Fault::Found(Found::Applied) => "its answer was lost; its effect was made".to_owned(),
        Fault::Found(Found::NotApplied) => "its answer was lost; nothing was done".to_owned(),
        Fault::Found(Found::AssumedNotApplied) => {
            "its answer was lost; it is assumed that nothing was done, which nobody confirmed".to_owned()
        }
    }
}

fn outcome(record: &Record) -> Outcome {
    let raw = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        RawValue::from_string(text)
    };
    match record.task.ending() {
        None => Outcome::Unfinished,
        Some(Ending::Cancelled) => Outcome::None("it was cancelled".to_owned()),
        Some(Ending::Returned { result, .. }) => {
            raw(result).map_or_else(|_| Outcome::None("its result is no JSON".to_owned()), Outcome::Result)
        }
        Some(Ending::Raised { error }) => {
            raw(error).map_or_else(|_| Outcome::None("its error is no JSON".to_owned()), Outcome::Error)
        }
        Some(Ending::Faulted(fault)) => Outcome::None(fault_words(fault)),
    }
}
