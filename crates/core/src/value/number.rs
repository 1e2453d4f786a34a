//! Decimal number text, exact, without allocation: JSON numbers and `decimal.handling.mode=string`.

use num_bigint::BigInt;

use super::decimal::{Decimal, power_of_ten};
use super::error::ValueError;
use super::exact::MAX_SCALE;
use super::kind::Kind;

/// A number as its significant digits and a power of ten: `±(whole‖fraction) * 10^exponent`.
///
/// Zeros at both ends are cut off, so equal numbers have equal parts and the number of digits
/// decides about range and loss before anything is computed. Zero has no digits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Number<'a> {
    /// Reads `-?digits[.digits][(e|E)[+-]digits]`.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (negative, bytes) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, bytes),
        };
        let (whole, rest) = digits(bytes);
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => match digits(rest) {
                ([], _) => return None,
                parts => parts,
            },
            _ => (&[][..], rest),
        };
        if whole.is_empty() {
            return None;
        }
        let power = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => exponent(rest)?,
            _ => return None,
        };
        Some(Self::trimmed(negative, whole, fraction, power))
    }

    fn trimmed(negative: bool, whole: &'a [u8], fraction: &'a [u8], power: i64) -> Self {
        let exponent = power.saturating_sub(length(fraction));
        let whole = without_leading_zeros(whole);
        let fraction = if whole.is_empty() { without_leading_zeros(fraction) } else { fraction };
        let (fraction, cut) = without_trailing_zeros(fraction);
        let (whole, more) = if fraction.is_empty() { without_trailing_zeros(whole) } else { (whole, 0) };
        Self { negative, whole, fraction, exponent: exponent.saturating_add(cut).saturating_add(more) }
    }

    /// How many significant digits it has.
    pub(super) fn digits(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    /// True for zero, `-0` included.
    pub(super) fn is_zero(&self) -> bool {
        self.digits() == 0
    }

    /// The number as an integer, if it is one of at most 38 digits.
    pub(super) fn to_i128(self) -> Option<i128> {
        let zeros = u32::try_from(self.exponent).ok().filter(|zeros| *zeros <= 38);
        match zeros {
            _ if self.is_zero() => Some(0),
            Some(zeros) if self.digits() + zeros as usize <= 38 => Some(self.narrow(zeros)),
            _ => None,
        }
    }

    /// The number with exactly the scale, if it has at most `precision` digits then.
    pub(super) fn to_decimal(self, precision: u32, scale: i32, kind: &Kind) -> Result<Decimal, ValueError> {
        // A schema may say any scale: none may make us write out its zeros.
        if !(-MAX_SCALE..=MAX_SCALE).contains(&scale) {
            return Err(ValueError::range(kind));
        }
        let written = u32::try_from(scale).unwrap_or(0);
        if self.is_zero() {
            return Ok(Decimal::new(0, written));
        }
        let zeros = self.exponent.saturating_add(i64::from(scale));
        if zeros < 0 {
            return Err(ValueError::precision(kind));
        }
        let range = || ValueError::range(kind);
        let fits = |zeros: i64| i64::try_from(self.digits()).is_ok_and(|n| n.saturating_add(zeros) <= precision.into());
        if !fits(zeros) {
            return Err(range());
        }
        // A negative scale counts its own zeros on top; they are written out.
        let zeros = zeros.saturating_add(i64::from(written)).saturating_sub(scale.into());
        let zeros = u32::try_from(zeros).map_err(|_| range())?;
        if self.digits() + zeros as usize <= 38 {
            return Ok(Decimal::new(self.narrow(zeros), written));
        }
        let mut text = Vec::with_capacity(self.digits());
        text.extend_from_slice(self.whole);
        text.extend_from_slice(self.fraction);
        let number = BigInt::parse_bytes(&text, 10).ok_or_else(range)? * BigInt::from(10).pow(zeros);
        Ok(Decimal::wide(if self.negative { -number } else { number }, written))
    }

    /// True if both are the same number.
    pub(super) fn equals(&self, other: &Number<'_>) -> bool {
        if self.is_zero() || other.is_zero() {
            return self.is_zero() && other.is_zero();
        }
        self.negative == other.negative
            && self.exponent == other.exponent
            && self.digits() == other.digits()
            && self.significant().eq(other.significant())
    }

    fn significant(&self) -> impl Iterator<Item = &u8> {
        self.whole.iter().chain(self.fraction)
    }

    /// The digits and `zeros` more: 38 in all at most.
    fn narrow(&self, zeros: u32) -> i128 {
        let number = if self.digits() <= 19 {
            // 19 digits fit 64 bits, where a step is far cheaper.
            self.significant().fold(0_u64, |sum, b| sum * 10 + u64::from(b - b'0')).into()
        } else {
            self.significant().fold(0_i128, |sum, b| sum * 10 + i128::from(b - b'0'))
        };
        let number = power_of_ten(zeros).map_or(0, |power| number * power);
        if self.negative { -number } else { number }
    }
}

fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

fn without_leading_zeros(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|b| **b == b'0').count()..]
}

/// What is left, and how many zeros went.
fn without_trailing_zeros(bytes: &[u8]) -> (&[u8], i64) {
    let (kept, cut) = bytes.split_at(bytes.len() - bytes.iter().rev().take_while(|b| **b == b'0').count());
    (kept, length(cut))
}

/// The leading digits, and the rest.
fn digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|b| b.is_ascii_digit()).count())
}

/// `[+-]digits`; what does not fit is as far out as it gets.
fn exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, bytes) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let (digits, rest) = digits(bytes);
    if digits.is_empty() || !rest.is_empty() {
        return None;
    }
    // Half of the range stays free for the shifts that follow.
    let power = digits.iter().fold(0_i64, |sum, b| (sum * 10 + i64::from(b - b'0')).min(i64::MAX / 32));
    Some(if negative { -power } else { power })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str, precision: u32, scale: i32) -> Result<String, ValueError> {
        let kind = Kind::Decimal { precision, scale };
        Number::parse(text).expect("a number").to_decimal(precision, scale, &kind).map(|d| d.to_string())
    }

    #[test]
    fn digits_are_kept_whatever_the_spelling() {
        for (text, wanted) in [
            ("10.50", "10.50"),
            ("1.05e1", "10.50"),
            ("-0.01", "-0.01"),
            ("-0", "0.00"),
            ("0.000", "0.00"),
            ("000120", "120.00"),
            ("1e3", "1000.00"),
            ("1050E-2", "10.50"),
            ("1.5000000", "1.50"),
        ] {
            assert_eq!(decimal(text, 12, 2).as_deref(), Ok(wanted), "{text}");
        }
        let wide = "12345678901234567890123456789012345678901234567890.123456789";
        assert_eq!(decimal(wide, 76, 9).as_deref(), Ok(wide));
        assert_eq!(decimal("1e60", 76, 0).unwrap().len(), 61);
    }

    #[test]
    fn lost_digits_and_lost_range_are_told_apart() {
        let kind = Kind::Decimal { precision: 5, scale: 2 };
        assert_eq!(decimal("0.001", 5, 2), Err(ValueError::precision(&kind)));
        assert_eq!(decimal("1000", 5, 2), Err(ValueError::range(&kind)));
        assert_eq!(decimal("999.99", 5, 2).as_deref(), Ok("999.99"));
        assert_eq!(decimal("1e999999999999999999999", 5, 2), Err(ValueError::range(&kind)));
        assert_eq!(decimal("1e-999999999999999999999", 5, 2), Err(ValueError::precision(&kind)));
        assert_eq!(decimal("0e999999999999999999999", 5, 2).as_deref(), Ok("0.00"));
    }

    #[test]
    fn a_negative_scale_takes_whole_hundreds() {
        assert_eq!(decimal("12300", 3, -2).as_deref(), Ok("12300"));
        assert!(matches!(decimal("12350", 3, -2), Err(ValueError::Precision(_))));
        assert!(matches!(decimal("123400", 3, -2), Err(ValueError::Range(_))));
    }

    #[test]
    fn what_is_no_number_is_told() {
        for text in ["", "-", "+1", "1.", ".5", "1e", "1e+", "1x", " 1", "NaN", "0x10", "1_0"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }
}
