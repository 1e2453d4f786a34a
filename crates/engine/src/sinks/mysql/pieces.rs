//! Rows that one statement writes together, in pieces that the server takes.

use mysql_async::Value as Bound;
use settle_core::sink::{FailureKind, SinkError};

use super::connection::Done;
use super::failure::{Outcome, TOO_LARGE, contract};
use super::rows::{HEADROOM, Item, Writer, at_fault};
use super::shape::Many;

/// Bytes that one statement carries, unless a single row has more.
const BYTES: usize = 4 << 20;

impl Writer<'_> {
    /// Runs an upsert of many rows in pieces; says how many rows it changed.
    pub(super) async fn chunks(
        &mut self,
        statement: &Many,
        items: &[Item<'_, '_>],
        bind: impl Fn(&Self, &Item<'_, '_>, &mut Vec<Bound>) -> Outcome<()>,
    ) -> Outcome<u64> {
        let room = self.connection.server.max_packet.saturating_sub(HEADROOM);
        let mut changed = 0;
        let mut rest = items;
        while !rest.is_empty() {
            let mut values: Vec<Bound> = Vec::new();
            let (mut rows, mut bytes) = (0, 0);
            let wanted = largest_power(rest.len().min(statement.most()));
            for item in &rest[..wanted] {
                let from = values.len();
                bind(self, item, &mut values)?;
                let size: usize = values[from..].iter().map(size).sum();
                if size > room {
                    let context = format!("record {}: {TOO_LARGE}", item.change().place());
                    let error = SinkError::new(FailureKind::Row, self.prepared.operation(), context);
                    return Err(error.at(item.change().place()));
                }
                if rows > 0 && bytes + size > BYTES.min(room) {
                    values.truncate(from);
                    break;
                }
                bytes += size;
                rows += 1;
            }
            // Few texts of statements: they are prepared once.
            let whole = largest_power(rows);
            values.truncate(whole * statement.width);
            let (now, later) = rest.split_at(whole);
            let operation = self.prepared.operation();
            let ran = self.connection.run(&operation, &statement.of(whole), values).await;
            let done = ran.map_err(|refused| at_fault(refused, now.iter().map(Item::change)))?;
            changed += counted(&done, whole as u64, &operation)?;
            rest = later;
        }
        Ok(changed)
    }
}

/// The greatest power of two up to a number above 0.
fn largest_power(number: usize) -> usize {
    1 << number.max(1).ilog2()
}

/// How many rows an upsert of several changed. A row that is as new as the one to be written stays as it
/// is: of one row the server counts 1 where it was inserted, 2 where it was changed, 0 where it stayed;
/// of several it says besides how many of those that were there were changed.
fn counted(done: &Done, rows: u64, operation: &str) -> Outcome<u64> {
    if rows == 1 {
        return Ok(done.affected.min(1));
    }
    // `Records: 3  Duplicates: 2  Warnings: 0`, in the language of the server.
    let numbers: Vec<u64> =
        done.info.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let changed = match numbers[..] {
        [records, changed, _] if records == rows => done.affected.checked_sub(changed).filter(|sum| *sum >= changed),
        _ => None,
    };
    changed.filter(|changed| *changed <= rows).ok_or_else(|| {
        contract(
            operation,
            "the server, or a proxy before it, does not say how many rows of an INSERT were there already; connect to the \
             server itself",
        )
    })
}

/// About how many bytes a value is on its way.
pub(super) fn size(value: &Bound) -> usize {
    match value {
        Bound::Bytes(bytes) => bytes.len() + 9,
        _ => 13,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_stayed_are_told_from_those_that_changed() {
        let counted = |affected, info: &str, rows| counted(&Done { affected, info: info.into() }, rows, "write").ok();
        for (affected, wanted) in [(0, 0), (1, 1), (2, 1)] {
            assert_eq!(counted(affected, "", 1), Some(wanted));
        }
        // Two inserted, two changed, one that stayed.
        assert_eq!(counted(6, "Records: 5  Duplicates: 2  Warnings: 0", 5), Some(4));
        assert_eq!(counted(6, "Datensätze: 5  Duplikate: 2  Warnungen: 0", 5), Some(4));
        for (affected, info, rows) in [
            (6, "", 5),
            (6, "Records: 4  Duplicates: 2  Warnings: 0", 5),
            (1, "Records: 5  Duplicates: 2  Warnings: 0", 5),
            (9, "Records: 5  Duplicates: 2  Warnings: 0", 5),
        ] {
            assert_eq!(counted(affected, info, rows), None, "{info}");
        }
    }

    #[test]
    fn statements_have_few_lengths() {
        assert_eq!([1, 2, 3, 511, 512].map(largest_power), [1, 2, 2, 256, 512]);
    }
}
