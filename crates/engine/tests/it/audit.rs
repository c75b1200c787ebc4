//! What is logged of tasks.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use taskgate_core::id::{Principal, TaskId};
use taskgate_core::operation::Effect;
use taskgate_core::recovery::Survival;
use taskgate_engine::engine::NewCall;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::stage::{Puppet, Stage, call, text};

/// Keeps the lines of the audit.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "taskgate::audit"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_099_who_made_ended_and_read_a_task_is_logged_and_who_asked_in_vain() {
    // Of all tests in this process, so the callers here are found nowhere else.
    let (mine, stranger) =
        (Principal::stored("audited".to_owned()), Principal::stored("audited stranger".to_owned()));
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let stage = Stage::new(Puppet::new(Survival::DiedWithUs));
    let new = NewCall { principal: mine.clone(), ..call(Effect::Consequential) };
    let id = stage.submit(new).await.record().id.clone();
    stage.back.hear().await.answer.send(text("{\"secret\":1}")).unwrap();
    stage.engine.find(&mine, &id).await.unwrap().unwrap().over().await;
    assert!(stage.engine.find(&stranger, &id).await.unwrap().is_none());
    assert!(stage.engine.find(&mine, &TaskId::parse("tnothing").unwrap()).await.unwrap().is_none());
    let lines = lines.0.lock().clone();
    let count = |words: &str, principal: &Principal| {
        let principal = format!("principal={:?} ", principal.as_str());
        lines.iter().filter(|line| line.contains(words) && line.contains(&principal)).count()
    };
    for words in ["task made", "task ended", "task read", "in vain"] {
        assert_eq!(count(words, &mine), 1, "{words}: {lines:?}");
    }
    assert_eq!(count("in vain", &stranger), 1, "{lines:?}");
    let all = lines.concat();
    assert!(!all.contains(id.expose()) && !all.contains("secret"), "{all}");
}
