//! The live chain: a source database under writers, Debezium, Kafka, Settle into two destinations, with
//! kills at every place that can be killed. At the end each destination is the source, row by row.
//!
//! `source` is the database, `traffic` writes to it, `connector` reads it, `pipeline` runs Settle behind the log,
//! `end` says when the log is whole and a group is through it, `contents` reads tables and says what differs, `history`
//! what the log says of a key, `drill` is the order of events, and `servers` another one, into databases that have
//! servers.
#![allow(clippy::print_stderr, reason = "what a drill that failed leaves behind is told beside its message")]

use settle_testkit::services::is_full;
use tokio::sync::{Mutex, MutexGuard};

mod canonical;
mod connector;
mod contents;
mod drill;
mod end;
mod history;
mod leftovers;
mod pipeline;
mod servers;
mod source;
mod traffic;

/// One chain after the other: at full length, two of them are more than a machine of two cores can follow.
async fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::const_new(());
    if is_full() { Some(TURN.lock().await) } else { None }
}
