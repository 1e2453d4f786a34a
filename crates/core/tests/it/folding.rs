//! Folding changes nothing: for any cut of a stream into batches, the destination is at every cut
//! what it is when each record is a batch of its own.

use proptest::prelude::*;
use settle_core::record::Record;

use crate::support::destination::Destination;
use crate::support::line::Line;
use crate::support::sample::{Placed, mariadb, postgres};
use crate::support::schedule::{Seeded, interleaved};
use crate::support::source::{Kind, Source, acts};

/// Feeds a stream to a line that is cut anywhere and to one that is cut everywhere.
fn cut_anywhere(records: &[&Record], cuts: &mut Seeded) -> Result<(), TestCaseError> {
    let (mut folded, mut one_by_one) = (Destination::default(), Destination::default());
    let mut folding = Line::new(&mut folded, usize::MAX);
    let mut plain = Line::new(&mut one_by_one, 1);
    let mut left = cuts.below(12);
    for record in records {
        folding.feed(record).unwrap();
        plain.feed(record).unwrap();
        if left == 0 {
            left = cuts.below(12);
            folding.cut();
            let agrees = folding.destination.agrees_with(plain.destination);
            prop_assert!(agrees, "{:#?}\nbut one by one\n{:#?}", folding.destination, plain.destination);
        } else {
            left -= 1;
        }
    }
    let (folding, plain) = (folding.finish(), plain.finish());
    prop_assert_eq!(folding.read, plain.read);
    prop_assert_eq!(folding.placed(), plain.placed());
    prop_assert!(folded.agrees_with(&one_by_one), "{folded:#?}\nbut one by one\n{one_by_one:#?}");
    Ok(())
}

/// A stream that no source would write: any operation at any position in any order. What a change
/// says is a function of its key and position, so that only changes sent again are alike. Record
/// positions rise with commits: a truncate between the changes of one row waits for all of them.
fn anything() -> impl Strategy<Value = Vec<Record>> {
    let change = (prop::sample::select(vec!["c", "u", "d", "r", "t"]), 0..4u64, 1..20u64, 0..3u64, any::<bool>());
    prop::collection::vec(change, 0..60).prop_map(|changes| {
        let record = |((op, id, at, row, postgresql), offset): ((&str, u64, u64, u64, bool), i64)| {
            // One operation to a position.
            let op = if op == "t" || op == "r" { op } else { ["c", "u", "d"][usize::try_from(at % 3).unwrap()] };
            let table = if postgresql { "p" } else { "m" };
            // What a snapshot read stands before what was streamed at its commit.
            let row = if op == "r" { 0 } else { row + 1 };
            let lsn = at * 10 + row;
            let sample = match (postgresql, op) {
                (true, "r") => postgres(op, (Some(at), lsn), None),
                (true, _) => postgres(op, (Some(at), lsn), Some(lsn)),
                // Each of another run of the connector: positions of one run do not repeat.
                (false, _) => mariadb(op, 1, at, row).header("__debezium.context.runId", &offset.to_string()),
            };
            let sample = match op {
                "t" => sample.key(None).row("null"),
                "d" => sample.id(id),
                _ => sample.id(id).row(&format!(r#"{{"id":{id},"v":"{at} {row}"}}"#)),
            };
            sample.table(table).at(0, offset)
        };
        // Behind so many others that anything of it could be sent again.
        changes.into_iter().zip(1_000..).map(record).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_cut_of_a_sources_log_is_as_no_batches_at_all(acts in acts(), kind in kind(), seed in any::<u64>()) {
        let records = Source::run(kind, &acts).records();
        let mut seeded = Seeded::new(seed);
        cut_anywhere(&interleaved(&records, &mut seeded), &mut seeded)?;
    }

    #[test]
    fn any_cut_of_any_stream_is_as_no_batches_at_all(records in anything(), seed in any::<u64>()) {
        cut_anywhere(&records.iter().collect::<Vec<_>>(), &mut Seeded::new(seed))?;
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![Kind::Postgres, Kind::MariaDb])
}

#[test]
fn the_simulated_sources_do_all_that_is_to_be_survived() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let (mut ops, mut unsent) = (std::collections::BTreeSet::new(), false);
    for _ in 0..50 {
        let acts = acts().new_tree(&mut runner).unwrap().current();
        let source = Source::run(Kind::Postgres, &acts);
        ops.extend(source.ops());
        unsent |= source.has_unsent_values();
    }
    assert_eq!(ops.into_iter().collect::<String>(), "cdrtu");
    assert!(unsent);
}
