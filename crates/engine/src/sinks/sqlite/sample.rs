//! Columns of topics without schemas, from the values seen.

use std::collections::HashMap;

use settle_core::batch::TableRows;
use settle_core::schema::{Inferred, infer};

/// The columns of a table's rows, in the order in which they were first seen; without a type where
/// all values were NULL. The unavailable marker says nothing about a type.
pub(super) fn columns(rows: TableRows<'_>) -> Vec<(String, Option<Inferred>)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut columns: Vec<(String, Option<Inferred>)> = Vec::new();
    for row in rows.rows() {
        let (carried, left_out) = (row.columns(), row.left_out());
        for column in carried.iter().chain(&left_out) {
            let at = *places.entry(column.name.to_string()).or_insert_with(|| {
                columns.push((column.name.to_string(), None));
                columns.len() - 1
            });
            if !column.is_unavailable() {
                columns[at].1 = match (columns[at].1, infer(column.json)) {
                    (Some(a), Some(b)) => Some(a.or(b)),
                    (known, seen) => known.or(seen),
                };
            }
        }
    }
    columns
}
