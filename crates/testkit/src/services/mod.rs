//! The real services that tests run against: prepared, started, found again and stopped.
//!
//! One file a service ([`Service`]: prepare, start, wait until ready). Each can be replaced by an address in the environment; then
//! nothing is started for it. A service that cannot be had is an error in set-up, never a test that reads as passed.

mod address;
mod clickhouse;
pub(crate) mod connect;
mod error;
mod folders;
mod home;
mod java;
mod kafka;
mod manager;
mod mariadb;
mod maven;
mod packages;
mod postgres;
pub(crate) mod process;
mod state;
mod web;

pub use address::{ClickHouseAddress, clickhouse, connect, is_full, kafka, mariadb, postgres};
pub use clickhouse::{CLICKHOUSE_PASSWORD, CLICKHOUSE_URL, CLICKHOUSE_USER, gateway_folder, gateway_python};
pub use connect::CONNECT_URL;
pub use error::ServiceError;
pub use folders::{Folders, workspace};
pub use kafka::KAFKA;
pub use manager::{Given, Launch, Origin, Service, Services, status};
pub use mariadb::MARIADB_URL;
pub use packages::{BUILD, ensure};
pub use postgres::POSTGRES_URL;
pub use process::Process;
pub use state::{Running, State};

/// Takes one line about a step that may take long.
pub type Progress<'a> = &'a dyn Fn(&str);
