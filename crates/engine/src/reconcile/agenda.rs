//! What is due when: a queue with one timer, however much is in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use taskgate_core::id::OperationId;
use taskgate_core::time::UnixMillis;
use tokio::sync::Notify;

/// The longest sleep. Wall-clock time may be set while we sleep, and a machine may have slept meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// Operations by when something is to be done about them, in lines. One operation is never under way twice, and of one
/// line no more than so many are: what is slow holds up its own line and no other.
#[derive(Debug)]
pub(crate) struct Agenda {
    state: Mutex<State>,
    changed: Notify,
    line_max: usize,
}

#[derive(Debug, Default)]
struct State {
    places: HashMap<OperationId, Place>,
    lines: BTreeMap<String, Line>,
}

#[derive(Debug)]
struct Place {
    line: String,
    /// When it is due next; `None` while it is under way and nothing more is known.
    due: Option<UnixMillis>,
    is_under_way: bool,
}

#[derive(Debug, Default)]
struct Line {
    /// What is due and not under way.
    due: BTreeSet<(UnixMillis, OperationId)>,
    under_way: usize,
}

impl Agenda {
    /// One that lets so many of a line be under way at once.
    pub(crate) fn new(line_max: usize) -> Agenda {
        Agenda { state: Mutex::default(), changed: Notify::new(), line_max }
    }

    /// `id` is due at `due`, whatever was known before.
    pub(crate) fn put(&self, id: &OperationId, line: &str, due: UnixMillis) {
        let mut state = self.state.lock();
        let is_under_way = state.forget(id);
        if !is_under_way {
            state.lines.entry(line.to_owned()).or_default().due.insert((due, id.clone()));
        }
        let line = match state.places.get(id) {
            // What is under way is counted where it began.
            Some(place) if is_under_way => place.line.clone(),
            Some(_) | None => line.to_owned(),
        };
        state.places.insert(id.clone(), Place { line, due: Some(due), is_under_way });
        drop(state);
        self.changed.notify_one();
    }

    /// Nothing is to be done about `id` any more.
    pub(crate) fn remove(&self, id: &OperationId) {
        let mut state = self.state.lock();
        if !state.forget(id) {
            state.places.remove(id);
        }
    }

    /// `id`, which is under way, is due again at `due`, unless something is known already.
    pub(crate) fn again(&self, id: &OperationId, due: UnixMillis) {
        if let Some(place) = self.state.lock().places.get_mut(id) {
            place.due.get_or_insert(due);
        }
    }

    /// All of a line is due at `at`, if it was not due before.
    pub(crate) fn hasten(&self, line: &str, at: UnixMillis) {
        {
            let State { places, lines } = &mut *self.state.lock();
            for (id, place) in places.iter_mut().filter(|(_, place)| place.line == line) {
                let before = place.due;
                let due = before.map_or(at, |due| due.min(at));
                place.due = Some(due);
                if let (false, Some(line)) = (place.is_under_way, lines.get_mut(line)) {
                    if let Some(before) = before {
                        line.due.remove(&(before, id.clone()));
                    }
                    line.due.insert((due, id.clone()));
                }
            }
        }
        self.changed.notify_one();
    }

    /// Whether anything of a line is to be done.
    pub(crate) fn holds(&self, line: &str) -> bool {
        self.state.lock().lines.contains_key(line)
    }

    /// Takes out all that is due and may go on. Each must be given back by [`Agenda::done`].
    pub(crate) fn take(&self, now: UnixMillis) -> Vec<OperationId> {
        let mut taken = Vec::new();
        let State { places, lines } = &mut *self.state.lock();
        for line in lines.values_mut() {
            while line.under_way < self.line_max
                && line.due.first().is_some_and(|(due, _)| *due <= now)
                && let Some((_, id)) = line.due.pop_first()
            {
                if let Some(place) = places.get_mut(&id) {
                    place.due = None;
                    place.is_under_way = true;
                    line.under_way += 1;
                    taken.push(id);
                }
            }
        }
        taken
    }

