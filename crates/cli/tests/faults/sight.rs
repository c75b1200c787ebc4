//! What the comparison must see, shown to it before every campaign: a checker that finds nothing wrong with records that
//! contradict each other would pass everything.

use taskgate_faults::bank::Script;
use taskgate_faults::books::{Books, Entry as Line, What};
use taskgate_faults::client::{Front, Heard};
use taskgate_faults::server::{Kind, Said, Word};

use crate::act::{Back, Over, Trial};
use crate::check::{Records, SOURCES, agree, check};
use crate::ledger::{Entry, Event, digest};
use crate::play::Played;
use crate::tally::Tally;

/// One call that went well, and its records.
struct Told {
    played: Played,
    /// What happened, and when.
    books: Vec<(What, i64)>,
    said: Vec<Word>,
    ledger: Vec<Entry>,
}

fn well() -> Told {
    let trial = Trial {
        key: "k".to_owned(),
        back: Back { kind: Kind::Plain, over: Over::Http },
        front: Front::B,
        tool: "pay".to_owned(),
        keyed: true,
        word: None,
        script: Script::default(),
        breaks: Vec::new(),
        opens: false,
    };
    let result = Heard::Result { is_error: false, text: "paid".to_owned(), outcome: None };
    let handle = Heard::Handle { task: "t".to_owned() };
    let ledger = vec![entry(&trial, "reported: applied", Some("returned"))];
    Told {
        played: Played { trial, heard: vec![SENDS, handle, result], killed: false, again: Vec::new() },
        books: vec![(What::Arrived, 1), (What::Applied, 2)],
        said: vec![Word::Success],
        ledger,
    }
}

const SENDS: Heard = Heard::Sends { at: 1 };

fn entry(trial: &Trial, stands: &str, ending: Option<&str>) -> Entry {
    Entry {
        digest: digest(trial),
        operation_id: "op".to_owned(),
        task_id: "t".to_owned(),
        tool: trial.tool.clone(),
        idempotency: None,
        stands: stands.to_owned(),
        inquiry: if stands.starts_with("unknown") { "person: no_rule" } else { "idle" }.to_owned(),
        attempts: 1,
        ending: ending.map(str::to_owned),
        created: 1,
        ended: Some(2),
        updated: 2,
    }
}

fn unknown(told: &Told) -> Entry {
    entry(&told.played.trial, "unknown: answer_lost", Some("outcome_unknown"))
}

fn error(outcome: Option<&str>) -> Vec<Heard> {
    vec![SENDS, Heard::Error { code: -32603, text: "lost".to_owned(), outcome: outcome.map(str::to_owned) }]
}

/// One without a key whose client lost the answer and called again, so that it was made again: the edge.
fn repeated() -> Told {
    let mut told = well();
    told.played.trial.keyed = false;
    told.played.trial.front = Front::Plain;
    let lost = Heard::Lost { at: 5, method: "tools/call".to_owned(), why: "reset".to_owned() };
    let result = told.played.heard.pop().unwrap();
    told.played.heard = vec![SENDS, lost, Heard::Sends { at: 6 }, result];
    told.books.extend([(What::Arrived, 7), (What::Applied, 8)]);
    told.ledger.push(Entry { created: 7, ended: Some(9), ..told.ledger[0].clone() });
    told
}

/// One under a key that was known not to have been carried out, and was called again.
fn free() -> Told {
    let mut told = well();
    let first = entry(&told.played.trial, "attested: not_applied", Some("outcome_unknown"));
    let second = Entry { created: 7, ended: Some(9), task_id: "t2".to_owned(), ..told.ledger[0].clone() };
    told.ledger = vec![first, second];
    told.books = vec![(What::Arrived, 7), (What::Applied, 8)];
    told.played.again = told.played.heard.clone();
    told.played.heard = error(Some("unknown"));
    told
}

fn seen(told: &Told) -> Vec<String> {
    let mut books = Books::default();
    for (what, at) in &told.books {
        books.enter(&Line {
            what: *what,
            key: "k".to_owned(),
            object: String::new(),
            amount: 1.0,
            token: None,
            at: *at,
        });
    }
    let said: Vec<_> = told.said.iter().map(|word| Said { key: "k".to_owned(), word: *word }).collect();
    let records = Records { source: SOURCES[0], books: &books, said: &said, ledger: &told.ledger };
    check(std::slice::from_ref(&told.played), &records, &Tally::default())
        .into_iter()
        .flat_map(|(_, wrong)| wrong)
        .collect()
}

