//! The dead letters of a row: records that were set aside, and whether the row is held behind them.

use std::collections::BTreeMap;
use std::fmt;

use settle_core::holds::Hold;
use settle_core::key::Key;
use settle_core::position::{Partition, Place, TopicId};
use settle_core::sink::Places;
use settle_engine::config::Config;
use settle_engine::dead_letter::{DeadLetterLog, Found, Resolution};
use settle_engine::log::LogPartition;

use super::{Row, is_same};
use crate::exit;

/// Those of the log as it is now, and the rows that are held.
pub(super) struct Letters {
    found: Vec<Found>,
    holds: Vec<Hold>,
    /// Why they could not be read.
    unread: Option<String>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Letter {
    pub(super) place: Place,
    pub(super) class: String,
    pub(super) resolved: Option<Resolution>,
}

impl fmt::Display for Letter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, class, .. } = self;
        let state = match self.resolved {
            None => "open",
            Some(Resolution::Dropped) => "dropped: it was never applied",
            Some(Resolution::Retried) => "retried: applied, or the destination had as new",
        };
        write!(f, "dead letter {place} ({class}), {state}")
    }
}

/// What concerns one row.
#[derive(Clone, Debug, Default)]
pub(super) struct OfRow {
    pub(super) letters: Vec<Letter>,
    /// The first dead letter that its hold stands for.
    pub(super) held: Option<Place>,
    pub(super) unread: Option<String>,
}

impl OfRow {
    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty() && self.held.is_none() && self.unread.is_none()
    }

    /// The letter of this record that was not applied.
    pub(super) fn unapplied(&self, place: &Place) -> Option<&Letter> {
        self.letters.iter().find(|letter| letter.place == *place && letter.resolved != Some(Resolution::Retried))
    }
}

impl Letters {
    /// Reads the queue that `[dlq]` names. One that does not answer is told, and keeps nobody from
    /// the rest.
    pub(super) async fn read(config: &Config, log: &[LogPartition], places: &Places) -> Self {
        let ids: BTreeMap<&Partition, TopicId> =
            log.iter().filter_map(|part| Some((&part.partition, part.topic_id?))).collect();
        let mut letters = Self { found: Vec::new(), holds: places.holds.clone(), unread: None };
        let Some(dlq) = &config.dlq else { return letters };
        match DeadLetterLog::new(dlq, &config.source.group).outline().await {
            Ok(contents) => {
                // Of an earlier incarnation of the topic the places mean other records.
                let is_of_log =
                    |found: &Found| ids.get(&found.entry.record.partition).is_none_or(|id| *id == found.entry.topic_id);
                letters.found = contents.letters.into_iter().filter(is_of_log).collect();
            }
            Err(error) => letters.unread = Some(exit::chain(&error)),
        }
        letters
    }

    /// The letter of a record.
    pub(super) fn at(&self, place: &Place) -> Option<Letter> {
        self.found.iter().find(|found| found.entry.record.place() == *place).map(letter)
    }

    /// What concerns a row. `named` is its table where the log has no readable record of it.
    pub(super) fn of(&self, row: &Row, named: Option<&str>) -> OfRow {
        let Some(key) = &row.key else { return OfRow::default() };
        let table = row.table.as_ref().map(ToString::to_string).or_else(|| named.map(str::to_owned));
        let of_row = |found: &&Found| {
            let record = &found.entry.record;
            let has_key = record.key.as_deref().and_then(Key::of_message).is_some_and(|other| is_same(key, &other));
            has_key
                && match (&found.entry.table, &table) {
                    (Some(said), Some(table)) => said == table,
                    // It does not say its table: then it is of the topic of the row's records.
                    _ => row.seen.is_empty() || row.is_in(&record.partition.topic),
                }
        };
        let held = self.holds.iter().filter(|hold| row.seen.is_empty() || row.is_in(&hold.partition.topic));
        let held = held.filter(|hold| is_same(key, &hold.key));
        let held = held.map(|hold| Place { partition: hold.partition.clone(), offset: hold.held.first }).next();
        let letters = self.found.iter().filter(of_row).map(letter).collect();
        OfRow { letters, held, unread: self.unread.clone() }
    }
}

fn letter(found: &Found) -> Letter {
    Letter { place: found.entry.record.place(), class: found.entry.class.clone(), resolved: found.resolved }
}
