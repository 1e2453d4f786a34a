//! The log of dead letters, in files and on the real Kafka.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod faults;
mod files;
mod topics;

use settle_core::dead_letter::{DeadLetter, ErrorClass};
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::record::{Header, Record};
use settle_core::version::Version;
use settle_engine::config::dlq::{DlqConfig, DlqLimit, DlqPlace};
use settle_engine::dead_letter::{Contents, DeadLetterLog, DeadLetters, Found, Letter};

/// Bytes that are no UTF-8 and no JSON.
const WILD: &[u8] = b"\x00\xff{\"op\":\xc3\x28\n\"";

/// The log of a group in this place.
fn log_of(group: &str, place: &DlqPlace) -> DeadLetterLog {
    DeadLetterLog::new(&DlqConfig { place: place.clone(), limit: DlqLimit::default() }, group)
}

fn topic_id() -> TopicId {
    TopicId::of_first_line("shop", b"first")
}

fn letter(offset: Offset, payload: &[u8]) -> Letter {
    let header = |name: &str, value: Option<&[u8]>| Header {
        name: name.into(),
        value: value.map(bytes::Bytes::copy_from_slice),
    };
    let record = Record {
        partition: Partition::new("shop", 2),
        offset,
        timestamp_ms: Some(1_700_000_000_123),
        key: Some(bytes::Bytes::from_static(b"\x80key")),
        payload: Some(bytes::Bytes::copy_from_slice(payload)),
        headers: vec![header("trace", Some(b"\xfe")), header("none", None), header("trace", Some(b"again"))],
    };
    let dead = DeadLetter {
        record,
        error: "the value is not JSON (expected value at line 1)".to_owned(),
        class: ErrorClass::NotJson,
        table: None,
        version: Some(Version::from_halves(7, 9)),
        key: None,
    };
    Letter { topic_id: topic_id(), dead }
}

/// What was written comes back whole.
fn assert_same(found: &Found, letter: &Letter) {
    let (entry, dead) = (&found.entry, &letter.dead);
    assert_eq!(entry.record.partition, dead.record.partition);
    assert_eq!(entry.record.offset, dead.record.offset);
    assert_eq!(entry.record.timestamp_ms, dead.record.timestamp_ms);
    assert_eq!(entry.record.key, dead.record.key);
    assert_eq!(entry.record.headers, dead.record.headers);
    assert_eq!(
        (entry.topic_id, entry.error.as_str(), entry.class.as_str()),
        (letter.topic_id, &*dead.error, "not-json")
    );
    assert_eq!((entry.version, &entry.table), (dead.version, &None));
}

/// Every byte of what is written now comes back.
async fn assert_come_back(log: &mut DeadLetterLog, letters: &[Letter]) {
    assert_eq!(log.write(letters).await.unwrap().truncated, 0);
    let contents = log.read().await.unwrap();
    assert_eq!(contents.letters.len(), letters.len());
    for (found, letter) in contents.letters.iter().zip(letters) {
        assert_same(found, letter);
        assert_eq!(found.entry.record.payload, letter.dead.record.payload);
    }
}

fn open(contents: &Contents) -> Vec<Offset> {
    let open = contents.letters.iter().filter(|found| found.resolved.is_none());
    open.map(|found| found.entry.record.offset).collect()
}
