//! Epochs: which of a source's logs a record is of.
//!
//! The positions of a restored database, or of a topic made anew, do not compare with those before.
//! An epoch stands above them in the version, so every change of the new log wins over the old
//! one's. Epochs belong to places in the log, not to a run: a record has the epoch of the last
//! boundary at or before it, whoever reads it and however often.

use std::fmt;

use crate::position::Offset;

/// The number of a log. It has 7 bits in the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch(u8);

impl Epoch {
    /// The first log: no boundary lies before it.
    pub const FIRST: Self = Self(0);
    /// The greatest that a version can hold.
    pub const LAST: Self = Self(127);

    /// The epoch of this number; an error where a version cannot hold it.
    pub fn new(number: u64) -> Result<Self, EpochError> {
        match u8::try_from(number) {
            Ok(number) if number <= Self::LAST.0 => Ok(Self(number)),
            _ => Err(EpochError::TooGreat(number)),
        }
    }

    /// Its number.
    pub fn number(self) -> u8 {
        self.0
    }

    /// The one behind it.
    pub fn next(self) -> Result<Self, EpochError> {
        Self::new(u64::from(self.0) + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// From `offset` on, the records of a partition are of `epoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Boundary {
    /// Offset of the first record of the epoch.
    pub offset: Offset,
    /// The epoch.
    pub epoch: Epoch,
}

/// Why an epoch cannot begin there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EpochError {
    /// A number that the version has no bits for.
    #[error("epoch {0} does not fit the version, whose epochs go up to 127; write this source to new tables")]
    TooGreat(u64),
    /// Epochs rise with the offsets.
    #[error(
        "epoch {epoch} cannot begin at offset {offset}: epoch {last} begins at {begins}, and an epoch begins behind the \
         one before it (`settle epoch ls` shows them)"
    )]
    Behind {
        /// The epoch asked for.
        epoch: Epoch,
        /// Where it was to begin.
        offset: Offset,
        /// The last one there is.
        last: Epoch,
        /// Where that begins.
        begins: Offset,
    },
    /// Rows of the topic have it, or a greater one, already.
    #[error("epoch {epoch} is not above {taken}, which rows of the topic have already; take a greater one")]
    Taken {
        /// The epoch asked for.
        epoch: Epoch,
        /// The one that is in use.
        taken: Epoch,
    },
}

/// The epochs of one partition, followed in log order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Epochs {
    /// Rising in offset and epoch.
    boundaries: Vec<Boundary>,
    /// Boundaries at or before the place reached.
    passed: usize,
}

impl Epochs {
    /// The epochs of a partition, from the boundaries recorded for it. Where an epoch has several, it
    /// begins at the first: the later ones were recorded by mistake.
    pub fn new(mut boundaries: Vec<Boundary>) -> Self {
        boundaries.sort_unstable();
        boundaries.dedup_by_key(|boundary| boundary.epoch);
        Self { boundaries, passed: 0 }
    }

    /// Moves on to the record at `offset`. True if an epoch begins between the record before and it,
    /// or with it.
    pub fn enter(&mut self, offset: Offset) -> bool {
        let before = self.passed;
        while self.boundaries.get(self.passed).is_some_and(|boundary| boundary.offset <= offset) {
            self.passed += 1;
        }
        self.passed > before
    }

    /// The epoch of the place reached.
    pub fn current(&self) -> Epoch {
        self.last_passed().map_or(Epoch::FIRST, |boundary| boundary.epoch)
    }

    /// The epoch before that of the place reached.
    pub fn before(&self) -> Epoch {
        let before = self.passed.checked_sub(2).and_then(|at| self.boundaries.get(at));
        before.map_or(Epoch::FIRST, |boundary| boundary.epoch)
    }

    /// Where the epoch of the place reached begins.
    pub fn begin(&self) -> Offset {
        self.last_passed().map_or(0, |boundary| boundary.offset)
    }

    fn last_passed(&self) -> Option<&Boundary> {
        self.passed.checked_sub(1).and_then(|last| self.boundaries.get(last))
    }
}

/// What was recorded of the epochs when another is to begin in a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// The boundaries of the partition.
    pub own: Vec<Boundary>,
    /// The greatest epoch of earlier incarnations of its topic: their rows are in the same table.
    pub of_former_topics: Option<Epoch>,
    /// The greatest epoch in the destination.
    pub greatest: Epoch,
}

