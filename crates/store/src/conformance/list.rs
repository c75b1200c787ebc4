//! Listing one principal's tasks.

use bytes::Bytes;
use taskgate_core::id::ServerName;
use taskgate_core::operation::{self, Doubt};
use taskgate_core::task::Ending;
use taskgate_core::time::UnixMillis;

use super::Factory;
use super::sample::{
    CREATED, Told, assert_kept, dispatch, end, ids, put, reconcile, record, server, somebody, stranger,
    succeed, tell,
};
use crate::record::Record;
use crate::summary::Summary;
use crate::{Store, Whose};

fn made(text: &str, at: i64) -> Record {
    let mut record = record(text);
    record.task.lifetime.created = UnixMillis(at);
    record
}

async fn pages(store: &impl Store, whose: Whose<'_>, size: usize) -> Vec<String> {
    let mut seen = vec![];
    let mut after = None;
    loop {
        let page = store.list(whose, after, size).await.expect("readable");
        seen.extend(page.iter().map(|summary| summary.id().expose().to_owned()));
        match page.last() {
            Some(last) => after = Some((last.created(), last.id().clone())),
            None => return seen,
        }
    }
}

/// Newest first, and whatever is written in between.
pub async fn a_080_pages_neither_repeat_nor_skip(factory: &impl Factory) {
    let store = factory.fresh().await;
    for (text, at) in [("c", 3), ("a", 1), ("e", 5), ("b", 2), ("d", 4)] {
        put(&store, &made(text, at)).await;
    }
    for size in 1..=6 {
        assert_eq!(
            pages(&store, Whose::Server(&somebody(), &server()), size).await,
            ["e", "d", "c", "b", "a"],
            "pages of {size}"
        );
    }
    let first = store.list(Whose::Server(&somebody(), &server()), None, 2).await.expect("readable");
    assert_eq!(ids(&first), ["e", "d"]);
    put(&store, &made("f", 6)).await;
    let sent = tell(&store, &made("c", 3), CREATED, vec![dispatch()]).await;
    let over = tell(&store, &sent, CREATED, succeed()).await;
    let after = Some((UnixMillis(4), made("d", 4).id));
    let second = store.list(Whose::Server(&somebody(), &server()), after, 2).await.expect("readable");
    assert_eq!(ids(&second), ["c", "b"]);
    assert_eq!(second.first(), Some(&Summary::of(over)));
    assert_eq!(store.list(Whose::Server(&somebody(), &server()), None, 0).await.expect("readable"), []);
}

/// But what an error says, if it is short: why a task failed is shown beside it.
pub async fn r5_5_a_list_and_a_walk_hold_no_payloads(factory: &impl Factory) {
    let store = factory.fresh().await;
    let long = || Bytes::from(vec![b'x'; Summary::SAID_BYTES_MAX + 1]);
    let short = || Bytes::from(vec![b'x'; Summary::SAID_BYTES_MAX]);
    let raised = |error| end(Ending::Raised { error });
    let returned = |result, is_error| end(Ending::Returned { result, is_error });
    for (text, ending, kept) in [
        ("e-returned", returned(short(), false), 0),
        ("d-error", returned(short(), true), Summary::SAID_BYTES_MAX),
        ("c-long-error", returned(long(), true), 0),
        ("b-raised", raised(short()), Summary::SAID_BYTES_MAX),
        ("a-long-raised", raised(long()), 0),
    ] {
        let mut record = record(text);
        record.call.params = long();
        put(&store, &record).await;
        let sent = tell(&store, &record, CREATED, vec![dispatch()]).await;
        // It is asked after, so a walk over what is unfinished finds it too.
        let lost = Told::Operation(operation::Command::Lose(Doubt::AnswerLost));
        let over = tell(&store, &sent, CREATED, vec![lost, ending, reconcile()]).await;
        for found in [
            store.list(Whose::Everyone, None, 9).await.expect("readable"),
            store.unfinished(None, 9).await.expect("readable"),
        ] {
            let found = found.into_iter().find(|found| *found.id() == over.id).expect("it is there");
            assert_eq!(found, Summary::of(over.clone()), "{text}");
            let held = match found.task().ending() {
                Some(Ending::Returned { result: held, .. } | Ending::Raised { error: held }) => held.len(),
                other => panic!("{text}: {other:?}"),
            };
            assert_eq!(held, kept, "{text}");
        }
        // Whole, it has all.
        assert_kept(&store, &over).await;
    }
}

/// Ids fall too.
pub async fn a_082_equal_times_are_told_apart_by_id(factory: &impl Factory) {
    let store = factory.fresh().await;
    for text in ["b", "d", "a", "C", "-", "_"] {
        put(&store, &made(text, 7)).await;
    }
    put(&store, &made("e", 6)).await;
    for size in 1..=3 {
        assert_eq!(
            pages(&store, Whose::Server(&somebody(), &server()), size).await,
            ["d", "b", "a", "_", "C", "-", "e"],
            "pages of {size}"
        );
    }
}

/// And no other's.
pub async fn r6_1_a_list_shows_one_principal_and_one_server(factory: &impl Factory) {
    let store = factory.fresh().await;
    put(&store, &record("mine")).await;
    let mut theirs = record("theirs");
    theirs.principal = stranger();
    put(&store, &theirs).await;
    let mut elsewhere = record("elsewhere");
    elsewhere.call.server = ServerName("mail".into());
    put(&store, &elsewhere).await;

    let list = |principal, server| {
        let store = &store;
        async move { store.list(Whose::Server(&principal, &server), None, 10).await.expect("readable") }
    };
    assert_eq!(ids(&list(somebody(), server()).await), ["mine"]);
    assert_eq!(ids(&list(stranger(), server()).await), ["theirs"]);
    assert_eq!(ids(&list(somebody(), ServerName("mail".into())).await), ["elsewhere"]);
    assert_eq!(list(stranger(), ServerName("mail".into())).await, []);
}

/// In the same order, page by page.
pub async fn design_4_a_list_shows_one_principal_or_everyone(factory: &impl Factory) {
    let store = factory.fresh().await;
    for (text, at, is_mine, is_here) in [
        ("a", 1, true, true),
        ("b", 2, true, false),
        ("c", 2, false, true),
        ("d", 2, true, true),
        ("e", 3, false, false),
        ("f", 4, true, false),
    ] {
        let mut record = made(text, at);
        if !is_mine {
            record.principal = stranger();
        }
        if !is_here {
            record.call.server = ServerName("mail".into());
        }
        put(&store, &record).await;
    }
    let (me, them) = (somebody(), stranger());
    for (whose, expected) in [
        (Whose::Principal(&me), vec!["f", "d", "b", "a"]),
        (Whose::Principal(&them), vec!["e", "c"]),
        (Whose::Everyone, vec!["f", "e", "d", "c", "b", "a"]),
    ] {
        for size in 1..=7 {
            assert_eq!(pages(&store, whose, size).await, expected, "pages of {size}");
        }
    }
}
