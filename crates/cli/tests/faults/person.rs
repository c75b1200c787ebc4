//! The person whose list it is: looks into the bank's own books and says what happened, now and then the
//! wrong thing first, has others looked at again, leaves some as they are, and is struck meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use nix::sys::signal::Signal;
use serde_json::Value;
use taskgate_faults::books::Books;

use crate::act::Trial;
use crate::dice::Dice;
use crate::ledger::Entry;
use crate::play::until_bank_is_quiet;
use crate::tally::Tally;
use crate::user;
use crate::world::World;

/// What must have happened.
pub(crate) const STATES: [&str; 20] = [
    "person: left waiting",
    "person: resolved applied",
    "person: resolved not-applied",
    "person: corrected applied",
    "person: corrected not-applied",
    "person: a key given free by a correction",
    "person: kill -9 of gateway while correcting",
    "person: kill -9 of command while correcting",
    "person: SIGSTOP of gateway while correcting",
    "person: reconciled by hand: confirmed: applied",
    "person: reconciled by hand: confirmed: not_applied",
    "person: kill -9 of gateway while resolving",
    "person: kill -9 of command while resolving",
    "person: SIGSTOP of gateway while resolving",
    "person: kill -9 of gateway while reconciling",
    "person: kill -9 of command while reconciling",
    "person: SIGSTOP of gateway while reconciling",
    "person: kill -9 of gateway in recovery",
    "person: proved by a fence",
    "person: proved by the end of all that ran",
];

/// What is done meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Blow {
    Gateway { again: Option<u64> },
    Command,
    Stop,
}

pub(crate) struct Person<'a> {
    pub(crate) world: &'a World,
    pub(crate) seed: u64,
    pub(crate) tally: &'a Tally,
    /// Whether processes are struck while the commands run.
    pub(crate) is_struck: bool,
    /// What each call is, by its digest.
    pub(crate) trials: BTreeMap<String, Trial>,
}

/// What a person did.
#[derive(Default)]
pub(crate) struct Decided {
    /// What was wrong, by the digest of the call.
    pub(crate) wrong: Vec<(String, String)>,
    /// Calls that are certain not to have been carried out and can be made again under their key.
    pub(crate) undone: Vec<Trial>,
    /// Operations that were touched.
    pub(crate) touched: Vec<String>,
}

