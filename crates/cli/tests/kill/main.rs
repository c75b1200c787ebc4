//! `kill -9` of the gateway at each row of the crash table, over each kind of back.
//!
//! Gateway and servers are real processes: the peers of `tests/peers`, which must be installed. Servers over HTTP live
//! on when the gateway dies; those over stdio are its children and die with it. The servers' own journals say how often
//! each call arrived, and a tap on the line to them how often it was sent. What is read after a restart is read in both
//! dialects, in the session that was opened before the kill.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect fails"
)]

mod back;
mod client;
mod load;
mod process;
mod rows;
mod scene;
mod tap;

use back::{Back, Kind, Over};

macro_rules! cells {
    ($($name:ident: $row:ident, $kind:ident, $over:ident;)*) => {
        $(#[test]
        fn $name() {
            rows::$row(Back { kind: Kind::$kind, over: Over::$over });
        })*
    };
}

cells! {
    r3_3_nothing_written_over_plain_http_is_safe_to_send: nothing_written, Plain, Http;
    r3_3_nothing_written_over_plain_stdio_is_safe_to_send: nothing_written, Plain, Stdio;
    r3_3_nothing_written_over_a_http_is_safe_to_send: nothing_written, A, Http;
    r3_3_nothing_written_over_a_stdio_is_safe_to_send: nothing_written, A, Stdio;
    r3_3_nothing_written_over_b_http_is_safe_to_send: nothing_written, B, Http;
    r3_3_nothing_written_over_b_stdio_is_safe_to_send: nothing_written, B, Stdio;

    r4_2_prepared_over_plain_http_is_sent_once: prepared, Plain, Http;
    r4_2_prepared_over_plain_stdio_is_sent_once: prepared, Plain, Stdio;
    r4_2_prepared_over_a_http_is_sent_once: prepared, A, Http;
    r4_2_prepared_over_a_stdio_is_sent_once: prepared, A, Stdio;
    r4_2_prepared_over_b_http_is_sent_once: prepared, B, Http;
    r4_2_prepared_over_b_stdio_is_sent_once: prepared, B, Stdio;

    r4_2_prepared_too_late_over_plain_http_is_never_sent: prepared_too_late, Plain, Http;
    r4_2_prepared_too_late_over_plain_stdio_is_never_sent: prepared_too_late, Plain, Stdio;
    r4_2_prepared_too_late_over_a_http_is_never_sent: prepared_too_late, A, Http;
    r4_2_prepared_too_late_over_a_stdio_is_never_sent: prepared_too_late, A, Stdio;
    r4_2_prepared_too_late_over_b_http_is_never_sent: prepared_too_late, B, Http;
    r4_2_prepared_too_late_over_b_stdio_is_never_sent: prepared_too_late, B, Stdio;

    r4_5_dispatched_over_plain_http_is_unknown_and_sent_once: dispatched, Plain, Http;
    r4_5_dispatched_over_plain_stdio_is_unknown_and_sent_once: dispatched, Plain, Stdio;
    r4_5_dispatched_over_a_http_is_unknown_and_sent_once: dispatched, A, Http;
    r4_5_dispatched_over_a_stdio_is_unknown_and_sent_once: dispatched, A, Stdio;
    r4_5_dispatched_over_b_http_is_unknown_and_sent_once: dispatched, B, Http;
    r4_5_dispatched_over_b_stdio_is_unknown_and_sent_once: dispatched, B, Stdio;

    r4_5_dispatched_repeatable_over_plain_http_is_sent_again: dispatched_repeatable, Plain, Http;
    r4_5_dispatched_repeatable_over_plain_stdio_is_sent_again: dispatched_repeatable, Plain, Stdio;
    r4_5_dispatched_repeatable_over_a_http_is_sent_again: dispatched_repeatable, A, Http;
    r4_5_dispatched_repeatable_over_a_stdio_is_sent_again: dispatched_repeatable, A, Stdio;
    r4_5_dispatched_repeatable_over_b_http_is_sent_again: dispatched_repeatable, B, Http;
    r4_5_dispatched_repeatable_over_b_stdio_is_sent_again: dispatched_repeatable, B, Stdio;

    r5_3_a_followed_task_over_a_http_is_followed_again: followed, A, Http;
    r5_3_a_followed_task_over_a_stdio_is_unknown: followed, A, Stdio;
    r5_3_a_followed_task_over_b_http_is_followed_again: followed, B, Http;
    r5_3_a_followed_task_over_b_stdio_is_unknown: followed, B, Stdio;

    r5_3_many_followed_tasks_over_a_http_keep_their_results: followed_many, A, Http;
    r5_3_many_followed_tasks_over_b_http_keep_their_results: followed_many, B, Http;

    r5_3_a_plain_clients_handle_over_plain_http_is_unknown: handle, Plain, Http;
    r5_3_a_plain_clients_handle_over_a_http_is_followed_again: handle, A, Http;
    r5_3_a_plain_clients_handle_over_b_http_is_followed_again: handle, B, Http;

    r3_3_ended_over_plain_http_is_there_for_its_client: ended, Plain, Http;
    r3_3_ended_over_plain_stdio_is_there_for_its_client: ended, Plain, Stdio;
    r3_3_ended_over_a_http_is_there_for_its_client: ended, A, Http;
    r3_3_ended_over_a_stdio_is_there_for_its_client: ended, A, Stdio;
    r3_3_ended_over_b_http_is_there_for_its_client: ended, B, Http;
    r3_3_ended_over_b_stdio_is_there_for_its_client: ended, B, Stdio;

    r3_3_ended_over_plain_http_while_waited_for: ended_while_waited_for, Plain, Http;
    r3_3_ended_over_plain_stdio_while_waited_for: ended_while_waited_for, Plain, Stdio;
    r3_3_ended_over_a_http_while_waited_for: ended_while_waited_for, A, Http;
    r3_3_ended_over_a_stdio_while_waited_for: ended_while_waited_for, A, Stdio;
    r3_3_ended_over_b_http_while_waited_for: ended_while_waited_for, B, Http;
    r3_3_ended_over_b_stdio_while_waited_for: ended_while_waited_for, B, Stdio;

    g_011_a_question_over_plain_http_is_lost_with_its_call: waiting_for_input, Plain, Http;
    g_011_a_question_over_plain_stdio_is_lost_with_its_call: waiting_for_input, Plain, Stdio;
    g_011_a_question_over_a_http_is_asked_again: waiting_for_input, DemoA, Http;
    g_011_a_question_over_a_http_that_is_not_asked_again_stays_open: waiting_for_input_that_is_not_asked_again, A, Http;
    g_011_a_question_over_a_stdio_is_lost_with_its_call: waiting_for_input, A, Stdio;
    g_011_a_question_over_b_http_is_asked_again: waiting_for_input, B, Http;
    g_011_a_question_over_b_stdio_is_lost_with_its_call: waiting_for_input, B, Stdio;

    b_100_a_wished_cancel_over_plain_http_is_unknown: cancel_wished, Plain, Http;
    b_100_a_wished_cancel_over_plain_stdio_is_unknown: cancel_wished, Plain, Stdio;
    b_100_a_wished_cancel_over_a_http_is_passed_on_again: cancel_wished, A, Http;
    b_100_a_wished_cancel_over_a_stdio_is_unknown: cancel_wished, A, Stdio;
    b_100_a_wished_cancel_over_b_http_is_passed_on_again: cancel_wished, B, Http;
    b_100_a_wished_cancel_over_b_stdio_is_unknown: cancel_wished, B, Stdio;

    a_088_a_promised_cancel_over_plain_http_stays: cancel_promised, Plain, Http;
    a_088_a_promised_cancel_over_plain_stdio_stays: cancel_promised, Plain, Stdio;
    a_088_a_promised_cancel_over_a_http_stays_and_is_passed_on_again: cancel_promised, A, Http;
    a_088_a_promised_cancel_over_a_stdio_stays: cancel_promised, A, Stdio;
    a_088_a_promised_cancel_over_b_http_stays_and_is_passed_on_again: cancel_promised, B, Http;
    a_088_a_promised_cancel_over_b_stdio_stays: cancel_promised, B, Stdio;

    b_100_a_cancelled_repeatable_call_over_plain_http_is_not_sent_again: cancel_wished_repeatable, Plain, Http;
    b_100_a_cancelled_repeatable_call_over_a_http_is_not_sent_again: cancel_wished_repeatable, A, Http;
    b_100_a_cancelled_repeatable_call_over_b_http_is_not_sent_again: cancel_wished_repeatable, B, Http;
}
