//! What has been written so far.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::simulate::Kind;

/// Counts of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were rolled back on purpose.
    pub rolled_back: u64,
    /// Tries that another transaction was in the way of (deadlock, serialization, lock wait), done again.
    pub retried: u64,
    /// Transactions that were given up after several tries.
    pub skipped: u64,
    /// Row changes that were committed, as the server counts them; those of rolled back savepoints too.
    pub rows: u64,
    /// Committed and rolled back transactions by kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// Milliseconds since the first transaction.
    pub elapsed_ms: u64,
}

impl Report {
    /// Transactions that were run to their end.
    pub fn transactions(&self) -> u64 {
        self.committed + self.rolled_back + self.skipped
    }

    /// Transactions per second.
    pub fn per_second(&self) -> u64 {
        self.transactions().saturating_mul(1_000) / self.elapsed_ms.max(1)
    }
}

/// For people, a line a kind.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} transactions in {}.{:03} s ({} a second), {} row changes",
            self.transactions(),
            self.elapsed_ms / 1_000,
            self.elapsed_ms % 1_000,
            self.per_second(),
            self.rows
        )?;
        writeln!(f, "  {:<16}{:>10}", "committed", self.committed)?;
        writeln!(f, "  {:<16}{:>10}  on purpose", "rolled back", self.rolled_back)?;
        writeln!(f, "  {:<16}{:>10}  tries that met another transaction", "retried", self.retried)?;
        writeln!(f, "  {:<16}{:>10}", "skipped", self.skipped)?;
        for (kind, count) in &self.kinds {
            writeln!(f, "    {:<14}{count:>10}", kind.name())?;
        }
        Ok(())
    }
}
