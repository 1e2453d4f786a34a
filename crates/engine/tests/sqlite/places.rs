//! What the destination records of the log's places, and whom it refuses.

use serde_json::json;
use settle_core::position::Partition;
use settle_core::sink::{FailureKind, Outcome};

use crate::database::{Database, apply, apply_all, placed, target, with_rule};
use crate::log::{Log, batch, batches};

#[test]
fn floors_are_recorded_with_their_rows_and_given_back_for_their_partition() {
    let mut log = Log::of("t");
    log.snapshot(0, 100, &json!({"id": 1, "v": "a"}));
    log.snapshot(1, 100, &json!({"id": 2, "v": "b"}));
    log.add(0, "c", 150, &json!({"id": 3, "v": "c"}), &[]);
    log.snapshot(0, 200, &json!({"id": 1, "v": "d"}));
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    let (_, places) = database.open(target(), &log.records).unwrap();
    let first = placed(Partition::new("s.public.t", 0));
    let floors: Vec<_> = places.floors.iter().map(|(p, f)| (p.partition.number, f.offset, f.commit)).collect();
    assert_eq!(floors, [(0, 0, 100), (0, 2, 200), (1, 0, 100)]);
    assert_eq!(places.floors[0].0, first);
    assert_eq!(places.floors[0].1.lineage.to_string(), "s/shop");
    let (_, places) = database.open(target(), &log.records[1..2]).unwrap();
    assert_eq!(places.floors.len(), 1, "of the partitions asked for");
    let (_, places) = database.open(target(), &Log::from("u", &[("c", 1, json!({"id": 1}))]).records).unwrap();
    assert_eq!(places.floors, [], "of the topic asked for");
}

#[test]
fn a_groups_positions_move_with_its_rows_and_never_back() {
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"})), ("c", 20, json!({"id": 2, "v": "bad"}))]);
    let database = Database::new();
    database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT CHECK (v <> 'bad'))");
    let (mut sink, places) = database.open(target(), &log.records).unwrap();
    assert_eq!(places.applied, []);
    apply(&mut sink, &batch(&log.records[..1])).unwrap();
    apply(&mut sink, &batch(&log.records[1..])).unwrap_err();
    let known =
        |places: settle_core::sink::Places| places.applied.into_iter().map(|(_, next)| next).collect::<Vec<_>>();
    let (mut sink, places) = database.open(target(), &log.records).unwrap();
    assert_eq!(known(places), [1], "the refused batch moved nothing");
    database.run("UPDATE settle_positions SET next_offset = 7");
    apply(&mut sink, &batch(&log.records[..1])).unwrap();
    assert_eq!(known(database.open(target(), &log.records).unwrap().1), [7]);
    database.run("UPDATE settle_positions SET consumer_group = 'another'");
    assert!(known(database.open(target(), &log.records).unwrap().1).is_empty());
}

/// A transaction that was open while the snapshot was read: streamed behind it with a lower lsn.
#[test]
fn a_run_that_starts_behind_the_snapshot_gives_the_versions_of_one_that_read_it() {
    let mut log = Log::of("t");
    log.snapshot(0, 1000, &json!({"id": 1, "v": "read"}));
    log.add(0, "u", 950, &json!({"id": 1, "v": "streamed"}), &[]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records[..1], 1);
    // Without the floor the update would be older than the row.
    assert_eq!(apply_all(&database, &target(), &log.records[1..], 1), Outcome { applied: 1, stale: 0 });
    let naive = Database::new();
    apply_all(&naive, &target(), &log.records[..1], 1);
    let mut sink = naive.sink(target(), &log.records);
    let unaware = &batches(&log.records[1..], 1, &[])[0];
    assert_eq!(apply(&mut sink, unaware).unwrap(), Outcome { applied: 0, stale: 1 });
}

#[test]
fn a_database_of_another_version_scheme_is_refused() {
    let database = Database::new();
    let log = Log::from("t", &[("c", 1, json!({"id": 1}))]);
    database.sink(target(), &log.records);
    database.run("UPDATE settle_meta SET detail = 'kafka-offset/1' WHERE kind = 'scheme'");
    let error = database.open(target(), &log.records).map(|_| ()).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert_eq!(
        error.to_string(),
        "read settle_meta: the versions in this database are of scheme \"kafka-offset/1\", this program's are of \
         \"commit-position/1\" and do not compare with them; use the program that wrote it, or a new database file"
    );
}

#[test]
fn a_table_that_another_source_fills_is_refused() {
    let log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"}))]);
    let database = Database::new();
    apply_all(&database, &target(), &log.records, 1);
    // Another server.
    let mut foreign = Log::of("t");
    foreign.server = "other".into();
    foreign.add(0, "c", 5, &json!({"id": 1, "v": "b"}), &[]);
    let mut sink = database.sink(target(), &foreign.records);
    let error = apply(&mut sink, &batch(&foreign.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert_eq!(
        error.to_string(),
        "write public.t of other/shop: public.t of other/shop would be written to table t, which is filled from \
         public.t of s/shop: positions of two servers do not compare; give it another name, in a pipeline of its own: \
         [tables.\"public.t\"] name = \"…\""
    );
    // Another table, whose target has the same name but for the case of its letters.
    let other = Log::from("u", &[("c", 10, json!({"id": 1, "v": "a"}))]);
    let rule = settle_engine::config::target::TableRule { name: Some("T".into()), ..Default::default() };
    let mut sink = database.sink(with_rule("u", rule), &other.records);
    assert_eq!(apply(&mut sink, &batch(&other.records)).unwrap_err().kind, FailureKind::Contract);
    // A truncate of another table.
    let mut truncate = Log::of("t");
    truncate.server = "other".into();
    truncate.truncate(0, 99);
    let mut sink = database.sink(target(), &truncate.records);
    assert_eq!(apply(&mut sink, &batch(&truncate.records)).unwrap_err().kind, FailureKind::Contract);
    assert_eq!(database.count("t"), 1);
}

#[test]
fn two_servers_in_one_batch_are_told_apart() {
    let mut log = Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"}))]);
    log.server = "other".into();
    log.add(1, "c", 5, &json!({"id": 2, "v": "b"}), &[]);
    let database = Database::new();
    let mut sink = database.sink(target(), &log.records);
    let error = apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(
        error.context.starts_with("record s.public.t:1:0: public.t of other/shop would be written to table t"),
        "{error}"
    );
}

#[test]
fn places_that_cannot_be_a_database_are_refused() {
    let database = Database::new();
    let log = Log::from("t", &[("c", 1, json!({"id": 1}))]);
    std::fs::write(database.path(), "no database, but long enough to be looked at").unwrap();
    let error = database.open(target(), &log.records).map(|_| ()).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(
        error.to_string().ends_with("the file is not a SQLite database; name another file in [sink] path"),
        "{error}"
    );
}
