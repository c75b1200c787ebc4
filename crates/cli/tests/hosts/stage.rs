//! All plays at once: each takes minutes and hardly any processor time.
//!
//! The test harness runs as many tests at a time as there are processors. So the first test that runs starts every play
//! that was asked for, and each test then waits for its own. What takes processor time is the start of a host and its
//! server; a few may do that at a time.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::PLAYS;

/// A play: its figures, or a panic.
pub(crate) type Play = fn() -> String;

type Outcome = Result<String, String>;

/// How many hosts may start at a time.
const STARTS: usize = 3;

/// One play that has been started.
#[derive(Default)]
struct Started {
    outcome: Mutex<Option<Outcome>>,
    is_over: Condvar,
}

/// Waits for a play; prints its figures, or fails with its words.
pub(crate) fn result(name: &str) {
    let started = start(name);
    let mut outcome = lock(&started.outcome);
    let outcome = loop {
        match outcome.take() {
            Some(outcome) => break outcome,
            None => outcome = started.is_over.wait(outcome).unwrap_or_else(PoisonError::into_inner),
        }
    };
    match outcome {
        Ok(figures) => eprintln!("{name}: {figures}"),
        Err(words) => panic!("{words}"),
    }
}

/// Starts this play, and with it all others that this run of the tests is for.
fn start(name: &str) -> Arc<Started> {
    static STAGE: LazyLock<Mutex<BTreeMap<&str, Arc<Started>>>> = LazyLock::new(Mutex::default);
    let mut stage = lock(&STAGE);
    let is_first = stage.is_empty();
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    for (other, play) in PLAYS {
        let is_asked = words.is_empty() || words.iter().any(|word| other.contains(word.as_str()));
        if *other == name || (is_first && is_asked) {
            stage.entry(other).or_insert_with(|| perform(*play));
        }
    }
    stage.get(name).expect("every test has a play").clone()
}

fn perform(play: Play) -> Arc<Started> {
    let started = Arc::new(Started::default());
    let teller = started.clone();
    thread::spawn(move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(play)).map_err(|panic| {
            let words = panic.downcast_ref::<String>().cloned();
            words
                .or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned()))
                .unwrap_or_default()
        });
        *lock(&teller.outcome) = Some(outcome);
        teller.is_over.notify_all();
    });
    started
}

/// Leave to start a host, given back when it is dropped.
pub(crate) struct Leave;

static FREE: (Mutex<usize>, Condvar) = (Mutex::new(STARTS), Condvar::new());

/// Waits until a host may start.
pub(crate) fn leave() -> Leave {
    let mut free = lock(&FREE.0);
    while *free == 0 {
        free = FREE.1.wait(free).unwrap_or_else(PoisonError::into_inner);
    }
    *free -= 1;
    Leave
}

impl Drop for Leave {
    fn drop(&mut self) {
        *lock(&FREE.0) += 1;
        FREE.1.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
