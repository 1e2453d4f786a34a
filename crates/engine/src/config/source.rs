//! `[source]`, checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use settle_core::lane::LoneTombstones;
use settle_core::position::TopicId;
use settle_core::schema::{BinaryMode, Conventions, DecimalMode, TimePrecision};

use super::raw;

/// Where records come from, and how they are read.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Which source.
    pub origin: Origin,
    /// Consumer group: whose progress this is.
    pub group: String,
    /// Tombstones that follow no delete.
    pub lone_tombstones: LoneTombstones,
    /// What is declared of topics without schemas.
    pub conventions: Conventions,
}

/// The kinds of source.
#[derive(Clone, Debug)]
pub enum Origin {
    /// `kind = "kafka"`
    Kafka {
        /// Bootstrap servers, `host:port` with commas between.
        brokers: String,
        /// Topic names, or globs with `*` and `?`.
        topics: Vec<String>,
        /// `group.instance.id`, for a fast take-over after a crash.
        instance: Option<String>,
        /// librdkafka properties, passed through.
        properties: BTreeMap<String, String>,
    },
    /// `kind = "file"`: captures as `kcat -J` prints them.
    File {
        /// The captures, read one after the other.
        paths: Vec<PathBuf>,
        /// Only these topics (names or globs); all where empty.
        topics: Vec<String>,
        /// Overrides the id derived from the first line of each topic.
        topic_id: Option<TopicId>,
    },
    /// `kind = "stdin"`: the same lines from standard input; no offsets are kept.
    Stdin {
        /// Only these topics; all where empty.
        topics: Vec<String>,
        /// Overrides the derived id.
        topic_id: Option<TopicId>,
    },
}

impl SourceConfig {
    /// Reads as another group, for a replay beside the pipeline's own progress.
    pub fn set_group(&mut self, group: &str) -> Result<(), String> {
        self.group = checked_group(group)?;
        Ok(())
    }
}

/// A capture's offsets file carries the group in its name.
fn checked_group(group: &str) -> Result<String, String> {
    if group.is_empty() {
        return Err("group is empty: name the consumer group whose progress this is".to_owned());
    }
    if group.contains(['/', '\0', '\n']) {
        return Err("group must not contain a slash or a line break".to_owned());
    }
    Ok(group.to_owned())
}

pub(crate) fn check(raw: &raw::Source, base: &Path) -> Result<SourceConfig, String> {
    let kafka_only = [
        ("brokers", raw.brokers.is_some()),
        ("instance", raw.instance.is_some()),
        ("properties", raw.properties.is_some()),
    ];
    let capture_only =
        [("path", raw.path.is_some()), ("paths", raw.paths.is_some()), ("topic_id", raw.topic_id.is_some())];
    let foreign: Vec<&str> = match raw.kind.as_str() {
        "kafka" => named(&capture_only),
        "file" => named(&kafka_only),
        "stdin" => named(&kafka_only).into_iter().chain(named(&capture_only[..2])).collect(),
        other => return Err(format!("[source] kind = \"{other}\" is not known; use \"kafka\", \"file\" or \"stdin\"")),
    };
    if let Some(key) = foreign.first() {
        return Err(format!("[source] {key} does not belong to kind = \"{}\"; remove it", raw.kind));
    }
    let topics = raw.topics.clone().unwrap_or_default();
    let topic_id = raw
        .topic_id
        .as_deref()
        .map(|text| text.parse().map(TopicId).map_err(|e| format!("[source] topic_id is not a UUID ({e})")))
        .transpose()?;
    let origin = match raw.kind.as_str() {
        "kafka" => kafka(raw, topics)?,
        "file" => Origin::File { paths: paths(raw, base)?, topics, topic_id },
        _ => Origin::Stdin { topics, topic_id },
    };
    let group = match (&raw.group, &origin) {
        (Some(group), _) if !group.is_empty() => group.clone(),
        (None, Origin::File { .. } | Origin::Stdin { .. }) => "settle".to_owned(),
        _ => return Err("[source] group is missing: name the consumer group whose progress this is".to_owned()),
    };
    Ok(SourceConfig {
        origin,
        group: checked_group(&group).map_err(|problem| format!("[source] {problem}"))?,
        lone_tombstones: choice(
            "[source] lone_tombstones",
            raw.lone_tombstones.as_deref(),
            &[("refuse", LoneTombstones::Refuse), ("skip", LoneTombstones::Skip)],
        )?
        .unwrap_or_default(),
        conventions: conventions(raw)?,
    })
}

