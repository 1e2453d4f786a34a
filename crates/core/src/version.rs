//! The version of a change: 128 bits from the source's own position, never from a clock.
//!
//! ```text
//! hi = 0 | epoch:7 | commit position:56          lo = 0 | rank:1 | record position:62
//! ```
//! Compared as one unsigned number. Both halves stay below 2^63, so they also fit two signed
//! BIGINT columns compared as a row value. At one commit position a streamed change (rank 1)
//! beats a row read by a snapshot (rank 0).
//!
//! A commit is ordered before a record position because a PostgreSQL transaction that was open
//! while a snapshot was read streams later, with *smaller* record positions.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::change::Lineage;
use crate::debezium::source::{Position, SourceBlock};
use crate::epoch::{Boundary, Epoch, Epochs};
use crate::position::Offset;

/// The name of the scheme, recorded beside the data: a run that would use another refuses.
pub const SCHEME: &str = "commit-position/1";

const COMMIT_BITS: u32 = 56;
const RECORD_BITS: u32 = 62;
const EPOCH_BITS: u32 = 7;
/// A binlog's commit position is the file's number and the position in it.
const FILE_BITS: u32 = 24;
const POS_BITS: u32 = 32;

/// Orders the changes of one key. Greater wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(u128);

impl Version {
    /// All bits.
    pub(crate) const ALL: Self = Self(u128::MAX >> 1);
    /// The bits of the epoch and of the record position.
    pub(crate) const EPOCH_AND_RECORD: Self =
        Self(((1 << EPOCH_BITS) - 1) << (64 + COMMIT_BITS) | ((1 << RECORD_BITS) - 1));

    /// Packs the parts; `None` where one does not fit its bits.
    pub fn pack(epoch: Epoch, commit: u64, streamed: bool, record: u64) -> Option<Self> {
        if commit >> COMMIT_BITS != 0 || record >> RECORD_BITS != 0 {
            return None;
        }
        let hi = u64::from(epoch.number()) << COMMIT_BITS | commit;
        let lo = u64::from(streamed) << RECORD_BITS | record;
        Some(Self(u128::from(hi) << 64 | u128::from(lo)))
    }

    /// From its two halves.
    pub fn from_halves(hi: u64, lo: u64) -> Self {
        Self(u128::from(hi) << 64 | u128::from(lo))
    }

    /// The upper half: epoch and commit position; below 2^63.
    pub fn hi(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The lower half: rank and record position; below 2^63.
    #[expect(clippy::cast_possible_truncation, reason = "the lower 64 of 128 bits")]
    pub fn lo(self) -> u64 {
        self.0 as u64
    }

    /// The upper half as a signed BIGINT; exact, since it is below 2^63.
    pub fn hi_signed(self) -> i64 {
        self.hi().cast_signed()
    }

    /// The lower half as a signed BIGINT; exact, since it is below 2^63.
    pub fn lo_signed(self) -> i64 {
        self.lo().cast_signed()
    }

    /// All 128 bits, little-endian: a ClickHouse UInt128 in Arrow.
    pub fn to_le_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The number that is compared.
    pub fn as_u128(self) -> u128 {
        self.0
    }

    /// The commit position: the lower 56 bits of the upper half.
    pub fn commit(self) -> u64 {
        self.hi() & ((1 << COMMIT_BITS) - 1)
    }

    /// The record position: the lower 62 bits.
    pub(crate) fn record(self) -> u64 {
        self.lo() & ((1 << RECORD_BITS) - 1)
    }

    /// The bits that `mask` has, too.
    #[must_use]
    pub fn masked(self, mask: Self) -> Self {
        Self(self.0 & mask.0)
    }

    /// The same position in the log of another epoch.
    #[must_use]
    pub fn with_epoch(self, epoch: Epoch) -> Self {
        Self::from_halves(u64::from(epoch.number()) << COMMIT_BITS | self.commit(), self.lo())
    }
}

impl From<u128> for Version {
    fn from(packed: u128) -> Self {
        Self(packed)
    }
}

/// Shows the parts, as `epoch/commit/rank/record`.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hi, lo) = (self.hi(), self.lo());
        write!(f, "{}/{}/{}/{}", hi >> COMMIT_BITS, self.commit(), lo >> RECORD_BITS, self.record())
    }
}

