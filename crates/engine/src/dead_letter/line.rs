//! A dead letter as one line of a file: as `kcat -J` prints a record, so that it can be read by
//! eye and by the same tools.
//!
//! `topic`, `partition`, `offset` and `ts` are the record's own. Bytes that are no UTF-8 stand in
//! `key_base64`, `payload_base64` and, beside the flat list, `headers_base64`, and come back as they were.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use settle_core::position::Place;
use settle_core::record::Header;

use super::entry::Stored;

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    topic: Cow<'a, str>,
    partition: i32,
    offset: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ts: Option<i64>,
    /// Name, value, name, value. A value that is no text is null here.
    #[serde(borrow)]
    headers: Vec<Option<Cow<'a, str>>>,
    /// Values that are no text, by the header's index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers_base64: Vec<(usize, String)>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(borrow)]
    payload: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
}

/// Text if it is, else base64.
fn split(bytes: Option<&[u8]>) -> (Option<Cow<'_, str>>, Option<String>) {
    match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| STANDARD.encode(bytes))) {
        None => (None, None),
        Some(Ok(text)) => (Some(Cow::Borrowed(text)), None),
        Some(Err(encoded)) => (None, Some(encoded)),
    }
}

fn joined(text: Option<Cow<'_, str>>, encoded: Option<String>) -> Result<Option<Bytes>, String> {
    match (text, encoded) {
        (Some(text), _) => Ok(Some(Bytes::copy_from_slice(text.as_bytes()))),
        (None, Some(encoded)) => {
            STANDARD.decode(encoded).map(|bytes| Some(bytes.into())).map_err(|error| format!("no base64 ({error})"))
        }
        (None, None) => Ok(None),
    }
}

/// Writes one line, line break included, behind what is in `out`.
pub(super) fn write(
    out: &mut Vec<u8>,
    place: &Place,
    timestamp_ms: Option<i64>,
    stored: &Stored,
) -> Result<(), String> {
    let mut headers = Vec::with_capacity(stored.headers.len() * 2);
    let mut headers_base64 = Vec::new();
    for (at, header) in stored.headers.iter().enumerate() {
        let (text, encoded) = split(header.value.as_deref());
        headers.extend([Some(Cow::Borrowed(&*header.name)), text]);
        headers_base64.extend(encoded.map(|encoded| (at, encoded)));
    }
    let (key, key_base64) = split(stored.key.as_deref());
    let (payload, payload_base64) = split(stored.value.as_deref());
    let line = Line {
        topic: Cow::Borrowed(&place.partition.topic),
        partition: place.partition.number,
        offset: place.offset,
        ts: timestamp_ms,
        headers,
        headers_base64,
        key,
        key_base64,
        payload,
        payload_base64,
    };
    serde_json::to_writer(&mut *out, &line).map_err(|error| error.to_string())?;
    out.push(b'\n');
    Ok(())
}

/// Why a line cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A crash cut it off while it was written: nobody was told that it is there.
    CutOff,
    /// It is none of ours.
    Foreign(String),
}

/// False where not even the beginning of a line is as we write it: a crash cuts the end off, or leaves
/// zeros where nothing was written yet.
pub(super) fn begins_as_ours(line: &[u8]) -> bool {
    const OPENING: &[u8] = br#"{"topic":""#;
    line.first() == Some(&0) || line.starts_with(OPENING) || OPENING.starts_with(line)
}

/// Reads one line, or says what is wrong with it.
pub(super) fn read(line: &[u8]) -> Result<Stored, Unreadable> {
    let line: Line<'_> = serde_json::from_slice(line).map_err(|error| {
        // The beginning of a line of ours ends too early, wherever it was cut. Zeros stand where room
        // was made in the file and nothing written yet; we write none.
        match error.is_eof() || line.contains(&0) {
            true => Unreadable::CutOff,
            false => Unreadable::Foreign(error.to_string()),
        }
    })?;
    stored(line).map_err(Unreadable::Foreign)
}

fn stored(line: Line<'_>) -> Result<Stored, String> {
    if !line.headers.len().is_multiple_of(2) {
        return Err("the headers do not pair up".to_owned());
    }
    let mut headers = Vec::with_capacity(line.headers.len() / 2);
    for pair in line.headers.chunks_exact(2) {
        let name = pair[0].as_deref().ok_or("a header has no name")?;
        let value = pair[1].as_deref().map(|text| Bytes::copy_from_slice(text.as_bytes()));
        headers.push(Header { name: name.into(), value });
    }
    for (at, encoded) in line.headers_base64 {
        let header: &mut Header = headers.get_mut(at).ok_or("a header that is not in the list")?;
        header.value = joined(None, Some(encoded))?;
    }
    Ok(Stored { headers, key: joined(line.key, line.key_base64)?, value: joined(line.payload, line.payload_base64)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use settle_core::position::Partition;

    use super::*;

    fn bytes() -> impl Strategy<Value = Option<Bytes>> {
        let text = ".*".prop_map(|text: String| text.into_bytes());
        let any = proptest::collection::vec(any::<u8>(), 0..40);
        proptest::option::of(prop_oneof![text, any].prop_map(Bytes::from))
    }

    proptest! {
        #[test]
        fn every_byte_comes_back(key in bytes(), value in bytes(), list in proptest::collection::vec((".*", bytes()), 0..5)) {
            let headers = list.into_iter().map(|(name, value)| Header { name: name.into(), value }).collect();
            let stored = Stored { key, value, headers };
            let place = Place { partition: Partition::new("t", 1), offset: 7 };
            let mut out = Vec::new();
            write(&mut out, &place, Some(5), &stored).unwrap();
            prop_assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
            prop_assert_eq!(read(&out), Ok(stored));
        }
    }
}
