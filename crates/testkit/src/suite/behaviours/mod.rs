//! The behaviours, by what they are about. Each is an async function of a stand that panics with what was expected.

mod dead_letters;
mod deletes;
mod ghosts;
mod histories;
mod instances;
mod key_changes;
mod mismatches;
mod names;
mod outcomes;
mod places;
mod races;
mod sizes;
mod truncates;
mod unsent;
mod versions;

use super::behaviour::Behaviour;
use super::stand::Need::{Atomic, HardDeletes, NameLimit, UniqueIndexes, Versioned, Wire};

/// Behaviours of one module, each with what it needs.
macro_rules! behaviours {
    ($($module:ident { $($name:ident $([$($need:ident),+])?;)+ })+) => {
        /// All of them.
        pub(super) const ALL: &[Behaviour] = &[$($(
            Behaviour {
                name: stringify!($name),
                needs: &[$($($need),+)?],
                check: |stand| Box::pin($module::$name(stand)),
            },
        )+)+];
    };
}

behaviours! {
    versions {
        a_replay_changes_nothing;
        an_older_change_changes_nothing;
        an_equal_change_changes_nothing;
        equal_versions_with_other_content_are_refused_in_one_batch;
        of_equal_versions_the_first_stays [Atomic];
        versions_are_compared_in_all_their_bits;
        rows_that_are_read_again_stand_at_their_place;
    }
    deletes {
        a_row_that_comes_and_goes_ends_alike_in_every_cut;
        a_row_that_comes_again_has_nothing_of_the_one_before;
        a_late_older_change_does_not_resurrect;
        a_delete_of_a_row_never_seen_keeps_older_changes_out;
        a_changed_way_to_delete_brings_nothing_back [HardDeletes];
    }
    key_changes {
        the_halves_of_a_key_change_come_in_either_order;
        keys_can_be_swapped;
        rows_that_take_each_others_keys_keep_their_own_values;
    }
    truncates {
        a_truncate_removes_what_stood_before_it_in_any_order;
        rows_that_a_snapshot_lifted_do_not_survive_a_truncate;
        a_truncate_that_a_snapshot_lifted_wipes_nothing_behind_it;
        a_truncate_of_a_table_that_is_made_later_holds;
        a_truncate_by_another_instance_holds_for_the_next_batch;
        a_truncate_that_everything_has_passed_is_finished;
    }
    ghosts {
        ghosts_are_swept_and_stay_away;
        ghosts_are_swept_only_where_all_was_seen;
        what_comes_first_behind_a_sweep_brings_no_ghost;
    }
    unsent {
        a_value_that_was_not_sent_is_kept_in_every_cut;
        batches_made_ahead_keep_what_those_before_them_wrote;
        without_a_stored_value_the_run_stops;
        a_change_that_is_stale_needs_no_value;
        null_is_a_value_that_is_kept;
        a_key_change_keeps_what_was_not_sent;
        a_key_change_without_its_other_half_stops_the_run;
        a_value_of_the_next_row_under_the_old_key_is_not_taken;
        records_that_come_again_with_newer_ones_stand_on_what_was_made_of_them;
        an_insert_without_a_value_is_refused;
        long_values_that_were_not_sent_are_kept;
    }
    dead_letters {
        poison_among_many_rows_is_found_and_its_neighbours_are_applied;
        a_value_that_does_not_fit_is_set_aside;
        the_last_good_change_of_a_row_is_applied;
        what_was_not_sent_behind_a_dead_letter_follows_it;
        what_was_not_sent_behind_a_record_that_cannot_be_read_follows_it;
        a_key_change_into_poison_leaves_the_rest_right;
    }
    outcomes {
        a_batch_whose_proof_was_lost_is_applied_again_without_effect;
        a_lost_reply_leaves_the_effect_unknown [Wire];
        a_destination_that_refuses_for_now_loses_nothing;
        a_batch_that_fails_leaves_nothing [Atomic];
        a_batch_that_failed_in_part_is_made_whole;
    }
    instances {
        a_zombie_is_fenced [Atomic];
        a_zombie_changes_nothing [Versioned];
        a_zombie_brings_back_no_row_whose_delete_is_forgotten [Atomic, HardDeletes];
        a_zombie_that_takes_a_batch_apart_is_fenced [Atomic];
        only_partitions_that_were_taken_are_fenced [Atomic];
        two_groups_write_one_destination;
    }
    races {
        instances_that_start_together_share_everything;
        a_race_with_a_successor_ends_right;
        rows_and_a_truncate_at_once_end_alike;
        two_groups_at_once_bring_nothing_back;
    }
    places {
        a_run_that_is_stopped_behind_any_batch_goes_on;
        a_run_that_is_killed_begins_anew_where_it_was_committed;
        a_start_behind_a_snapshot_gives_the_versions_of_a_run_that_read_it;
        that_a_group_has_offsets_is_remembered;
        an_offset_moves_with_its_batch_and_never_back;
        a_destination_restored_from_a_backup_is_mended_by_a_replay;
        a_table_that_another_source_fills_is_refused;
    }
    names {
        hostile_names_are_names;
        the_longest_name_is_a_name;
        a_name_that_is_too_long_is_refused [NameLimit];
        keys_of_any_text_stay_apart;
    }
    mismatches {
        a_table_without_versions_is_refused_and_its_rows_stay;
        a_table_with_another_key_is_refused;
        a_second_unique_index_is_refused [UniqueIndexes];
        a_view_is_refused;
        a_missing_column_is_refused_where_it_may_not_be_added;
        a_table_that_is_all_key_gets_no_column_that_may_not_be_added;
        a_missing_column_is_added;
        a_column_of_another_kind_stores_nothing_else;
    }
    sizes {
        a_row_of_8_mib_is_a_row;
        a_batch_may_be_of_one_record;
        a_batch_may_be_of_as_many_rows_as_the_limit_allows;
        a_batch_may_be_of_one_hot_row;
        a_batch_may_be_of_as_many_bytes_as_the_limit_allows;
        a_batch_may_be_of_deletes_alone;
    }
    histories {
        random_histories_end_as_the_source;
    }
}

/// Every way to cut `length` records into batches.
fn every_cut(length: usize) -> Vec<Vec<Vec<usize>>> {
    let cut = |borders: usize| {
        let mut batches = vec![Vec::new()];
        for at in 0..length {
            if at > 0 && borders >> (at - 1) & 1 == 1 {
                batches.push(Vec::new());
            }
            if let Some(batch) = batches.last_mut() {
                batch.push(at);
            }
        }
        batches
    };
    (0..1 << (length - 1)).map(cut).collect()
}
