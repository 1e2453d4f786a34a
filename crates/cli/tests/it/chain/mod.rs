//! The live chain: a source database under writers, Debezium, Kafka, Settle into two destinations, with
//! kills at every place that can be killed. At the end each destination is the source, row by row.
//!
//! `source` is the database and what it holds, `traffic` writes to it, `pipeline` runs Settle behind it,
//! `contents` reads tables and says what differs, `history` what the log says of a key, `drill` is the
//! order of events.

mod canonical;
mod contents;
mod drill;
mod history;
mod pipeline;
mod source;
mod traffic;
