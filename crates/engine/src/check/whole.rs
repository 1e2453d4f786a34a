//! The whole look, in the order in which a run meets things.

use settle_core::batch::TableRows;
use settle_core::record::Record;
use settle_core::sink::{FailureKind, PlacedPartition, Places, SinkError};

use super::log::{self, Place, places_of};
use super::{Checked, dead_letters, records, rules, tables};
use crate::capture;
use crate::config::Config;
use crate::finding::Finding;
use crate::kafka::{self, KafkaConfig};
use crate::pipeline::{Reads, Writes, key, reads, sink, writes};
use crate::run::{RunError, refuse_gap};
use crate::sampling::{self, Outset, Sample};
use crate::sinks::clickhouse::{CheckedTable, ClickHouse};
use crate::sinks::mysql;
use crate::sinks::postgres;
use crate::sinks::sqlite;
use crate::source::{Assignment, GroupOffsets, SourceError};

/// What the source is seen to be.
enum Outlook {
    Kafka(kafka::Outlook),
    Capture(capture::Outlook),
    /// It can be read once only.
    Unread,
    Away(SourceError),
}

/// Looks at everything that a run depends on, changing nothing: up to `limit` records of each
/// partition are held against the rules and the destination.
pub async fn check(config: &Config, limit: usize) -> Checked {
    let (outlook, records, group) = outlook(config, limit).await;
    let places: Vec<Place> = match &outlook {
        Outlook::Kafka(kafka) => kafka.topics.iter().flat_map(places_of).collect(),
        Outlook::Capture(capture) => capture.partitions.iter().map(capture::PartitionOutlook::place).collect(),
        Outlook::Unread | Outlook::Away(_) => Vec::new(),
    };
    let assignments: Vec<Assignment> = places.iter().map(|place| place.assignment.clone()).collect();
    let parts: Vec<PlacedPartition> = assignments.iter().filter_map(placed).collect();
    let known = known(config, &parts).await.ok();
    // Of a destination that is away nothing is known, and nothing is missed.
    let guarantee = known.is_some().then(|| sink(config).ok().map(|sink| sink.guarantee())).flatten();
    let known = known.unwrap_or_default();
    let outset = Outset {
        target: &config.target,
        lone_tombstones: config.source.lone_tombstones,
        assignments: &assignments,
        places: &known,
    };
    let sample = sampling::read_into(records, &outset);

    let mut checked = Checked { source: of_source(&outlook, &sample, config), ..Checked::default() };
    if let Err(RunError::Source(error)) = refuse_gap(&assignments, &known, &group, guarantee) {
        checked.source.push(Finding::of_source(&error));
    }
    checked.unread = matches!(outlook, Outlook::Unread);
    let has_failed = checked.source.iter().any(Finding::is_error);
    if !checked.unread && (!places.is_empty() || !has_failed) {
        checked.records = records::findings(&sample, &places);
    }
    checked.tables = tables::findings(&sample, &config.target);
    checked.tables.extend(rules::findings(&sample, &config.target));
    checked.destination = of_destination(config, &sample, &parts).await;
    checked.settle_records(config.dlq.is_some());
    if let Some(dlq) = &config.dlq {
        checked.destination.extend(dead_letters::findings(dlq, &config.source.group, &sample).await);
    }
    checked
}

fn placed(assignment: &Assignment) -> Option<PlacedPartition> {
    Some(PlacedPartition { topic_id: assignment.topic_id?, partition: assignment.partition.clone() })
}

/// The source, records of it, and what is known of the group's offsets.
async fn outlook(config: &Config, limit: usize) -> (Outlook, Vec<Record>, GroupOffsets) {
    match reads(config) {
        Reads::Capture(capture) if capture.paths.is_empty() => (Outlook::Unread, Vec::new(), GroupOffsets::default()),
        Reads::Capture(capture) => {
            let mut outlook = capture::outlook(&capture, limit);
            let records = std::mem::take(&mut outlook.records);
            (Outlook::Capture(outlook), records, GroupOffsets::default())
        }
        Reads::Kafka(kafka) => {
            let group = GroupOffsets { move_command: Some(kafka::move_command(&kafka)) };
            match of_kafka(kafka, limit).await {
                Ok((outlook, records)) => (Outlook::Kafka(outlook), records, group),
                Err(error) => (Outlook::Away(error), Vec::new(), group),
            }
        }
    }
}

