//! The one file that knows all the parts: from a checked configuration to a source and a sink, and
//! what can be said of both before a run.

use settle_core::batch::TableRows;
use settle_core::record::Record;
use settle_core::sink::{PlacedPartition, Sink, SinkError};

use crate::capture::{self, CaptureConfig};
use crate::check::{self, Checked, Place};
use crate::config::source::Origin;
use crate::config::{Config, SinkConfig};
use crate::finding::Finding;
use crate::kafka::{self, Bound, KafkaConfig, REVOKE_DEADLINE, SurveyedTopic};
use crate::run::{RunError, refuse_gap};
use crate::sampling::{self, Sample};
use crate::sinks::clickhouse::{self, CheckedTable, ClickHouse, ClickHouseConfig, Columns};
use crate::sinks::sqlite::{self, Sqlite, SqliteConfig};
use crate::source::{Assignment, Source, SourceError};

/// Chunks of records between the source and the run loop.
const CHUNKS_AHEAD: usize = 4;

/// Starts the source.
pub fn source(config: &Config, until_end: bool) -> Result<Source, SourceError> {
    match reads(config) {
        Reads::Kafka(kafka) => {
            kafka::start(KafkaConfig { bounded: until_end.then_some(Bound::LastStable), ..kafka }, CHUNKS_AHEAD)
        }
        Reads::Capture(capture) => capture::start(capture),
    }
}

/// Makes the sink; it connects when it is opened.
pub fn sink(config: &Config) -> Result<Box<dyn Sink>, SinkError> {
    let target = config.target.clone();
    Ok(match writes(config) {
        Writes::ClickHouse(clickhouse) => Box::new(ClickHouse::new(clickhouse, target)?),
        Writes::Sqlite(sqlite) => Box::new(Sqlite::new(sqlite, target)?),
    })
}

/// Reads the first records of every partition, without joining the group. A topic that exists
/// counts also when nothing is in it.
pub async fn sample(config: &Config, limit: usize) -> Result<Sample, SourceError> {
    match reads(config) {
        Reads::Capture(capture) => Ok(sampling::read(capture::sample(&capture, limit)?)),
        Reads::Kafka(kafka) => {
            let mut records = Vec::new();
            let mut topics = Vec::new();
            for topic in kafka::probe(kafka.clone()).await?.topics {
                records.extend(kafka::sample(kafka.clone(), topic.name.clone(), limit).await?);
                topics.push((topic.name, topic.partitions));
            }
            Ok(Sample { topics, ..sampling::read(records) })
        }
    }
}

/// Looks at everything that a run depends on, changing nothing: up to `limit` records of each
/// partition are held against the rules and the destination.
pub async fn check(config: &Config, limit: usize) -> Checked {
    let mut checked = Checked::default();
    let mut places = Vec::new();
    let lone_tombstones = config.source.lone_tombstones;
    let read = |records| sampling::read_into(records, &config.target, lone_tombstones);
    let sample = match reads(config) {
        Reads::Capture(capture) if capture.paths.is_empty() => {
            checked.unread = true;
            checked.source.push(Finding::warning(
                "standard input is not looked at: a run reads it, and it can be read once only",
                "to check the records too, write them to a file, and name it with kind = \"file\" in [source]",
            ));
            read(Vec::new())
        }
        Reads::Capture(capture) => {
            let mut survey = capture::survey(&capture, limit);
            let sample = read(std::mem::take(&mut survey.records));
            checked.source = check::of_captures(&survey, &sample, &config.source);
            places.extend(survey.partitions.iter().map(capture::SurveyedPartition::place));
            sample
        }
        Reads::Kafka(kafka) => match survey(kafka, limit).await {
            Ok((survey, records)) => {
                let sample = read(records);
                checked.source = check::of_kafka(&survey, &sample, &config.source);
                let of = |topic: &SurveyedTopic| {
                    topic.partitions.iter().map(|part| part.place(topic.id)).collect::<Vec<_>>()
                };
                places.extend(survey.topics.iter().flat_map(of));
                sample
            }
            Err(error) => {
                checked.source.push(Finding::of_source(&error));
                read(Vec::new())
            }
        },
    };
    if !checked.unread && !checked.source.iter().any(Finding::is_error) || !sample.seen.is_empty() {
        checked.records = check::of_records(&sample, &places);
    }
    checked.tables = check::of_tables(&sample, &config.target);
    checked.tables.extend(check::of_rules(&sample, &config.target));
    checked.destination = check_sink(config, &sample, &places).await;
    checked.settle_records(config.dlq.is_some());
    if let Some(dlq) = &config.dlq {
        checked.destination.extend(check::of_dead_letters(dlq, &sample).await);
    }
    checked
}

