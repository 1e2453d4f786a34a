//! The border to where dead letters are kept.
//!
//! A record's offset is committed only after it is in one place for good: a store says so by
//! returning, and only then goes the rest of the batch to the destination.

mod entry;
mod file;
mod line;
mod log;
pub mod retry;
mod topic;

use settle_core::dead_letter::DeadLetter;
use settle_core::position::{Place, TopicId};
use settle_core::sink::{BoxFuture, SinkError};

pub use entry::{Entry, Origin, Resolution};
pub use log::{Contents, DeadLetterLog, Found, Summary};

/// A dead letter and the incarnation of the topic that it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Topic incarnation of the record's partition.
    pub topic_id: TopicId,
    /// The record, and why it was set aside.
    pub dead: DeadLetter,
}

/// What became of letters that were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Letters whose bytes were too many for the store: their origin is kept, the rest is in the log.
    pub truncated: u64,
}

/// Where dead letters are kept.
pub trait DeadLetters: Send {
    /// Writes the letters, which come in order of partition and offset, and returns only when all
    /// are durable. After an error all are written again, so a reader may find a letter twice: its
    /// origin tells. The error's kind says whether waiting helps.
    fn write<'a>(&'a mut self, letters: &'a [Letter]) -> BoxFuture<'a, Result<Written, SinkError>>;

    /// The destination holds rows behind letters that were written before: where the store is not
    /// there any more, they are lost, and that is to be said.
    fn expect_letters(&mut self) {}

    /// An open letter of this topic that does not tell its row, written by this run or one before: the source
    /// may have any row still.
    fn without_row<'a>(
        &'a mut self,
        topic_id: TopicId,
        topic: &'a str,
    ) -> BoxFuture<'a, Result<Option<Place>, SinkError>>;
}

/// Keeps nothing: the pipeline that is replayed has the letters.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl DeadLetters for Nowhere {
    fn write<'a>(&'a mut self, _: &'a [Letter]) -> BoxFuture<'a, Result<Written, SinkError>> {
        Box::pin(async { Ok(Written::default()) })
    }

    fn without_row<'a>(&'a mut self, _: TopicId, _: &'a str) -> BoxFuture<'a, Result<Option<Place>, SinkError>> {
        Box::pin(async { Ok(None) })
    }
}
