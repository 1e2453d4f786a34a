//! What the values of a column look like where no schema says it. A guess, for a hint to the user:
//! nothing is ever read by it.

use settle_core::batch::TableRows;

/// What every value of a column looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    /// Base64 that no words would be: bytes, or a decimal without its scale.
    Base64,
    /// `{"scale": n, "value": base64}`
    ScaledDecimal,
    /// Milliseconds since 1970, in this century.
    Milliseconds,
    /// Microseconds since 1970, in this century.
    Microseconds,
}

/// 2000-01-01 and 2100-01-01, seconds since 1970.
const CENTURY: std::ops::Range<i64> = 946_684_800..4_102_444_800;

/// The columns of which all values seen look alike.
pub(super) fn look(rows: TableRows<'_>) -> Vec<(String, Looks)> {
    let mut columns: Vec<(String, Column)> = Vec::new();
    for row in rows.rows() {
        for column in row.columns().iter().filter(|column| !column.is_unavailable() && column.json != "null") {
            match columns.iter_mut().find(|(name, _)| *name == column.name) {
                Some((_, known)) => known.take(column.json),
                None => {
                    let mut known = Column::default();
                    known.take(column.json);
                    columns.push((column.name.to_string(), known));
                }
            }
        }
    }
    columns.into_iter().filter_map(|(name, column)| Some((name, column.looks()?))).collect()
}

#[derive(Default)]
struct Column {
    values: usize,
    base64: usize,
    /// Base64 with padding or a sign, as words do not have them.
    telling: usize,
    scaled: usize,
    milliseconds: usize,
    microseconds: usize,
}

impl Column {
    fn take(&mut self, json: &str) {
        self.values += 1;
        if let Some(text) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            // An empty text is what no bytes are; it tells nothing.
            if text.is_empty() {
                self.values -= 1;
            } else if is_base64(text) {
                self.base64 += 1;
                self.telling += usize::from(text.contains(['=', '+', '/']));
            }
        } else if json.starts_with('{') {
            self.scaled += usize::from(is_scaled(json));
        } else if let Ok(number) = json.parse::<i64>() {
            self.milliseconds += usize::from(CENTURY.contains(&(number / 1_000)));
            self.microseconds += usize::from(CENTURY.contains(&(number / 1_000_000)));
        }
    }

    fn looks(&self) -> Option<Looks> {
        let all = |number: usize| number > 0 && number == self.values;
        match () {
            () if all(self.base64) && self.telling > 0 => Some(Looks::Base64),
            () if all(self.scaled) => Some(Looks::ScaledDecimal),
            () if all(self.milliseconds) => Some(Looks::Milliseconds),
            () if all(self.microseconds) => Some(Looks::Microseconds),
            () => None,
        }
    }
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    text.len().is_multiple_of(4)
        && padding <= 2
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_scaled(json: &str) -> bool {
    let columns = settle_core::columns::Columns::of(json);
    columns.len() == 2 && columns.get("scale", 0).is_some() && columns.get("value", 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(values: &[&str]) -> Option<Looks> {
        let mut column = Column::default();
        values.iter().for_each(|value| column.take(value));
        column.looks()
    }

    #[test]
    fn decimals_without_a_scale_are_told_from_words() {
        assert_eq!(looks(&["\"BBo=\"", "\"AYag\"", "\"\""]), Some(Looks::Base64));
        assert_eq!(looks(&["\"paid\"", "\"open\""]), None, "words of four letters are base64, too");
        assert_eq!(looks(&["\"BBo=\"", "\"new\""]), None);
        assert_eq!(looks(&["\"12.50\""]), None);
        assert_eq!(looks(&["{\"scale\":9,\"value\":\"J+Qb\"}"]), Some(Looks::ScaledDecimal));
        assert_eq!(looks(&["{\"scale\":9}"]), None);
    }

    #[test]
    fn times_are_told_by_their_size() {
        assert_eq!(looks(&["1709251199123", "1796057509139"]), Some(Looks::Milliseconds));
        assert_eq!(looks(&["1709251199123456"]), Some(Looks::Microseconds));
        assert_eq!(looks(&["1709251199123", "12"]), None);
        assert_eq!(looks(&["1709251199"]), None);
    }
}
