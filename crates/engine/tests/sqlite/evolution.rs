//! Columns that appear, vanish and change in the middle of a topic.

use serde_json::json;
use settle_core::sink::FailureKind;
use settle_engine::config::target::{Evolution, Target};

use crate::database::{Database, apply, apply_all, row, target};
use crate::log::{Log, batch, every_cut};

fn log() -> Log {
    Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "a": "x"})),
            ("c", 20, json!({"id": 2, "a": "y", "loyalty": null})),
            ("c", 30, json!({"id": 3, "a": "z", "loyalty": 5})),
            ("u", 40, json!({"id": 1, "loyalty": 7})),
        ],
    )
}

#[test]
fn a_new_column_is_added_once_it_has_a_value() {
    for size in [1, 2, 4] {
        let database = Database::new();
        apply_all(&database, &target(), &log().records, size);
        let rows = database.rows("t");
        let loyalty: Vec<_> = rows.iter().map(|row| row["loyalty"].as_deref()).collect();
        assert_eq!(loyalty, [Some("7"), None, Some("5")]);
        let a: Vec<_> = rows.iter().map(|row| row["a"].as_deref()).collect();
        assert_eq!(a, [Some("x"), Some("y"), Some("z")], "batches of {size}");
    }
    let database = Database::new();
    apply_all(&database, &target(), &log().records[..2], 1);
    assert!(!database.rows("t")[0].contains_key("loyalty"), "only NULL so far");
}

#[test]
fn a_column_that_vanishes_keeps_what_is_stored() {
    let database = Database::new();
    apply_all(&database, &target(), &log().records, 1);
    assert_eq!(database.rows("t")[0], row(&[("id", "1"), ("a", "x"), ("loyalty", "7")]));
}

#[test]
fn a_column_that_a_record_leaves_out_keeps_its_value_in_every_cut() {
    // The handed cases B56 and B68: what a snapshot row has and the changes behind it do not.
    let mut log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "a": "first life", "b": "first life"})),
            ("d", 20, json!({"id": 1})),
            ("c", 30, json!({"id": 1, "a": "x", "c": 1})),
            ("u", 40, json!({"c": 2, "id": 1})),
            ("u", 50, json!({"id": 1, "a": "y", "b": "__debezium_unavailable_value"})),
            ("u", 60, json!({"id": 1, "c": 3})),
        ],
    );
    // The second life begins without `b`, so a mask of it has nothing behind it; give it a value.
    log.add(0, "u", 35, &json!({"id": 1, "b": "second life"}), &[]);
    let masked = log.records.remove(4);
    let given = log.records.pop().unwrap();
    log.records.insert(3, given);
    log.records.insert(5, masked);
    for (offset, record) in (0..).zip(&mut log.records) {
        record.offset = offset;
    }
    for evolution in [Evolution::Add, Evolution::Refuse] {
        for cut in every_cut(&log.records) {
            let database = Database::new();
            let sizes: Vec<usize> = cut.iter().map(|batch| usize::try_from(batch.tally().read).unwrap()).collect();
            if evolution == Evolution::Refuse && sizes.len() > 1 {
                continue; // another batch may bring a column that the first had not
            }
            let mut sink = database.sink(Target { evolution, ..target() }, &log.records);
            for batch in &cut {
                apply(&mut sink, batch).unwrap();
            }
            let rows = database.rows("t");
            let wanted = row(&[("id", "1"), ("a", "y"), ("b", "second life"), ("c", "3")]);
            assert_eq!(rows, [wanted], "{evolution:?}, batches of {sizes:?}");
        }
    }
}

#[test]
fn a_new_column_may_be_refused_with_the_sql_to_run() {
    let database = Database::new();
    let target = Target { evolution: Evolution::Refuse, ..target() };
    apply_all(&database, &target, &log().records[..2], 1);
    let mut sink = database.sink(target, &log().records);
    let error = apply(&mut sink, &batch(&log().records[2..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert_eq!(
        error.to_string(),
        "write to \"t\": record s.public.t:0:2 carries a column \"loyalty\" that the table lacks; run ALTER TABLE \"t\" \
         ADD COLUMN \"loyalty\" INTEGER, or set [sink] evolution"
    );
}

#[test]
fn a_new_column_may_be_left_out() {
    let database = Database::new();
    let target = Target { evolution: Evolution::Ignore, ..target() };
    apply_all(&database, &target, &log().records, 1);
    assert_eq!(database.rows("t")[2], row(&[("id", "3"), ("a", "z")]));
}

#[test]
fn a_column_that_was_only_null_when_the_table_was_made_is_there_where_none_is_added_later() {
    for evolution in [Evolution::Refuse, Evolution::Ignore] {
        let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": null})), ("u", 20, json!({"id": 1, "v": 7}))]);
        let database = Database::new();
        apply_all(&database, &Target { evolution, ..target() }, &log.records, 1);
        assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "7")])]);
    }
}

#[test]
fn a_table_made_for_a_delete_gets_the_columns_of_its_first_row() {
    for evolution in [Evolution::Add, Evolution::Refuse, Evolution::Ignore] {
        let log = Log::from("t", &[("d", 10, json!({"id": 1})), ("c", 20, json!({"id": 2, "a": "x", "b": 1}))]);
        let database = Database::new();
        apply_all(&database, &Target { evolution, ..target() }, &log.records, 1);
        assert_eq!(database.rows("t"), [row(&[("id", "2"), ("a", "x"), ("b", "1")])], "{evolution:?}");
    }
}

#[test]
fn a_column_added_in_a_batch_that_fails_is_gone_and_comes_again() {
    let mut log = log();
    log.add(0, "c", 50, &json!({"id": 4, "a": "bad", "loyalty": "no number"}), &[]);
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    apply(&mut sink, &batch(&log.records[..2])).unwrap();
    let error = apply(&mut sink, &batch(&log.records[2..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Row, "{error}");
    assert!(!database.rows("t")[0].contains_key("loyalty"));
    apply(&mut sink, &batch(&log.records[2..4])).unwrap();
    assert_eq!(database.rows("t")[2]["loyalty"].as_deref(), Some("5"));
}
