//! Where the server is and how to speak to it.

use std::collections::BTreeMap;

use reqwest::Url;
use reqwest::header::HeaderValue;
use settle_core::sink::{FailureKind, SinkError};

use crate::config::Secret;

/// Settings that carry the sink's promises. The user cannot override them.
///
/// `insert_deduplicate`: an identical block that is sent again must not vanish after an operator
/// removed the rows. `input_format_null_as_default`: NULL is NULL, or an error.
pub(crate) const INSERT_SETTINGS: [(&str, &str); 4] = [
    ("async_insert", "0"),
    ("wait_end_of_query", "1"),
    ("insert_deduplicate", "0"),
    ("input_format_null_as_default", "0"),
];

/// Parameters of the HTTP interface that are not settings.
const PROTOCOL: [&str; 11] = [
    "query",
    "database",
    "user",
    "password",
    "default_format",
    "query_id",
    "session_id",
    "compress",
    "decompress",
    "quota_key",
    "role",
];

/// `[sink] kind = "clickhouse"`
#[derive(Clone, Debug)]
pub struct ClickHouseConfig {
    /// `http://host:8123` or `https://host:8443`, with a path where a proxy needs one.
    pub url: String,
    /// Database of the target tables and of `settle_meta`.
    pub database: String,
    /// User; the server's `default` where none.
    pub user: Option<String>,
    /// Password.
    pub password: Option<Secret>,
    /// How long one request may take, milliseconds. After it the outcome is unknown.
    pub request_timeout_ms: u64,
    /// DDL runs `ON CLUSTER` of this name, on replicated tables.
    pub cluster: Option<String>,
    /// Further settings sent with every request.
    pub settings: BTreeMap<String, String>,
    /// The pipeline's consumer group.
    pub group: String,
}

impl ClickHouseConfig {
    /// A server without a password, with a time-out of 120 s.
    pub fn new(url: impl Into<String>, database: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            database: database.into(),
            user: None,
            password: None,
            request_timeout_ms: 120_000,
            cluster: None,
            settings: BTreeMap::new(),
            group: String::new(),
        }
    }

    /// The address, checked.
    pub(crate) fn checked_url(&self) -> Result<Url, SinkError> {
        let url = Url::parse(&self.url)
            .map_err(|e| refused(format!("`url` is no address ({e}); write http://host:8123 or https://host:8443")))?;
        let problem = if !matches!(url.scheme(), "http" | "https") {
            "`url` must begin with http:// or https://: the sink speaks the HTTP interface (port 8123 or 8443)"
        } else if !url.username().is_empty() || url.password().is_some() {
            "`url` holds credentials; move them to `user` and `password`, where they are kept out of messages"
        } else if url.query().is_some() || url.fragment().is_some() {
            "`url` holds parameters; move them to [sink.settings]"
        } else {
            return Ok(url);
        };
        Err(refused(problem))
    }

    /// The user's settings, checked against those that the sink depends on.
    pub(crate) fn checked_settings(&self) -> Result<&BTreeMap<String, String>, SinkError> {
        for name in self.settings.keys() {
            if INSERT_SETTINGS.iter().any(|(own, _)| own == name) {
                return Err(refused(format!(
                    "`{name}` in [sink.settings] is set by settle itself: what it promises depends on it; remove it"
                )));
            }
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
            if PROTOCOL.contains(&name.as_str()) || name.starts_with("param_") || !is_name {
                return Err(refused(format!(
                    "`{name}` in [sink.settings] is no setting of ClickHouse (see system.settings); remove it"
                )));
            }
        }
        Ok(&self.settings)
    }

    /// A header value of `user` or `password`; marked so that it is never printed.
    pub(crate) fn credential(name: &str, text: &str) -> Result<HeaderValue, SinkError> {
        let mut value = HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| refused(format!("`{name}` holds a control character, which no HTTP header can carry")))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

pub(crate) fn refused(context: impl Into<String>) -> SinkError {
    SinkError::new(FailureKind::Contract, "configuring the ClickHouse sink", context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_never_shown() {
        let header = ClickHouseConfig::credential("password", "hunter2").unwrap();
        assert!(!format!("{header:?}").contains("hunter2"));
        assert_eq!(
            ClickHouseConfig::credential("password", "a\nb").unwrap_err().to_string(),
            "configuring the ClickHouse sink: `password` holds a control character, which no HTTP header can carry"
        );
    }

    #[test]
    fn an_address_that_cannot_be_meant_is_refused_with_the_fix() {
        let message = |url: &str| ClickHouseConfig::new(url, "d").checked_url().unwrap_err().to_string();
        assert_eq!(
            message("clickhouse:8123"),
            "configuring the ClickHouse sink: `url` must begin with http:// or https://: the sink speaks the HTTP \
             interface (port 8123 or 8443)"
        );
        assert_eq!(
            message("http://u:secret@h:8123"),
            "configuring the ClickHouse sink: `url` holds credentials; move them to `user` and `password`, where they \
             are kept out of messages"
        );
        assert!(message("h").contains("`url` is no address"));
        assert!(message("http://h:8123/?async_insert=1").contains("[sink.settings]"));
    }

    #[test]
    fn settings_that_carry_the_promises_cannot_be_overridden() {
        let mut config = ClickHouseConfig::new("http://h:8123", "d");
        config.settings.insert("insert_quorum".into(), "2".into());
        assert!(config.checked_settings().is_ok());
        for name in ["async_insert", "insert_deduplicate", "query", "param_x", "a&b"] {
            let mut config = config.clone();
            config.settings.insert(name.into(), "1".into());
            assert!(config.checked_settings().is_err(), "{name}");
        }
    }
}
