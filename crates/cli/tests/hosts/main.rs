//! Hosts as they are on people's desks, played by the SDKs that they are built on: they give up after 60 s, kill what
//! they started, die in the middle and come back. The tool behind `taskgate run --` takes 150 s all the same.
//!
//! `tests/peers/host` is the host with a model in it, and `tests/peers/README.md` says what it does. The servers' own
//! journals say how often each effect happened. The peers must be installed (`tests/peers/install`): a play whose peer
//! is missing fails.
//!
//! All plays run at once, since they mostly wait; see [`stage`]. `TASKGATE_PLAYS=brisk` plays them ten times as fast,
//! which is not what hosts do, but shows soon whether a play works.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that meets what it does not expect fails"
)]

mod crowd;
mod dying;
mod home;
mod host;
mod look;
mod pace;
mod patience;
mod room;
mod speech;
mod stage;
mod together;

use home::Launch::{Container, Node, Npx, Python, Script, Uvx};
use host::Client::{Inspector, PythonA, PythonPlain, TypeScript};

macro_rules! plays {
    ($($name:ident: $play:expr;)*) => {
        /// Every play with its name, for the stage.
        pub(crate) const PLAYS: &[(&str, stage::Play)] = &[$((stringify!($name), || $play)),*];

        $(#[test]
        fn $name() {
            stage::result(stringify!($name));
        })*
    };
}

plays! {
    // Each kind of client against the bare server: this is what is to be cured.
    r1_1_without_taskgate_a_typescript_host_gives_up: patience::gives_up(TypeScript);
    r1_1_without_taskgate_a_python_1_30_host_gives_up: patience::gives_up(PythonA);
    r1_1_without_taskgate_a_python_2_3_host_gives_up: patience::gives_up(PythonPlain);
    r1_1_without_taskgate_an_inspector_host_gives_up: patience::gives_up(Inspector);

    r1_1_a_long_tool_ends_in_four_turns_for_a_typescript_host_and_npx: patience::ends(TypeScript, Npx);
    r1_1_a_long_tool_ends_in_four_turns_for_a_python_1_30_host_and_a_script: patience::ends(PythonA, Script);
    r1_1_a_long_tool_ends_in_four_turns_for_a_python_2_3_host_and_a_container: patience::ends(PythonPlain, Container);
    r1_1_a_long_tool_ends_in_four_turns_for_an_inspector_host_and_uvx: patience::ends(Inspector, Uvx);

    r5_1_a_charge_that_is_made_again_after_its_result_is_a_new_one: patience::is_made_anew(TypeScript, Node);

    r3_3_a_killed_typescript_host_repeats_its_call: dying::host_repeats(TypeScript, Node);
    r3_3_a_killed_python_1_30_host_repeats_its_call: dying::host_repeats(PythonA, Python);
    r3_3_a_killed_python_2_3_host_repeats_its_call: dying::host_repeats(PythonPlain, Npx);
    r3_3_a_killed_inspector_host_repeats_its_call: dying::host_repeats(Inspector, Node);

    r3_3_a_result_that_came_meanwhile_is_offered_to_a_typescript_host: dying::host_comes_back(TypeScript, Python);
    r3_3_a_result_that_came_meanwhile_is_offered_to_a_python_1_30_host: dying::host_comes_back(PythonA, Node);
    r3_3_a_result_that_came_meanwhile_is_offered_to_a_python_2_3_host: dying::host_comes_back(PythonPlain, Node);
    r3_3_a_result_that_came_meanwhile_is_offered_to_an_inspector_host: dying::host_comes_back(Inspector, Python);

    r3_3_a_typescript_host_that_comes_back_at_once_lists_what_runs: dying::host_lists(TypeScript, Node);
    r3_3_a_python_2_3_host_that_comes_back_at_once_lists_what_runs: dying::host_lists(PythonPlain, Script);

    r3_3_a_killed_keeper_costs_a_typescript_host_time_only: dying::keeper_rereads(TypeScript, Npx);
    r3_3_a_killed_keeper_costs_a_python_1_30_host_time_only: dying::keeper_rereads(PythonA, Python);
    r3_3_a_killed_keeper_costs_a_python_2_3_host_time_only: dying::keeper_rereads(PythonPlain, Node);
    r3_3_a_killed_keeper_costs_an_inspector_host_time_only: dying::keeper_rereads(Inspector, Node);

    r4_1_a_killed_keeper_leaves_a_charge_unknown_to_a_typescript_host: dying::keeper_charges_once(TypeScript, Node, 1);
    r4_1_a_killed_keeper_leaves_a_charge_unknown_to_a_python_1_30_host: dying::keeper_charges_once(PythonA, Container, 2);
    r4_1_a_killed_keeper_leaves_a_charge_unknown_to_a_python_2_3_host: dying::keeper_charges_once(PythonPlain, Script, 1);
    r4_1_a_killed_keeper_leaves_a_charge_unknown_to_an_inspector_host: dying::keeper_charges_once(Inspector, Python, 2);

    r3_1_a_read_only_state_folder_for_a_typescript_host: room::read_only(TypeScript, Node);
    r3_1_a_read_only_state_folder_for_a_python_2_3_host: room::read_only(PythonPlain, Python);
    r3_1_a_full_state_folder_for_a_python_1_30_host: room::full(PythonA, Node);
    r3_1_a_full_state_folder_for_an_inspector_host: room::full(Inspector, Node);
    r3_1_a_state_folder_that_fills_up_refuses_and_recovers: room::fills_up(TypeScript, Node);
    r3_1_a_result_that_comes_while_the_disk_is_full_is_not_lost: room::ends_while_full(PythonA, Python);

    r1_2_typescript_and_python_1_30_hosts_share_one_server: together::two_calls(TypeScript, PythonA, Node);
    r1_2_python_2_3_and_inspector_hosts_share_one_server: together::two_calls(PythonPlain, Inspector, Python);
    r5_1_the_same_charge_by_two_hosts_at_once_happens_once: together::one_call(TypeScript, PythonPlain, Node);

    r1_3_a_typescript_host_sees_the_server_itself: look::sees(TypeScript, &[Node, Npx, Script]);
    r1_3_a_python_1_30_host_sees_the_server_itself: look::sees(PythonA, &[Python, Container]);
    r1_3_a_python_2_3_host_sees_the_server_itself: look::sees(PythonPlain, &[Python, Uvx]);
    r1_3_an_inspector_host_sees_the_server_itself: look::sees(Inspector, &[Node]);
    r1_3_every_byte_of_the_server_that_is_not_ours_is_the_same: look::bytes();
    r1_3_environment_folder_and_arguments_reach_the_server: look::surroundings();
    r1_3_what_a_server_says_when_it_cannot_start_reaches_each_host: look::last_words();
}