impl Recorded {
    /// The boundary to record so that an epoch begins at `offset`: the one `asked` for, or the one
    /// that other partitions have moved to where this one is behind them, or a new one. A boundary
    /// that is there already is given back as it is.
    ///
    /// Partitions notice a restored database one after the other. They share its epoch, because
    /// truncates and key changes compare versions across partitions. Before an epoch that was said to
    /// begin later, it is that epoch which begins.
    pub fn begin(&self, offset: Offset, asked: Option<Epoch>) -> Result<Boundary, EpochError> {
        let at = self.own.iter().filter(|own| own.offset <= offset).max_by_key(|own| own.offset).copied();
        let behind = self.own.iter().filter(|own| own.offset > offset).min_by_key(|own| own.offset).copied();
        match at {
            Some(at) if at.offset == offset && asked.is_none_or(|asked| asked == at.epoch) => return Ok(at),
            _ => {}
        }
        if let Some(later) = behind
            && at.is_none_or(|at| at.offset < offset)
            && asked.is_none_or(|asked| asked == later.epoch)
        {
            return Ok(Boundary { offset, ..later });
        }
        let last = self.own.iter().max_by_key(|own| own.offset);
        let taken = last.map_or(Epoch::FIRST, |last| last.epoch).max(self.of_former_topics.unwrap_or_default());
        let epoch = match asked {
            Some(asked) if asked <= taken => return Err(EpochError::Taken { epoch: asked, taken }),
            Some(asked) => asked,
            None if taken < self.greatest => self.greatest,
            None => taken.next()?,
        };
        match last {
            Some(&Boundary { offset: begins, epoch: last }) if offset <= begins => {
                Err(EpochError::Behind { epoch, offset, last, begins })
            }
            _ => Ok(Boundary { offset, epoch }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    fn boundary(offset: Offset, number: u64) -> Boundary {
        Boundary { offset, epoch: epoch(number) }
    }

    #[test]
    fn a_number_beyond_the_bits_of_the_version_is_refused() {
        assert_eq!(Epoch::new(127), Ok(Epoch::LAST));
        assert_eq!(Epoch::LAST.next(), Err(EpochError::TooGreat(128)));
        assert_eq!(
            Epoch::new(u64::MAX).unwrap_err().to_string(),
            "epoch 18446744073709551615 does not fit the version, whose epochs go up to 127; write this source to new tables"
        );
    }

    #[test]
    fn a_record_is_of_the_last_boundary_at_or_before_it() {
        let recorded = vec![boundary(50, 4), boundary(10, 1)];
        for (offset, number, begin) in [(0, 0, 0), (9, 0, 0), (10, 1, 10), (49, 1, 10), (50, 4, 50), (99, 4, 50)] {
            let mut epochs = Epochs::new(recorded.clone());
            assert_eq!(epochs.enter(offset), number > 0, "{offset}");
            assert_eq!((epochs.current(), epochs.begin()), (epoch(number), begin), "{offset}");
            assert!(!epochs.enter(offset), "once");
        }
    }

    #[test]
    fn partitions_that_notice_one_restored_database_share_its_epoch() {
        let none = Recorded::default();
        assert_eq!(none.begin(7, None), Ok(boundary(7, 1)), "the first to notice");
        let one_moved = Recorded { greatest: epoch(1), ..none.clone() };
        assert_eq!(one_moved.begin(9, None), Ok(boundary(9, 1)), "the second");
        let again = Recorded { own: vec![boundary(7, 1)], greatest: epoch(1), ..none.clone() };
        assert_eq!(again.begin(20, None), Ok(boundary(20, 2)), "restored once more");
        assert_eq!(again.begin(20, Some(epoch(5))), Ok(boundary(20, 5)));
    }

    #[test]
    fn a_topic_made_anew_goes_above_the_rows_of_the_one_before() {
        let anew = Recorded { of_former_topics: Some(epoch(2)), greatest: epoch(2), ..Recorded::default() };
        assert_eq!(anew.begin(0, None), Ok(boundary(0, 3)));
        let second = Recorded { greatest: epoch(3), ..anew.clone() };
        assert_eq!(second.begin(0, None), Ok(boundary(0, 3)), "its other partitions");
        let never_moved = Recorded { of_former_topics: Some(Epoch::FIRST), ..Recorded::default() };
        assert_eq!(never_moved.begin(0, None), Ok(boundary(0, 1)));
    }

    #[test]
    fn what_is_recorded_already_is_no_new_epoch() {
        let recorded = Recorded { own: vec![boundary(7, 1)], greatest: epoch(3), ..Recorded::default() };
        assert_eq!(recorded.begin(7, None), Ok(boundary(7, 1)));
        assert_eq!(recorded.begin(7, Some(epoch(1))), Ok(boundary(7, 1)));
    }

    #[test]
    fn an_epoch_that_was_said_to_begin_too_late_begins_where_it_does() {
        let recorded =
            Recorded { own: vec![boundary(7, 1), boundary(20, 2)], greatest: epoch(2), ..Recorded::default() };
        assert_eq!(recorded.begin(5, None), Ok(boundary(5, 1)));
        assert_eq!(recorded.begin(15, Some(epoch(2))), Ok(boundary(15, 2)));
        let mut epochs = Epochs::new(vec![boundary(7, 1), boundary(5, 1), boundary(20, 2)]);
        assert!(epochs.enter(5) && !epochs.enter(8), "it begins once");
        assert!(epochs.enter(20));
        assert_eq!((epochs.before(), epochs.current()), (epoch(1), epoch(2)));
    }

    #[test]
    fn epochs_begin_one_behind_the_other() {
        let recorded = Recorded { own: vec![boundary(7, 1)], greatest: epoch(1), ..Recorded::default() };
        assert_eq!(
            recorded.begin(6, Some(epoch(2))).unwrap_err().to_string(),
            "epoch 2 cannot begin at offset 6: epoch 1 begins at 7, and an epoch begins behind the one before it \
             (`settle epoch ls` shows them)"
        );
        assert!(recorded.begin(7, Some(epoch(2))).is_err(), "one place, one epoch");
        assert_eq!(
            recorded.begin(9, Some(epoch(1))).unwrap_err().to_string(),
            "epoch 1 is not above 1, which rows of the topic have already; take a greater one"
        );
        let full = Recorded { own: vec![boundary(7, 127)], greatest: Epoch::LAST, ..Recorded::default() };
        assert_eq!(full.begin(9, None), Err(EpochError::TooGreat(128)));
    }
}