/// Panics if the comparison misses one of the contradictions, or sees one where there is none.
pub(crate) fn test() {
    type Spoil = fn(&mut Told);
    let spoils: [(&str, Spoil); 17] = [
        ("INV-11", |told| told.books.push((What::Applied, 3))),
        ("asked for 2 times", |told| told.books.push((What::Arrived, 3))),
        ("INV-10", |told| told.ledger.clear()),
        ("INV-16", |told| told.ledger.push(unknown(told))),
        ("no server said so", |told| told.said.clear()),
        ("INV-01", |told| told.ledger[0].task_id = "other".to_owned()),
        ("INV-14", |told| told.ledger[0].stands = "dispatched".to_owned()),
        ("in no person's list", |told| told.ledger[0].stands = "unknown: answer_lost".to_owned()),
        ("INV-02", |told| told.ledger[0].ending = None),
        ("for ever", |told| told.ledger[0].inquiry = "reconciling".to_owned()),
        ("read-only", |told| told.ledger[0].stands = "none_expected".to_owned()),
        ("INV-13", |told| told.ledger[0].stands = "confirmed: not_applied".to_owned()),
        ("INV-13", |told| {
            told.ledger[0].stands = "attested: applied".to_owned();
            told.books.pop();
        }),
        ("nothing happened, and it did", |told| {
            told.ledger = vec![unknown(told)];
            told.played.heard = error(Some("not_applied"));
        }),
        ("does not say what is known", |told| {
            told.ledger = vec![unknown(told)];
            told.played.heard = error(None);
        }),
        ("told nothing", |told| told.played.heard = vec![SENDS]),
        ("nobody asked for", |told| told.ledger[0].digest = "other".to_owned()),
    ];
    for (words, spoil) in spoils {
        sees(words, spoil, well());
    }
    let mut in_doubt = well();
    in_doubt.ledger = vec![unknown(&in_doubt)];
    in_doubt.played.heard = error(Some("unknown"));
    for told in [well(), in_doubt, repeated(), free()] {
        assert_eq!(seen(&told), Vec::<String>::new(), "nothing is wrong with this one");
    }
    // The edge is the edge only if the client's log and the books say so, each for itself.
    let edges: [(&str, Spoil); 5] = [
        ("INV-11", |told| told.played.trial.keyed = true),
        ("INV-11", |told| {
            told.played.heard.remove(1);
        }),
        ("INV-11", |told| told.books.iter_mut().for_each(|(_, at)| *at = 3)),
        ("INV-16", |told| told.ledger[0].ending = Some("outcome_unknown".to_owned())),
        ("INV-16", |told| told.ledger[0].ended = Some(8)),
    ];
    for (words, spoil) in edges {
        sees(words, spoil, repeated());
    }
    // A key is free only once it is known that nothing was done.
    let keys: [(&str, Spoil); 3] = [
        ("INV-16", |told| told.ledger[0].stands = "assumed: not_applied".to_owned()),
        ("INV-16", |told| told.ledger[0].updated = 8),
        ("INV-11", |told| told.books.extend([(What::Arrived, 8), (What::Applied, 9)])),
    ];
    for (words, spoil) in keys {
        sees(words, spoil, free());
    }
    disagreements();
}

fn sees(words: &str, spoil: fn(&mut Told), mut told: Told) {
    spoil(&mut told);
    let seen = seen(&told);
    assert!(seen.iter().any(|fault| fault.contains(words)), "{words} was not seen: {seen:?}");
}

/// Two readings of one ledger that differ.
fn disagreements() {
    use std::slice::from_ref;
    let entry = unknown(&well());
    let one = from_ref(&entry);
    let event = |version| Event { version, at: 1, lines: Vec::new() };
    let shown = [(entry.clone(), vec![event(1)])];
    assert_eq!(agree(&shown, one, one), []);
    let other = Entry { stands: "assumed: not_applied".to_owned(), ..entry.clone() };
    let contradictions = [
        agree(&shown, one, from_ref(&other)),
        agree(&shown, from_ref(&other), one),
        agree(&shown, &[], one),
        agree(&[], &[], one),
        agree(&[], one, &[]),
        agree(&[(entry.clone(), vec![event(2)])], one, one),
    ];
    assert!(contradictions.iter().all(|wrong| !wrong.is_empty()), "{contradictions:?}");
}
