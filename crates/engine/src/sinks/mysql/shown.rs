//! Values as they are compared and shown.

use std::fmt::Write as _;

use mysql_async::Value;
use uuid::Uuid;

use crate::sinks::sql::versioned;

/// A key as a JSON object.
pub(super) fn key_json(names: &[String], values: &[Value]) -> String {
    let json = |value: &Value| match value {
        Value::NULL => "null".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        other => serde_json::Value::String(text(other).unwrap_or_default()).to_string(),
    };
    versioned::key_json(names.iter().zip(values.iter().map(json)))
}

/// As people read it; none for NULL.
pub(super) fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::NULL => return None,
        Value::Int(number) => number.to_string(),
        Value::UInt(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Double(number) => number.to_string(),
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().fold(String::from("0x"), |mut hex, byte| {
                // Writing to a string cannot fail.
                let _ = write!(hex, "{byte:02x}");
                hex
            }),
        },
        Value::Date(year, month, day, hour, minute, second, micros) => {
            format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
        }
        Value::Time(negative, days, hours, minutes, seconds, micros) => {
            let sign = if *negative { "-" } else { "" };
            format!("{sign}{:02}:{minutes:02}:{seconds:02}.{micros:06}", days * 24 + u32::from(*hours))
        }
    })
}

/// The digest of a row's columns. A NULL adds nothing: a column that was added later and holds none
/// changes no row.
pub(super) fn digest(columns: &[String], values: &[Value]) -> u128 {
    let mut bytes = Vec::new();
    for (name, value) in columns.iter().zip(values) {
        let (tag, value): (u8, Vec<u8>) = match value {
            Value::NULL => continue,
            Value::Int(number) => (1, number.to_string().into_bytes()),
            Value::UInt(number) => (1, number.to_string().into_bytes()),
            Value::Float(number) => (2, f64::from(*number).to_bits().to_le_bytes().to_vec()),
            Value::Double(number) => (2, number.to_bits().to_le_bytes().to_vec()),
            Value::Bytes(bytes) => (3, bytes.clone()),
            moment @ (Value::Date(..) | Value::Time(..)) => (4, text(moment).unwrap_or_default().into_bytes()),
        };
        // Lengths in front: two values never run together into a third.
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(tag);
        bytes.extend((value.len() as u64).to_le_bytes());
        bytes.extend(value);
    }
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).as_u128()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_people_read_them() {
        let names = ["a".to_owned(), "b\"".to_owned()];
        assert_eq!(key_json(&names, &[Value::Int(-7), Value::Bytes("x\"".into())]), r#"{"a":-7,"b\"":"x\""}"#);
        for (value, shown) in [
            (Value::Bytes(vec![0xff, 0]), "0xff00"),
            (Value::Date(2020, 1, 2, 3, 4, 5, 6), "2020-01-02 03:04:05.000006"),
            (Value::Time(true, 34, 22, 59, 59, 0), "-838:59:59.000000"),
            (Value::Double(0.1), "0.1"),
        ] {
            assert_eq!(text(&value).as_deref(), Some(shown));
        }
    }

    #[test]
    fn a_digest_tells_values_and_columns_apart_and_null_from_neither() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let bytes = |text: &str| Value::Bytes(text.into());
        let ab = names(&["a", "b"]);
        assert_ne!(digest(&ab, &[bytes("x"), bytes("")]), digest(&ab, &[bytes(""), bytes("x")]));
        assert_ne!(digest(&ab, &[bytes("1"), Value::NULL]), digest(&ab, &[Value::Int(1), Value::NULL]));
        assert_eq!(digest(&ab, &[bytes("x"), Value::NULL]), digest(&names(&["a"]), &[bytes("x")]));
        assert_eq!(digest(&ab, &[Value::Int(7), Value::NULL]), digest(&ab, &[Value::UInt(7), Value::NULL]));
    }
}
