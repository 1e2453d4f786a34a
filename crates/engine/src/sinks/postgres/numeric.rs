//! The binary form of `numeric`: groups of four decimal digits, and how many digits are shown
//! behind the point.

use bytes::BufMut;
use settle_core::value::Decimal;

/// Most digits of a number: those that `numeric` holds before the point and behind it.
pub(super) const MAX_DIGITS: u32 = MAX_WHOLE + MAX_SCALE;
const MAX_WHOLE: u32 = 131_072;
const MAX_SCALE: u32 = 16_383;

const NEGATIVE: u16 = 0x4000;

/// Writes a decimal; none where `numeric` has no place for it.
pub(super) fn put(out: &mut Vec<u8>, decimal: &Decimal) -> Option<()> {
    let scale = decimal.scale();
    if scale > MAX_SCALE {
        return None;
    }
    // The point stands between two groups when the scale is a multiple of four.
    let pad = (4 - scale % 4) % 4;
    let narrow = decimal.to_i128().and_then(|number| number.checked_mul(10_i128.pow(pad)));
    let Some(number) = narrow else { return put_text(out, &decimal.to_string()) };
    let mut groups = [0_u16; 10];
    let mut count = 0;
    let mut rest = number.unsigned_abs();
    while rest > 0 {
        // Below 10,000.
        groups[groups.len() - 1 - count] = u16::try_from(rest % 10_000).unwrap_or(0);
        rest /= 10_000;
        count += 1;
    }
    let start = groups.len() - count;
    let behind = i16::try_from(scale.div_ceil(4)).ok()?;
    let weight = i16::try_from(count).ok()? - behind - 1;
    write(out, &groups[start..], weight, number < 0, u16::try_from(scale).ok()?)
}

/// Writes decimal digits: an optional sign, digits, and perhaps a point and more of them.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) -> Option<()> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() > MAX_WHOLE as usize || fraction.len() > MAX_SCALE as usize {
        return None;
    }
    let mut padded = vec![b'0'; (4 - whole.len() % 4) % 4];
    padded.extend_from_slice(whole.as_bytes());
    let before = padded.len() / 4;
    padded.extend_from_slice(fraction.as_bytes());
    padded.resize(padded.len().next_multiple_of(4), b'0');
    let groups: Vec<u16> = padded
        .chunks(4)
        .map(|four| four.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit.wrapping_sub(b'0'))))
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let weight = i16::try_from(i64::try_from(before).ok()? - i64::try_from(leading).ok()? - 1).ok()?;
    write(out, &groups[leading..], weight, negative, u16::try_from(fraction.len()).ok()?)
}

fn write(out: &mut Vec<u8>, groups: &[u16], weight: i16, negative: bool, scale: u16) -> Option<()> {
    let trailing = groups.iter().rev().take_while(|group| **group == 0).count();
    let groups = &groups[..groups.len() - trailing];
    out.put_u16(u16::try_from(groups.len()).ok()?);
    out.put_i16(if groups.is_empty() { 0 } else { weight });
    out.put_u16(if negative && !groups.is_empty() { NEGATIVE } else { 0 });
    out.put_u16(scale);
    for group in groups {
        out.put_u16(*group);
    }
    Some(())
}

/// Writes what is no number.
pub(super) fn put_word(out: &mut Vec<u8>, word: &str) {
    let sign: u16 = match word {
        "Infinity" => 0xd000,
        "-Infinity" => 0xf000,
        _ => 0xc000,
    };
    for part in [0, 0, sign, 0] {
        out.put_u16(part);
    }
}

/// How many digits a number's text has behind the point, its exponent counted; 0 for words. None where
/// no `numeric` has so many.
pub(super) fn scale_of(text: &str) -> Option<i32> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if !mantissa.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.')) {
        return Some(0);
    }
    let exponent: i64 = exponent.parse().ok()?;
    let scale = i64::try_from(fraction).ok()?.checked_sub(exponent)?.max(0);
    i32::try_from(scale).ok().filter(|scale| scale.unsigned_abs() <= MAX_SCALE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(bytes: &[u8]) -> Vec<u16> {
        bytes.chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]])).collect()
    }

    #[test]
    fn both_ways_write_the_same() {
        for (unscaled, scale, wanted) in [
            (0, 0, &[0, 0, 0, 0][..]),
            (0, 2, &[0, 0, 0, 2]),
            (1, 0, &[1, 0, 0, 0, 1]),
            (10_000, 0, &[1, 1, 0, 0, 1]),
            (1234, 2, &[2, 0, 0, 2, 12, 3400]),
            (-1234, 2, &[2, 0, NEGATIVE, 2, 12, 3400]),
            (1, 4, &[1, u16::MAX, 0, 4, 1]),
            (1, 5, &[1, u16::MAX - 1, 0, 5, 1000]),
            (123_456_789, 3, &[3, 1, 0, 3, 12, 3456, 7890]),
        ] {
            let decimal = Decimal::new(unscaled, scale);
            let (mut of_number, mut of_text) = (Vec::new(), Vec::new());
            put(&mut of_number, &decimal).unwrap();
            put_text(&mut of_text, &decimal.to_string()).unwrap();
            assert_eq!(parts(&of_number), wanted, "{unscaled} {scale}");
            assert_eq!(of_number, of_text, "{unscaled} {scale}");
        }
        let widest = Decimal::new(i128::MAX, 38);
        let (mut of_number, mut of_text) = (Vec::new(), Vec::new());
        put(&mut of_number, &widest).unwrap();
        put_text(&mut of_text, &widest.to_string()).unwrap();
        assert_eq!(of_number, of_text);
    }

    #[test]
    fn the_scale_is_that_of_the_text() {
        for (text, scale) in [
            ("12.50", Some(2)),
            ("7", Some(0)),
            ("1.5E-3", Some(4)),
            ("1.5E3", Some(0)),
            ("NaN", Some(0)),
            ("x", Some(0)),
            ("1e-99999", None),
            ("1e99999999999999999999", None),
        ] {
            assert_eq!(scale_of(text), scale, "{text}");
        }
    }

    #[test]
    fn what_is_too_long_has_no_place() {
        assert_eq!(put_text(&mut Vec::new(), &"9".repeat(131_073)), None);
        assert!(put_text(&mut Vec::new(), &"9".repeat(131_072)).is_some());
        assert_eq!(put(&mut Vec::new(), &Decimal::new(1, 16_384)), None);
    }
}
