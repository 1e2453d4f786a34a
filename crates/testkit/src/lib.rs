//! What Settle's tests stand on: real services, their small clients, and faults between them and Settle.
#![cfg_attr(
    feature = "clients",
    allow(clippy::expect_used, clippy::panic, reason = "test code: a failure is a panic that says what was expected")
)]

#[cfg(feature = "clients")]
pub mod clickhouse;
#[cfg(feature = "clients")]
pub mod connect;
#[cfg(feature = "clients")]
mod http;
#[cfg(feature = "clients")]
pub mod kafka;
#[cfg(feature = "clients")]
pub mod load;
#[cfg(feature = "clients")]
pub mod mariadb;
#[cfg(feature = "clients")]
pub mod postgres;
#[cfg(feature = "clients")]
pub mod proxy;
pub mod services;
#[cfg(feature = "clients")]
pub mod suite;
