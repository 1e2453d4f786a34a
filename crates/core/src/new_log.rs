//! Tells a new log from records that are sent again.
//!
//! A database that was restored from an older backup, RESET MASTER, or another server under the
//! same name start a log of smaller positions: every change of it would be stale. A connector that
//! was killed sends records again, which have smaller positions, too. What tells them apart is the
//! source's time, the number of records, and the run of the connector:
//!
//! - below the greatest position read (P) with a time no later than the greatest read (T) is a
//!   record sent again, a later time is a new log;
//! - records sent again are records of this partition. A stretch of them that began at offset `o`
//!   repeats what lies before it, at most `o` records; more than that are a new log;
//! - PostgreSQL's positions never go back inside one run of the connector.
//!
//! Only records whose position is where they stand in the log decide. Rows of an incremental
//! snapshot carry the position of their chunk and the wall clock.
//!
//! It is looked at for every record: a few comparisons, nothing is allocated.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::change::Lineage;
use crate::position::{Offset, Place};
use crate::record::Record;
use crate::version::Version;

/// The header in which Debezium names the run of the connector.
pub(crate) const RUN_ID: &str = "__debezium.context.runId";

/// What is known of one lineage in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Whose positions these are.
    pub lineage: Arc<Lineage>,
    /// Greatest commit position (P).
    pub commit: u64,
    /// Greatest source time, milliseconds since 1970 (T); none where no record had one.
    pub time_ms: Option<i64>,
    /// True if a change was streamed, so that a full snapshot would be another one.
    pub streamed: bool,
    /// The stretch below P that the log is in.
    pub dip: Option<Dip>,
}

/// A stretch of records below the greatest position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dip {
    /// Offset of its first record.
    pub first: Offset,
    /// Where the connector last went back in it: each time it repeats what lies before that.
    pub since: Offset,
    /// Records of the stretch since then.
    pub count: u64,
    /// Version of its last record: one that is not above it means that the connector went back.
    pub top: Version,
}

/// What decides about a record, besides its lineage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting<'a> {
    pub(crate) record: &'a Record,
    pub(crate) version: Version,
    pub(crate) time_ms: Option<i64>,
    /// A change, not a row that a snapshot read.
    pub(crate) streamed: bool,
    pub(crate) log: Log,
}

/// Which kind of log the positions are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Log {
    /// PostgreSQL's: log sequence numbers.
    Postgres,
    /// MySQL's and MariaDB's: file and position.
    Binlog,
}

/// Follows the positions of one partition.
#[derive(Clone, Debug, Default)]
pub struct NewLogs {
    known: Vec<Known>,
    places: HashMap<Arc<Lineage>, usize>,
    /// The lineage of the record before.
    current: usize,
    /// The last record that changed a mark, and that mark before it.
    last: Option<(Offset, usize, Option<State>)>,
}

#[derive(Clone, Debug)]
struct Known {
    lineage: Arc<Lineage>,
    state: State,
    /// Offset of its last record, to keep those seen last.
    seen: Offset,
    /// Commit position and run of its last record.
    last_commit: u64,
    run: Vec<u8>,
    /// An earlier run read streamed changes.
    had_streamed: bool,
}

#[derive(Clone, Copy, Debug)]
struct State {
    commit: u64,
    time_ms: Option<i64>,
    streamed: bool,
    dip: Option<Dip>,
}

impl NewLogs {
    /// Goes on from what an earlier run knew; from nothing where it is empty.
    pub fn resume(marks: &[Mark]) -> Self {
        let mut logs = Self::default();
        for (age, mark) in (1..).zip(marks) {
            let Mark { commit, time_ms, streamed, dip, .. } = *mark;
            let at = logs.known.len();
            logs.known.push(Known {
                lineage: mark.lineage.clone(),
                state: State { commit, time_ms, streamed, dip },
                // Those of the marks are older than any record that comes.
                seen: -age,
                last_commit: 0,
                run: Vec::new(),
                had_streamed: streamed,
            });
            logs.places.insert(mark.lineage.clone(), at);
        }
        logs
    }

