//! One line of a capture.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Deserialize;
use settle_core::position::Partition;
use settle_core::record::{Header, Record};

/// As `kcat -J` prints it; fields that Settle has no use for are skipped.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    partition: i32,
    offset: i64,
    #[serde(default)]
    ts: Option<i64>,
    /// Name, value, name, value.
    #[serde(borrow, default)]
    headers: Option<Vec<Option<Cow<'a, str>>>>,
    // Null is written out: a line that leaves them out is of another form, and no tombstone.
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    key: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "Option::deserialize")]
    payload: Option<Cow<'a, str>>,
}

/// Reads a line, or says what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Record, String> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|e| {
        if e.is_eof() {
            "the line ends too early (was the capture cut off?)".to_owned()
        } else {
            format!("not a captured record ({e})")
        }
    })?;
    // What is committed is the next offset, so the last number of all is none.
    if !(0..i64::MAX).contains(&line.offset) || line.partition < 0 {
        return Err("a partition or an offset that no log has".to_owned());
    }
    let flat = line.headers.unwrap_or_default();
    if !flat.len().is_multiple_of(2) {
        return Err("headers are a flat list of name and value, but their number is odd".to_owned());
    }
    let headers = flat
        .chunks_exact(2)
        .map(|pair| Header {
            name: pair[0].as_deref().unwrap_or_default().into(),
            value: pair[1].as_deref().map(bytes),
        })
        .collect();
    Ok(Record {
        partition: Partition::new(&*line.topic, line.partition),
        offset: line.offset,
        timestamp_ms: line.ts.filter(|ts| *ts >= 0),
        key: line.key.as_deref().map(bytes),
        payload: line.payload.as_deref().map(bytes),
        headers,
    })
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_is_not_an_empty_value() {
        let tombstone = parse(r#"{"topic":"t","partition":2,"offset":7,"key":"{}","payload":null}"#).unwrap();
        assert_eq!(tombstone.payload, None);
        let empty = parse(r#"{"topic":"t","partition":2,"offset":7,"key":null,"payload":""}"#).unwrap();
        assert_eq!(empty.payload.as_deref(), Some(&b""[..]));
        assert_eq!(empty.key, None);
    }

    #[test]
    fn a_line_without_a_payload_field_is_no_tombstone() {
        let said = parse(r#"{"topic":"t","partition":0,"offset":0,"key":"k","payload_base64":"AAAA"}"#).unwrap_err();
        assert!(said.contains("missing field `payload`"), "{said}");
    }

    #[test]
    fn headers_pair_up_and_may_be_null() {
        let record =
            parse(r#"{"topic":"t","partition":0,"offset":0,"headers":["a","1","b",null],"key":"k","payload":"v"}"#)
                .unwrap();
        assert_eq!(record.header("a"), Some(&b"1"[..]));
        assert_eq!(record.header("b"), None);
        assert_eq!(record.headers.len(), 2);
    }

    #[test]
    fn an_offset_must_have_a_next_one() {
        let at = |offset: i64| {
            parse(&format!(r#"{{"topic":"t","partition":0,"offset":{offset},"key":"k","payload":null}}"#))
        };
        assert_eq!(at(i64::MAX - 1).unwrap().offset, i64::MAX - 1);
        for offset in [i64::MAX, -1, i64::MIN] {
            assert_eq!(at(offset).unwrap_err(), "a partition or an offset that no log has", "{offset}");
        }
    }

    #[test]
    fn a_cut_line_says_so() {
        assert_eq!(parse(r#"{"topic":"t","part"#).unwrap_err(), "the line ends too early (was the capture cut off?)");
    }
}
