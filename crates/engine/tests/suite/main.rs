//! The behaviour suite: every sink, against its real engine.
//!
//! A sink joins with its test bed in a file here, and one line below.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests: a failure is a panic that says what was expected"
)]

mod clickhouse;
mod contents;
mod forms;
mod mysql;
mod postgres;
mod rules;
mod sqlite;

use std::process::ExitCode;

use settle_testkit::suite::{Member, run};

fn main() -> ExitCode {
    run(&[
        Member { name: "clickhouse", behaviours: 73, stand: clickhouse::stand },
        Member { name: "mariadb", behaviours: 81, stand: mysql::stand },
        Member { name: "postgres", behaviours: 81, stand: postgres::stand },
        Member { name: "sqlite", behaviours: 79, stand: sqlite::stand },
    ])
}