impl Person<'_> {
    /// Goes through the list, up to so many of it.
    pub(crate) async fn decide(&self, most: usize) -> Decided {
        // Whoever could still pass something on is gone, and the bank has nothing in hand.
        self.world.renew_servers();
        until_bank_is_quiet(self.world).await;
        let mut list = user::waiting(self.world).await;
        list.retain(|(entry, _)| self.trials.contains_key(&entry.digest));
        // Those that can be asked about first: they are few.
        list.sort_by_key(|(entry, can_be_asked)| (!can_be_asked, self.dice(entry).next()));
        let (asked, rest): (Vec<_>, Vec<_>) = list.into_iter().partition(|(_, can_be_asked)| *can_be_asked);
        let rest_most = most.saturating_sub(asked.len().min(most / 2));
        let chosen = asked.into_iter().take(most / 2).chain(rest.into_iter().take(rest_most));
        let width = if self.is_struck { 1 } else { 4 };
        let mut deciding = futures_util::stream::iter(chosen.enumerate())
            .map(|(at, (entry, can_be_asked))| async move { self.about(at, entry, can_be_asked).await })
            .buffer_unordered(width);
        let mut decided = Decided::default();
        while let Some(one) = deciding.next().await {
            decided.wrong.extend(one.wrong);
            decided.undone.extend(one.undone);
            decided.touched.extend(one.touched);
        }
        decided
    }

    /// The same for the same operation, whatever the others are.
    fn dice(&self, entry: &Entry) -> Dice {
        let seed = entry.digest.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Dice::new(self.seed ^ seed.unwrap_or_default())
    }

    /// What is done about the operation at this place of the list, and what is struck meanwhile, goes by its place: so a
    /// short list has everything in it too.
    async fn about(&self, at: usize, entry: Entry, can_be_asked: bool) -> Decided {
        let mut dice = self.dice(&entry);
        let mut decided = Decided { touched: vec![entry.operation_id.clone()], ..Decided::default() };
        let choice = at % 6;
        if choice == 5 {
            self.tally.count("person: left waiting".to_owned());
            return decided;
        }
        let mut wrong = Vec::new();
        let is_resolved = if can_be_asked && choice < 4 {
            self.reconcile(&entry, at, &mut dice, &mut wrong).await && dice.below(2) == 0
        } else {
            true
        };
        if is_resolved && let Some(trial) = self.resolve(&entry, at, &mut dice, &mut wrong).await {
            decided.undone.push(trial);
        }
        decided.wrong = wrong.into_iter().map(|words| (entry.digest.clone(), words)).collect();
        decided
    }

    /// Has the bank asked once more; whether a person is still to decide.
    async fn reconcile(&self, entry: &Entry, at: usize, dice: &mut Dice, wrong: &mut Vec<String>) -> bool {
        let id = &entry.operation_id;
        let words = ["reconcile", id, "--wait", "20s", "--json"];
        if self.insist(&words, "reconciling", self.blow(at, dice), dice, wrong).await.is_none() {
            return true;
        }
        let now = self.at_rest(id).await;
        self.tally.count(format!("person: reconciled by hand: {}", now.stands));
        let is_made = self.applied(&self.trials[&entry.digest].key) > 0;
        let fits = match now.stands.as_str() {
            "confirmed: applied" => is_made,
            "confirmed: not_applied" | "assumed: not_applied" => !is_made,
            // Nobody answered.
            _ => now.waits_for_a_person(),
        };
        if !fits {
            wrong.push(format!(
                "{id} was looked at again, and is {}; the bank made it: {is_made}",
                now.stands
            ));
        }
        now.waits_for_a_person() && !now.stands.starts_with("confirmed")
    }

    /// Says what the bank's books say. The call, if it was not carried out and its key may be used again.
    async fn resolve(
        &self,
        entry: &Entry,
        at: usize,
        dice: &mut Dice,
        wrong: &mut Vec<String>,
    ) -> Option<Trial> {
        let (id, trial) = (&entry.operation_id, &self.trials[&entry.digest]);
        // The bank takes nothing more for this key; or it is enough that all are gone who could have brought it.
        let is_fenced = !trial.keyed || dice.below(2) == 0;
        if is_fenced {
            self.world.bank("POST", &format!("/fence/{}", trial.key), &Value::Null).await;
            self.tally.count("person: proved by a fence".to_owned());
        } else {
            self.tally.count("person: proved by the end of all that ran".to_owned());
        }
        let times = self.applied(&trial.key);
        let (verdict, opposite) =
            if times > 0 { ("applied", "not-applied") } else { ("not-applied", "applied") };
        // Sometimes they look at the wrong line first, and take that back before anybody calls again.
        let slip = format!("{} was taken for another", trial.key);
        let slips = match at % 2 {
            0 => {
                let words = ["resolve", id, opposite, "--reason", &slip, "--name", "ada", "--json"];
                self.insist(&words, "resolving", self.blow(at / 2 + 1, dice), dice, wrong).await?
            }
            _ => 0,
        };
        let reason = format!("the bank's books have {} {times} times", trial.key);
        let mut words = vec!["resolve", id, verdict, "--reason", &reason, "--name", "ada", "--json"];
        let (doing, done) = if slips > 0 { ("correcting", "corrected") } else { ("resolving", "resolved") };
        words.extend((slips > 0).then_some("--correct"));
        let times_said = self.insist(&words, doing, self.blow(at / 2, dice), dice, wrong).await?;
        self.tally.count(format!("person: {done} {verdict}"));
        let (now, history) = user::show(self.world, id).await;
        let spoken = verdict.replace('-', "_");
        if now.stands != format!("attested: {spoken}") || now.waits_for_a_person() {
            wrong.push(format!("{id} was {done} {verdict}, that was acknowledged, and it is {now:?}"));
        }
        let lines: Vec<&String> = history.iter().flat_map(|event| &event.lines).collect();
        let places = |reason: &str| -> Vec<usize> {
            (0..lines.len()).filter(|at| lines[*at].contains(reason)).collect()
        };
        // What was said again because its answer was lost stands there as often as it was said.
        for (reason, said) in [(&slip, slips), (&reason, times_said)] {
            let told = places(reason).len();
            if (told == 0) != (said == 0) || told > said {
                wrong.push(format!(
                    "{id}: {reason:?} stands {told} times in its history, and was said {said} times"
                ));
            }
        }
        if places(&slip).last() > places(&reason).first() {
            wrong.push(format!("{id}: what was corrected stands behind its correction: {lines:?}"));
        }
        if slips > 0 && times == 0 && !is_fenced {
            self.tally.count("person: a key given free by a correction".to_owned());
        }
        (times == 0 && !is_fenced).then(|| trial.clone())
    }

    fn blow(&self, at: usize, dice: &mut Dice) -> Option<Blow> {
        self.is_struck.then(|| match at % 4 {
            0 => Blow::Command,
            1 => Blow::Stop,
            other => Blow::Gateway { again: (other == 2).then(|| dice.below(300_000)) },
        })
    }

    /// Runs a command until it is acknowledged, and strikes somebody the first time. How often it was run, if it was.
    async fn insist(
        &self,
        words: &[&str],
        doing: &str,
        blow: Option<Blow>,
        dice: &mut Dice,
        wrong: &mut Vec<String>,
    ) -> Option<usize> {
        let delay = Duration::from_micros(dice.below(60_000));
        let (mut said, mut times) = (None, 0);
        for attempt in 0..5 {
            let now = match (attempt, blow) {
                (0, Some(blow)) => self.struck(words, doing, blow, delay).await,
                _ => user::run(self.world, words).await,
            };
            times += 1;
            if now.code == Some(0) {
                return Some(times);
            }
            said = Some(now);
            if attempt > 0 || blow.is_none() {
                break;
            }
        }
        // What was done before the command died cannot be asked for again.
        let words_said = said.map(|said| said.err).unwrap_or_default();
        if !words_said.contains("there is nothing to ask") {
            wrong.push(format!("{words:?} was refused: {words_said}"));
            return None;
        }
        Some(times)
    }

    async fn struck(&self, words: &[&str], doing: &str, blow: Blow, delay: Duration) -> user::Said {
        let mut command = user::start(self.world, words);
        tokio::time::sleep(delay).await;
        self.tally.fault();
        let whom = match blow {
            Blow::Command => {
                // It may be over.
                let _ = command.start_kill();
                "kill -9 of command"
            }
            Blow::Stop => {
                self.world.signal_gateway(Signal::SIGSTOP);
                tokio::time::sleep(delay * 3).await;
                self.world.signal_gateway(Signal::SIGCONT);
                "SIGSTOP of gateway"
            }
            Blow::Gateway { again } => {
                self.world.kill_gateway();
                if let Some(again) = again {
                    self.world.start_and_kill_gateway(Duration::from_micros(again)).await;
                    self.tally.count("person: kill -9 of gateway in recovery".to_owned());
                    self.tally.fault();
                }
                self.world.start_gateway();
                "kill -9 of gateway"
            }
        };
        self.tally.count(format!("person: {whom} while {doing}"));
        user::end(command).await
    }

    async fn at_rest(&self, id: &str) -> Entry {
        let by = tokio::time::Instant::now() + crate::ledger::REST;
        loop {
            let (now, _) = user::show(self.world, id).await;
            if now.is_quiet() || tokio::time::Instant::now() > by {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn applied(&self, key: &str) -> u32 {
        Books::read(&self.world.path("books")).unwrap().account(key).applied
    }
}
