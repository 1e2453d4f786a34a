//! ClickHouse's HTTP interface: one request, one answer, told apart from silence.
//!
//! An error may stand behind a status 200, in the body. An answer that never came leaves the
//! effect unknown; a connection that never stood leaves none.

use std::error::Error;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Response, StatusCode, Url};
use serde::de::DeserializeOwned;
use settle_core::sink::{FailureKind, SinkError};

use super::config::{ClickHouseConfig, INSERT_SETTINGS, refused};
use super::failure::{Doing, ServerError, exception_in};

/// Longest answer that is read. Answers are lists of tables, columns and floors.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Below the server's own keep-alive, so that a request rarely meets a connection it has closed.
const IDLE_CONNECTION: Duration = Duration::from_secs(2);
/// How long the rows of a table may take, however long it is.
const LONG_ANSWER: Duration = Duration::from_secs(24 * 60 * 60);
const EXCEPTION_CODE: &str = "x-clickhouse-exception-code";

/// A client of one server.
pub(crate) struct Client {
    http: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    timeout_ms: u64,
}

impl Client {
    /// Checks the configuration; nothing is sent yet.
    pub(crate) fn new(config: &ClickHouseConfig) -> Result<Self, SinkError> {
        let mut url = config.checked_url()?;
        for (name, value) in config.checked_settings()? {
            url.query_pairs_mut().append_pair(name, value);
        }
        let mut headers = HeaderMap::new();
        if let Some(user) = &config.user {
            headers.insert("x-clickhouse-user", ClickHouseConfig::credential("user", user)?);
        }
        if let Some(password) = &config.password {
            headers.insert("x-clickhouse-key", ClickHouseConfig::credential("password", password.reveal())?);
            headers.entry("x-clickhouse-user").or_insert(HeaderValue::from_static("default"));
        }
        // Fails where another part of the process was first; then there is one, which is all we need.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let timeout = Duration::from_millis(config.request_timeout_ms);
        let http = reqwest::Client::builder()
            .timeout(timeout)
            .connect_timeout(timeout.min(Duration::from_secs(10)))
            .pool_idle_timeout(IDLE_CONNECTION)
            .tcp_keepalive(Duration::from_secs(30))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("settle/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| refused("the HTTP client could not be built").caused_by(e))?;
        Ok(Self { http, url, headers, timeout_ms: config.request_timeout_ms })
    }

    /// Runs a query (without FORMAT) and reads its rows.
    pub(crate) async fn rows<T: DeserializeOwned>(&self, operation: &str, sql: &str) -> Result<Vec<T>, SinkError> {
        let parameters = [("wait_end_of_query", "1"), ("default_format", "JSONEachRow")];
        let answer = self.send(operation, Doing::Statement, &parameters, sql.to_owned().into()).await?;
        let rows: Result<Vec<T>, _> =
            answer.lines().filter(|line| !line.is_empty()).map(serde_json::from_str).collect();
        rows.map_err(|e| match exception_in(&answer) {
            Some(error) => error.into_sink_error(operation, Doing::Statement),
            None => unexpected(operation, &format!("an answer that is no list of rows (line {})", e.line())),
        })
    }

    /// The number that a query finds, as `found`.
    pub(crate) async fn number(&self, operation: &str, sql: &str) -> Result<u64, SinkError> {
        #[derive(serde::Deserialize)]
        struct Found {
            found: String,
        }
        let sql = format!("SELECT toString(found) AS found FROM ({sql})");
        let rows: Vec<Found> = self.rows(operation, &sql).await?;
        let found = rows.first().and_then(|row| row.found.parse().ok());
        found.ok_or_else(|| unexpected(operation, "an answer that is no number"))
    }

    /// Runs a query that ends with its FORMAT and reads the bytes of its answer; none where they are
    /// more than `limit`.
    pub(crate) async fn fetch(&self, operation: &str, sql: &str, limit: usize) -> Result<Option<Bytes>, SinkError> {
        let parameters = [("wait_end_of_query", "1")];
        self.send_for(operation, Doing::Statement, &parameters, sql.to_owned().into(), limit).await
    }

    /// Runs a query (without FORMAT) and hands over its rows as JSON arrays, one by one, as they
    /// come: for answers of any length. An error of the server in the middle of them is a line that
    /// is no array, and a broken connection is an error of its own, so no end is taken for the end.
    pub(crate) async fn each_line(
        &self,
        operation: &str,
        sql: &str,
        each: &mut (dyn FnMut(&str) -> Result<(), SinkError> + Send),
    ) -> Result<(), SinkError> {
        let mut url = self.url.clone();
        url.query_pairs_mut().append_pair("default_format", "JSONCompactEachRow");
        // The time-out is one of silence here: a long answer may take longer as a whole.
        let request = self.http.post(url).headers(self.headers.clone()).timeout(LONG_ANSWER).body(sql.to_owned());
        let mut response = self.in_time(operation, request.send()).await?;
        let (status, code) = (response.status(), exception_code(response.headers()));
        if !status.is_success() || code.is_some() {
            let answer = self.read(operation, response, MAX_ANSWER_BYTES).await?;
            let answer = answer.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
            return Err(refusal(operation, Doing::Statement, status, code, answer, &self.url));
        }
        let mut pending = BytesMut::new();
        let mut take = |line: &[u8]| match std::str::from_utf8(line) {
            Ok(line) if line.trim().is_empty() => Ok(()),
            Ok(line) if line.starts_with('[') => each(line),
            // Text that is no UTF-8 is sent as it is.
            Err(_) if line.starts_with(b"[") => each(&String::from_utf8_lossy(line)),
            _ => {
                let line = String::from_utf8_lossy(line);
                Err(match exception_in(&line) {
                    Some(error) => {
                        ServerError { behind_ok: true, ..error }.into_sink_error(operation, Doing::Statement)
                    }
                    None => unexpected(operation, "an answer that is no list of rows"),
                })
            }
        };
        while let Some(chunk) = self.in_time(operation, response.chunk()).await? {
            pending.extend_from_slice(&chunk);
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                take(&pending.split_to(end + 1))?;
            }
            if pending.len() > MAX_ANSWER_BYTES {
                return Err(unexpected(operation, "a row without an end"));
            }
        }
        take(&pending)
    }

