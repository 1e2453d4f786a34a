//! Which rows a truncate removes: the one rule, for the fold and for every destination.
//!
//! A row stands before a truncate of its table or behind it, and the whole version does not say
//! which: on PostgreSQL a full snapshot lifts the commit positions of one partition and not those of
//! another, and the truncate came on either. The record position says it. TRUNCATE holds an
//! exclusive lock until it commits, so whatever wrote the table before has committed by then and
//! has smaller record positions, and whatever comes after has greater ones. A binlog is written at
//! commit, one after the other: there the version itself is the order.

use std::fmt;

use crate::debezium::source::Position;
use crate::version::Version;

/// What orders the rows of a table against its truncates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LogOrder {
    /// The epoch and the record position: PostgreSQL.
    Record,
    /// The whole version: MySQL and MariaDB.
    Commit,
}

impl LogOrder {
    /// Both, for destinations that keep what they know by order.
    pub const ALL: [Self; 2] = [Self::Record, Self::Commit];

    pub(crate) fn of(position: &Position) -> Self {
        match position {
            Position::Postgres { .. } => Self::Record,
            Position::Binlog { .. } => Self::Commit,
        }
    }

    /// The bits of a version that are compared: `row & mask < truncate & mask` is the whole rule,
    /// also where a destination says it in its own language.
    pub fn mask(self) -> Version {
        match self {
            Self::Record => Version::EPOCH_AND_RECORD,
            Self::Commit => Version::ALL,
        }
    }
}

/// The name under which a destination records it.
impl fmt::Display for LogOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Record => "record",
            Self::Commit => "commit",
        })
    }
}

/// A place in a source's log at which a table was emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The truncate's own version.
    pub version: Version,
    /// What rows are compared by.
    pub order: LogOrder,
}

impl Cut {
    /// True if a row of this version, of the same lineage, was removed.
    pub fn empties(self, row: Version) -> bool {
        row.masked(self.order.mask()) < self.place()
    }

    /// The bits of its version that are compared.
    pub fn place(self) -> Version {
        self.version.masked(self.order.mask())
    }
}

/// What is known of the truncates of one table: the last one of each order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cuts {
    record: Version,
    commit: Version,
}

impl Cuts {
    /// Takes a cut in; true if rows are removed that were not before.
    pub fn add(&mut self, cut: Cut) -> bool {
        let known = self.of_mut(cut.order);
        let is_news = *known < cut.place();
        *known = cut.place().max(*known);
        is_news
    }

    /// Takes in what another knows; true if rows are removed that were not before.
    pub fn join(&mut self, other: Self) -> bool {
        LogOrder::ALL.into_iter().fold(false, |news, order| self.add(Cut { version: other.of(order), order }) | news)
    }

    /// The bits below which rows were removed; 0 where none were.
    pub fn of(&self, order: LogOrder) -> Version {
        match order {
            LogOrder::Record => self.record,
            LogOrder::Commit => self.commit,
        }
    }

    /// True if a row of this version was removed.
    pub fn empties(&self, row: Version) -> bool {
        LogOrder::ALL.into_iter().any(|order| row.masked(order.mask()) < self.of(order))
    }

    fn of_mut(&mut self, order: LogOrder) -> &mut Version {
        match order {
            LogOrder::Record => &mut self.record,
            LogOrder::Commit => &mut self.commit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(epoch: u8, commit: u64, streamed: bool, record: u64) -> Version {
        let epoch = crate::epoch::Epoch::new(epoch.into()).unwrap();
        Version::pack(epoch, commit, streamed, record).unwrap()
    }

    fn cut(order: LogOrder, version: Version) -> Cut {
        Cut { version, order }
    }

    /// The snapshot's rows lifted their own partition; the truncate came on one without any.
    #[test]
    fn a_row_that_a_floor_lifted_does_not_survive_a_truncate_that_none_lifted() {
        let truncate = cut(LogOrder::Record, version(0, 95, true, 105));
        for gone in [version(0, 100, false, 100), version(0, 100, true, 104)] {
            assert!(gone > truncate.version, "the whole version says otherwise");
            assert!(truncate.empties(gone));
        }
    }

    /// A restarted connector sends an old truncate again, on a partition that its new snapshot lifted.
    #[test]
    fn a_row_that_came_after_a_truncate_is_not_wiped_where_a_floor_lifted_the_truncate() {
        let truncate = cut(LogOrder::Record, version(0, 200, true, 150));
        for kept in [version(0, 155, true, 160), version(0, 200, false, 200)] {
            assert!(kept < truncate.version, "the whole version says otherwise");
            assert!(!truncate.empties(kept));
        }
    }

    #[test]
    fn a_row_at_the_truncates_own_place_is_behind_it() {
        for order in LogOrder::ALL {
            let truncate = cut(order, version(0, 30, true, 30));
            assert!(!truncate.empties(truncate.version));
            assert!(truncate.empties(version(0, 30, true, 29)));
        }
    }

    /// A row that was read at the place where the truncate was about to be written.
    #[test]
    fn in_a_binlog_the_version_is_the_order() {
        let truncate = cut(LogOrder::Commit, version(0, 30, true, 0));
        assert!(truncate.empties(version(0, 30, false, 5)));
        assert!(truncate.empties(version(0, 29, true, 9)));
        assert!(!truncate.empties(version(0, 31, false, 0)));
    }

    #[test]
    fn an_older_epoch_is_before_and_a_newer_one_behind() {
        for order in LogOrder::ALL {
            let truncate = cut(order, version(2, 30, true, 30));
            assert!(truncate.empties(version(1, 99, true, 99)));
            assert!(!truncate.empties(version(3, 1, false, 1)));
        }
    }

    #[test]
    fn the_last_truncate_holds_and_an_older_one_is_no_news() {
        let mut cuts = Cuts::default();
        assert!(!cuts.empties(Version::default()), "nothing was emptied");
        let later = cut(LogOrder::Record, version(0, 1, true, 50));
        assert!(cuts.add(later));
        assert!(!cuts.add(cut(LogOrder::Record, version(0, 99, true, 40))), "its record position is smaller");
        assert!(!cuts.add(later));
        assert_eq!((cuts.empties(version(0, 99, true, 49)), cuts.empties(version(0, 0, true, 50))), (true, false));
        let mut other = Cuts::default();
        assert!(other.join(cuts));
        assert!(!other.join(cuts));
        assert_eq!(other, cuts);
    }
}
