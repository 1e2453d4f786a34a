//! What a run would find at its start, and the first records of each partition. Nothing is
//! committed or changed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use settle_core::position::{Offset, Partition};
use settle_core::record::Record;

use super::offsets::OffsetFile;
use super::short::Ahead;
use super::window::Window;
use super::{CaptureConfig, read_files};
use crate::check::can_be_made;
use crate::source::{Assignment, SourceError, SourceEvent, SourceFailure, Stop};

/// What a run would find.
#[derive(Debug, Default)]
pub struct Outlook {
    /// The partitions that the captures hold, of the topics that are asked for.
    pub partitions: Vec<PartitionOutlook>,
    /// The first records of each partition, and the first behind the group's offset.
    pub records: Vec<Record>,
    /// Where a run would stop reading, and why.
    pub refused: Option<SourceError>,
    /// Why the group's offsets cannot be written.
    pub unwritable: Option<SourceError>,
}

/// One partition.
#[derive(Debug)]
pub struct PartitionOutlook {
    /// As a run is given it.
    pub assignment: Assignment,
    /// Records that the captures hold.
    pub records: u64,
    /// First offset.
    pub first: Offset,
    /// Behind the last offset.
    pub end: Offset,
}

/// Reads the captures to their end, as a run would, and keeps up to `limit` records of each
/// partition from its beginning, and as many from where the group stands. Standard input is left
/// alone.
pub fn outlook(config: &CaptureConfig, limit: usize) -> Outlook {
    let mut outlook = Outlook::default();
    if let Err(error) = look(config, limit, &mut outlook) {
        outlook.refused = Some(error);
    }
    let unwritable = config.paths.iter().find_map(|path| probe(path, &config.group).err());
    outlook.unwritable = unwritable;
    outlook
}

fn look(config: &CaptureConfig, limit: usize, outlook: &mut Outlook) -> Result<(), SourceError> {
    let mut files = Vec::new();
    for path in &config.paths {
        files.push(Arc::new(OffsetFile::load(path, &config.group)?));
    }
    let mut taken: BTreeMap<Partition, Taken> = BTreeMap::new();
    let mut ahead = Ahead::of(config, &files);
    let Outlook { partitions, records, .. } = outlook;
    let mut deliver = |event: SourceEvent| {
        match event {
            SourceEvent::Assigned(assigned) => {
                for assignment in assigned {
                    taken.insert(assignment.partition.clone(), Taken { index: partitions.len(), ..Taken::default() });
                    partitions.push(PartitionOutlook { assignment, records: 0, first: 0, end: 0 });
                }
            }
            SourceEvent::Records(chunk) => {
                let Some(taken) = taken.get_mut(&chunk.partition) else { return Ok(()) };
                let Some(known) = partitions.get_mut(taken.index) else { return Ok(()) };
                if let Some(last) = chunk.records.last() {
                    ahead.has(&chunk.partition, last.offset.saturating_add(1));
                }
                for record in chunk.records {
                    if known.records == 0 {
                        known.first = record.offset;
                    }
                    known.records += 1;
                    known.end = record.offset.saturating_add(1);
                    let is_ahead = known.assignment.resumed && record.offset >= known.assignment.start;
                    let count = if is_ahead { &mut taken.ahead } else { &mut taken.from_start };
                    if *count < limit {
                        *count += 1;
                        records.push(record);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    };
    match read_files(config, &files, &Window::Whole, true, &mut deliver) {
        Ok(()) | Err(Stop::NobodyListens) => ahead.refusal(config).map_or(Ok(()), Err),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Records kept of one partition.
#[derive(Default)]
struct Taken {
    index: usize,
    from_start: usize,
    ahead: usize,
}

/// Whether a run could store offsets beside the capture: it makes a file there and renames it.
fn probe(capture: &Path, group: &str) -> Result<(), SourceError> {
    let mut name = capture.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{group}.offsets"));
    can_be_made(&capture.with_file_name(name)).map_err(|error| {
        let folder = capture.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let message = format!(
            "the offsets of group {group} are kept beside the capture, but no file can be made in {} ({error}); give this \
             user write access to the folder, or read a copy of the capture elsewhere",
            folder.display()
        );
        SourceError::new(SourceFailure::Contract, message)
    })
}
