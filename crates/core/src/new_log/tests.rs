//! Made-up logs, as a lane reads them.

use super::*;
use crate::epoch::{Boundary, Epoch};
use crate::lane::{Lane, LoneTombstones, Past};
use crate::position::{Partition, TopicId};
use crate::refusal::{Class, Reason};
use crate::sample::{Placed, Sample, mariadb, postgres, tombstone};
use crate::standing::Standing;

/// A change at this commit position and time.
fn change(commit: u64, time_ms: i64) -> Sample {
    postgres("u", (Some(commit), commit + 1), Some(commit + 1)).time(time_ms)
}

fn lane() -> Lane {
    Lane::new(Partition::new("t", 0), 0, &[], LoneTombstones::Refuse)
}

fn new_log(refusal: &crate::refusal::Refusal) -> NewLog {
    match &refusal.reason {
        Reason::NewLog(new_log) => (**new_log).clone(),
        other => panic!("{other}"),
    }
}

/// Feeds a log from offset 0 and gives the first refusal with the offset that it names.
fn read(log: &[Sample]) -> Result<(), (Offset, Why)> {
    let mut lane = lane();
    for (sample, offset) in log.iter().zip(0..) {
        if let Err(refusal) = lane.feed(sample.clone().at(0, offset)) {
            assert_eq!(refusal.place.offset, offset);
            assert_eq!(refusal.reason.class(), Class::Contract);
            let new_log = new_log(&refusal);
            return Err((new_log.begins.offset, new_log.why));
        }
    }
    Ok(())
}

fn later(time_ms: i64, greatest_ms: i64) -> Why {
    Why::Later { time_ms, greatest_ms }
}

#[test]
fn a_smaller_position_with_a_later_time_is_a_new_log() {
    let log = [change(900, 10), change(950, 12), change(40, 13)];
    assert_eq!(read(&log), Err((2, later(13, 12))));
    let binlog = [mariadb("u", 910, 700, 0).time(10), mariadb("u", 2, 320, 0).time(60)];
    assert_eq!(read(&binlog), Err((1, later(60, 10))));
    // A full snapshot of the restored database decides as well.
    assert_eq!(read(&[change(900, 10), postgres("r", (None, 50), Some(50)).time(11)]), Err((1, later(11, 10))));
    // So does a truncate.
    let truncate = postgres("t", (Some(50), 51), Some(51)).time(11).key(None).row("null");
    assert_eq!(read(&[change(900, 10), truncate]), Err((1, later(11, 10))));
}

