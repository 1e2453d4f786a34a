//! One record as tests give and read it, and the form that `kcat -J` prints.

use std::path::Path;

use serde::Deserialize;

/// A record to produce, or one that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its topic.
    pub topic: String,
    /// Its partition, exactly.
    pub partition: i32,
    /// Its offset where it was read; the broker gives another when it is produced.
    pub offset: Option<i64>,
    /// Its time stamp in milliseconds; the producer's clock if absent.
    pub timestamp_ms: Option<i64>,
    /// Names and values in order; a name may come twice.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// The key; `None` is Kafka's null.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is a tombstone.
    pub payload: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct KcatLine {
    topic: String,
    partition: i32,
    offset: Option<i64>,
    ts: Option<i64>,
    #[serde(default)]
    headers: Vec<Option<String>>,
    key: Option<String>,
    payload: Option<String>,
}

impl Record {
    /// A record without headers.
    pub fn new(topic: &str, partition: i32, key: Option<&str>, payload: Option<&str>) -> Self {
        Self {
            topic: topic.to_owned(),
            partition,
            offset: None,
            timestamp_ms: None,
            headers: Vec::new(),
            key: key.map(|text| text.as_bytes().to_vec()),
            payload: payload.map(|text| text.as_bytes().to_vec()),
        }
    }

    /// Reads one line of `kcat -J`. Panics on anything else: a fixture is right or the test is wrong.
    pub fn from_kcat(line: &str) -> Self {
        let read: KcatLine =
            serde_json::from_str(line).unwrap_or_else(|why| panic!("not a line of kcat -J ({why}): {line:.200}"));
        assert!(read.headers.len().is_multiple_of(2), "headers without a value: {line:.200}");
        let headers = read.headers.chunks_exact(2).map(|pair| {
            let name = pair[0].clone().expect("a header has a name");
            (name, pair[1].clone().map(String::into_bytes))
        });
        Self {
            headers: headers.collect(),
            topic: read.topic,
            partition: read.partition,
            offset: read.offset,
            timestamp_ms: read.ts.filter(|ts| *ts >= 0),
            key: read.key.map(String::into_bytes),
            payload: read.payload.map(String::into_bytes),
        }
    }

    /// The same record in another topic.
    #[must_use]
    pub fn in_topic(mut self, topic: &str) -> Self {
        topic.clone_into(&mut self.topic);
        self
    }

    /// The same record with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), Some(value.as_bytes().to_vec())));
        self
    }

    /// The first header of that name, as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }
}

/// Every record of a capture file (`kcat -J`, one a line), in its order.
pub fn read_capture(path: &Path) -> Vec<Record> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("reading {}: {why}", path.display()));
    text.lines().filter(|line| !line.is_empty()).map(Record::from_kcat).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kcat_line_keeps_nulls_and_the_order_of_headers() {
        let record = Record::from_kcat(
            r#"{"topic":"t","partition":2,"offset":7,"tstype":"create","ts":1796056941110,"broker":1,
                "headers":["a","1","a",null],"key":"{\"id\":8}","payload":null}"#,
        );
        let expected = Record {
            topic: "t".to_owned(),
            partition: 2,
            offset: Some(7),
            timestamp_ms: Some(1_796_056_941_110),
            headers: vec![("a".to_owned(), Some(b"1".to_vec())), ("a".to_owned(), None)],
            key: Some(br#"{"id":8}"#.to_vec()),
            payload: None,
        };
        assert_eq!(record, expected);
        assert_eq!(record.header("a"), Some("1"));
    }
}