/// What Kafka holds, and records of each partition from where the group stands; from before it,
/// where there are too few.
async fn survey(config: KafkaConfig, limit: usize) -> Result<(kafka::Survey, Vec<Record>), SourceError> {
    let survey = kafka::survey(config.clone()).await?;
    let all = survey.topics.iter().flat_map(|topic| &topic.partitions);
    let back = i64::try_from(limit).unwrap_or(i64::MAX);
    let parts = all.map(|part| {
        let from = part.start().min(part.end.saturating_sub(back)).max(part.first);
        (part.partition.clone(), from, part.end)
    });
    let records = kafka::sample_from(config, parts.collect(), limit).await?;
    Ok((survey, records))
}

/// What a run over topics like the sample would find in the destination.
async fn check_sink(config: &Config, sample: &Sample, places: &[Place]) -> Vec<Finding> {
    match writes(config) {
        Writes::ClickHouse(clickhouse) => {
            let tables: Vec<(TableRows<'_>, Vec<&str>)> = sample.batch.tables().map(|rows| (rows, key(rows))).collect();
            let checked: Vec<CheckedTable<'_>> = tables
                .iter()
                .map(|(rows, key)| CheckedTable {
                    table: rows.table,
                    key,
                    schema: rows.schema().map(|schema| &**schema),
                    rows: sample.complete.tables().find(|complete| complete.table == rows.table),
                })
                .collect();
            match ClickHouse::new(clickhouse, config.target.clone()) {
                Ok(mut sink) => sink.check(&checked).await,
                Err(error) => vec![Finding::of_sink(&error)],
            }
        }
        Writes::Sqlite(sqlite) => {
            let of = |place: &Place| {
                place.topic_id.map(|topic_id| PlacedPartition { topic_id, partition: place.partition.clone() })
            };
            let parts: Vec<PlacedPartition> = places.iter().filter_map(of).collect();
            let (mut findings, known) = sqlite::check(&sqlite, &config.target, sample, &parts);
            let assignments: Vec<Assignment> = places.iter().map(Place::assignment).collect();
            if let Err(RunError::Source(error)) = refuse_gap(&assignments, &known) {
                findings.push(Finding::of_source(&error));
            }
            findings
        }
    }
}

/// The statements that would make what a run makes for the sample: what Settle keeps for itself
/// first, then the target tables. None where the sample has no table.
pub fn ddl(config: &Config, sample: &Sample) -> Result<Vec<String>, SinkError> {
    let mut statements = Vec::new();
    for rows in sample.batch.tables() {
        let of_table = match writes(config) {
            Writes::ClickHouse(to) => {
                let seen = sampling::seen(rows);
                let columns = rows.schema().map_or(Columns::Seen(&seen), |schema| Columns::Schema(schema));
                clickhouse::table_ddl(
                    rows.table,
                    &key(rows),
                    columns,
                    &config.target,
                    &to.database,
                    to.cluster.as_deref(),
                )?
            }
            Writes::Sqlite(_) => sqlite::create_table_ddl(&config.target, rows)?,
        };
        for statement in of_table {
            // What tables share is said once.
            if !statements.contains(&statement) {
                statements.push(statement);
            }
        }
    }
    if statements.is_empty() {
        return Ok(statements);
    }
    let mut all = match writes(config) {
        Writes::ClickHouse(to) => clickhouse::own_ddl(&to.database, to.cluster.as_deref()),
        Writes::Sqlite(_) => sqlite::own_tables_ddl(),
    };
    for statement in statements {
        if !all.contains(&statement) {
            all.push(statement);
        }
    }
    Ok(all)
}

fn key<'a>(rows: TableRows<'a>) -> Vec<&'a str> {
    rows.rows().next().map(|row| row.key().names().collect()).unwrap_or_default()
}

/// What is read, in the words of the source that reads it.
enum Reads {
    Kafka(KafkaConfig),
    Capture(CaptureConfig),
}

fn reads(config: &Config) -> Reads {
    let group = config.source.group.clone();
    match config.source.origin.clone() {
        Origin::Kafka { brokers, topics, instance, properties } => Reads::Kafka(KafkaConfig {
            brokers,
            group,
            topics,
            instance,
            properties,
            revoke_deadline: REVOKE_DEADLINE,
            bounded: None,
        }),
        Origin::File { paths, topics, topic_id } => Reads::Capture(CaptureConfig { paths, topics, group, topic_id }),
        Origin::Stdin { topics, topic_id } => {
            Reads::Capture(CaptureConfig { paths: Vec::new(), topics, group, topic_id })
        }
    }
}

/// What is written, in the words of the sink that writes it.
enum Writes {
    ClickHouse(ClickHouseConfig),
    Sqlite(SqliteConfig),
}

fn writes(config: &Config) -> Writes {
    match config.sink.clone() {
        SinkConfig::ClickHouse { url, database, user, password, cluster, settings, request_timeout_ms } => {
            Writes::ClickHouse(ClickHouseConfig {
                url,
                database,
                user,
                password,
                request_timeout_ms,
                cluster,
                settings,
            })
        }
        SinkConfig::Sqlite { path, busy_timeout_ms } => {
            let group = config.source.group.clone();
            Writes::Sqlite(SqliteConfig { path, busy_timeout_ms, group })
        }
    }
}
