//! The tests that every store must pass, so that the twins cannot drift apart (INV-50).
//!
//! A twin says how to make and reopen one of its stores by a [`Factory`], and [`conformance!`](crate::conformance!)
//! turns all of them into its tests. What each checks is in its name, led by the row.
//!
//! - [`sample`]: records to play with, moved along by the core's own decisions

pub mod append;
pub mod close;
pub mod create;
pub mod fetched;
pub mod frame;
pub mod join;
pub mod keys;
pub mod ledger;
pub mod list;
pub mod purge;
pub mod sample;
pub mod session;
pub mod unfinished;

use async_trait::async_trait;

use crate::Store;

/// Makes stores of one kind.
#[async_trait]
pub trait Factory: Send + Sync {
    /// The kind.
    type Store: Store;

    /// A new and empty one, apart from all others.
    async fn fresh(&self) -> Self::Store;

    /// Closes `store`, and opens what it kept as after a restart.
    async fn reopen(&self, store: Self::Store) -> Self::Store;

    /// Opens what `store` keeps while that is open, as another process would.
    ///
    /// # Errors
    /// [`Error::InUse`](crate::Error::InUse), where the store lets in nobody else.
    async fn rival(&self, store: &Self::Store) -> Result<Self::Store, crate::Error>;
}

/// Makes one test of each that there is: `conformance!(MyFactory::new());`. The crate needs tokio with macros.
#[macro_export]
macro_rules! conformance {
    ($factory:expr) => {
        $crate::conformance! { $factory;
            create {
                inv_01_a_created_record_is_read_back_as_it_was_given
                inv_04_a_record_begins_at_version_1
                inv_16_an_id_is_never_used_twice
                inv_25_a_foreign_id_looks_like_an_unknown_one
            }
            join {
                r4_6_a_key_joins_whether_finished_or_not
                r4_6_a_key_with_another_request_is_refused
                r4_6_a_key_counts_within_principal_server_and_tool
                inv_16_of_many_at_once_under_one_key_one_is_new
                design_3_the_same_unkeyed_call_joins_while_it_is_unfinished_or_unknown
                design_3_the_same_unkeyed_call_joins_within_principal_server_tool_and_digest_only
                design_3_an_unkeyed_call_joins_no_keyed_one
                design_3_of_several_the_first_made_is_joined
                design_3_a_purged_task_is_not_joined
                design_3_an_effect_that_was_found_out_after_a_lost_answer_is_joined
                design_3_a_call_after_a_tool_s_own_error_is_a_new_one
                design_3_a_result_that_nobody_fetched_is_joined
            }
            keys {
                r4_6_a_key_is_given_free_when_it_is_certain_that_nothing_was_done
                r4_6_no_other_operation_gives_its_key_free
                r4_6_a_read_keeps_its_key_as_long_as_its_answer
                r4_6_a_business_key_is_given_free_for_everybody
                inv_16_of_many_at_once_under_a_key_given_free_one_is_new
                r3_3_a_frame_still_leads_to_a_call_that_gave_its_key_free
                design_7_a_key_given_free_stays_so_when_its_object_is_busy
                r4_6_two_effects_under_one_key_are_never_passed_over
                r4_6_a_word_said_again_takes_no_key_from_another
                r4_8_an_operation_that_gave_its_key_free_goes_without_it
            }
            frame {
                r3_3_a_frame_that_comes_again_is_the_call_that_it_was
                r3_3_a_frame_is_looked_at_before_a_key
                r3_3_another_frame_is_another_call
                inv_16_of_many_at_once_by_one_frame_one_is_new
                r4_8_a_frame_whose_task_was_purged_is_not_carried_out_again
            }
            fetched {
                design_3_the_first_fetch_counts
                r6_1_a_fetch_of_what_is_unknown_or_foreign_changes_nothing
                design_3_what_runs_and_what_nobody_fetched_is_counted
                inv_50_every_store_joins_what_the_record_says
            }
            append {
                inv_04_versions_follow_without_a_gap
                inv_15_a_stale_append_changes_nothing
                inv_25_an_append_by_a_stranger_finds_nothing
                inv_03_a_task_that_is_over_stays_as_it_is
                inv_06_the_log_has_one_terminal_event
                r4_7_an_outcome_may_come_after_the_end
                design_7_a_confirmed_outcome_stays
                r6_5_questions_are_kept_with_their_phase
                inv_20_a_question_never_goes_back
                r4_5_every_step_of_an_operation_is_kept
                r3_5_what_was_seen_upstream_is_kept
                r3_6_what_was_fixed_at_creation_stays
            }
            list {
                a_080_pages_neither_repeat_nor_skip
                r5_5_a_list_and_a_walk_hold_no_payloads
                a_082_equal_times_are_told_apart_by_id
                r6_1_a_list_shows_one_principal_and_one_server
                design_4_a_list_shows_one_principal_or_everyone
            }
            unfinished {
                r5_3_recovery_finds_what_is_not_finished_and_nothing_else
                r5_3_recovery_reads_page_by_page_in_the_order_of_ids
            }
            purge {
                inv_30_nothing_goes_before_it_expires
                inv_30_an_open_operation_keeps_its_task
                inv_30_an_operation_that_is_asked_after_keeps_its_task
                inv_30_a_late_duplicate_after_a_purge_is_not_carried_out
                inv_30_the_first_expired_go_first_and_the_limit_holds
                inv_30_the_ids_of_a_purged_task_stay_used
                r4_8_an_unknown_outcome_does_not_keep_the_task
            }
            ledger {
                r4_1_an_operation_is_read_with_all_that_is_recorded
                r4_1_a_history_says_what_happened_and_by_what_evidence
                r4_7_operations_are_listed_by_what_is_known_of_them
                r4_8_an_operation_is_settled_after_its_task_is_gone
                r4_8_old_evidence_goes_and_what_is_open_stays
                r4_6_a_business_key_counts_for_all_principals
                r4_6_a_workflow_bounds_a_key
                design_7_a_second_open_operation_on_an_object_is_refused
                design_7_operations_on_an_object_wait_for_one_another
                design_7_what_is_assumed_keeps_its_object
                r4_6_what_a_workflow_s_name_leads_to_is_known
            }
            session {
                x_048_a_session_is_kept_and_replaced
                x_048_an_ended_session_is_gone
                x_048_unseen_sessions_expire
                x_048_the_longest_unseen_go_above_the_limit
            }
            close {
                inv_01_everything_survives_a_restart
                g_013_the_secret_survives_a_restart
                inv_40_a_closed_store_takes_no_commands
                inv_15_a_store_has_one_owner
            }
        }
    };
    ($factory:expr; $($module:ident { $($name:ident)+ })+) => {
        $(mod $module {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[tokio::test]
                async fn $name() {
                    $crate::conformance::$module::$name(&$factory).await;
                }
            )+
        })+
    };
}
