//! Exact decimal numbers.

use std::fmt;

use num_bigint::{BigInt, Sign};

use super::error::ValueError;
use super::exact::MAX_SCALE;
use super::kind::Kind;

/// A decimal number, exact: `unscaled / 10^scale`.
///
/// Numbers that fit 128 bits are held in place; only wider ones are allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    unscaled: Unscaled,
    scale: u32,
}

/// `Wide` only where `Narrow` cannot hold it, so that equal numbers are equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unscaled {
    Narrow(i128),
    Wide(BigInt),
}

impl From<BigInt> for Unscaled {
    fn from(number: BigInt) -> Self {
        match i128::try_from(&number) {
            Ok(narrow) => Self::Narrow(narrow),
            Err(_) => Self::Wide(number),
        }
    }
}

impl Decimal {
    /// `unscaled / 10^scale`
    pub fn new(unscaled: i128, scale: u32) -> Self {
        Self { unscaled: Unscaled::Narrow(unscaled), scale }
    }

    /// `unscaled / 10^scale`, of any width.
    pub fn wide(unscaled: BigInt, scale: u32) -> Self {
        Self { unscaled: unscaled.into(), scale }
    }

    /// The same digits with the point elsewhere. A negative scale adds zeros before the point.
    pub(super) fn with_scale(self, scale: i32) -> Self {
        match u32::try_from(scale) {
            Ok(scale) => Self { scale, ..self },
            Err(_) => Self::wide(self.to_bigint() * BigInt::from(10).pow(scale.unsigned_abs()), 0),
        }
    }

    /// Digits behind the point.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    /// All digits as an integer, if 128 bits hold it: always true up to 38 digits.
    pub fn to_i128(&self) -> Option<i128> {
        match &self.unscaled {
            Unscaled::Narrow(number) => Some(*number),
            Unscaled::Wide(_) => None,
        }
    }

    /// All digits as an integer.
    pub fn to_bigint(&self) -> BigInt {
        match &self.unscaled {
            Unscaled::Narrow(number) => BigInt::from(*number),
            Unscaled::Wide(number) => number.clone(),
        }
    }

    /// The same number with exactly the kind's scale, if it has the digits for it. A negative
    /// scale counts zeros before the point; the result then has scale 0.
    pub(super) fn fit(self, precision: u32, scale: i32, kind: &Kind) -> Result<Self, ValueError> {
        // A declared type may say any scale: none may make us write out its zeros.
        if !(-MAX_SCALE..=MAX_SCALE).contains(&scale) {
            return Err(ValueError::range(kind));
        }
        let wanted = u32::try_from(scale).unwrap_or(0);
        let zeros = if scale < 0 { scale.unsigned_abs() } else { 0 };
        let fitted = self.rescaled(wanted, precision.saturating_add(zeros), kind)?;
        if zeros > 0 && !fitted.is_zero() {
            // Only the divisibility counts: digits before the zeros would be lost otherwise.
            let unit = power(zeros, precision.saturating_add(zeros)).ok_or_else(|| ValueError::precision(kind))?;
            if fitted.to_bigint() % unit != BigInt::ZERO {
                return Err(ValueError::precision(kind));
            }
        }
        Ok(fitted)
    }

    fn rescaled(self, wanted: u32, precision: u32, kind: &Kind) -> Result<Self, ValueError> {
        if self.is_zero() {
            return Ok(Self::new(0, wanted));
        }
        let range = || ValueError::range(kind);
        let fitted = if wanted >= self.scale {
            let more = wanted - self.scale;
            match (&self.unscaled, power_of_ten(more)) {
                (Unscaled::Narrow(number), Some(factor)) if number.checked_mul(factor).is_some() => {
                    Self::new(number * factor, wanted)
                }
                _ => Self::wide(self.to_bigint() * power(more, precision).ok_or_else(range)?, wanted),
            }
        } else {
            let less = self.scale - wanted;
            let lost = || ValueError::precision(kind);
            match (&self.unscaled, power_of_ten(less)) {
                (Unscaled::Narrow(number), Some(divisor)) if number % divisor == 0 => {
                    Self::new(number / divisor, wanted)
                }
                (Unscaled::Narrow(_), _) => return Err(lost()),
                (Unscaled::Wide(number), _) => {
                    // More zeros than the number has bits: it cannot be divisible.
                    let divisor = power(less, u32::try_from(number.bits()).unwrap_or(u32::MAX)).ok_or_else(lost)?;
                    if number % &divisor != BigInt::ZERO {
                        return Err(lost());
                    }
                    Self::wide(number / divisor, wanted)
                }
            }
        };
        if fitted.has_at_most(precision) { Ok(fitted) } else { Err(range()) }
    }