fn kafka(raw: &raw::Source, topics: Vec<String>) -> Result<Origin, String> {
    let brokers = raw.brokers.clone().filter(|b| !b.trim().is_empty());
    if topics.is_empty() {
        return Err("[source] topics is missing: list topics or patterns, as [\"shop.public.*\"]".to_owned());
    }
    let properties = properties("[source.properties]", raw.properties.as_ref())?;
    Ok(Origin::Kafka {
        brokers: brokers.ok_or("[source] brokers is missing: give host:port of the cluster")?,
        topics,
        instance: raw.instance.clone(),
        properties,
    })
}

/// librdkafka's properties as they are written in `section`, secrets read.
pub(super) fn properties(
    section: &str,
    raw: Option<&BTreeMap<String, toml::Value>>,
) -> Result<BTreeMap<String, String>, String> {
    let mut properties = BTreeMap::new();
    for (name, value) in raw.into_iter().flatten() {
        let text = match value {
            toml::Value::String(text) if text.starts_with("env:") || text.starts_with("file:") => {
                super::Secret::read(&format!("{section} {name}"), text)?.reveal().to_owned()
            }
            toml::Value::String(_) if name.contains("password") || name.contains("secret") => {
                return Err(format!("{section} {name}: name the secret as \"env:NAME\" or \"file:PATH\""));
            }
            value => scalar(value).ok_or_else(|| format!("{section} {name} is neither text, number nor bool"))?,
        };
        properties.insert(name.clone(), text);
    }
    Ok(properties)
}

fn paths(raw: &raw::Source, base: &Path) -> Result<Vec<PathBuf>, String> {
    let given: Vec<&String> = raw.path.iter().chain(raw.paths.iter().flatten()).collect();
    if given.is_empty() || (raw.path.is_some() && raw.paths.is_some()) {
        return Err("[source] a capture needs either path = \"FILE\" or paths = [\"FILE\", …]".to_owned());
    }
    Ok(given.into_iter().map(|path| base.join(path)).collect())
}

pub(super) fn conventions(raw: &raw::Source) -> Result<Conventions, String> {
    use TimePrecision as T;
    Ok(Conventions {
        time_precision: choice(
            "[source] time_precision_mode",
            raw.time_precision_mode.as_deref(),
            &[
                ("connect", T::Connect),
                ("adaptive", T::Adaptive),
                ("adaptive_time_microseconds", T::AdaptiveTimeMicroseconds),
                ("microseconds", T::Microseconds),
                ("nanoseconds", T::Nanoseconds),
                ("isostring", T::IsoString),
            ],
        )?,
        decimal: choice(
            "[source] decimal_handling_mode",
            raw.decimal_handling_mode.as_deref(),
            &[("precise", DecimalMode::Precise), ("double", DecimalMode::Double), ("string", DecimalMode::String)],
        )?,
        binary: choice(
            "[source] binary_handling_mode",
            raw.binary_handling_mode.as_deref(),
            &[
                ("bytes", BinaryMode::Base64),
                ("base64", BinaryMode::Base64),
                ("base64-url-safe", BinaryMode::Base64UrlSafe),
                ("hex", BinaryMode::Hex),
            ],
        )?,
    })
}

/// One of the known words.
pub(super) fn choice<T: Copy>(key: &str, value: Option<&str>, known: &[(&str, T)]) -> Result<Option<T>, String> {
    let Some(value) = value else { return Ok(None) };
    known.iter().find(|(name, _)| *name == value).map(|(_, choice)| Some(*choice)).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        format!("{key} = \"{value}\" is not known; use {}", names.join(", "))
    })
}

/// The keys that are set.
pub(super) fn named<'a>(keys: &[(&'a str, bool)]) -> Vec<&'a str> {
    keys.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect()
}

/// A scalar as text.
pub(super) fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_given_later_is_checked_as_one_in_the_file_is() {
        let file = "[source]\nkind = \"file\"\npath = \"a.jsonl\"\n[sink]\nkind = \"sqlite\"\npath = \"a.db\"\n";
        let mut source = super::super::Config::parse(file, "settle.toml", Path::new("")).unwrap().source;
        source.set_group("replay-1").unwrap();
        assert_eq!(source.group, "replay-1");
        assert!(source.set_group("../elsewhere").unwrap_err().contains("slash"));
        assert!(source.set_group("").unwrap_err().contains("empty"));
        assert_eq!(source.group, "replay-1");
    }
}
