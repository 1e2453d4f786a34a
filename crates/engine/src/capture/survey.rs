//! What captures hold, found by reading them through once.

use std::collections::BTreeMap;
use std::io::BufRead;

use settle_core::position::{Offset, Partition, TopicId};

use super::offsets::OffsetFile;
use super::{CaptureConfig, open, parse, unreadable};
use crate::log::LogPartition;
use crate::source::SourceError;
use crate::topics::wanted;

struct Seen {
    topic_id: TopicId,
    start: Offset,
    end: Offset,
    committed: Option<Offset>,
}

/// Every wanted partition, with where the configured group stands in it.
pub fn survey(config: &CaptureConfig) -> Result<Vec<LogPartition>, SourceError> {
    let mut found: BTreeMap<Partition, Seen> = BTreeMap::new();
    each(config, |record, text, offsets, ids| {
        let topic_id = *ids.entry(record.partition.topic.to_string()).or_insert_with(|| {
            config.topic_id.unwrap_or_else(|| TopicId::of_first_line(&record.partition.topic, text.as_bytes()))
        });
        let offset = record.offset;
        if let Some(seen) = found.get_mut(&record.partition) {
            seen.start = seen.start.min(offset);
            seen.end = seen.end.max(offset + 1);
            return Ok(());
        }
        let committed = offsets.start_of(&record.partition, topic_id)?.map(|(offset, _)| offset);
        found.insert(record.partition, Seen { topic_id, start: offset, end: offset + 1, committed });
        Ok(())
    })?;
    let found = found.into_iter().map(|(partition, Seen { topic_id, start, end, committed })| LogPartition {
        partition,
        topic_id: Some(topic_id),
        start,
        end,
        committed,
    });
    Ok(found.collect())
}

/// The first offset of each partition whose record is of `since_ms` or later; none where there is none.
pub fn offsets_since(
    config: &CaptureConfig,
    since_ms: i64,
) -> Result<BTreeMap<Partition, Option<Offset>>, SourceError> {
    let mut first: BTreeMap<Partition, Option<Offset>> = BTreeMap::new();
    each(config, |record, _, _, _| {
        let known = first.entry(record.partition).or_default();
        if known.is_none() && record.timestamp_ms.is_some_and(|time| time >= since_ms) {
            *known = Some(record.offset);
        }
        Ok(())
    })?;
    Ok(first)
}

type Ids = BTreeMap<String, TopicId>;

fn each(
    config: &CaptureConfig,
    mut take: impl FnMut(settle_core::record::Record, &str, &OffsetFile, &mut Ids) -> Result<(), SourceError>,
) -> Result<(), SourceError> {
    let mut ids = Ids::new();
    for path in &config.paths {
        let name = path.display().to_string();
        let offsets = OffsetFile::load(path, &config.group)?;
        for (number, text) in open(path)?.lines().enumerate() {
            let text = text.map_err(|e| unreadable(&name, &e))?;
            if text.trim().is_empty() {
                continue;
            }
            let record = parse(&text, number + 1, &name)?;
            if wanted(&config.topics, &record.partition.topic) {
                take(record, text.trim_end(), &offsets, &mut ids)?;
            }
        }
    }
    Ok(())
}

/// Removes the offsets of a group that was made for one pass.
pub fn forget_group(config: &CaptureConfig, group: &str) -> Result<(), SourceError> {
    config.paths.iter().try_for_each(|path| OffsetFile::remove(path, group))
}
