//! Whatever bytes a topic holds, a record is a typed event or a typed refusal: nothing panics, and
//! the lane stands behind it.

use std::sync::LazyLock;

use bytes::Bytes;
use proptest::prelude::*;
use settle_core::change::Event;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::record::{Header, Record};

use crate::support::capture;
use crate::support::sample;

/// A few records of every recorded topic.
static RECORDED: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let few = |topic: capture::Topic| {
        let step = (topic.records.len() / 8).max(1);
        topic.records.into_iter().step_by(step).take(10).collect::<Vec<_>>()
    };
    capture::all().into_iter().flat_map(few).collect()
});

/// Feeds one record and looks at all that came of it.
fn feed(mut record: Record, lone_tombstones: LoneTombstones) -> Result<(), TestCaseError> {
    record.offset = 5;
    let mut lane = Lane::new(record.partition.clone(), 0, &[], lone_tombstones);
    let fed = lane.feed(record.clone());
    prop_assert_eq!(lane.next(), 6);
    let fed = match fed {
        Ok(fed) => fed,
        Err(refusal) => {
            prop_assert_eq!(&refusal.place, &record.place());
            prop_assert!(!refusal.to_string().is_empty());
            let _ = refusal.reason.class();
            return Ok(());
        }
    };
    if let Event::Change(change) = &fed.event {
        prop_assert_eq!(change.is_delete(), change.after_json().is_empty());
        prop_assert!(change.is_delete() || serde_json::from_str::<serde_json::Value>(change.after_json()).is_ok());
        prop_assert!(change.key.fields().next().is_some());
    }
    let mut fold = Fold::new(Limits::default());
    prop_assert!(!fold.must_cut_before(&fed.event));
    fold.push(lane.partition(), 5, fed.event, fed.floor, 0).unwrap();
    let batch = fold.cut();
    for row in batch.tables().flat_map(|table| table.rows().collect::<Vec<_>>()) {
        let _ = row.columns().len();
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Harm {
    Truncate(prop::sample::Index),
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, prop::sample::Index),
    Repeat(prop::sample::Index, prop::sample::Index),
}

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<prop::sample::Index>;
    // Bytes that mean something to JSON, or to what reads it.
    let telling = prop::sample::select(b"{}[]\",:\\0null-1e9 \0\xff\xef\xbb\xbf".to_vec());
    let bytes = prop_oneof![prop::collection::vec(telling, 1..4), prop::collection::vec(any::<u8>(), 1..4)];
    prop_oneof![
        at().prop_map(Harm::Truncate),
        (at(), 1..=255u8).prop_map(|(at, bits)| Harm::Flip(at, bits)),
        (at(), bytes).prop_map(|(at, bytes)| Harm::Insert(at, bytes)),
        (at(), at()).prop_map(|(from, to)| Harm::Remove(from, to)),
        (at(), at()).prop_map(|(from, to)| Harm::Repeat(from, to)),
    ]
}

fn harmed(bytes: &[u8], harms: &[Harm]) -> Bytes {
    let mut bytes = bytes.to_vec();
    for harm in harms {
        let at = |index: &prop::sample::Index, bytes: &[u8]| index.index(bytes.len() + 1);
        let stretch = |from: &prop::sample::Index, to: &prop::sample::Index, bytes: &[u8]| {
            let (a, b) = (at(from, bytes), at(to, bytes));
            a.min(b)..a.max(b)
        };
        match harm {
            Harm::Truncate(end) => bytes.truncate(at(end, &bytes)),
            Harm::Flip(place, bits) if !bytes.is_empty() => {
                let place = place.index(bytes.len());
                bytes[place] ^= bits;
            }
            Harm::Flip(..) => {}
            Harm::Insert(place, new) => {
                let place = at(place, &bytes);
                bytes.splice(place..place, new.iter().copied());
            }
            Harm::Remove(from, to) => drop(bytes.drain(stretch(from, to, &bytes))),
            Harm::Repeat(from, to) => {
                let stretch = stretch(from, to, &bytes);
                let copy = bytes[stretch.clone()].to_vec();
                bytes.splice(stretch.end..stretch.end, copy);
            }
        }
    }
    bytes.into()
}

fn lone_tombstones() -> impl Strategy<Value = LoneTombstones> {
    prop::sample::select(vec![LoneTombstones::Refuse, LoneTombstones::Skip])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_an_event_or_a_refusal(
        key in prop::option::of(prop::collection::vec(any::<u8>(), 0..60)),
        payload in prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
        lone in lone_tombstones(),
    ) {
        let mut record = sample::record(None, None);
        (record.key, record.payload) = (key.map(Bytes::from), payload.map(Bytes::from));
        feed(record, lone)?;
    }

    #[test]
    fn a_recorded_record_that_was_harmed_is_an_event_or_a_refusal(
        which in any::<prop::sample::Index>(),
        payload in prop::collection::vec(harm(), 0..3),
        key in prop::collection::vec(harm(), 0..2),
        old_key in prop::option::of(prop::collection::vec(harm(), 0..3)),
        lone in lone_tombstones(),
    ) {
        let mut record = which.get(&RECORDED).clone();
        let old = old_key.map(|harms| harmed(record.key.as_deref().unwrap_or_default(), &harms));
        record.headers.extend(old.map(|value| Header { name: "__debezium.oldkey".into(), value: Some(value) }));
        record.payload = record.payload.map(|bytes| harmed(&bytes, &payload));
        record.key = record.key.map(|bytes| harmed(&bytes, &key));
        feed(record, lone)?;
    }
}

#[test]
fn deep_nesting_is_refused_and_not_followed() {
    for text in
        ["[".repeat(100_000), "{\"op\":".repeat(100_000), format!("{{\"op\":\"c\",\"after\":{}", "[".repeat(100_000))]
    {
        let record = sample::record(Some(&text), Some(&text));
        assert!(feed(record, LoneTombstones::Refuse).is_ok());
        let record = sample::record(Some(&text), None);
        assert!(feed(record, LoneTombstones::Skip).is_ok());
    }
}