    fn is_zero(&self) -> bool {
        self.unscaled == Unscaled::Narrow(0)
    }

    fn has_at_most(&self, digits: u32) -> bool {
        match (&self.unscaled, power_of_ten(digits)) {
            (Unscaled::Narrow(number), Some(limit)) => number.unsigned_abs() < limit.unsigned_abs(),
            (Unscaled::Narrow(_), None) => true,
            (Unscaled::Wide(_), Some(_)) => false,
            // 3.33 bits a digit: the power is only computed where the number may reach it.
            (Unscaled::Wide(number), _) if number.bits() <= u64::from(digits) * 3 => true,
            (Unscaled::Wide(number), _) if number.bits() > u64::from(digits) * 4 => false,
            (Unscaled::Wide(number), _) => number.magnitude() < BigInt::from(10).pow(digits).magnitude(),
        }
    }
}

/// The powers of ten that 128 bits hold.
const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// 10^exponent, if 128 bits hold it.
pub(super) fn power_of_ten(exponent: u32) -> Option<i128> {
    POWERS.get(exponent as usize).copied()
}

/// 10^exponent, unless it has more than `limit` digits: no message may make us build a huge number.
fn power(exponent: u32, limit: u32) -> Option<BigInt> {
    (exponent <= limit).then(|| BigInt::from(10).pow(exponent))
}

/// Plain digits with exactly the scale, no exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, digits) = match &self.unscaled {
            Unscaled::Narrow(number) => match u64::try_from(number.unsigned_abs()) {
                Ok(short) => (*number < 0, short.to_string()),
                Err(_) => (*number < 0, number.unsigned_abs().to_string()),
            },
            Unscaled::Wide(number) => (number.sign() == Sign::Minus, number.magnitude().to_string()),
        };
        if negative {
            f.write_str("-")?;
        }
        let scale = self.scale as usize;
        if scale == 0 {
            return f.write_str(&digits);
        }
        match digits.split_at_checked(digits.len().saturating_sub(scale)) {
            Some((whole, fraction)) if !whole.is_empty() => write!(f, "{whole}.{fraction}"),
            _ => {
                f.write_str("0.")?;
                (digits.len()..scale).try_for_each(|_| f.write_str("0"))?;
                f.write_str(&digits)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_exactly_the_scale() {
        for (number, scale, wanted) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 0, "5"),
            (-5, 1, "-0.5"),
            (-5, 3, "-0.005"),
            (12345, 2, "123.45"),
            (i128::MIN, 38, "-1.70141183460469231731687303715884105728"),
        ] {
            assert_eq!(Decimal::new(number, scale).to_string(), wanted);
        }
        let wide = Decimal::wide(BigInt::from(10).pow(60), 42);
        assert_eq!(wide.to_string(), "1000000000000000000.000000000000000000000000000000000000000000");
    }

    #[test]
    fn equal_numbers_are_equal_however_they_were_made() {
        assert_eq!(Decimal::wide(BigInt::from(7), 1), Decimal::new(7, 1));
        assert_eq!(Decimal::wide(BigInt::from(i128::MAX), 0).to_i128(), Some(i128::MAX));
        assert_eq!(Decimal::wide(BigInt::from(i128::MAX) + 1, 0).to_i128(), None);
    }
}