#[test]
fn the_stop_says_what_happened_and_what_to_do() {
    let mut lane = lane();
    lane.feed(change(97_530_999_992, 1_767_225_600_000).at(0, 0)).unwrap();
    let refused = lane.feed(change(39_999_992, 1_767_312_000_000).at(0, 1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "record t:0:1: the log of s/d began anew: commit position 0/26259F8 lies below 16/B54CF4B8, which was read before, \
         and its time (1767312000000 ms) is later than any before (1767225600000 ms); a restored database, RESET MASTER, or \
         another server under the same name looks like this, and its changes would all be stale. Nothing of it is applied. \
         If it is one, stop all instances and let a new epoch begin with it: settle epoch bump t:0:1"
    );
    let mut lane = self::lane();
    lane.feed(mariadb("u", 910, 700, 0).at(0, 0)).unwrap();
    let refused = lane.feed(mariadb("u", 2, 320, 0).time(8).at(0, 1)).unwrap_err().to_string();
    assert!(refused.contains("commit position file 2 position 320 lies below file 910 position 700"), "{refused}");
}

#[test]
fn records_that_are_sent_again_are_none() {
    // A long stretch, once more from its beginning, and then on.
    let first: Vec<Sample> = (0..50).map(|n| change(100 + n, n.cast_signed())).collect();
    let again = [&first[..], &first[10..], &[change(150, 50), change(151, 51)]].concat();
    assert_eq!(read(&again), Ok(()));
    // A connector that crashes over and over before it gets to the end.
    let loops: Vec<Sample> = first.iter().cloned().chain((0..9).flat_map(|_| first[3..48].to_vec())).collect();
    assert_eq!(read(&loops), Ok(()));
    let whole: Vec<Sample> = (0..5).flat_map(|_| first.clone()).collect();
    assert_eq!(read(&whole), Ok(()), "everything, five times");
}

#[test]
fn a_connector_that_lost_its_offsets_twice_begins_twice() {
    let first = |lsn| postgres("u", (None, lsn), Some(lsn)).time(5);
    let behind = |lsn| postgres("u", (Some(100), lsn), Some(lsn)).time(5);
    // The same three changes: those of its first transaction, behind another one, and the first again.
    let log = [110, 120, 130].map(first).into_iter().chain([110, 120, 130].map(behind)).chain([110, 120].map(first));
    assert_eq!(read(&log.collect::<Vec<_>>()), Ok(()));
}

#[test]
fn more_records_than_could_be_sent_again_are_a_new_log() {
    // A clock that is behind: no time tells it.
    let mut log: Vec<Sample> = (0..5).map(|n| change(1000 + n, 500)).collect();
    log.extend((0..5).map(|n| change(10 + n, 100)));
    assert_eq!(read(&log), Ok(()), "five before it, five in it");
    log.push(change(15, 100));
    assert_eq!(read(&log), Err((5, Why::Longer { count: 6, since: 5 })));
    let mut lane = lane();
    let refused = log.iter().zip(0..).find_map(|(sample, at)| lane.feed(sample.clone().at(0, at)).err()).unwrap();
    assert!(
        refused.to_string().contains("6 records below it came since offset 5, more than could be sent again"),
        "{refused}"
    );
    // The new log's own connector was killed: it still begins where it began.
    let mut log: Vec<Sample> = (0..5).map(|n| change(1000 + n, 500)).collect();
    log.extend([change(10, 100), change(11, 100), change(10, 100)]);
    log.extend((0..7).map(|n| change(11 + n, 100)));
    assert_eq!(read(&log), Err((5, Why::Longer { count: 8, since: 7 })));
}

#[test]
fn times_that_go_back_decide_nothing() {
    // MariaDB: whole seconds at statement start, SET timestamp, a clock that was set back.
    let times = [9_000, 3_000, 3_000, 99_000, 0, -5_000, 4_000];
    let log: Vec<Sample> = (0..).zip(times).map(|(n, time)| mariadb("u", 1, 400 + n, 0).time(time)).collect();
    assert_eq!(read(&log), Ok(()));
    let mut again = log.clone();
    again.extend_from_slice(&log[2..]);
    assert_eq!(read(&again), Ok(()), "sent again with the times that they had");
}

#[test]
fn rows_of_an_incremental_snapshot_decide_nothing() {
    // Resumed behind streamed changes: chunks below P, with the wall clock.
    let chunk = |commit: u64, time| postgres("r", (Some(commit), commit + 1), None).snapshot("incremental").time(time);
    let binlog_chunk = |pos, time| mariadb("r", 1, pos, 0).snapshot("incremental").time(time);
    let log = [change(900, 10), chunk(500, 9_000), chunk(501, 9_001), change(901, 11), change(900, 10)];
    assert_eq!(read(&log), Ok(()), "nor do they raise T");
    let binlog = |time| mariadb("u", 1, 900, 0).time(time);
    assert_eq!(read(&[binlog(10), binlog_chunk(500, 9_000), mariadb("u", 1, 950, 0).time(11)]), Ok(()));
    let full = |pos, time| mariadb("r", 1, pos, 0).snapshot("first").time(time);
    assert_eq!(read(&[binlog(10), full(500, 9_000)]), Ok(()), "a binlog's snapshot row may be newer than its position");
}

#[test]
fn a_transaction_that_was_open_across_a_snapshot_is_none() {
    let snapshot = postgres("r", (None, 1000), Some(1000)).snapshot("first").time(50);
    // It was open before, and committed after the snapshot: its commit before lies below.
    let open = postgres("u", (Some(700), 710), Some(710)).time(60).run("a");
    assert_eq!(read(&[change(600, 10).run("a"), snapshot.run("a"), open, change(1200, 61).run("a")]), Ok(()));
}

#[test]
fn going_back_inside_one_run_is_a_new_log_at_once() {
    let log = [change(900, 10).run("a"), change(950, 12).run("a"), change(900, 10).run("a")];
    assert_eq!(read(&log), Err((2, Why::SameRun)), "however old it says to be");
    // Another run sends again, and goes on inside the stretch.
    let again = [
        change(900, 10).run("a"),
        change(950, 12).run("a"),
        change(990, 13).run("a"),
        change(900, 10).run("b"),
        change(950, 12).run("b"),
        change(990, 13).run("b"),
    ];
    assert_eq!(read(&again), Ok(()));
    let back = [&again[..5], &[change(900, 10).run("b")]].concat();
    assert_eq!(read(&back), Err((3, Why::SameRun)));
    // A binlog's positions may: MariaDB's snapshots.
    let binlog = [mariadb("u", 2, 900, 0).run("a"), mariadb("u", 2, 800, 0).run("a")];
    assert_eq!(read(&binlog), Ok(()));
}

#[test]
fn lineages_and_controls_do_not_disturb_each_other() {
    let log = [change(900, 10), change(40, 50).server("other"), change(950, 11), change(45, 60).server("other")];
    assert_eq!(read(&log), Ok(()));
    let log = [change(900, 10), change(40, 50).server("other"), change(30, 60)];
    assert_eq!(read(&log), Err((2, later(60, 10))));
    let mut lane = lane();
    lane.feed(postgres("d", (Some(900), 901), Some(901)).time(10).at(0, 0)).unwrap();
    lane.feed(tombstone(1).at(0, 1)).unwrap();
    assert!(lane.feed(change(40, 50).at(0, 2)).is_err());
}

#[test]
fn a_record_without_a_time_is_told_by_the_number_alone() {
    let timeless = |commit| change(commit, 0).without_time();
    assert_eq!(read(&[timeless(900), timeless(40)]), Ok(()));
    assert_eq!(read(&[timeless(900), timeless(40), timeless(41)]), Err((1, Why::Longer { count: 2, since: 1 })));
    assert_eq!(read(&[change(900, 10), timeless(40)]), Ok(()));
}

#[test]
fn tables_of_one_topic_share_their_log() {
    let log = [change(900, 10).table("a"), change(901, 10).table("b"), change(902, 11).table("a")];
    assert_eq!(read(&log), Ok(()));
    assert_eq!(read(&[change(900, 10).table("a"), change(40, 11).table("b")]), Err((1, later(11, 10))));
}

#[test]
fn a_boundary_begins_anew() {
    let boundaries = [Boundary { offset: 2, epoch: Epoch::new(1).unwrap() }];
    let past = Past { boundaries: &boundaries, ..Past::default() };
    let mut lane = Lane::behind(Partition::new("t", 0), 0, past, LoneTombstones::Refuse);
    for (offset, sample) in (0..).zip([change(900, 10), change(950, 12), change(40, 13), change(50, 14)]) {
        lane.feed(sample.at(0, offset)).unwrap();
    }
    assert_eq!(lane.passed(&Lineage { source: "s".into(), database: "d".into() }), Some(50));
    let refused = lane.feed(change(30, 15).at(0, 4)).unwrap_err();
    assert_eq!(new_log(&refused).begins.offset, 4, "restored once more");
    // A start at the boundary: what was known before it is not held against what is behind.
    let marks = lane_at(&[change(900, 10), change(950, 12)]).standing(TopicId::of_first_line("t", b""), 2, 1).marks;
    let past = Past { boundaries: &boundaries, marks: &marks, ..Past::default() };
    let mut lane = Lane::behind(Partition::new("t", 0), 2, past, LoneTombstones::Refuse);
    lane.feed(change(40, 13).at(0, 2)).unwrap();
}

fn lane_at(log: &[Sample]) -> Lane {
    let mut lane = lane();
    for (sample, offset) in log.iter().zip(0..) {
        lane.feed(sample.clone().at(0, offset)).unwrap();
    }
    lane
}

/// Reads the log in runs that each begin where the one before ended, with what it left behind.
fn in_runs(log: &[Sample], each: usize) -> Result<(), (Offset, Why)> {
    let id = TopicId::of_first_line("t", b"");
    let mut line = String::new();
    for (run, start) in log.chunks(each).zip((0..).step_by(each)) {
        let marks = Standing::parse(&line).unwrap().map(|standing| standing.marks).unwrap_or_default();
        let past = Past { marks: &marks, ..Past::default() };
        let mut lane = Lane::behind(Partition::new("t", 0), start, past, LoneTombstones::Refuse);
        for (sample, offset) in run.iter().zip(start..) {
            if let Err(refusal) = lane.feed(sample.clone().at(0, offset)) {
                let new_log = new_log(&refusal);
                return Err((new_log.begins.offset, new_log.why));
            }
        }
        line = lane.standing(id, lane.next(), 1).line();
    }
    Ok(())
}

#[test]
fn restarts_change_nothing() {
    let mut dips: Vec<Sample> = (0..5).map(|n| change(1000 + n, 500)).collect();
    dips.extend((0..6).map(|n| change(10 + n, 100)));
    let first: Vec<Sample> = (0..20).map(|n| change(100 + n, n.cast_signed())).collect();
    let again = [&first[..], &first[4..], &first[2..], &[change(130, 30), change(20, 31)]].concat();
    let two = [change(900, 10), change(40, 50).server("other"), change(950, 11), change(30, 60).server("other")];
    for log in [&dips[..], &again, &two] {
        let whole = read(log);
        assert!(whole.is_err());
        for each in 1..=log.len() {
            assert_eq!(in_runs(log, each), whole, "in runs of {each}");
        }
    }
}

#[test]
fn whatever_count_stands_beside_an_offset_is_read() {
    let line = lane_at(&[change(900, 10), change(950, 500), change(40, 100)])
        .standing(TopicId::of_first_line("t", b""), 3, 1)
        .line();
    let dip = line.find("\"dip\":[").expect("a stretch below the greatest position");
    let mut parts: Vec<String> = line[dip + 7..].split(',').map(str::to_owned).collect();
    parts[2] = u64::MAX.to_string();
    let line = format!("{}{}", &line[..dip + 7], parts.join(","));
    let standing = Standing::parse(&line).unwrap().expect("what was kept");
    assert_eq!(standing.marks[0].dip.map(|dip| dip.count), Some(u64::MAX), "{line}");
    let past = Past { floors: &[], boundaries: &[], marks: &standing.marks };
    let mut lane = Lane::behind(Partition::new("t", 0), 3, past, LoneTombstones::Refuse);
    let refusal = lane.feed(change(41, 100).at(0, 3)).unwrap_err();
    assert!(matches!(new_log(&refusal).why, Why::Longer { .. }), "{refusal}");
}

#[test]
fn what_is_kept_with_an_offset_is_of_the_records_before_it() {
    let mut lane = lane_at(&[change(900, 10), change(950, 12)]);
    let id = TopicId::of_first_line("t", b"");
    let marks = |lane: &Lane, offset| lane.standing(id, offset, 3).marks.iter().map(|m| m.commit).collect::<Vec<_>>();
    assert_eq!(marks(&lane, 2), [950]);
    assert_eq!(marks(&lane, 1), [900], "an event that waits for the next batch");
    assert_eq!(marks(&lane_at(&[change(900, 10)]), 0), [0; 0]);
    // The lineages seen last come first, and no more of them than are kept.
    for number in 0..12 {
        lane.feed(change(40, 50).server(&format!("s{number}")).at(0, 2 + number)).unwrap();
    }
    let standing = lane.standing(id, lane.next(), 3);
    let names: Vec<&str> = standing.marks.iter().map(|mark| &*mark.lineage.source).collect();
    assert_eq!(names, ["s11", "s10", "s9", "s8", "s7", "s6", "s5", "s4"]);
    assert_eq!((standing.partitions, standing.offset, standing.epoch), (3, 14, Epoch::FIRST));
    // A refused record leaves nothing behind.
    let mut lane = lane_at(&[change(900, 10)]);
    lane.feed(change(40, 50).at(0, 1)).unwrap_err();
    assert_eq!(lane.standing(id, 1, 3).marks, lane_at(&[change(900, 10)]).standing(id, 1, 3).marks);
}