    /// Runs a statement that returns nothing. `ON CLUSTER` returns a list of hosts, which is not read.
    pub(crate) async fn run(&self, operation: &str, sql: &str) -> Result<(), SinkError> {
        let answer =
            self.send(operation, Doing::Statement, &[("wait_end_of_query", "1")], sql.to_owned().into()).await?;
        match exception_in(&answer) {
            Some(error) => Err(ServerError { behind_ok: true, ..error }.into_sink_error(operation, Doing::Statement)),
            None => Ok(()),
        }
    }

    /// Runs an INSERT of what the server itself selects, however long that takes, into as many
    /// partitions as it needs.
    pub(crate) async fn insert_selected(&self, operation: &str, sql: &str) -> Result<(), SinkError> {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(INSERT_SETTINGS).append_pair("max_partitions_per_insert_block", "0");
        let request = self.http.post(url).headers(self.headers.clone()).timeout(LONG_ANSWER).body(sql.to_owned());
        let response = request.send().await.map_err(|e| self.no_answer(operation, e))?;
        let (status, code) = (response.status(), exception_code(response.headers()));
        let answer = self.read(operation, response, MAX_ANSWER_BYTES).await?;
        let answer = answer.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        if !status.is_success() || code.is_some() {
            return Err(refusal(operation, Doing::Insert, status, code, answer, &self.url));
        }
        match exception_in(&answer) {
            Some(error) => Err(ServerError { behind_ok: true, ..error }.into_sink_error(operation, Doing::Insert)),
            None => Ok(()),
        }
    }

