//! What the destination is told of the group's offsets, so that a loss of them, or of it, is noticed.
//!
//! That the group has an offset in a partition is told at once, once a process. How far it is, is told
//! seldom, and only where the destination does not keep that with its rows: it is one write for all
//! partitions, and each says no more than what is committed, so one that comes late is true.

use std::collections::BTreeMap;
use std::time::Duration;

use settle_core::position::{Offset, Partition};
use settle_core::sink::{PlacedPartition, Places};
use tokio::time::Instant;

/// Rest between two notes of how far the group is.
const NOTE_AFTER: Duration = Duration::from_secs(30);

/// What is to be told.
pub(super) struct Notes {
    /// Partitions held or once held; true where the destination knows that the group has offsets.
    known: BTreeMap<Partition, (PlacedPartition, bool)>,
    /// How far the group is, where that was not told yet.
    untold: BTreeMap<Partition, Offset>,
    /// The destination does not say itself how far it has the group's records.
    tells_how_far: bool,
    next: Instant,
}

impl Notes {
    pub(super) fn new(tells_how_far: bool) -> Self {
        Self { known: BTreeMap::new(), untold: BTreeMap::new(), tells_how_far, next: Instant::now() + NOTE_AFTER }
    }

    /// These were opened, and the destination knows so much.
    pub(super) fn opened(&mut self, parts: Vec<PlacedPartition>, places: &Places) {
        for part in parts {
            let knows = places.wrote(part.topic_id, &part.partition);
            self.known.insert(part.partition.clone(), (part, knows));
        }
    }

    /// The group has committed these.
    pub(super) fn committed(&mut self, offsets: impl IntoIterator<Item = (Partition, Offset)>) {
        self.untold.extend(offsets);
    }

    /// What is to be told now; `last`: there is no later.
    pub(super) fn due(&mut self, last: bool) -> Vec<(PlacedPartition, Offset)> {
        let now = Instant::now();
        let all = self.tells_how_far && (last || now >= self.next);
        if all {
            self.next = now + NOTE_AFTER;
        }
        let mut due = Vec::new();
        self.untold.retain(|partition, offset| {
            let Some((part, knows)) = self.known.get_mut(partition) else { return false };
            if std::mem::replace(knows, true) && !all {
                return self.tells_how_far;
            }
            due.push((part.clone(), *offset));
            false
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use settle_core::position::TopicId;

    use super::*;

    fn part(number: i32) -> PlacedPartition {
        PlacedPartition { topic_id: TopicId::of_first_line("t", b""), partition: Partition::new("t", number) }
    }

    fn told(notes: &mut Notes, last: bool) -> Vec<(i32, Offset)> {
        notes.due(last).into_iter().map(|(part, offset)| (part.partition.number, offset)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn that_there_is_an_offset_is_told_at_once_and_how_far_it_is_seldom() {
        let mut notes = Notes::new(true);
        notes.opened(vec![part(0), part(1)], &Places { written: vec![part(1)], ..Places::default() });
        notes.committed([(part(0).partition, 5), (part(1).partition, 7), (Partition::new("other", 0), 1)]);
        assert_eq!(told(&mut notes, false), [(0, 5)]);
        notes.committed([(part(0).partition, 6)]);
        assert_eq!(told(&mut notes, false), []);
        tokio::time::advance(NOTE_AFTER).await;
        assert_eq!(told(&mut notes, false), [(0, 6), (1, 7)]);
        notes.committed([(part(0).partition, 9)]);
        assert_eq!(told(&mut notes, false), []);
        assert_eq!(told(&mut notes, true), [(0, 9)]);
        assert_eq!(told(&mut notes, true), [], "once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_destination_that_keeps_its_places_is_told_once() {
        let mut notes = Notes::new(false);
        notes.opened(vec![part(0)], &Places::default());
        notes.committed([(part(0).partition, 5)]);
        assert_eq!(told(&mut notes, false), [(0, 5)]);
        notes.committed([(part(0).partition, 6)]);
        tokio::time::advance(NOTE_AFTER).await;
        assert_eq!(told(&mut notes, true), []);
    }
}