    /// Forgets everything: an epoch begins.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Greatest commit position of a lineage (P): everything below it has been passed, or comes again.
    pub fn passed(&self, lineage: &Lineage) -> Option<u64> {
        self.places.get(lineage).and_then(|&at| self.known.get(at)).map(|known| known.state.commit)
    }

    /// True if an earlier run read streamed changes of the lineage.
    pub(crate) fn had_streamed(&self, lineage: &Lineage) -> bool {
        self.places.get(lineage).and_then(|&at| self.known.get(at)).is_some_and(|known| known.had_streamed)
    }

    /// What is known before the record at `offset`, the lineages seen last first. It may be the
    /// last record looked at, or any behind it.
    pub(crate) fn marks_before(&self, offset: Offset, at_most: usize) -> Vec<Mark> {
        let mut places: Vec<usize> = (0..self.known.len()).collect();
        places.sort_by_key(|&at| std::cmp::Reverse(self.known[at].seen));
        let state = |at: usize| match self.last {
            Some((last, changed, before)) if last >= offset && changed == at => before,
            _ => Some(self.known[at].state),
        };
        let mark = |at: usize| {
            let State { commit, time_ms, streamed, dip } = state(at)?;
            Some(Mark { lineage: self.known[at].lineage.clone(), commit, time_ms, streamed, dip })
        };
        places.into_iter().filter_map(mark).take(at_most).collect()
    }

    /// Takes a record that decides. After a refusal nothing of it is remembered.
    pub(crate) fn look(&mut self, lineage: &Arc<Lineage>, seen: Sighting<'_>) -> Result<(), NewLog> {
        let Sighting { record, version, time_ms, streamed, log } = seen;
        let (offset, commit) = (record.offset, version.commit());
        let run = match log {
            Log::Postgres => record.header(RUN_ID).unwrap_or_default(),
            Log::Binlog => &[],
        };
        let Some(at) = self.place_of(lineage) else {
            self.begin(lineage, seen, run);
            return Ok(());
        };
        let known = &mut self.known[at];
        let before = known.state;
        let mut state = before;
        if commit >= before.commit {
            state.commit = commit;
            state.dip = None;
        } else {
            let why = if !run.is_empty() && commit < known.last_commit && *run == *known.run {
                Some(Why::SameRun)
            } else {
                before.goes_down(seen, &mut state)
            };
            if let Some(why) = why {
                let first = before.dip.map_or(offset, |dip| dip.first);
                return Err(NewLog {
                    begins: Place { partition: record.partition.clone(), offset: first },
                    lineage: lineage.clone(),
                    log,
                    commit,
                    greatest: before.commit,
                    why,
                });
            }
        }
        state.time_ms = time_ms.max(before.time_ms);
        state.streamed |= streamed;
        known.state = state;
        known.seen = offset;
        known.last_commit = commit;
        if *run != *known.run {
            known.run.clear();
            known.run.extend_from_slice(run);
        }
        self.last = Some((offset, at, Some(before)));
        Ok(())
    }

    fn place_of(&mut self, lineage: &Arc<Lineage>) -> Option<usize> {
        if self.known.get(self.current).is_none_or(|known| !Arc::ptr_eq(&known.lineage, lineage)) {
            self.current = *self.places.get(lineage)?;
            // The lane's own, so that the next record is told by its pointer.
            self.known[self.current].lineage = lineage.clone();
        }
        Some(self.current)
    }

    fn begin(&mut self, lineage: &Arc<Lineage>, seen: Sighting<'_>, run: &[u8]) {
        let Sighting { record, version, time_ms, streamed, .. } = seen;
        let commit = version.commit();
        self.current = self.known.len();
        self.known.push(Known {
            lineage: lineage.clone(),
            state: State { commit, time_ms, streamed, dip: None },
            seen: record.offset,
            last_commit: commit,
            run: run.to_vec(),
            had_streamed: false,
        });
        self.places.insert(lineage.clone(), self.current);
        self.last = Some((record.offset, self.current, None));
    }
}