    /// Inserts `body`, which is in the format that `statement` ends with. Returns when the server
    /// said that all of it is written.
    pub(crate) async fn insert(&self, operation: &str, statement: &str, body: Bytes) -> Result<(), SinkError> {
        let mut parameters = vec![("query", statement)];
        parameters.extend(INSERT_SETTINGS);
        let answer = self.send(operation, Doing::Insert, &parameters, body).await?;
        if answer.trim().is_empty() {
            return Ok(());
        }
        Err(match exception_in(&answer) {
            Some(error) => ServerError { behind_ok: true, ..error }.into_sink_error(operation, Doing::Insert),
            None => unexpected(operation, "an answer to an insert that is not empty").effect_unknown(),
        })
    }

    async fn send(
        &self,
        operation: &str,
        doing: Doing,
        parameters: &[(&str, &str)],
        body: Bytes,
    ) -> Result<String, SinkError> {
        let answer = self.send_for(operation, doing, parameters, body, MAX_ANSWER_BYTES).await?;
        let answer = answer.ok_or_else(|| unexpected(operation, "an answer without an end").effect_unknown())?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    async fn send_for(
        &self,
        operation: &str,
        doing: Doing,
        parameters: &[(&str, &str)],
        body: Bytes,
        limit: usize,
    ) -> Result<Option<Bytes>, SinkError> {
        let mut url = self.url.clone();
        url.query_pairs_mut().extend_pairs(parameters);
        let request = self.http.post(url).headers(self.headers.clone()).body(body);
        let response = request.send().await.map_err(|e| self.no_answer(operation, e))?;
        let (status, code) = (response.status(), exception_code(response.headers()));
        let answer = self.read(operation, response, limit).await?;
        if status.is_success() && code.is_none() {
            return Ok(answer);
        }
        let answer = answer.as_deref().map(String::from_utf8_lossy).unwrap_or_default().into_owned();
        Err(refusal(operation, doing, status, code, answer, &self.url))
    }

    /// Waits for a part of an answer.
    async fn in_time<T>(
        &self,
        operation: &str,
        part: impl Future<Output = reqwest::Result<T>>,
    ) -> Result<T, SinkError> {
        match tokio::time::timeout(Duration::from_millis(self.timeout_ms), part).await {
            Ok(part) => part.map_err(|e| self.no_answer(operation, e)),
            Err(_) => {
                let context = format!("{} sent nothing for {} ms", address(&self.url), self.timeout_ms);
                Err(SinkError::new(FailureKind::Unreachable, operation, context))
            }
        }
    }

    /// The whole answer; none where it is longer than `limit`.
    async fn read(&self, operation: &str, mut response: Response, limit: usize) -> Result<Option<Bytes>, SinkError> {
        let mut answer = BytesMut::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.no_answer(operation, e))? {
            answer.extend_from_slice(&chunk);
            if answer.len() > limit {
                return Ok(None);
            }
        }
        Ok(Some(answer.freeze()))
    }

    /// The request failed before a whole answer was here.
    fn no_answer(&self, operation: &str, error: reqwest::Error) -> SinkError {
        let error = error.without_url();
        let address = address(&self.url);
        if error.is_connect() {
            let context = format!("no connection to {address}{}", tls_hint(&error));
            return SinkError::new(FailureKind::Unreachable, operation, context).caused_by(error);
        }
        let context = if error.is_timeout() {
            format!("no answer from {address} within {} ms", self.timeout_ms)
        } else {
            format!("the connection to {address} broke before the answer was complete")
        };
        SinkError::new(FailureKind::Unreachable, operation, context).effect_unknown().caused_by(error)
    }
}

/// Where the server is, without parameters.
fn address(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string().trim_end_matches('/').to_owned()
}

fn tls_hint(error: &reqwest::Error) -> &'static str {
    let mut next: Option<&(dyn Error + 'static)> = error.source();
    while let Some(cause) = next {
        if cause.to_string().contains("certificate") {
            return ": its certificate is not trusted";
        }
        next = cause.source();
    }
    ""
}