    /// What was begun about `id` is over.
    pub(crate) fn done(&self, id: &OperationId) {
        let mut state = self.state.lock();
        let Some(mut place) = state.places.remove(id) else { return };
        let line = state.lines.entry(place.line.clone()).or_default();
        line.under_way = line.under_way.saturating_sub(1);
        match place.due {
            Some(due) => {
                line.due.insert((due, id.clone()));
                place.is_under_way = false;
                state.places.insert(id.clone(), place);
            }
            None if line.due.is_empty() && line.under_way == 0 => {
                state.lines.remove(&place.line);
            }
            None => {}
        }
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until something may be due, or became known.
    pub(crate) async fn wait(&self, now: impl FnOnce() -> UnixMillis) {
        let next = {
            let state = self.state.lock();
            let open = state.lines.values().filter(|line| line.under_way < self.line_max);
            open.filter_map(|line| line.due.first().map(|(due, _)| *due)).min()
        };
        let sleep = next.map_or(SLEEP_MAX, |due| due.since(now()).duration().min(SLEEP_MAX));
        // A word that comes in between is kept for us.
        let _ = tokio::time::timeout(sleep, self.changed.notified()).await;
    }
}

impl State {
    /// Takes what was known of when `id` is due out of its line; whether it is under way.
    fn forget(&mut self, id: &OperationId) -> bool {
        let Some(place) = self.places.get_mut(id) else { return false };
        let due = place.due.take();
        if place.is_under_way {
            return true;
        }
        if let (Some(due), Some(line)) = (due, self.lines.get_mut(&place.line)) {
            line.due.remove(&(due, id.clone()));
            if line.due.is_empty() && line.under_way == 0 {
                self.lines.remove(&place.line);
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u32) -> OperationId {
        OperationId(format!("op-{n}"))
    }

    #[test]
    fn what_is_due_comes_out_once_and_in_its_own_time() {
        let agenda = Agenda::new(8);
        agenda.put(&id(1), "a", UnixMillis(10));
        agenda.put(&id(2), "a", UnixMillis(20));
        assert_eq!(agenda.take(UnixMillis(9)), []);
        assert_eq!(agenda.take(UnixMillis(10)), [id(1)]);
        assert_eq!(agenda.take(UnixMillis(10)), []);
        // Sooner than it was.
        agenda.put(&id(2), "a", UnixMillis(11));
        assert_eq!(agenda.take(UnixMillis(11)), [id(2)]);
        agenda.put(&id(3), "a", UnixMillis(5));
        agenda.remove(&id(3));
        assert_eq!(agenda.take(UnixMillis(99)), []);
    }

    #[test]
    fn what_is_under_way_comes_out_again_only_when_it_is_done() {
        let agenda = Agenda::new(8);
        agenda.put(&id(1), "a", UnixMillis(0));
        assert_eq!(agenda.take(UnixMillis(0)), [id(1)]);
        agenda.put(&id(1), "b", UnixMillis(0));
        agenda.again(&id(1), UnixMillis(500));
        assert_eq!(agenda.take(UnixMillis(9)), []);
        agenda.done(&id(1));
        assert_eq!(agenda.take(UnixMillis(9)), [id(1)]);
        agenda.again(&id(1), UnixMillis(500));
        agenda.done(&id(1));
        assert_eq!(agenda.take(UnixMillis(499)), []);
        assert_eq!(agenda.take(UnixMillis(500)), [id(1)]);
        agenda.remove(&id(1));
        agenda.done(&id(1));
        assert!(agenda.state.lock().places.is_empty() && agenda.state.lock().lines.is_empty());
    }

    #[test]
    fn a_line_that_is_hastened_comes_out_at_once_also_what_is_under_way() {
        let agenda = Agenda::new(8);
        (1..=2).for_each(|n| agenda.put(&id(n), "a", UnixMillis(500)));
        agenda.put(&id(3), "b", UnixMillis(500));
        assert_eq!(agenda.take(UnixMillis(500)).len(), 3);
        agenda.again(&id(1), UnixMillis(900));
        (1..=3).for_each(|n| agenda.done(&id(n)));
        agenda.put(&id(2), "a", UnixMillis(0));
        assert_eq!(agenda.take(UnixMillis(0)), [id(2)]);
        assert!(agenda.holds("a") && !agenda.holds("b"));
        // One waits, the other is being looked at.
        agenda.hasten("a", UnixMillis(10));
        assert_eq!(agenda.take(UnixMillis(10)), [id(1)]);
        agenda.done(&id(2));
        assert_eq!(agenda.take(UnixMillis(10)), [id(2)]);
    }

    #[test]
    fn a_line_that_is_full_holds_up_no_other() {
        let agenda = Agenda::new(2);
        (1..=3).for_each(|n| agenda.put(&id(n), "slow", UnixMillis(0)));
        agenda.put(&id(4), "quick", UnixMillis(0));
        let mut taken = agenda.take(UnixMillis(0));
        taken.sort();
        assert_eq!(taken, [id(1), id(2), id(4)]);
        agenda.done(&id(4));
        assert_eq!(agenda.take(UnixMillis(0)), []);
        agenda.done(&id(1));
        assert_eq!(agenda.take(UnixMillis(0)), [id(3)]);
    }
}
