//! What becomes of a server's question, for every kind of client and every kind of server.
//!
//! Gateway and servers are real processes, the clients speak raw JSON over real sockets and pipes. Each cell is one call:
//! the server (`asker.py`) asks by a form, a URL, sampling or roots, something happens, and the cell says what the server
//! heard and how the call ended. The cells are kept in `docs/questions.md`; the tests compare it with what they see, and
//! with `UPDATE=1` they write it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect fails"
)]

mod call;
mod client;
mod page;
mod plays;
mod readers;
mod restart;
mod stage;
mod visits;

use call::Kind;
use client::Front;
use page::{Cell, Event};
use stage::{Back, Stage, run};

/// Every front before every back, as the page has them.
fn pairs() -> Vec<(Front, Back)> {
    Front::ALL.into_iter().flat_map(|front| Back::ALL.map(|back| (front, back))).collect()
}

/// Plays an event in all pairs side by side, and compares the page's part of it.
async fn play(stage: &Stage, event: Event, kinds: &[Kind]) {
    let cells = pairs().into_iter().flat_map(|(front, back)| {
        kinds
            .iter()
            .filter_map(move |kind| plays::is_there(event, front, *kind).then_some((front, back, *kind)))
    });
    let cells = futures_util::future::join_all(cells.map(async |(front, back, kind)| Cell {
        front,
        back,
        kind,
        said: plays::play(stage, event, front, back, kind).await,
    }))
    .await;
    page::compare(event, &cells);
}

#[test]
fn g_011_g_012_x_023_to_x_027_a_069_b_089_a_question_is_asked_once_in_the_clients_dialect_and_its_answer_reaches_the_server_unchanged()
 {
    run(async { play(Stage::shared(), Event::Answered, &Kind::ALL).await });
}

#[test]
fn a_121_b_049_g_011_over_pipes_it_is_the_same() {
    run(async { plays::over_pipes(Stage::shared()).await });
}

#[test]
fn x_030_x_002_b_099_a_102_a_114_e_007_what_a_client_cannot_be_asked_is_refused_at_once_and_never_shown_to_it()
 {
    let kinds = [Kind::Form, Kind::Url, Kind::Sampling, Kind::Tools, Kind::Roots];
    run(async { play(Stage::shared(), Event::Lacking, &kinds).await });
}

#[test]
fn x_030_a_102_a_114_b_141_a_client_that_has_only_the_smaller_ability_is_asked_no_more() {
    run(async { play(Stage::shared(), Event::Smaller, &[Kind::Url, Kind::Tools]).await });
}

#[test]
fn a_113_b_144_a_person_who_declines_or_cancels_is_heard() {
    run(async {
        let stage = Stage::shared();
        play(stage, Event::Declined, &[Kind::Form, Kind::Url]).await;
        play(stage, Event::Cancelled, &[Kind::Form, Kind::Url]).await;
    });
}

#[test]
fn x_029_b_147_e_013_a_client_that_answers_with_an_error_is_heard() {
    run(async { play(Stage::shared(), Event::Error, &Kind::ALL).await });
}

#[test]
fn x_029_r5_4_b_096_what_nobody_answers_ends_with_the_deadline_and_both_sides_hear_it() {
    let limits = "deadline_anonymous = \"15s\"";
    run(async { play(&Stage::set(limits), Event::Silent, &[Kind::Form, Kind::Sampling]).await });
}

#[test]
fn q_023_b_130_a_112_an_answer_that_does_not_fit_is_refused_and_the_question_stays() {
    run(async { play(Stage::shared(), Event::Unfit, &Kind::ALL).await });
}

#[test]
fn x_028_b_077_a_client_that_comes_back_is_asked_again_and_answers_once() {
    run(async { play(Stage::shared(), Event::Reconnected, &Kind::ALL).await });
}

#[test]
fn g_011_x_031_b_096_two_readers_are_both_asked_and_one_answer_counts() {
    run(async { readers::all(Stage::shared()).await });
}

#[test]
fn g_011_g_012_r4_5_a_gateway_that_dies_asks_again_under_a_new_key_or_says_that_nobody_knows() {
    run(restart::all());
}

#[test]
fn x_032_x_033_a_107_g_022_a_url_that_must_be_visited_first_is_visited_and_the_call_made() {
    run(visits::all());
}
