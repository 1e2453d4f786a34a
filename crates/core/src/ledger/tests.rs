use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::fold::{Fold, Limits};
use crate::sink::Outcome;

fn partition(number: i32) -> Partition {
    Partition::new("t", number)
}

fn span(number: i32, start: Offset, end: Offset) -> Span {
    Span { partition: partition(number), start, end }
}

/// A proof as a sink gives it, of a batch that covers these spans.
#[expect(clippy::disallowed_methods, reason = "stands for a sink")]
fn proof(spans: &[Span]) -> Durable {
    let mut fold = Fold::new(Limits::default());
    for span in spans {
        fold.pass(&span.partition, span.start, span.end, 0);
    }
    Durable::mint(&fold.cut(), Outcome::default())
}

#[test]
fn out_of_order_proofs_hold_the_mark_until_the_gap_fills() {
    let mut ledger = Ledger::default();
    let spans = [span(0, 0, 3), span(0, 3, 9), span(0, 12, 20)];
    spans.iter().for_each(|span| ledger.open(span.clone()));
    assert_eq!(ledger.settle(proof(&spans[2..])), []);
    assert_eq!(ledger.settle(proof(&spans[..1])), [(partition(0), 3)]);
    assert!(!ledger.is_settled(&partition(0)));
    assert_eq!(ledger.settle(proof(&spans[1..2])), [(partition(0), 20)]);
    assert!(ledger.is_settled(&partition(0)) && ledger.is_all_settled());
}

#[test]
fn partitions_do_not_wait_for_each_other() {
    let mut ledger = Ledger::default();
    let (slow, fast) = (span(0, 0, 5), span(1, 7, 8));
    ledger.open(slow.clone());
    ledger.open(fast.clone());
    assert_eq!(ledger.settle(proof(&[fast])), [(partition(1), 8)]);
    assert!(!ledger.is_all_settled());
    assert_eq!(ledger.settle(proof(&[slow])), [(partition(0), 5)]);
}

#[test]
fn a_proof_counts_once_and_a_foreign_one_not_at_all() {
    let mut ledger = Ledger::default();
    ledger.open(span(0, 0, 5));
    ledger.open(span(0, 5, 9));
    assert_eq!(ledger.settle(proof(&[span(0, 0, 4)])), [], "another span than the one delivered");
    assert_eq!(ledger.settle(proof(&[span(3, 0, 5)])), [], "a partition that is not ours");
    assert_eq!(ledger.settle(proof(&[span(0, 0, 5)])), [(partition(0), 5)]);
    assert_eq!(ledger.settle(proof(&[span(0, 0, 5)])), [], "the same proof again");
}

