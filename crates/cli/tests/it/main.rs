//! Settle as its users run it: the real binary, the real services, topics recorded from real
//! Debezium compared with the source tables themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod capture_into_postgres;
mod capture_into_sqlite;
mod cases;
mod chain;
mod check;
mod check_agrees;
mod child;
mod connector;
mod dead_letters;
mod ends;
mod explain;
mod faults;
mod ghosts;
mod held_rows;
mod interrupts;
mod kafka_into_clickhouse;
mod kills;
mod live;
mod log_ends;
mod looks;
mod losses;
mod lost_rows;
mod new_logs;
mod prove;
mod queue_places;
mod retention;
mod set_up;
mod shop;
mod simulate;
mod stage;
mod zombies;
