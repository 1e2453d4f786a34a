//! `[dlq]`, checked: where records go that cannot be applied, and how many may.
//!
//! ```toml
//! [dlq]
//! topic = "shop.dlq"        # or: path = "dead.jsonl"
//! max_ratio = 0.01          # of the records read; above it the run stops before writing them
//! min_records = 1000        # read by this run before the ratio counts
//! ```
//! A topic lies on the source's cluster, and is reached with the source's properties, unless
//! `brokers` names another one; `[dlq.properties]` are librdkafka's, on top.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::source::{Origin, properties};
use super::{SinkConfig, raw};
use crate::topics;

/// `[dlq]`
#[derive(Clone, Debug, PartialEq)]
pub struct DlqConfig {
    /// Where they are kept.
    pub place: DlqPlace,
    /// When there are too many.
    pub limit: DlqLimit,
}

/// Where dead letters are kept.
#[derive(Clone, Debug, PartialEq)]
pub enum DlqPlace {
    /// A Kafka topic.
    Topic {
        /// Cluster.
        brokers: String,
        /// Topic.
        topic: String,
        /// librdkafka properties, secrets in them.
        properties: BTreeMap<String, String>,
    },
    /// A file, one JSON object a line.
    File {
        /// Where; made where it is missing.
        path: PathBuf,
    },
}

/// How many of the records that a run reads may be dead letters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DlqLimit {
    /// The share, from 0 to 1.
    pub max_ratio: f64,
    /// Records read before the share counts.
    pub min_records: u64,
}

impl Default for DlqLimit {
    fn default() -> Self {
        Self { max_ratio: 0.01, min_records: 1_000 }
    }
}

pub(crate) fn check(raw: &raw::Dlq, origin: &Origin, sink: &SinkConfig, base: &Path) -> Result<DlqConfig, String> {
    let place = match (&raw.topic, &raw.path) {
        (Some(topic), None) => on_kafka(raw, topic, origin)?,
        (None, Some(path)) if !path.is_empty() => {
            if raw.brokers.is_some() || raw.properties.is_some() {
                return Err("[dlq] brokers and properties belong to a topic; remove them, or path".to_owned());
            }
            let path = base.join(path);
            refuse_taken(&path, origin, sink)?;
            DlqPlace::File { path }
        }
        _ => return Err("[dlq] needs either topic = \"NAME\" or path = \"FILE.jsonl\"".to_owned()),
    };
    let default = DlqLimit::default();
    let limit = DlqLimit {
        max_ratio: raw.max_ratio.unwrap_or(default.max_ratio),
        min_records: raw.min_records.unwrap_or(default.min_records),
    };
    if !(0.0..=1.0).contains(&limit.max_ratio) {
        return Err("[dlq] max_ratio is a share of the records read: from 0 to 1, as 0.01".to_owned());
    }
    Ok(DlqConfig { place, limit })
}

fn on_kafka(raw: &raw::Dlq, topic: &str, origin: &Origin) -> Result<DlqPlace, String> {
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if topic.is_empty() || topic.len() > 249 || !topic.chars().all(named) {
        return Err("[dlq] topic is not a topic's name: letters, digits, dot, underscore and hyphen".to_owned());
    }
    let own = properties("[dlq.properties]", raw.properties.as_ref())?;
    let (brokers, properties) = match (&raw.brokers, origin) {
        (Some(brokers), _) if !brokers.trim().is_empty() => (brokers.clone(), own),
        (_, Origin::Kafka { brokers, properties, .. }) => {
            let mut all = properties.clone();
            all.extend(own);
            (brokers.clone(), all)
        }
        _ => return Err("[dlq] brokers is missing: give host:port of the cluster, or use path".to_owned()),
    };
    if let Origin::Kafka { brokers: read_from, topics: patterns, .. } = origin
        && *read_from == brokers
        && topics::wanted(patterns, topic)
    {
        return Err(format!(
            "[dlq] topic \"{topic}\" is one of the topics that [source] reads, so dead letters would be read as \
             records; give it a name that the patterns do not match"
        ));
    }
    Ok(DlqPlace::Topic { brokers, topic: topic.to_owned(), properties })
}

/// Letters are appended: to a file of the pipeline's own they would be its end, and lost besides.
fn refuse_taken(path: &Path, origin: &Origin, sink: &SinkConfig) -> Result<(), String> {
    let taken = |by: &str| {
        Err(format!(
            "[dlq] path {} is {by}, and dead letters would be written into it; give them a file of their own, as \
             \"dead.jsonl\"",
            path.display()
        ))
    };
    if let SinkConfig::Sqlite { path: database, .. } = sink {
        if is_same_file(path, database) {
            return taken("the database that [sink] writes");
        }
        if ["-wal", "-shm", "-journal"].iter().any(|end| is_same_file(path, &with_end(database, end))) {
            return taken("a file that SQLite keeps beside the database that [sink] writes");
        }
    }
    if let Origin::File { paths, .. } = origin {
        for capture in paths {
            if is_same_file(path, capture) {
                return taken("a capture that [source] reads");
            }
            let offsets = with_end(capture, ".");
            let is_of_offsets = |name: &str| name.ends_with(".offsets") || name.ends_with(".offsets.new");
            let begins = offsets.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with(&begins) && is_of_offsets(&name) && is_same_file(path, &capture.with_file_name(&name)) {
                return taken("where the offsets of a capture that [source] reads are kept");
            }
        }
    }
    Ok(())
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(end);
    path.with_file_name(name)
}

