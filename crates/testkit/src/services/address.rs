//! Where tests find the services: the environment that `cargo xtask test` sets, else what `cargo xtask services up` left running.

use std::env;
use std::sync::OnceLock;

use super::clickhouse::{CLICKHOUSE_PASSWORD, CLICKHOUSE_URL, CLICKHOUSE_USER};
use super::connect::CONNECT_URL;
use super::kafka::KAFKA;
use super::mariadb::MARIADB_URL;
use super::postgres::POSTGRES_URL;
use super::{Folders, State};

/// How to reach ClickHouse.
#[derive(Clone, PartialEq, Eq)]
pub struct ClickHouseAddress {
    /// `http://host:port`.
    pub url: String,
    /// A user who may create databases.
    pub user: String,
    /// The user's password.
    pub password: String,
}

/// The broker, `host:port`. Panics with what to do when there is none.
pub fn kafka() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| lookup(KAFKA).unwrap_or_else(|| missing("kafka", KAFKA)))
}

/// ClickHouse. Panics with what to do when there is none.
pub fn clickhouse() -> ClickHouseAddress {
    static ADDRESS: OnceLock<ClickHouseAddress> = OnceLock::new();
    let find = || ClickHouseAddress {
        url: lookup(CLICKHOUSE_URL).unwrap_or_else(|| missing("clickhouse", CLICKHOUSE_URL)),
        user: beside(CLICKHOUSE_URL, CLICKHOUSE_USER).unwrap_or_else(|| "default".to_owned()),
        password: beside(CLICKHOUSE_URL, CLICKHOUSE_PASSWORD).unwrap_or_default(),
    };
    ADDRESS.get_or_init(find).clone()
}

/// PostgreSQL, `postgres://user:password@host:port/database`. Panics with what to do when there is none.
pub fn postgres() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| lookup(POSTGRES_URL).unwrap_or_else(|| missing("postgres", POSTGRES_URL)))
}

/// MariaDB, `mysql://user:password@host:port`. Panics with what to do when there is none.
pub fn mariadb() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| lookup(MARIADB_URL).unwrap_or_else(|| missing("mariadb", MARIADB_URL)))
}

/// The shared Connect worker, `http://host:port`. Panics with what to do when there is none.
pub fn connect() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| lookup(CONNECT_URL).unwrap_or_else(|| missing("connect", CONNECT_URL)))
}

/// Whether the long tests were asked for (`cargo xtask test --full`).
pub fn is_full() -> bool {
    env::var_os("SETTLE_TEST_FULL").is_some_and(|value| value == "1")
}

fn lookup(variable: &str) -> Option<String> {
    env::var(variable).ok().or_else(|| exported(variable))
}

/// A variable that belongs to `address`: the user's own address never goes with the password of a service started here.
fn beside(address: &str, variable: &str) -> Option<String> {
    if env::var_os(address).is_some() { env::var(variable).ok() } else { exported(variable) }
}

fn exported(variable: &str) -> Option<String> {
    let state = State::load(&Folders::of_workspace()).ok()?;
    state
        .services
        .iter()
        .filter(|running| running.process.is_alive())
        .find_map(|running| running.exports.get(variable).cloned())
}

#[expect(clippy::panic, reason = "a test without its service must fail, and say how to have it")]
fn missing(service: &str, variable: &str) -> ! {
    panic!(
        "no {service} for this test: run `cargo xtask test`, or `cargo xtask services up` once and then `cargo test`, \
         or set {variable} to one of your own"
    )
}