#[test]
fn a_dropped_partition_commits_nothing_more() {
    let mut ledger = Ledger::default();
    let before = [span(0, 0, 5), span(1, 0, 5)];
    before.iter().for_each(|span| ledger.open(span.clone()));
    ledger.drop_partition(&partition(0));
    assert_eq!(ledger.settle(proof(&before)), [(partition(1), 5)]);
    assert!(ledger.is_all_settled());
    // It comes back where the group stands, which may lie below.
    ledger.open(span(0, 0, 7));
    assert_eq!(ledger.settle(proof(&before[..1])), [], "another span was delivered this time");
    assert_eq!(ledger.settle(proof(&[span(0, 0, 7)])), [(partition(0), 7)]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant spans_in_order is broken")]
fn a_span_that_goes_back_is_a_bug() {
    let mut ledger = Ledger::default();
    ledger.open(span(0, 0, 5));
    ledger.open(span(0, 4, 6));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "invariant spans_in_order is broken")]
fn a_span_below_what_was_committed_is_a_bug() {
    let mut ledger = Ledger::default();
    ledger.open(span(0, 0, 5));
    drop(ledger.settle(proof(&[span(0, 0, 5)])));
    ledger.open(span(0, 3, 6));
}

#[test]
#[cfg(not(debug_assertions))]
fn a_span_that_goes_back_is_counted_and_commits_nothing() {
    let mut ledger = Ledger::default();
    ledger.open(span(0, 0, 5));
    ledger.open(span(0, 4, 6));
    assert!(SPANS_IN_ORDER.times_broken() > 0);
    assert_eq!(ledger.settle(proof(&[span(0, 4, 6)])), []);
    assert_eq!(ledger.settle(proof(&[span(0, 0, 5)])), [(partition(0), 5)]);
}

const PARTITIONS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A batch is cut: how many offsets it takes of each partition, and the gap before each.
    Deliver([(i64, i64); PARTITIONS]),
    /// One of the batches without a proof gets it.
    Prove(usize),
    /// One of the batches without a proof is given up.
    Fail(usize),
    /// A partition goes away, and comes back where the group stands.
    Reassign(i32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let part = (0..4i64, 0..3i64);
    let step = prop_oneof![
        4 => [part.clone(), part.clone(), part].prop_map(Step::Deliver),
        4 => any::<usize>().prop_map(Step::Prove),
        1 => any::<usize>().prop_map(Step::Fail),
        1 => (0..3).prop_map(Step::Reassign),
    ];
    prop::collection::vec(step, 0..60)
}

/// What the ledger may know, kept in the plainest way: every offset on its own.
#[derive(Default)]
struct Model {
    /// Offsets delivered under the present assignment.
    delivered: BTreeMap<i32, Vec<Offset>>,
    /// Offsets that some proof covered.
    durable: BTreeMap<i32, Vec<Offset>>,
    /// What the group has committed, over all assignments.
    group: BTreeMap<i32, Offset>,
}

impl Model {
    fn settle(&mut self, ready: Vec<(Partition, Offset)>) {
        for (partition, end) in ready {
            let number = partition.number;
            let known = self.durable.entry(number).or_default();
            let open = self.delivered.entry(number).or_default();
            assert!(
                open.iter().filter(|&&at| at < end).all(|at| known.contains(at)),
                "{number}: passed a gap below {end}"
            );
            let before = self.group.insert(number, end).unwrap_or(0);
            assert!(before <= end, "{number}: the group went back from {before} to {end}");
        }
    }
}

proptest! {
    #[test]
    fn no_order_of_proofs_drops_and_assignments_passes_a_gap(steps in steps()) {
        let mut ledger = Ledger::default();
        let mut model = Model::default();
        let mut next: BTreeMap<i32, Offset> = BTreeMap::new();
        let mut waiting: Vec<Vec<Span>> = Vec::new();
        for step in steps {
            match step {
                Step::Deliver(parts) => {
                    let mut spans = Vec::new();
                    for (number, (rows, gap)) in (0i32..).zip(parts) {
                        let at = next.entry(number).or_default();
                        if rows == 0 {
                            continue;
                        }
                        let start = *at + gap;
                        *at = start + rows;
                        spans.push(span(number, start, *at));
                        ledger.open(span(number, start, *at));
                        model.delivered.entry(number).or_default().extend(start..*at);
                    }
                    waiting.push(spans);
                }
                Step::Prove(which) if !waiting.is_empty() => {
                    let spans = waiting.remove(which % waiting.len());
                    for span in &spans {
                        model.durable.entry(span.partition.number).or_default().extend(span.start..span.end);
                    }
                    let ready = ledger.settle(proof(&spans));
                    model.settle(ready);
                }
                Step::Fail(which) if !waiting.is_empty() => drop(waiting.remove(which % waiting.len())),
                Step::Reassign(number) => {
                    ledger.drop_partition(&partition(number));
                    prop_assert!(ledger.is_settled(&partition(number)));
                    model.delivered.remove(&number);
                    next.insert(number, model.group.get(&number).copied().unwrap_or(0));
                }
                Step::Prove(_) | Step::Fail(_) => {}
            }
        }
    }

    #[test]
    fn all_proofs_in_any_order_end_at_the_end(
        lengths in prop::collection::vec((0..3i64, 1..5i64), 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let mut ledger = Ledger::default();
        let mut spans = Vec::new();
        let mut at = 0;
        for (gap, rows) in lengths {
            spans.push(span(0, at + gap, at + gap + rows));
            at += gap + rows;
            ledger.open(spans[spans.len() - 1].clone());
        }
        let mut last = None;
        for which in order[..spans.len()].iter() {
            let which = which.index(spans.len());
            for (_, end) in ledger.settle(proof(&[spans.remove(which)])) {
                prop_assert!(last < Some(end));
                last = Some(end);
            }
        }
        prop_assert_eq!(last, Some(at));
        prop_assert!(ledger.is_all_settled());
    }
}
