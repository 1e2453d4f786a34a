//! The end of a log that a source has stopped to write, and when a group is through it.

use std::time::Duration;

use settle_testkit::kafka::{self, Isolation};

use super::history::Log;
use super::pipeline::TABLES;
use super::source::{MARKS, Source};
use crate::child::until_worked_off;

/// Between two looks, which are not cheap: what is waited for is not to be held up by them.
const PAUSE: Duration = Duration::from_millis(500);

/// A topic, and where each of its partitions ended.
pub struct End(Vec<(String, Vec<i64>)>);

impl End {
    /// Writes the marks, and waits until they are in the log as they were streamed: a blocking snapshot reads them
    /// too, ahead of what the connector has not streamed yet.
    pub async fn mark(source: &Source) -> Self {
        source.mark(&TABLES).await;
        let mut ends = Vec::new();
        for table in TABLES {
            let topic = source.topic(table);
            let marks = async || {
                tokio::time::sleep(PAUSE).await;
                let log = Log::read(&topic).await;
                (log.marks(table.key()[0]), log.streamed())
            };
            until_worked_off("the marks in the log", marks, |(marks, _)| *marks == MARKS).await;
            let end = kafka::end_offsets(&topic, Isolation::ReadCommitted).await;
            ends.push((topic, end));
        }
        Self(ends)
    }

    /// Waits until a group has committed everything. `look` panics where one of its instances does not run.
    pub async fn until_settled(&self, group: &str, mut look: impl FnMut()) {
        let missing = async || {
            look();
            tokio::time::sleep(PAUSE).await;
            let mut missing = Vec::new();
            for (topic, ends) in &self.0 {
                for (end, at) in ends.iter().zip(kafka::committed(group, topic).await) {
                    missing.push(*end - at.map_or(0, |at| at.offset));
                }
            }
            missing
        };
        until_worked_off("a group at the end", missing, |missing| missing.iter().all(|missing| *missing <= 0)).await;
    }
}
