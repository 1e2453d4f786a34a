//! A log of changes with poison in it, and what is true of its rows.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settle_core::position::{Offset, Place};
use settle_core::record::Record;

use super::destination::{BAD, HOLE, Stored};
use crate::support::sample::{Placed, postgres};

pub(super) const MASKED: &str = "\"__debezium_unavailable_value\"";

/// What happens to a row at the source. Its columns: `n` is always sent, `body` only where it changes.
#[derive(Clone, Debug)]
pub(super) enum Act {
    /// Inserted, or updated; with another body, or with one that stays and is not sent.
    Write {
        id: u64,
        n_bad: bool,
        body: Option<bool>,
    },
    /// Sent whole though nothing changed, as with REPLICA IDENTITY FULL for once.
    Whole {
        id: u64,
    },
    Delete {
        id: u64,
    },
    /// Another key; the body is not sent.
    Rename {
        id: u64,
        to: u64,
    },
    /// Something that is no change event, under the row's key.
    Garbage {
        id: u64,
    },
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let id = || 0..5u64;
    let rarely = || prop::bool::weighted(0.12);
    let act = prop_oneof![
        12 => (id(), rarely(), prop::option::weighted(0.5, rarely()))
            .prop_map(|(id, n_bad, body)| Act::Write { id, n_bad, body }),
        2 => id().prop_map(|id| Act::Whole { id }),
        2 => id().prop_map(|id| Act::Delete { id }),
        2 => (id(), id()).prop_map(|(id, to)| Act::Rename { id, to }),
        1 => id().prop_map(|id| Act::Garbage { id }),
    ];
    prop::collection::vec(act, 0..50)
}

/// The log, and what is true: each row as it was at each of its versions.
#[derive(Default)]
pub(super) struct Log {
    pub(super) records: Vec<Record>,
    pub(super) next: [Offset; 2],
    pub(super) at: u64,
    pub(super) rows: BTreeMap<u64, (String, String)>,
    pub(super) truth: BTreeMap<(u64, u64), Option<(String, String)>>,
    pub(super) garbage: BTreeSet<Place>,
}

impl Log {
    pub(super) fn of(acts: &[Act]) -> Self {
        let mut log = Self { at: 100, ..Self::default() };
        acts.iter().for_each(|act| log.act(act));
        log
    }

    pub(super) fn act(&mut self, act: &Act) {
        self.at += 1;
        match *act {
            Act::Write { id, n_bad, body } => {
                let n = if n_bad { BAD.to_owned() } else { self.at.to_string() };
                let value = |bad: bool, at: u64| if bad { BAD.to_owned() } else { format!("\"b{at}\"") };
                match (self.rows.get(&id).cloned(), body) {
                    (None, body) => self.write("c", id, (n, value(body == Some(true), self.at)), true),
                    (Some(_), Some(bad)) => self.write("u", id, (n, value(bad, self.at)), true),
                    (Some((_, body)), None) => self.write("u", id, (n, body), false),
                }
            }
            Act::Whole { id } => {
                if let Some(row) = self.rows.get(&id).cloned() {
                    self.write("u", id, row, true);
                }
            }
            Act::Delete { id } => {
                if self.rows.remove(&id).is_some() {
                    self.delete(id, None);
                }
            }
            Act::Rename { id, to } => {
                if id != to
                    && !self.rows.contains_key(&to)
                    && let Some(row) = self.rows.remove(&id)
                {
                    self.delete(id, Some(to));
                    self.rows.insert(to, row.clone());
                    self.truth.insert((to, self.at), Some(row.clone()));
                    let json = format!(r#"{{"id":{to},"n":{},"body":{MASKED}}}"#, row.0);
                    let sample = self.sample("c").id(to).row(&json);
                    self.put(to, &sample.header("__debezium.oldkey", &key(id)));
                }
            }
            Act::Garbage { id } => {
                let mut record = self.sample("u").id(id).record();
                record.payload = Some("{\"op\":".into());
                let place = self.place(id, record);
                self.garbage.insert(place);
            }
        }
    }

    pub(super) fn write(&mut self, op: &str, id: u64, row: (String, String), whole: bool) {
        let body = if whole { row.1.as_str() } else { MASKED };
        let json = format!(r#"{{"id":{id},"n":{},"body":{body}}}"#, row.0);
        let sample = self.sample(op).id(id).row(&json);
        self.put(id, &sample);
        self.truth.insert((id, self.at), Some(row.clone()));
        self.rows.insert(id, row);
    }

    pub(super) fn delete(&mut self, id: u64, to: Option<u64>) {
        let sample = self.sample("d").id(id);
        let sample = match to {
            Some(to) => sample.header("__debezium.newkey", &key(to)),
            None => sample,
        };
        self.put(id, &sample);
        self.truth.insert((id, self.at), None);
    }

    pub(super) fn sample(&self, op: &str) -> crate::support::sample::Sample {
        postgres(op, (Some(self.at), self.at), Some(self.at))
    }

    pub(super) fn put(&mut self, id: u64, sample: &crate::support::sample::Sample) {
        self.place(id, sample.record());
    }

    pub(super) fn place(&mut self, id: u64, record: Record) -> Place {
        let number = usize::try_from(id % 2).unwrap();
        let record = record.at(i32::try_from(number).unwrap(), self.next[number]);
        self.next[number] += 1;
        let place = record.place();
        self.records.push(record);
        place
    }

    /// Whether this is the row as it was at that version, as far as the destination had its values.
    pub(super) fn check(&self, key: &str, stored: &Stored) -> Result<(), String> {
        let id: u64 = key.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        let at = stored.version.lo() & !(1 << 62);
        let truth = self.truth.get(&(id, at)).ok_or_else(|| format!("{key} has no version {at}"))?;
        let Some((n, body)) = truth else {
            return if stored.is_deleted { Ok(()) } else { Err(format!("{key} was deleted at {at}")) };
        };
        let same = |name: &str, true_json: &str| {
            let json = stored.columns.get(name).map_or("", String::as_str);
            json == true_json || json == HOLE
        };
        if !stored.is_deleted && same("n", n) && same("body", body) {
            return Ok(());
        }
        Err(format!("{key} at {at} is {stored:?}, and was ({n}, {body})"))
    }
}

pub(super) fn key(id: u64) -> String {
    format!("{{\"id\":{id}}}")
}
