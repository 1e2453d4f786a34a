//! The rules of Settle, pure: no clock, no I/O, no runtime.
//!
//! A record becomes a versioned [`change::Change`], changes fold into a [`batch::Batch`], a sink
//! turns a batch into a [`sink::Durable`] proof, and the [`ledger::Ledger`] turns proofs into the
//! offsets that may be committed. Read the modules in this order: `position`, `record`,
//! `recognise`, `epoch`, `version`, `new_log`, `truncate`, `lane`, `fold`, `batch`, `sink`, `ledger`,
//! `policy`.

pub mod batch;
pub mod causes;
pub mod change;
pub mod columns;
pub mod dead_letter;
pub mod debezium;
pub mod epoch;
pub mod fold;
pub mod holds;
pub mod invariant;
pub mod key;
pub mod lane;
pub mod ledger;
pub mod new_log;
pub mod policy;
pub mod position;
pub mod recognise;
pub mod record;
pub mod refusal;
pub mod resnapshot;
pub mod row_order;
pub mod schema;
pub mod sink;
pub mod standing;
pub mod tally;
pub mod truncate;
pub mod unfold;
pub mod value;
pub mod version;
pub mod withdrawal;

#[cfg(test)]
extern crate self as settle_core;
#[cfg(test)]
#[allow(dead_code, reason = "the integration tests use the rest")]
#[path = "../tests/it/support/sample.rs"]
mod sample;
