//! Reads the recorded topics.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::value::RawValue;
use settle_core::position::{Offset, Partition};
use settle_core::record::{Header, Record};

/// Where a record stands in its topic.
pub type At = (i32, Offset);

/// The two halves of the version of each record that has one.
pub type Positions = BTreeMap<At, (u64, u64)>;

/// One recorded topic.
pub struct Topic {
    pub folder: String,
    pub name: String,
    /// By partition, then offset.
    pub records: Vec<Record>,
}

pub fn testdata(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(path)
}

/// Every recorded topic.
pub fn all() -> Vec<Topic> {
    let mut topics = Vec::new();
    for folder in sorted(&testdata("fixtures")) {
        for file in sorted(&folder) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            if let Some((topic, _)) = name.split_once(".jsonl") {
                topics.push(topic_of(&folder.file_name().unwrap().to_string_lossy(), topic));
            }
        }
    }
    topics
}

fn sorted(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries
}

/// A recorded topic by name.
pub fn topic_of(folder: &str, name: &str) -> Topic {
    let lines = lines(&testdata(format!("fixtures/{folder}/{name}.jsonl")));
    let mut records: Vec<_> = lines.iter().map(|line| record(name, line)).collect();
    records.sort_by_key(|record| (record.partition.number, record.offset));
    Topic { folder: folder.to_owned(), name: name.to_owned(), records }
}

/// The versions that the reference gives to the records of a topic, if it knows any.
pub fn expected_versions(topic: &Topic) -> Option<Positions> {
    let path = testdata(format!("versions/{}.{}.txt", topic.folder, topic.name));
    if !path.exists() && !packed(&path).exists() {
        return None;
    }
    let version = |line: &String| {
        let mut fields = line.split(' ');
        let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
        let at = (i32::try_from(next()).unwrap(), Offset::try_from(next()).unwrap());
        (at, (next(), next()))
    };
    Some(lines(&path).iter().map(version).collect())
}

fn packed(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.gz", path.display()))
}

/// The lines of a file, packed or not.
fn lines(path: &Path) -> Vec<String> {
    let file: Box<dyn Read> = match File::open(path) {
        Ok(file) => Box::new(file),
        Err(_) => Box::new(GzDecoder::new(File::open(packed(path)).unwrap())),
    };
    BufReader::new(file).lines().map(Result::unwrap).collect()
}

/// One line: as `kcat -J` prints it, or with bytes as base64, or decoded.
#[derive(Deserialize)]
struct Line<'a> {
    partition: i32,
    offset: Offset,
    ts: Option<i64>,
    headers: Option<Vec<Option<String>>>,
    #[serde(borrow)]
    key: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    key_b64: Option<String>,
    payload_b64: Option<String>,
}

fn record(topic: &str, line: &str) -> Record {
    // What was decoded from Avro spells numbers that JSON has not.
    let line = if topic.ends_with(".decoded") { &finite(line) } else { line };
    let line: Line<'_> = serde_json::from_str(line).unwrap();
    let bytes = |json: Option<&RawValue>, base64: Option<String>| match base64 {
        Some(base64) => Some(BASE64_STANDARD.decode(base64).unwrap().into()),
        None => json.map(|json| content(json.get())),
    };
    let headers = line.headers.unwrap_or_default();
    let header = |pair: &[Option<String>]| Header {
        name: pair[0].as_deref().unwrap().into(),
        value: pair[1].clone().map(Bytes::from),
    };
    Record {
        partition: Partition::new(topic, line.partition),
        offset: line.offset,
        timestamp_ms: line.ts,
        key: bytes(line.key, line.key_b64),
        payload: bytes(line.payload, line.payload_b64),
        headers: headers.chunks(2).map(header).collect(),
    }
}

fn finite(line: &str) -> String {
    [": NaN", ": Infinity", ": -Infinity"].iter().fold(line.to_owned(), |line, number| line.replace(number, ": null"))
}

/// The text of a string, or the value of what was decoded.
fn content(json: &str) -> Bytes {
    #[derive(Deserialize)]
    struct Decoded<'a> {
        #[serde(borrow)]
        value: &'a RawValue,
    }
    if json.starts_with('"') {
        return serde_json::from_str::<String>(json).unwrap().into();
    }
    let decoded: Decoded<'_> = serde_json::from_str(json).unwrap();
    decoded.value.get().to_owned().into()
}
