//! Which records of a capture are delivered.

use std::collections::HashMap;

use settle_core::position::{Offset, Partition, Span};

use crate::log::Ends;

/// What is read of each partition.
pub(super) enum Window {
    /// All of it.
    Whole,
    /// What lies below these ends.
    Below(Ends),
    /// These stretches of a partition, each as an assignment of its own.
    Spans(HashMap<Partition, Vec<(Offset, Offset)>>),
}

impl Window {
    /// The stretches to read. They may lie in any order and must not overlap.
    pub(super) fn of(spans: Vec<Span>) -> Self {
        let mut by_partition: HashMap<Partition, Vec<(Offset, Offset)>> = HashMap::new();
        for Span { partition, start, end } in spans {
            by_partition.entry(partition).or_default().push((start, end));
        }
        by_partition.values_mut().for_each(|spans| spans.sort_unstable());
        Self::Spans(by_partition)
    }

    /// The number of the stretch that the record lies in; none where it is not to be read.
    pub(super) fn pass(&self, partition: &Partition, offset: Offset) -> Option<u64> {
        match self {
            Self::Whole => Some(0),
            Self::Below(ends) => ends.get(partition).filter(|end| offset < **end).map(|_| 0),
            Self::Spans(spans) => {
                let here = |(start, end): &(Offset, Offset)| (*start..*end).contains(&offset);
                spans.get(partition)?.iter().position(here).map(|at| at as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_hold_their_start_and_not_their_end() {
        let t = Partition::new("t", 0);
        let span = |start, end| Span { partition: t.clone(), start, end };
        let window = Window::of(vec![span(7, 8), span(2, 4)]);
        let passes: Vec<Option<u64>> = (0..9).map(|offset| window.pass(&t, offset)).collect();
        let wanted = [None, None, Some(0), Some(0), None, None, None, Some(1), None];
        assert_eq!(passes, wanted);
        assert_eq!(window.pass(&Partition::new("t", 1), 2), None);
        let below = Window::Below([(t.clone(), 2)].into());
        assert_eq!(
            (below.pass(&t, 1), below.pass(&t, 2), below.pass(&Partition::new("u", 0), 0)),
            (Some(0), None, None)
        );
    }
}
