//! Times as people write them: a number and a unit.

use std::time::Duration;

/// Reads `500ms`, `10s`, `2m`, `1h`, `45d`.
pub fn read(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| "a time is a number and a unit, as 10s, 500ms, 2m".to_owned())?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("the unit of a time is ms, s, m, h or d, as in 10s".to_owned()),
    };
    number.checked_mul(ms).map(Duration::from_millis).ok_or_else(|| "the time is too long".to_owned())
}

const UNITS: [(u64, &str); 5] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];

/// Milliseconds in the greatest unit that says them exactly, as [`read`] takes it.
pub(crate) fn text(ms: u64) -> String {
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| ms >= *unit && ms.is_multiple_of(*unit)).unwrap_or((1, "ms"));
    format!("{}{name}", ms / unit)
}

/// At least so many milliseconds, in a unit that people would use.
pub(crate) fn text_rounded_up(ms: u64) -> String {
    let (unit, _) = UNITS.into_iter().find(|(unit, _)| ms >= *unit).unwrap_or((1, "ms"));
    text(ms.div_ceil(unit).saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit() {
        assert_eq!(read("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(read("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(read("45d"), Ok(Duration::from_secs(45 * 86_400)));
        for text in ["10", "s", "", "1w", "-1s", "1.5h", "99999999999999999d"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_told_as_it_would_be_written() {
        for written in ["45d", "25h", "90m", "1s", "1500ms", "0ms"] {
            assert_eq!(text(u64::try_from(read(written).unwrap().as_millis()).unwrap()), written);
        }
        assert_eq!(text_rounded_up(14 * 86_400_000 + 1), "15d");
        assert_eq!(text_rounded_up(3_600_001), "2h");
    }
}
