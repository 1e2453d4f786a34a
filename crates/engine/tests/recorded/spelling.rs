//! Values as text, in one spelling whoever wrote them.

use serde_json::Value;

/// A JSON scalar as text.
pub fn plain(json: &str) -> String {
    match serde_json::from_str(json).unwrap() {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// A value in one spelling: times without zone marks and trailing zeros, wrapped unsigned numbers as the
/// connector's `long` mode sends them, booleans and bytes as the tests show them.
pub fn comparable(text: &str) -> String {
    if let Ok(wide) = text.parse::<u64>() {
        return wide.cast_signed().to_string();
    }
    let date = |t: &str| t.len() >= 10 && t.as_bytes()[4] == b'-' && t.as_bytes()[7] == b'-';
    let time = |t: &str| t.trim_start_matches('-').split(':').count() == 3 && !t.contains(' ');
    if date(text) || time(text) {
        let text = text.replace('T', " ");
        let text = text.trim_end_matches('Z').trim_end_matches("+00");
        let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text };
        return text.to_owned();
    }
    text.to_ascii_lowercase()
}

/// Equal; or times of which the connector sent the milliseconds alone (`time.precision.mode=connect`).
pub fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
    if wanted == found {
        return true;
    }
    let (Some(wanted), Some(found)) = (wanted, found) else { return false };
    let fraction = |t: &str| t.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let cut = wanted.len().saturating_sub(fraction(wanted).saturating_sub(3));
    fraction(wanted) > 3 && wanted.contains(':') && comparable(&wanted[..cut]) == found
}
