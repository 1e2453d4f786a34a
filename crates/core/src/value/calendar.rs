//! The proleptic Gregorian calendar, for any year that fits: days since 1970-01-01 and back.

/// Nanoseconds of a day.
pub(super) const DAY_NS: i128 = 86_400_000_000_000;

/// Days since 1970-01-01 of a date that exists. Years are astronomical: 0 is 1 BC.
pub(super) fn days_from_date(year: i64, month: u8, day: u8) -> Option<i64> {
    if !(1..=12).contains(&month) || day == 0 || day > days_of_month(year, month) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Year, month and day of a day since 1970-01-01.
pub(super) fn date_from_days(days: i64) -> (i64, i64, i64) {
    // 719,468 days lie between 0000-03-01 and 1970-01-01.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

fn days_of_month(year: i64, month: u8) -> u8 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The text of a [`Value::Date`](super::Value::Date): `YYYY-MM-DD`; outside of the years 0000 to
/// 9999 with a sign.
pub fn date_text(days: i64) -> String {
    let mut text = String::with_capacity(10);
    write_date(&mut text, days);
    text
}

/// The text of a [`Value::Time`](super::Value::Time) with `digits` behind the second.
pub fn time_text(ns: i64, digits: u8) -> String {
    let mut text = String::with_capacity(18);
    let digits = digits.min(9);
    write_time(&mut text, ns / 10_i64.pow(u32::from(9 - digits)), digits);
    text
}

/// The text of a [`Value::Timestamp`](super::Value::Timestamp) with `digits` behind the second:
/// `YYYY-MM-DD hh:mm:ss[.fff]`, as long for every value of the years 0000 to 9999.
pub fn timestamp_text(ns: i128, digits: u8) -> String {
    let mut text = String::with_capacity(29);
    let digits = digits.min(9);
    // Both fit: a day has fewer than 2^63 nanoseconds, and no source has 2^63 days.
    write_date(&mut text, i64::try_from(ns.div_euclid(DAY_NS)).unwrap_or(i64::MAX));
    text.push(' ');
    let of_day = i64::try_from(ns.rem_euclid(DAY_NS)).unwrap_or(0);
    write_time(&mut text, of_day / 10_i64.pow(u32::from(9 - digits)), digits);
    text
}

/// `YYYY-MM-DD`; outside of the years 0000 to 9999 with a sign.
pub(super) fn write_date(text: &mut String, days: i64) {
    let (year, month, day) = date_from_days(days);
    match year {
        ..0 => text.push('-'),
        0..=9999 => {}
        _ => text.push('+'),
    }
    write_padded(text, year.unsigned_abs(), 4);
    text.push('-');
    write_padded(text, month.unsigned_abs(), 2);
    text.push('-');
    write_padded(text, day.unsigned_abs(), 2);
}

/// `hh:mm:ss[.fff]` of a length in units of 10^-digits s. More than a day and less than nothing
/// are written too: MySQL's TIME goes from -838:59:59 to 838:59:59.
pub(super) fn write_time(text: &mut String, units: i64, digits: u8) {
    if units < 0 {
        text.push('-');
    }
    let per_second = 10_u64.pow(digits.min(18).into());
    let (seconds, fraction) = (units.unsigned_abs() / per_second, units.unsigned_abs() % per_second);
    write_padded(text, seconds / 3600, 2);
    text.push(':');
    write_padded(text, seconds / 60 % 60, 2);
    text.push(':');
    write_padded(text, seconds % 60, 2);
    if digits > 0 {
        text.push('.');
        write_padded(text, fraction, digits.min(18).into());
    }
}

/// A number with zeros in front, at least `width` digits long. Every timestamp in a text column
/// comes by here; the formatting machinery costs several times as much.
fn write_padded(text: &mut String, number: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut rest = number;
    let mut start = digits.len();
    while rest > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b"0123456789"[(rest % 10) as usize];
        rest /= 10;
    }
    text.extend(digits[start..].iter().map(|digit| char::from(*digit)));
}

/// `YYYY-MM-DD hh:mm:ss[.fff]` of units of 10^-digits s since 1970.
pub(super) fn write_timestamp(text: &mut String, units: i64, digits: u8) {
    let day = 86_400 * 10_i64.pow(digits.min(9).into());
    write_date(text, units.div_euclid(day));
    text.push(' ');
    write_time(text, units.rem_euclid(day), digits.min(9));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_age_go_there_and_back() {
        for (year, month, day, days) in [
            (1970, 1, 1, 0),
            (2000, 2, 29, 11_016),
            (1969, 12, 31, -1),
            (-43, 3, 15, -735_160),
            (-4712, 1, 1, -2_440_550),
            (5_874_897, 12, 31, 2_145_042_905),
        ] {
            assert_eq!(days_from_date(year, month, day), Some(days), "{year}");
            assert_eq!(date_from_days(days), (year, month.into(), day.into()));
        }
        for (year, month, day) in
            [(2023, 2, 29), (1900, 2, 29), (2024, 4, 31), (2024, 13, 1), (2024, 0, 1), (2024, 1, 0)]
        {
            assert_eq!(days_from_date(year, month, day), None);
        }
    }

    #[test]
    fn decoded_values_have_a_text_of_one_length() {
        assert_eq!(date_text(-1), "1969-12-31");
        assert_eq!(time_text(86_399_123_456_000, 6), "23:59:59.123456");
        assert_eq!(time_text(86_399_000_000_000, 0), "23:59:59");
        assert_eq!(timestamp_text(-1_000_000, 3), "1969-12-31 23:59:59.999");
        assert_eq!(timestamp_text(1_000_042_000, 6), "1970-01-01 00:00:01.000042");
        assert_eq!(timestamp_text(253_402_300_800_000_000_000, 0), "+10000-01-01 00:00:00");
    }

    #[test]
    fn fractions_before_1970_are_floored() {
        let mut text = String::new();
        write_timestamp(&mut text, -6_795_364_578_871_000, 6);
        assert_eq!(text, "1754-08-30 22:43:41.129000");
        text.clear();
        write_timestamp(&mut text, 1_000_042, 6);
        assert_eq!(text, "1970-01-01 00:00:01.000042");
        text.clear();
        write_time(&mut text, -108_000_500_000, 6);
        assert_eq!(text, "-30:00:00.500000");
    }
}
