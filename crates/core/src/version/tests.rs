use proptest::prelude::*;

use super::*;
use crate::debezium::source::Snapshot;

fn lineage(source: &str) -> Arc<Lineage> {
    Arc::new(Lineage { source: source.into(), database: "d".into() })
}

fn block(position: Position) -> SourceBlock {
    SourceBlock {
        name: "s".to_owned(),
        database: "d".to_owned(),
        namespace: "public".to_owned(),
        table: "t".to_owned(),
        ts_ms: None,
        full_snapshot_form: matches!(position, Position::Postgres { last_commit: None, .. }),
        snapshot: Snapshot::No,
        no_server: false,
        position,
    }
}

fn postgres(last_commit: Option<u64>, lsn: Option<u64>, sequence_lsn: u64) -> SourceBlock {
    block(Position::Postgres { last_commit, lsn, sequence_lsn })
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

fn binlog(file: u64, pos: u64, row: u64) -> SourceBlock {
    block(Position::Binlog { file, pos, row })
}

/// The version as it is shown, and the floor's commit position.
fn give(versioner: &mut Versioner, source: &SourceBlock, snapshot: bool) -> (String, Option<u64>) {
    let (version, floor) = versioner.version(source, &lineage("s"), snapshot, 5).unwrap();
    (version.to_string(), floor.map(|floor| floor.commit))
}

#[test]
fn positions_of_postgresql_become_commit_and_record() {
    let mut versioner = Versioner::default();
    // Streamed: the commit before the transaction, then the record's own lsn.
    assert_eq!(give(&mut versioner, &postgres(Some(100), Some(90), 90), false), ("0/100/1/90".into(), None));
    // Before any commit was seen, its own lsn stands in.
    assert_eq!(give(&mut versioner, &postgres(None, Some(90), 90), false), ("0/90/1/90".into(), None));
    // The lsn of the record, not of the sequence, where both are there.
    assert_eq!(give(&mut versioner, &postgres(Some(100), Some(95), 90), false), ("0/100/1/95".into(), None));
    // Incremental snapshot: no lsn of its own, rank 0.
    assert_eq!(give(&mut versioner, &postgres(Some(100), None, 120), true), ("0/100/0/120".into(), None));
    // Full snapshot: its own position, and the floor.
    assert_eq!(give(&mut versioner, &postgres(None, Some(200), 200), true), ("0/200/0/200".into(), Some(200)));
    // The floor lifts what streams behind it, and nothing that it read.
    assert_eq!(give(&mut versioner, &postgres(Some(150), Some(140), 140), false), ("0/200/1/140".into(), None));
    assert_eq!(give(&mut versioner, &postgres(None, Some(140), 140), false), ("0/200/1/140".into(), None));
    assert_eq!(give(&mut versioner, &postgres(Some(150), None, 160), true), ("0/150/0/160".into(), None));
    assert_eq!(give(&mut versioner, &postgres(Some(300), Some(250), 250), false), ("0/300/1/250".into(), None));
    // Only a later snapshot raises it again.
    assert_eq!(give(&mut versioner, &postgres(None, Some(200), 200), true), ("0/200/0/200".into(), None));
    assert_eq!(give(&mut versioner, &postgres(None, Some(180), 180), true), ("0/180/0/180".into(), None));
    assert_eq!(give(&mut versioner, &postgres(None, Some(220), 220), true), ("0/220/0/220".into(), Some(220)));
}

#[test]
fn positions_of_a_binlog_become_file_and_position_then_row() {
    let mut versioner = Versioner::default();
    let commit = |file: u64, pos: u64| file << 32 | pos;
    let streamed = give(&mut versioner, &binlog(3, 400, 2), false);
    assert_eq!(streamed, (format!("0/{}/1/2", commit(3, 400)), None));
    let read = give(&mut versioner, &binlog(3, 400, 0), true);
    assert_eq!(read, (format!("0/{}/0/0", commit(3, 400)), None), "no floor: a binlog position is exact");
    // A million files on.
    let (before, _) = versioner.version(&binlog(999_999, 880, 0), &lineage("s"), false, 0).unwrap();
    let (after, _) = versioner.version(&binlog(1_000_000, 154, 0), &lineage("s"), false, 1).unwrap();
    assert!(before < after);
}

#[test]
fn at_one_commit_position_a_streamed_change_beats_a_row_read() {
    for record in [0, 1, (1 << RECORD_BITS) - 1] {
        let read = Version::pack(Epoch::FIRST, 7, false, record).unwrap();
        assert!(read < Version::pack(Epoch::FIRST, 7, true, 0).unwrap());
        assert!(read < Version::pack(Epoch::FIRST, 8, false, 0).unwrap());
        assert!(read < Version::pack(epoch(1), 0, false, 0).unwrap());
    }
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    assert!(Version::pack(Epoch::LAST, (1 << 56) - 1, true, (1 << 62) - 1).is_some());
    assert_eq!(Version::pack(Epoch::FIRST, 1 << 56, true, 0), None);
    assert_eq!(Version::pack(Epoch::FIRST, 0, true, 1 << 62), None);
    let mut versioner = Versioner::default();
    let too_large = versioner.version(&postgres(Some(1 << 56), Some(9), 9), &lineage("s"), false, 0).unwrap_err();
    assert_eq!(
        too_large.to_string(),
        "the source position (commit 72057594037927936, record 9) does not fit the version: 56 and 62 bits"
    );
    assert!(versioner.version(&postgres(Some(9), Some(1 << 62), 9), &lineage("s"), false, 0).is_err());
    for (file, pos) in [(1 << 24, 4), (3, 1 << 32)] {
        let too_large = versioner.version(&binlog(file, pos, 0), &lineage("s"), false, 0).unwrap_err();
        assert_eq!(
            too_large.to_string(),
            format!("the binlog position (file {file}, position {pos}) does not fit the version: 24 and 32 bits")
        );
    }
}

#[test]
fn a_refused_snapshot_row_raises_no_floor() {
    let mut versioner = Versioner::default();
    assert!(versioner.version(&postgres(None, Some(1 << 60), 1 << 60), &lineage("s"), true, 0).is_err());
    assert_eq!(give(&mut versioner, &postgres(Some(100), Some(90), 90), false).0, "0/100/1/90");
}

#[test]
fn lineages_do_not_lift_each_other() {
    let mut versioner = Versioner::default();
    let (_, floor) = versioner.version(&postgres(None, Some(9000), 9000), &lineage("other"), true, 3).unwrap();
    assert_eq!(floor, Some(Floor { lineage: lineage("other"), offset: 3, commit: 9000 }));
    assert_eq!(give(&mut versioner, &postgres(Some(100), Some(90), 90), false).0, "0/100/1/90");
}

#[test]
fn a_start_takes_the_greatest_floor_at_or_before_it() {
    let floor = |source, offset, commit| Floor { lineage: lineage(source), offset, commit };
    let recorded = [floor("s", 50, 300), floor("s", 10, 100), floor("s", 30, 200), floor("other", 0, 9000)];
    for (start, least) in [(0, 0), (9, 0), (10, 100), (29, 100), (30, 200), (49, 200), (50, 300), (99, 300)] {
        let mut versioner = Versioner::starting_at(start, &recorded, &[]);
        let (version, _) = give(&mut versioner, &postgres(Some(1), Some(1), 1), false);
        assert_eq!(version, format!("0/{}/1/1", least.max(1)), "start at {start}");
    }
}

#[test]
fn a_record_has_the_epoch_of_its_place_and_floors_do_not_reach_over_a_boundary() {
    let boundary = |offset, number| Boundary { offset, epoch: epoch(number) };
    let mut versioner = Versioner::starting_at(0, &[], &[boundary(3, 1), boundary(5, 7)]);
    let mut at = |offset, source: &SourceBlock, snapshot| {
        let (version, floor) = versioner.version(source, &lineage("s"), snapshot, offset).unwrap();
        (version.to_string(), floor.map(|floor| floor.commit))
    };
    assert_eq!(at(0, &postgres(None, Some(900), 900), true), ("0/900/0/900".into(), Some(900)));
    assert_eq!(at(2, &postgres(Some(100), Some(90), 90), false), ("0/900/1/90".into(), None));
    // A restored database: smaller positions, which are not lifted to the old floor.
    assert_eq!(at(3, &postgres(Some(100), Some(90), 90), false), ("1/100/1/90".into(), None));
    // Its own snapshot sets its own floor, however low.
    assert_eq!(at(4, &postgres(None, Some(200), 200), true), ("1/200/0/200".into(), Some(200)));
    // Offsets that are not in the log are passed: the boundary at 5 holds for 9.
    assert_eq!(at(9, &postgres(Some(10), Some(9), 9), false), ("7/10/1/9".into(), None));
}

/// Any parts that fit, near the borders more often than not.
fn parts() -> impl Strategy<Value = (Epoch, u64, bool, u64)> {
    let near = |bits: u32| prop_oneof![0..4u64, (1u64 << bits) - 4..1 << bits, 0..1u64 << bits];
    ((0..128u64).prop_map(epoch), near(COMMIT_BITS), any::<bool>(), near(RECORD_BITS))
}

proptest! {
    #[test]
    fn versions_compare_as_their_parts_do(a in parts(), b in parts()) {
        let pack = |(epoch, commit, streamed, record)| Version::pack(epoch, commit, streamed, record).unwrap();
        let (left, right) = (pack(a), pack(b));
        prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        // As two signed columns, as one number, and as bytes of one.
        let halves = |v: Version| (v.hi_signed(), v.lo_signed());
        prop_assert_eq!(halves(left).cmp(&halves(right)), a.cmp(&b));
        prop_assert!(left.hi_signed() >= 0 && left.lo_signed() >= 0);
        prop_assert_eq!(u128::from_le_bytes(left.to_le_bytes()), left.as_u128());
    }

    #[test]
    fn packing_loses_nothing((epoch, commit, streamed, record) in parts()) {
        let version = Version::pack(epoch, commit, streamed, record).unwrap();
        prop_assert_eq!(version.to_string(), format!("{epoch}/{commit}/{}/{record}", u8::from(streamed)));
        prop_assert_eq!(Version::from_halves(version.hi(), version.lo()), version);
        prop_assert_eq!(Version::from(version.as_u128()), version);
        prop_assert_eq!(version.with_epoch(Epoch::LAST), Version::pack(Epoch::LAST, commit, streamed, record).unwrap());
    }

    #[test]
    fn recorded_floors_give_the_versions_of_a_full_read(
        log in prop::collection::vec((any::<bool>(), prop::option::of(0..50u64), 0..50u64, 0..2u8), 0..40),
        begins in prop::collection::btree_set(0..40i64, 0..4),
        start in any::<prop::sample::Index>(),
    ) {
        let lineages = [lineage("a"), lineage("b")];
        let boundaries: Vec<_> =
            (1..).zip(begins).map(|(number, offset)| Boundary { offset, epoch: epoch(number) }).collect();
        let mut recorded = Vec::new();
        let read = |versioner: &mut Versioner, from: usize, recorded: &mut Vec<Floor>| -> Vec<Version> {
            let mut versions = Vec::new();
            for (&(snapshot, last_commit, lsn, which), offset) in log.iter().zip(0..).skip(from) {
                let lineage = &lineages[usize::from(which)];
                let source = postgres(last_commit, Some(lsn), lsn);
                let (version, floor) = versioner.version(&source, lineage, snapshot, offset).unwrap();
                versions.push(version);
                recorded.extend(floor);
            }
            versions
        };
        let full = read(&mut Versioner::starting_at(0, &[], &boundaries), 0, &mut recorded);
        let start = start.index(log.len() + 1);
        let mut later = Versioner::starting_at(Offset::try_from(start).unwrap(), &recorded, &boundaries);
        prop_assert_eq!(read(&mut later, start, &mut Vec::new()), &full[start..]);
    }
}