fn exception_code(headers: &HeaderMap) -> Option<u32> {
    headers.get(EXCEPTION_CODE)?.to_str().ok()?.trim().parse().ok()
}

fn unexpected(operation: &str, what: &str) -> SinkError {
    let context = format!("the server gave {what}; is `url` in [sink] the HTTP interface of ClickHouse?");
    SinkError::new(FailureKind::Contract, operation, context)
}

/// What an answer other than a success means.
fn refusal(
    operation: &str,
    doing: Doing,
    status: StatusCode,
    code: Option<u32>,
    answer: String,
    url: &Url,
) -> SinkError {
    let in_body = exception_in(&answer);
    if let Some(code) = code.or(in_body.as_ref().map(|error| error.code)) {
        let text = in_body.map_or(answer, |error| error.text);
        return ServerError { code, text, behind_ok: status.is_success() }.into_sink_error(operation, doing);
    }
    // Not ClickHouse itself: a proxy or balancer before it, or something else at that address.
    let address = address(url);
    let failed = |kind, what: &str| SinkError::new(kind, operation, format!("HTTP {status} from {address}: {what}"));
    match status.as_u16() {
        401 | 403 | 407 => failed(FailureKind::Denied, "check `user` and `password` in [sink]"),
        429 => failed(FailureKind::Overloaded, "it asks for fewer requests"),
        503 => failed(FailureKind::Overloaded, "it takes no requests now").effect_unknown(),
        408 | 500 | 502 | 504 => failed(FailureKind::Unreachable, "nothing behind it answered").effect_unknown(),
        413 => failed(FailureKind::Contract, "the request is too long for it; lower `max_bytes` in [batch]"),
        300..=399 => failed(FailureKind::Contract, "it redirects; set `url` in [sink] to the address it names"),
        _ => failed(FailureKind::Contract, "is `url` in [sink] the HTTP interface of ClickHouse?"),
    }
}

#[cfg(test)]
mod tests {
    use settle_core::sink::Effect;

    use super::*;

    fn refused_with(status: u16, code: Option<u32>, answer: &str) -> SinkError {
        let url = Url::parse("http://h:8123/?insert_quorum=2").unwrap();
        refusal("insert", Doing::Insert, StatusCode::from_u16(status).unwrap(), code, answer.to_owned(), &url)
    }

    #[test]
    fn the_code_comes_from_the_header_or_from_the_body() {
        let text = "Code: 242. DB::Exception: Table is in readonly mode. (TABLE_IS_READ_ONLY) (version 26.9.2.1)\n";
        let from_header = refused_with(500, Some(242), text);
        let from_body = refused_with(500, None, text);
        assert_eq!((from_header.kind, from_body.kind), (FailureKind::NotWritable, FailureKind::NotWritable));
        assert_eq!(
            from_body.to_string(),
            "insert: the server refused: code 242: Table is in readonly mode. (TABLE_IS_READ_ONLY); the user, the table \
             or the replica is read-only"
        );
        assert_eq!(refused_with(200, Some(241), "Code: 241. DB::Exception: x").effect, Effect::Unknown);
    }

    #[test]
    fn statuses_of_what_stands_before_the_server() {
        use FailureKind::*;
        let all = [
            (401, Denied, Effect::None),
            (429, Overloaded, Effect::None),
            (502, Unreachable, Effect::Unknown),
            (503, Overloaded, Effect::Unknown),
            (504, Unreachable, Effect::Unknown),
            (404, Contract, Effect::None),
            (302, Contract, Effect::None),
        ];
        for (status, kind, effect) in all {
            let error = refused_with(status, None, "<html>gateway</html>");
            assert_eq!((error.kind, error.effect), (kind, effect), "{status}");
            assert!(!error.to_string().contains("insert_quorum"), "{error}");
        }
    }
}
