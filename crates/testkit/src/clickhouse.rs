//! A small ClickHouse client for tests, over the HTTP interface.

use reqwest::StatusCode;
use serde_json::Value;

use crate::http::client;
use crate::kafka::unique;
use crate::services::{self, ClickHouseAddress};

/// An error as the server words it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{status}: {text}")]
pub struct ClickHouseError {
    /// The HTTP status.
    pub status: u16,
    /// The error's number from `X-ClickHouse-Exception-Code`, e.g. 60 for an unknown table.
    pub code: Option<i32>,
    /// The body.
    pub text: String,
}

/// Queries one database.
#[derive(Clone)]
pub struct Client {
    address: ClickHouseAddress,
    database: String,
}

impl Client {
    /// The `default` database of the service under test.
    pub fn new() -> Self {
        Self::at(services::clickhouse(), "default")
    }

    /// A database at any address, such as that of a proxy.
    pub fn at(address: ClickHouseAddress, database: &str) -> Self {
        Self { address, database: database.to_owned() }
    }

    /// A new, empty database of its own.
    pub async fn with_fresh_database(prefix: &str) -> Self {
        let database = unique(prefix);
        Self::new().query(&format!("CREATE DATABASE `{database}`")).await;
        Self::at(services::clickhouse(), &database)
    }

    /// The name of the database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// Where it is asked.
    pub fn address(&self) -> &ClickHouseAddress {
        &self.address
    }

    /// Runs a statement; the answer is text (tab separated unless the statement says otherwise). Panics on an error.
    pub async fn query(&self, sql: &str) -> String {
        let answer = self.try_query(sql).await;
        answer.unwrap_or_else(|failure| panic!("{failure}\nin: {sql:.2000}"))
    }

    /// Runs a statement and gives the server's error.
    pub async fn try_query(&self, sql: &str) -> Result<String, ClickHouseError> {
        self.send(&[], sql.as_bytes().to_vec()).await
    }

    /// The rows of a query, each column as tab separated text (NULL is `\N`).
    pub async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        let text = self.query(sql).await;
        let row = |line: &str| line.split('\t').map(str::to_owned).collect();
        text.lines().map(row).collect()
    }

    /// The rows of a query as JSON objects; integers of 64 bits and more come as text.
    pub async fn json(&self, sql: &str) -> Vec<Value> {
        let arguments = [("default_format", "JSONEachRow"), ("output_format_json_quote_64bit_integers", "1")];
        let text = self
            .send(&arguments, sql.as_bytes().to_vec())
            .await
            .unwrap_or_else(|failure| panic!("{failure}\nin: {sql:.2000}"));
        let row = |line| serde_json::from_str(line).expect("a line of JSONEachRow");
        text.lines().map(row).collect()
    }

    /// The one number that a query gives.
    pub async fn number(&self, sql: &str) -> u64 {
        let text = self.query(sql).await;
        text.trim().parse().unwrap_or_else(|_| panic!("not one number: {text:?}\nin: {sql}"))
    }

    /// Inserts `data` by a statement such as `INSERT INTO t FORMAT ArrowStream`.
    pub async fn insert(&self, statement: &str, data: Vec<u8>) -> Result<(), ClickHouseError> {
        self.send(&[("query", statement)], data).await.map(drop)
    }

    async fn send(&self, arguments: &[(&str, &str)], body: Vec<u8>) -> Result<String, ClickHouseError> {
        let mut url = reqwest::Url::parse(&self.address.url).expect("an address of ClickHouse");
        url.query_pairs_mut()
            .append_pair("database", &self.database)
            .append_pair("wait_end_of_query", "1")
            .extend_pairs(arguments);
        let failed = |failure: reqwest::Error| ClickHouseError { status: 0, code: None, text: format!("{failure:?}") };
        let answer = client()
            .post(url)
            .header("X-ClickHouse-User", &self.address.user)
            .header("X-ClickHouse-Key", &self.address.password)
            .body(body)
            .send()
            .await
            .map_err(failed)?;
        let status = answer.status();
        let header = answer.headers().get("X-ClickHouse-Exception-Code");
        let code = header.and_then(|value| value.to_str().ok()?.parse().ok());
        let text = answer.text().await.map_err(failed)?;
        if status == StatusCode::OK && code.is_none() {
            return Ok(text);
        }
        Err(ClickHouseError { status: status.as_u16(), code, text })
    }
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}
