//! The proleptic Gregorian calendar, for any year that fits: days since 1970-01-01 and back.

use std::fmt::Write;

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

/// `YYYY-MM-DD`; outside of the years 0000 to 9999 with a sign.
pub(super) fn write_date(text: &mut String, days: i64) {
    let (year, month, day) = date_from_days(days);
    let sign = match year {
        ..0 => "-",
        0..=9999 => "",
        _ => "+",
    };
    let _ = write!(text, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs());
}

/// `hh:mm:ss[.fff]` of a length in units of 10^-digits s. More than a day and less than nothing
/// are written too: MySQL's TIME goes from -838:59:59 to 838:59:59.
pub(super) fn write_time(text: &mut String, units: i64, digits: u8) {
    let sign = if units < 0 { "-" } else { "" };
    let per_second = 10_u64.pow(digits.min(18).into());
    let (seconds, fraction) = (units.unsigned_abs() / per_second, units.unsigned_abs() % per_second);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(text, "{sign}{hours:02}:{minutes:02}:{seconds:02}");
    if digits > 0 {
        let _ = write!(text, ".{fraction:0width$}", width = digits.into());
    }
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
