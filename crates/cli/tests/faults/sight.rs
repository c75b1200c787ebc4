//! What the comparison must see, shown to it before every campaign: a checker that finds nothing wrong with records that
//! contradict each other would pass everything.

use taskgate_core::operation::{Doubt, Effect, HandOff, Inquiry, Operation, Outcome, Replay, Stage, Verdict};
use taskgate_core::task::{Ending, Fault};
use taskgate_core::time::UnixMillis;
use taskgate_faults::bank::Script;
use taskgate_faults::books::{Books, Entry as Line, What};
use taskgate_faults::client::{Front, Heard};
use taskgate_faults::server::{Kind, Said, Word};

use crate::act::{Back, Over, Trial};
use crate::check::{Records, check};
use crate::ledger::Entry;
use crate::play::Played;
use crate::tally::Tally;

/// One call that went well, and its records.
struct Told {
    played: Played,
    books: Vec<What>,
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
        behind: None,
        before: None,
    };
    let result = Heard::Result { is_error: false, text: "paid".to_owned(), outcome: None };
    let handle = Heard::Handle { task: "t".to_owned() };
    Told {
        played: Played { trial, heard: vec![Heard::Sends, handle, result], killed: false },
        books: vec![What::Arrived, What::Applied],
        said: vec![Word::Success],
        ledger: vec![entry(
            Stage::Settled(Outcome::Reported(Verdict::Applied)),
            Some(Ending::Returned { result: "{}".into(), is_error: false }),
        )],
    }
}

fn entry(stage: Stage, ending: Option<Ending>) -> Entry {
    let mut operation = Operation::new(Effect::Consequential, Replay::Never);
    operation.attempts = 1;
    if let Stage::Unknown(_) = stage {
        operation.inquiry = Inquiry::Person { since: UnixMillis(2), why: HandOff::NoRule };
    }
    operation.stage = stage;
    Entry {
        key: "k".to_owned(),
        operation_id: "op".to_owned(),
        task_id: "t".to_owned(),
        operation,
        unfinished: ending.is_none(),
        ending,
        created: 1,
        ended: Some(2),
    }
}

fn unknown() -> Entry {
    let fault = Fault::OutcomeUnknown("lost".to_owned());
    entry(Stage::Unknown(Doubt::AnswerLost), Some(Ending::Faulted(fault)))
}

fn error(outcome: Option<&str>) -> Vec<Heard> {
    vec![
        Heard::Sends,
        Heard::Error { code: -32603, text: "lost".to_owned(), outcome: outcome.map(str::to_owned) },
    ]
}

fn seen(told: &Told) -> Vec<String> {
    let mut books = Books::default();
    for what in &told.books {
        books.enter(&Line {
            what: *what,
            key: "k".to_owned(),
            object: String::new(),
            amount: 1.0,
            token: None,
        });
    }
    let said: Vec<_> = told.said.iter().map(|word| Said { key: "k".to_owned(), word: *word }).collect();
    let records = Records { books: &books, said: &said, ledger: &told.ledger };
    check(std::slice::from_ref(&told.played), &records, &Tally::default())
        .into_iter()
        .flat_map(|(_, wrong)| wrong)
        .collect()
}

/// Panics if the comparison misses one of the contradictions, or sees one where there is none.
pub(crate) fn test() {
    type Spoil = fn(&mut Told);
    let spoils: [(&str, Spoil); 17] = [
        ("INV-11", |told| told.books.push(What::Applied)),
        ("asked for 2 times", |told| told.books.push(What::Arrived)),
        ("INV-10", |told| told.ledger.clear()),
        ("INV-16", |told| told.ledger.push(unknown())),
        ("no server said so", |told| told.said.clear()),
        ("INV-01", |told| told.ledger[0].task_id = "other".to_owned()),
        ("INV-14", |told| told.ledger[0].operation.stage = Stage::Dispatched { at: UnixMillis(1) }),
        ("in no person's list", |told| told.ledger[0].operation.stage = Stage::Unknown(Doubt::AnswerLost)),
        ("INV-02", |told| told.ledger[0].ending = None),
        ("left", |told| told.ledger[0].unfinished = true),
        ("read-only", |told| told.ledger[0].operation.stage = Stage::Settled(Outcome::NoneExpected)),
        ("INV-13", |told| {
            told.ledger[0].operation.stage = Stage::Settled(Outcome::Confirmed(Verdict::NotApplied));
        }),
        ("INV-13", |told| {
            told.ledger[0].operation.stage = Stage::Settled(Outcome::Confirmed(Verdict::Applied));
            told.books.pop();
        }),
        ("nothing happened, and it did", |told| {
            told.ledger = vec![unknown()];
            told.played.heard = error(Some("not_applied"));
        }),
        ("does not say what is known", |told| {
            told.ledger = vec![unknown()];
            told.played.heard = error(None);
        }),
        ("told nothing", |told| told.played.heard = vec![Heard::Sends]),
        ("nobody asked for", |told| told.ledger[0].key = "other".to_owned()),
    ];
    assert_eq!(seen(&well()), Vec::<String>::new(), "nothing is wrong with this one");
    let mut in_doubt = well();
    in_doubt.ledger = vec![unknown()];
    in_doubt.played.heard = error(Some("unknown"));
    assert_eq!(seen(&in_doubt), Vec::<String>::new(), "nor with this one");
    for (words, spoil) in spoils {
        let mut told = well();
        spoil(&mut told);
        let seen = seen(&told);
        assert!(seen.iter().any(|fault| fault.contains(words)), "{words} was not seen: {seen:?}");
    }
}
