//! ISO-8601 text, exactly: what Debezium, the JSON converter and databases write.

use super::calendar::{DAY_NS, days_from_date};

/// What one text says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Iso {
    /// Days since 1970-01-01.
    pub(super) days: Option<i64>,
    /// Nanoseconds since midnight, as written.
    pub(super) time_ns: Option<i64>,
    /// Seconds east of UTC.
    pub(super) offset_s: Option<i64>,
    /// True if digits below the nanosecond were cut that are not zero.
    pub(super) cut: bool,
}

/// Why a text gives no date or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IsoError {
    /// Another form.
    Form,
    /// The form is right, but there is no such day or time.
    Range,
}

impl Iso {
    /// Reads a date, a time, or both (with `T` or a space between), with or without an offset:
    /// `2026-11-30T16:38:56.359722Z`, `+21016-11-04T06:51:30+02:00`, `-4713-12-31`, `21:59:59Z`,
    /// `2026-11-30 16:38:56`. Years of more than four digits need their sign.
    pub(super) fn parse(text: &str) -> Result<Self, IsoError> {
        let mut rest = Rest(text.as_bytes());
        let mut iso = Self::default();
        // A time has its first colon in third place; a date never has one there.
        if rest.0.get(2) == Some(&b':') {
            rest.time(&mut iso)?;
        } else {
            iso.days = Some(rest.date()?);
            if rest.take(|b| matches!(b, b'T' | b' ')).is_some() {
                rest.time(&mut iso)?;
            }
        }
        iso.offset_s = rest.offset()?;
        if rest.0.is_empty() { Ok(iso) } else { Err(IsoError::Form) }
    }

