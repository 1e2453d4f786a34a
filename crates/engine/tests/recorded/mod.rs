//! Topics recorded from real servers: each ends as the source table is, in every column that a row's
//! last event carries, for every size of batch and after replays.
//!
//! A database joins as an [`Engine`], with one line that makes its tests.

mod capture;
mod carried;
mod engine;
mod passes;
mod spelling;
mod topic;

pub use capture::capture;
pub use engine::{Engine, Spellings};
pub use passes::{ends_as_the_source, shows};
pub use topic::Topic;
pub(crate) use topic::every_topic;
