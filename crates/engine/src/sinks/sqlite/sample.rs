//! Columns of topics without schemas, from the values seen.

use std::collections::HashMap;

use settle_core::batch::TableRows;

/// What the values of a column look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inferred {
    Bool,
    Int64,
    Float64,
    Text,
    Json,
}

/// Looks at one value; none for NULL.
pub(super) fn infer(json: &str) -> Option<Inferred> {
    match json.trim_start().bytes().next()? {
        b't' | b'f' => Some(Inferred::Bool),
        b'"' => Some(Inferred::Text),
        b'{' | b'[' => Some(Inferred::Json),
        b'-' | b'0'..=b'9' if json.parse::<i64>().is_ok() => Some(Inferred::Int64),
        b'-' | b'0'..=b'9' => Some(Inferred::Float64),
        _ => None,
    }
}

/// What the values of one column have been so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Seen {
    /// Only NULL.
    #[default]
    Nothing,
    /// All of one sort.
    One(Inferred),
    /// Of several sorts that no type holds.
    Mixed,
}

impl Seen {
    fn and(self, other: Option<Inferred>) -> Self {
        match (self, other) {
            (seen, None) => seen,
            (Self::Nothing, Some(one)) => Self::One(one),
            (Self::One(a), Some(b)) if a == b => self,
            (Self::One(Inferred::Int64 | Inferred::Float64), Some(Inferred::Int64 | Inferred::Float64)) => {
                Self::One(Inferred::Float64)
            }
            (Self::One(Inferred::Text | Inferred::Json), Some(Inferred::Text | Inferred::Json)) => {
                Self::One(Inferred::Text)
            }
            _ => Self::Mixed,
        }
    }
}

/// The columns of a table's rows, in the order in which they were first seen. The unavailable
/// marker says nothing about a type.
pub(super) fn columns(rows: TableRows<'_>) -> Vec<(String, Seen)> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut columns: Vec<(String, Seen)> = Vec::new();
    for row in rows.rows() {
        for column in row.columns().iter() {
            let at = match places.get(&*column.name) {
                Some(&at) => at,
                None => {
                    places.insert(column.name.to_string(), columns.len());
                    columns.push((column.name.to_string(), Seen::Nothing));
                    columns.len() - 1
                }
            };
            if !column.is_unavailable() {
                columns[at].1 = columns[at].1.and(infer(column.json));
            }
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_several_sorts_have_the_type_that_holds_them_or_none() {
        let seen = |values: &[&str]| values.iter().fold(Seen::default(), |seen, json| seen.and(infer(json)));
        assert_eq!(seen(&["null"]), Seen::Nothing);
        assert_eq!(seen(&["null", "1", "2.5"]), Seen::One(Inferred::Float64));
        assert_eq!(seen(&["{}", "\"a\""]), Seen::One(Inferred::Text));
        assert_eq!(seen(&["1", "\"a\"", "2"]), Seen::Mixed);
    }
}