/// What Kafka holds, and records of each partition from where the group stands; from before it,
/// where there are too few.
async fn of_kafka(config: KafkaConfig, limit: usize) -> Result<(kafka::Outlook, Vec<Record>), SourceError> {
    let outlook = kafka::outlook(config.clone()).await?;
    let all = outlook.topics.iter().flat_map(|topic| &topic.partitions);
    let back = i64::try_from(limit).unwrap_or(i64::MAX);
    let parts = all.map(|part| {
        let from = part.start().min(part.end.saturating_sub(back)).max(part.first);
        (part.partition.clone(), from, part.end)
    });
    let records = kafka::sample_from(config, parts.collect(), limit).await?;
    Ok((outlook, records))
}

fn of_source(outlook: &Outlook, sample: &Sample, config: &Config) -> Vec<Finding> {
    let retention = config.target.tombstone_retention;
    match outlook {
        Outlook::Kafka(outlook) => log::of_kafka(outlook, sample, &config.source, retention),
        Outlook::Capture(outlook) => log::of_captures(outlook, sample, &config.source, retention),
        Outlook::Away(error) => vec![Finding::of_source(error)],
        Outlook::Unread => {
            let unread = Finding::warning(
                "standard input is not looked at: a run reads it, and it can be read once only",
                "to check the records too, write them to a file, and name it with kind = \"file\" in [source]",
            );
            std::iter::once(unread).chain(retention.map(log::of_old_captures)).collect()
        }
    }
}

/// Why a run would not begin where its group stands, as the source and the destination say; nothing
/// where one of them is away, and of what can be read once only.
pub async fn refusals(config: &Config) -> Vec<String> {
    let (mut refused, mut places, mut group) = (Vec::new(), Vec::new(), GroupOffsets::default());
    match reads(config) {
        Reads::Capture(capture) if capture.paths.is_empty() => {}
        Reads::Capture(capture) => {
            let outlook = capture::outlook(&capture, 0);
            refused.extend(outlook.refused.as_ref().map(ToString::to_string));
            places.extend(outlook.partitions.iter().map(capture::PartitionOutlook::place));
        }
        Reads::Kafka(kafka) => {
            group.move_command = Some(kafka::move_command(&kafka));
            let Ok(outlook) = kafka::outlook(kafka).await else { return refused };
            let parts = outlook.topics.iter().flat_map(|topic| &topic.partitions);
            refused.extend(parts.filter_map(|part| part.assignment.as_ref().err()).map(ToString::to_string));
            let retention = config.target.tombstone_retention;
            let outlived = outlook.topics.iter().filter_map(|topic| log::outlived(topic, retention));
            refused.extend(outlived.map(|error| error.to_string()));
            places.extend(outlook.topics.iter().flat_map(places_of));
        }
    }
    let assignments: Vec<Assignment> = places.into_iter().map(|place| place.assignment).collect();
    let parts: Vec<PlacedPartition> = assignments.iter().filter_map(placed).collect();
    match known(config, &parts).await {
        Err(error) if error.kind == FailureKind::Contract => refused.push(error.to_string()),
        Err(_) => {}
        Ok(known) => {
            let guarantee = sink(config).ok().map(|sink| sink.guarantee());
            if let Err(RunError::Source(error)) = refuse_gap(&assignments, &known, &group, guarantee) {
                refused.push(error.to_string());
            }
        }
    }
    refused
}

/// What the destination knows of the places.
async fn known(config: &Config, parts: &[PlacedPartition]) -> Result<Places, SinkError> {
    match writes(config) {
        Writes::ClickHouse(clickhouse) => match ClickHouse::new(clickhouse, config.target.clone()) {
            Ok(mut sink) => sink.places(parts).await,
            Err(error) => Err(error),
        },
        Writes::Sqlite(sqlite) => sqlite::places(&sqlite, &config.target, parts),
        Writes::MySql(mysql) => mysql::places(&mysql, &config.target, parts).await,
        Writes::Postgres(postgres) => postgres::places(&postgres, &config.target, parts).await,
    }
}

/// What a run over topics like the sample would find in the destination.
async fn of_destination(config: &Config, sample: &Sample, parts: &[PlacedPartition]) -> Vec<Finding> {
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
        Writes::Sqlite(sqlite) => sqlite::check(&sqlite, &config.target, sample, parts),
        Writes::MySql(mysql) => mysql::check(&mysql, &config.target, sample).await,
        Writes::Postgres(postgres) => postgres::check(&postgres, &config.target, sample, parts).await,
    }
}