/// Why a record has no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// A part is too large for its bits.
    #[error("the source position (commit {commit}, record {record}) does not fit the version: 56 and 62 bits")]
    DoesNotFit {
        /// Commit position.
        commit: u64,
        /// Record position.
        record: u64,
    },
    /// A binlog position is too large for its bits.
    #[error("the binlog position (file {file}, position {pos}) does not fit the version: 24 and 32 bits")]
    BinlogDoesNotFit {
        /// Number in the file's name.
        file: u64,
        /// Position in the file.
        pos: u64,
    },
}

/// A full snapshot set a floor: everything of its lineage that was streamed after it in this
/// partition committed after it. It belongs to a place in the log, so that a run that starts
/// behind the snapshot row gives the same versions as one that read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Whose positions it bounds.
    pub lineage: Arc<Lineage>,
    /// Offset of the snapshot row that raised it.
    pub offset: Offset,
    /// Least commit position of streamed rows behind it.
    pub commit: u64,
}

/// Gives versions to the records of one partition, in log order.
#[derive(Clone, Debug, Default)]
pub struct Versioner {
    epochs: Epochs,
    /// Of the current epoch: positions of two logs do not compare.
    floors: HashMap<Arc<Lineage>, u64>,
}

impl Versioner {
    /// Starts at `offset`, with what the destination recorded of this partition: where epochs begin,
    /// and per lineage the greatest floor of the epoch at or before the offset.
    pub fn starting_at(offset: Offset, recorded: &[Floor], boundaries: &[Boundary]) -> Self {
        let mut epochs = Epochs::new(boundaries.to_vec());
        epochs.enter(offset);
        let mut floors = HashMap::new();
        for floor in recorded.iter().filter(|f| (epochs.begin()..=offset).contains(&f.offset)) {
            let known = floors.entry(floor.lineage.clone()).or_insert(0);
            *known = floor.commit.max(*known);
        }
        Self { epochs, floors }
    }

    /// Moves on to the record at `offset`. True if another epoch begins there: what was known of the
    /// positions before says nothing of those behind.
    pub fn enter(&mut self, offset: Offset) -> bool {
        let begins = self.epochs.enter(offset);
        if begins {
            self.floors.clear();
        }
        begins
    }

    /// The epoch of the place reached.
    pub fn epoch(&self) -> Epoch {
        self.epochs.current()
    }

    /// The epoch before that one.
    pub fn epoch_before(&self) -> Epoch {
        self.epochs.before()
    }

    /// Where that epoch begins.
    pub fn epoch_begin(&self) -> Offset {
        self.epochs.begin()
    }

    /// The version of the record at `offset`, and the floor that it raises, if it does.
    pub fn version(
        &mut self,
        source: &SourceBlock,
        lineage: &Arc<Lineage>,
        snapshot: bool,
        offset: Offset,
    ) -> Result<(Version, Option<Floor>), VersionError> {
        self.enter(offset);
        let mut floor = None;
        let (commit, record) = match source.position {
            Position::Postgres { last_commit, lsn, sequence_lsn } => {
                let record = lsn.unwrap_or(sequence_lsn);
                let commit = match (snapshot, last_commit) {
                    (true, Some(last_commit)) => last_commit,
                    (true, None) => *floor.insert(sequence_lsn),
                    (false, _) => last_commit.unwrap_or(record).max(self.floor(lineage)),
                };
                (commit, record)
            }
            Position::Binlog { file, pos, row } => {
                if file >> FILE_BITS != 0 || pos >> POS_BITS != 0 {
                    return Err(VersionError::BinlogDoesNotFit { file, pos });
                }
                (file << POS_BITS | pos, row)
            }
        };
        let version = Version::pack(self.epoch(), commit, !snapshot, record)
            .ok_or(VersionError::DoesNotFit { commit, record })?;
        // Only now: a position that is refused must not lift what comes behind it.
        let raised = floor.and_then(|commit| self.raise(lineage, commit, offset));
        Ok((version, raised))
    }

    fn floor(&self, lineage: &Arc<Lineage>) -> u64 {
        self.floors.get(lineage).copied().unwrap_or(0)
    }

    fn raise(&mut self, lineage: &Arc<Lineage>, commit: u64, offset: Offset) -> Option<Floor> {
        let known = self.floors.entry(lineage.clone()).or_insert(0);
        (commit > *known).then(|| {
            *known = commit;
            Floor { lineage: lineage.clone(), offset, commit }
        })
    }
}

#[cfg(test)]
mod tests;