    /// Nanoseconds since 1970-01-01T00:00:00, in UTC where there is an offset; a date alone is its
    /// midnight. None without a date.
    pub(super) fn instant_ns(&self) -> Option<i128> {
        let local = i128::from(self.days?) * DAY_NS + i128::from(self.time_ns.unwrap_or(0));
        Some(local - i128::from(self.offset_s.unwrap_or(0)) * 1_000_000_000)
    }
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        let (first, rest) = self.0.split_first().filter(|(first, _)| wanted(**first))?;
        self.0 = rest;
        Some(*first)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), IsoError> {
        self.take(|b| b == wanted).map(|_| ()).ok_or(IsoError::Form)
    }

    fn digits(&mut self) -> &[u8] {
        let (digits, rest) = self.0.split_at(self.0.iter().take_while(|b| b.is_ascii_digit()).count());
        self.0 = rest;
        digits
    }

    fn two(&mut self) -> Result<u8, IsoError> {
        match self.0 {
            [a @ b'0'..=b'9', b @ b'0'..=b'9', rest @ ..] => {
                let number = (a - b'0') * 10 + (b - b'0');
                self.0 = rest;
                Ok(number)
            }
            _ => Err(IsoError::Form),
        }
    }

    fn date(&mut self) -> Result<i64, IsoError> {
        let sign = self.take(|b| matches!(b, b'+' | b'-'));
        let digits = self.digits();
        let longest = if sign.is_some() { 9 } else { 4 };
        if !(4..=longest).contains(&digits.len()) {
            return Err(IsoError::Form);
        }
        let year = digits.iter().fold(0_i64, |sum, b| sum * 10 + i64::from(b - b'0'));
        self.expect(b'-')?;
        let month = self.two()?;
        self.expect(b'-')?;
        let day = self.two()?;
        days_from_date(if sign == Some(b'-') { -year } else { year }, month, day).ok_or(IsoError::Range)
    }

    fn time(&mut self, iso: &mut Iso) -> Result<(), IsoError> {
        let hour = self.two()?;
        self.expect(b':')?;
        let minute = self.two()?;
        let second = if self.take(|b| b == b':').is_some() { self.two()? } else { 0 };
        let mut nanoseconds = 0_i64;
        if self.take(|b| b == b'.').is_some() {
            let digits = self.digits();
            if digits.is_empty() {
                return Err(IsoError::Form);
            }
            let (kept, cut) = digits.split_at(digits.len().min(9));
            nanoseconds = (0..9).fold(0, |sum, i| sum * 10 + kept.get(i).map_or(0, |b| i64::from(b - b'0')));
            iso.cut = cut.iter().any(|b| *b != b'0');
        }
        if hour > 23 || minute > 59 || second > 59 {
            return Err(IsoError::Range);
        }
        let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        iso.time_ns = Some(seconds * 1_000_000_000 + nanoseconds);
        Ok(())
    }

    /// `Z`, `+hh`, `+hh:mm`, `+hhmm`, `+hh:mm:ss`, or nothing.
    fn offset(&mut self) -> Result<Option<i64>, IsoError> {
        let Some(sign) = self.take(|b| matches!(b, b'Z' | b'+' | b'-')) else {
            return Ok(None);
        };
        if sign == b'Z' {
            return Ok(Some(0));
        }
        let hours = self.two()?;
        let colon = self.take(|b| b == b':').is_some();
        let minutes = if colon || !self.0.is_empty() { self.two()? } else { 0 };
        let seconds = if colon && self.take(|b| b == b':').is_some() { self.two()? } else { 0 };
        if hours > 23 || minutes > 59 || seconds > 59 {
            return Err(IsoError::Range);
        }
        let offset = i64::from(hours) * 3600 + i64::from(minutes) * 60 + i64::from(seconds);
        Ok(Some(if sign == b'-' { -offset } else { offset }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_names_its_instant() {
        for (text, microseconds) in [
            ("2016-11-04T11:51:30.123456Z", 1_478_260_290_123_456),
            ("+21016-11-04T06:51:30.123456Z", 601_060_287_090_123_456),
            ("-4713-12-31T23:59:59.999999Z", -210_863_520_000_000_001_i128),
            ("0001-01-01T00:00:00.000000Z", -62_135_596_800_000_000),
            ("+294247-01-01T23:59:59.999999Z", 9_223_371_331_199_999_999),
            ("2024-02-29T23:59:59.5+02:00", 1_709_243_999_500_000),
            ("2024-02-29 23:59:59.5+02", 1_709_243_999_500_000),
            ("2024-02-29T23:59:59.5+0200", 1_709_243_999_500_000),
            ("2024-02-29T14:59:59.5-07:00:00", 1_709_243_999_500_000),
            ("2024-02-29 21:59:59", 1_709_243_999_000_000),
            ("2024-02-29T21:59", 1_709_243_940_000_000),
            ("1970-01-02", 86_400_000_000),
            ("1970-01-02Z", 86_400_000_000),
        ] {
            assert_eq!(Iso::parse(text).ok().and_then(|iso| iso.instant_ns()), Some(microseconds * 1000), "{text}");
        }
        assert_eq!(Iso::parse("21:59:59.123456Z").unwrap().time_ns, Some(79_199_123_456_000));
        assert!(Iso::parse("21:59:59.1234560001").unwrap().cut);
        assert!(!Iso::parse("21:59:59.1234567890000").unwrap().cut);
    }

    #[test]
    fn other_forms_and_days_that_do_not_exist_are_told_apart() {
        for text in [
            "",
            "x",
            "2024",
            "2024-1-1",
            "20240101",
            "12024-01-01",
            "2024-01-01T",
            "2024-01-01T1:00",
            "10:00:00.",
            "10",
            "2024-01-01T10:00:00 Z",
            "2024-01-01T10:00:00+2",
            "2024-01-01T10:00:00Zx",
            "0044-03-15 BC",
            "+1-01-01",
        ] {
            assert_eq!(Iso::parse(text), Err(IsoError::Form), "{text}");
        }
        for text in ["2023-02-29", "2024-13-01", "24:00:00", "10:60:00", "23:59:60", "10:00:00+24:00"] {
            assert_eq!(Iso::parse(text), Err(IsoError::Range), "{text}");
        }
    }
}
