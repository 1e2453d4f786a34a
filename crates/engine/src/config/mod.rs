//! The configuration: one TOML file is one pipeline.
//!
//! Reading takes two steps: `raw` mirrors the file and knows every key, then everything is
//! checked into types that cannot be wrong, so that a mistake is told here, with its line and its
//! fix, and not in the middle of a run.

pub mod dlq;
pub mod duration;
mod error;
mod raw;
pub mod secret;
pub mod sink;
pub mod source;
pub mod target;

use std::path::Path;

use settle_core::fold::Limits;

pub use dlq::DlqConfig;
pub use error::ConfigError;
pub use secret::Secret;
pub use sink::SinkConfig;
pub use source::SourceConfig;
pub use target::{Deletes, Evolution, MetaNames, TableRule, Target};

/// A checked pipeline.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where records come from.
    pub source: SourceConfig,
    /// Where they go.
    pub sink: SinkConfig,
    /// When batches are cut.
    pub batch: Limits,
    /// Where records that cannot be applied are set aside; without it they stop the run.
    pub dlq: Option<DlqConfig>,
    /// Rules of the target tables.
    pub target: Target,
}

impl Config {
    /// Reads and checks the file at `path`. Relative paths in it are taken from its folder.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|e| ConfigError::unreadable(path, &e))?;
        let base = path.parent().unwrap_or(Path::new(""));
        Self::parse(&text, &path.display().to_string(), base)
    }

    /// Checks `text`; `name` stands in messages.
    pub fn parse(text: &str, name: &str, base: &Path) -> Result<Self, ConfigError> {
        let raw: raw::Config = toml::from_str(text).map_err(|e| ConfigError::from_toml(name, text, &e))?;
        let fail = |message: String| ConfigError::in_text(name, text, message);
        let source = source::check(&raw.source, base).map_err(fail)?;
        let sink = sink::check(&raw.sink, base).map_err(fail)?;
        let target = target::check(&raw, &sink).map_err(fail)?;
        let batch = batch(&raw.batch).map_err(fail)?;
        let dlq = raw.dlq.as_ref().map(|raw| dlq::check(raw, &source.origin, &sink, base)).transpose().map_err(fail)?;
        Ok(Self { source, sink, batch, dlq, target })
    }
}

impl Config {
    /// The same pipeline as another group, beside its own progress: what is read again purges nothing.
    #[must_use]
    pub fn beside(mut self, group: String) -> Self {
        self.source.group = group;
        self.target.tombstone_retention = None;
        self
    }
}

/// A column of a batch counts its bytes in 31 bits, and hexadecimal text is longer than the base64
/// that it came as.
const MAX_BATCH_BYTES: usize = 1 << 30;

fn batch(raw: &raw::Batch) -> Result<Limits, String> {
    let default = Limits::default();
    let limits = Limits {
        max_rows: raw.max_rows.unwrap_or(default.max_rows),
        max_bytes: raw.max_bytes.unwrap_or(default.max_bytes),
        max_age_ms: raw.max_age_ms.unwrap_or(default.max_age_ms),
    };
    for (key, value) in [("max_rows", limits.max_rows), ("max_bytes", limits.max_bytes)] {
        if value == 0 {
            return Err(format!("[batch] {key} must be at least 1"));
        }
    }
    if limits.max_bytes > MAX_BATCH_BYTES {
        return Err(format!("[batch] max_bytes must be at most {MAX_BATCH_BYTES} (1 GiB)"));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(sink: &str, batch: &str) -> Option<String> {
        let text = format!(
            "[source]\nkind = \"file\"\npath = \"a.jsonl\"\n[sink]\nkind = \"sqlite\"\npath = \"a.db\"\n{sink}\n[batch]\n{batch}\n"
        );
        Config::parse(&text, "settle.toml", Path::new("")).err().map(|error| error.to_string())
    }

    #[test]
    fn how_long_tombstones_are_kept_is_a_time_and_no_matter_of_clickhouse() {
        let read = |sink: &str| {
            let text = format!("[source]\nkind = \"file\"\npath = \"a.jsonl\"\n[sink]\n{sink}\n");
            Config::parse(&text, "settle.toml", Path::new("")).map_err(|error| error.to_string())
        };
        let of_sqlite = |more: &str| read(&format!("kind = \"sqlite\"\npath = \"a.db\"\n{more}"));
        assert_eq!(of_sqlite("").unwrap().target.tombstone_retention, None);
        let config = of_sqlite("tombstone_retention = \"45d\"").unwrap();
        assert_eq!(config.target.tombstone_retention, Some(std::time::Duration::from_secs(45 * 86_400)));
        assert_eq!(config.beside("replay".to_owned()).target.tombstone_retention, None);
        for (text, told) in [
            (
                "\"45\"",
                "settle.toml line 7: [sink] tombstone_retention = \"45\": the unit of a time is ms, s, m, h or d",
            ),
            (
                "\"0d\"",
                "settle.toml line 7: [sink] tombstone_retention must be longer than the source keeps its records",
            ),
            ("\"300000000000d\"", "the time is too long"),
            ("\"110000000000d\"", "tombstone_retention must be longer"),
        ] {
            let error = of_sqlite(&format!("tombstone_retention = {text}")).unwrap_err();
            assert!(error.contains(told), "{text}: {error}");
        }
        let clickhouse = "kind = \"clickhouse\"\nurl = \"http://a:1\"\ndatabase = \"d\"\n";
        let error = read(&format!("{clickhouse}tombstone_retention = \"45d\"")).unwrap_err();
        assert!(
            error.contains("line 8: [sink] tombstone_retention does not belong to kind = \"clickhouse\""),
            "{error}"
        );
        let error = read(&format!("{clickhouse}[sink.meta]\nwritten_ms = \"w\"")).unwrap_err();
        assert!(error.contains("[sink.meta] written_ms does not belong to kind = \"clickhouse\""), "{error}");
    }

    #[test]
    fn numbers_that_a_library_would_panic_at_are_refused() {
        assert_eq!(refused("busy_timeout_ms = 2147483647", "max_bytes = 1073741824"), None);
        assert_eq!(
            refused("busy_timeout_ms = 2147483648", "").unwrap(),
            "settle.toml line 7: [sink] busy_timeout_ms must be at most 2147483647 (24 days)"
        );
        assert_eq!(
            refused("", "max_bytes = 1073741825").unwrap(),
            "settle.toml line 9: [batch] max_bytes must be at most 1073741824 (1 GiB)"
        );
        assert_eq!(refused("", "max_bytes = 0").unwrap(), "settle.toml line 9: [batch] max_bytes must be at least 1");
    }
}