impl State {
    /// A record below P: why it is of a new log, or the stretch that it belongs to.
    fn goes_down(&self, seen: Sighting<'_>, then: &mut Self) -> Option<Why> {
        let Sighting { record, version, time_ms, streamed, log } = seen;
        if let (Some(time_ms), Some(greatest_ms)) = (time_ms, self.time_ms)
            && time_ms > greatest_ms
        {
            return Some(Why::Later { time_ms, greatest_ms });
        }
        // Of the first transaction that it reads, a connector without offsets knows no commit before: the
        // record's own position stands for it, which is a greater one than the transaction had or will have.
        let begins = log == Log::Postgres && stands_for_itself(version);
        let mut dip = match self.dip {
            Some(dip) if begins && !stands_for_itself(dip.top) => Dip { since: record.offset, count: 0, ..dip },
            // The rows of one snapshot share their position.
            Some(dip) if version > dip.top || !streamed && version == dip.top => dip,
            dip => {
                Dip { first: dip.map_or(record.offset, |dip| dip.first), since: record.offset, count: 0, top: version }
            }
        };
        // The count may be one that stood beside an offset.
        dip.count = dip.count.saturating_add(1);
        dip.top = version;
        let before = u64::try_from(dip.since).unwrap_or(0);
        if dip.count > before {
            return Some(Why::Longer { count: dip.count, since: dip.since });
        }
        then.dip = Some(dip);
        None
    }
}

/// True if the commit position is the record's own.
fn stands_for_itself(version: Version) -> bool {
    version.commit() == version.record()
}

/// A log that began anew under the name of the one before. Nothing of the record that shows it may
/// be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLog {
    /// Where it begins: the offset of the boundary to record.
    pub begins: Place,
    /// Whose log.
    pub lineage: Arc<Lineage>,
    /// Kind of its positions.
    pub log: Log,
    /// Position of the record that shows it.
    pub commit: u64,
    /// Greatest one read before.
    pub greatest: u64,
    /// What tells it from a record that is sent again.
    pub why: Why,
}

/// What tells a new log from records that are sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A later source time than any record before.
    Later {
        /// Its time, milliseconds since 1970.
        time_ms: i64,
        /// The greatest before.
        greatest_ms: i64,
    },
    /// More records than can be sent again.
    Longer {
        /// How many.
        count: u64,
        /// The offset since which they came: as many records lie before it, at most.
        since: Offset,
    },
    /// The connector did not restart.
    SameRun,
}

impl fmt::Display for NewLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |commit: u64| match self.log {
            Log::Postgres => format!("{:X}/{:X}", commit >> 32, commit & 0xFFFF_FFFF),
            Log::Binlog => format!("file {} position {}", commit >> 32, commit & 0xFFFF_FFFF),
        };
        write!(
            f,
            "the log of {} began anew: commit position {} lies below {}, which was read before, and ",
            self.lineage,
            shown(self.commit),
            shown(self.greatest)
        )?;
        match self.why {
            Why::Later { time_ms, greatest_ms } => {
                write!(f, "its time ({time_ms} ms) is later than any before ({greatest_ms} ms)")?;
            }
            Why::Longer { count, since } => {
                write!(f, "{count} records below it came since offset {since}, more than could be sent again")?;
            }
            Why::SameRun => f.write_str("the connector did not restart in between")?,
        }
        write!(
            f,
            "; a restored database, RESET MASTER, or another server under the same name looks like this, and its changes \
             would all be stale. Nothing of it is applied. If it is one, stop all instances and let a new epoch begin \
             with it: settle epoch bump {}",
            self.begins
        )
    }
}

impl std::error::Error for NewLog {}

#[cfg(test)]
mod tests;