/// True if both name one file, whether it is there or not, by whatever links.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (std::fs::metadata(one), std::fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.dev() == other.dev() && one.ino() == other.ino(),
        (Err(_), Err(_)) => in_full(one) == in_full(other),
        _ => false,
    }
}

/// The path by its folder's own name. As it stands where that is not there either.
fn in_full(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (std::fs::canonicalize(folder), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    const KAFKA: &str = "kind = \"kafka\"\nbrokers = \"b:1\"\ngroup = \"g\"\ntopics = [\"shop.*\"]\n[source.properties]\n\
                         \"client.id\" = \"a\"\n\"linger.ms\" = 1";
    const FILE: &str = "kind = \"file\"\npath = \"a.jsonl\"";

    fn read(source: &str, dlq: &str) -> Result<DlqConfig, String> {
        let text = format!("[source]\n{source}\n[sink]\nkind = \"sqlite\"\npath = \"a.db\"\n[dlq]\n{dlq}\n");
        Config::parse(&text, "settle.toml", Path::new("/etc/settle"))
            .map(|config| config.dlq.unwrap())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_lies_beside_the_configuration() {
        let dlq = read(FILE, "path = \"dead.jsonl\"\nmax_ratio = 0.5").unwrap();
        assert_eq!(dlq.place, DlqPlace::File { path: "/etc/settle/dead.jsonl".into() });
        assert_eq!(dlq.limit, DlqLimit { max_ratio: 0.5, min_records: 1_000 });
    }

    #[test]
    fn a_topic_lies_on_the_cluster_of_the_source_unless_another_is_named() {
        let place = |brokers: &str, pairs: &[(&str, &str)]| DlqPlace::Topic {
            brokers: brokers.into(),
            topic: "dead".into(),
            properties: pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        };
        let dlq = read(KAFKA, "topic = \"dead\"\n[dlq.properties]\n\"linger.ms\" = 5").unwrap();
        assert_eq!(dlq.place, place("b:1", &[("client.id", "a"), ("linger.ms", "5")]));
        assert_eq!(dlq.limit, DlqLimit::default());
        let dlq = read(KAFKA, "topic = \"dead\"\nbrokers = \"c:2\"").unwrap();
        assert_eq!(dlq.place, place("c:2", &[]), "what another cluster is told is not this one's");
        assert!(read(FILE, "topic = \"dead\"").unwrap_err().contains("brokers is missing"));
    }

    #[test]
    fn mistakes_are_told() {
        for (source, dlq, told) in [
            (FILE, "max_ratio = 0.1", "settle.toml line 7: [dlq] needs either topic"),
            (FILE, "path = \"a\"\ntopic = \"b\"", "[dlq] needs either topic"),
            (FILE, "path = \"a\"\nbrokers = \"b:1\"", "belong to a topic"),
            (FILE, "path = \"a\"\nmax_ratio = 1.5", "settle.toml line 9: [dlq] max_ratio is a share"),
            (FILE, "path = \"a\"\nmax_ratio = nan", "[dlq] max_ratio is a share"),
            (KAFKA, "topic = \"a b\"", "not a topic's name"),
            (KAFKA, "topic = \"shop.dlq\"", "one of the topics that [source] reads"),
            (KAFKA, "topic = \"dead\"\n[dlq.properties]\n\"sasl.password\" = \"x\"", "name the secret"),
        ] {
            let error = read(source, dlq).unwrap_err();
            assert!(error.contains(told), "{dlq}: {error}");
        }
        assert!(read(KAFKA, "topic = \"shop.dlq\"\nbrokers = \"c:2\"").is_ok(), "another cluster");
    }

    #[test]
    fn a_file_that_the_pipeline_reads_or_writes_is_refused_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("sub")).unwrap();
        for name in ["a.jsonl", "b.jsonl"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink(at("a.jsonl"), at("link.jsonl")).unwrap();
        std::fs::hard_link(at("b.jsonl"), at("hard.jsonl")).unwrap();
        let told = |path: &str| {
            let text = format!(
                "[source]\nkind = \"file\"\npaths = [\"a.jsonl\", \"b.jsonl\"]\n[sink]\nkind = \"sqlite\"\npath = \
                 \"d.db\"\n[dlq]\npath = \"{path}\"\n"
            );
            Config::parse(&text, "settle.toml", folder.path()).err().map(|error| error.to_string())
        };
        // No database is there yet, and then one is.
        for _ in 0..2 {
            for (path, by) in [
                ("d.db", "the database that [sink] writes"),
                ("./sub/../d.db", "the database that [sink] writes"),
                ("d.db-wal", "SQLite keeps beside"),
                ("d.db-shm", "SQLite keeps beside"),
                ("d.db-journal", "SQLite keeps beside"),
                ("a.jsonl", "a capture that [source] reads"),
                ("link.jsonl", "a capture that [source] reads"),
                ("sub/../hard.jsonl", "a capture that [source] reads"),
                ("b.jsonl.any.offsets", "the offsets of a capture"),
                ("a.jsonl.g.offsets.new", "the offsets of a capture"),
            ] {
                let error = told(path).unwrap();
                assert!(error.contains("settle.toml line 8: [dlq] path ") && error.contains(by), "{path}: {error}");
            }
            for path in ["dead.jsonl", "sub/d.db", "a.jsonl.dead", "c.jsonl.g.offsets", "sub/a.jsonl.g.offsets"] {
                assert_eq!(told(path), None, "{path}");
            }
            std::fs::write(at("d.db"), "x").unwrap();
        }
    }
}
