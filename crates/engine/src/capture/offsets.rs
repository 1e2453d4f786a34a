//! The offsets of one group in one capture: `<capture>.<group>.offsets`, one JSON line a partition.
//!
//! The file is replaced by an atomic rename, so that a kill leaves the old one or the new one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use settle_core::position::{Offset, Partition, TopicId};

use crate::source::{SourceError, SourceFailure};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    topic: String,
    topic_id: String,
    partition: i32,
    /// Next offset to read.
    offset: Offset,
}

#[derive(Default)]
struct State {
    /// Committed offsets, with the id of the log they count in.
    committed: BTreeMap<Partition, (TopicId, Offset)>,
    /// Topics of this capture.
    topics: BTreeMap<Partition, TopicId>,
}

/// The offsets file of a group.
pub(super) struct OffsetFile {
    path: PathBuf,
    state: Mutex<State>,
}

impl OffsetFile {
    /// Reads the file; a missing one is a start from the beginning.
    pub(super) fn load(capture: &Path, group: &str) -> Result<Self, SourceError> {
        let path = path_of(capture, group);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
            Err(e) => return Err(failed(&path, &format!("cannot be read ({e})"))),
        };
        let mut state = State::default();
        for line in text.lines() {
            let line: Line = serde_json::from_str(line).map_err(|e| {
                failed(&path, &format!("is not an offsets file ({e}); move it away to start from the beginning"))
            })?;
            let id = line.topic_id.parse().map_err(|e| {
                failed(&path, &format!("holds a topic id that is none ({e}); move it away to start from the beginning"))
            })?;
            state.committed.insert(Partition::new(line.topic, line.partition), (TopicId(id), line.offset));
        }
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Removes the file of a group; one that was never written is fine.
    pub(super) fn remove(capture: &Path, group: &str) -> Result<(), SourceError> {
        let path = path_of(capture, group);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(failed(&path, &format!("cannot be removed ({e})"))),
            _ => Ok(()),
        }
    }

    /// Where the group stands in a partition of this capture.
    pub(super) fn start_of(&self, partition: &Partition, topic_id: TopicId) -> Result<Option<Offset>, SourceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.topics.insert(partition.clone(), topic_id);
        match state.committed.get(partition) {
            Some((id, _)) if *id != topic_id => {
                let problem = format!(
                    "belongs to another capture of {partition} (its first line differs); \
                     use another group, or move the offsets file away to start from the beginning"
                );
                Err(failed(&self.path, &problem))
            }
            committed => Ok(committed.map(|(_, offset)| *offset)),
        }
    }

    /// Stores next-to-read offsets of the partitions that are in this capture. Offsets never go back.
    pub(super) fn commit(&self, offsets: &[(Partition, Offset)]) -> Result<(), SourceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved = false;
        for (partition, offset) in offsets {
            let Some(topic_id) = state.topics.get(partition).copied() else { continue };
            let known = state.committed.entry(partition.clone()).or_insert((topic_id, -1));
            if *offset > known.1 {
                *known = (topic_id, *offset);
                moved = true;
            }
        }
        if moved { self.store(&state) } else { Ok(()) }
    }

    fn store(&self, state: &State) -> Result<(), SourceError> {
        let written = || -> std::io::Result<()> {
            let staged = self.path.with_extension("offsets.new");
            let mut file = File::create(&staged)?;
            for (partition, (topic_id, offset)) in &state.committed {
                let line = Line {
                    topic: partition.topic.to_string(),
                    topic_id: topic_id.to_string(),
                    partition: partition.number,
                    offset: *offset,
                };
                serde_json::to_writer(&mut file, &line)?;
                file.write_all(b"\n")?;
            }
            file.sync_all()?;
            fs::rename(&staged, &self.path)
        };
        written().map_err(|e| failed(&self.path, &format!("cannot be written ({e}); the folder must be writable")))
    }
}

fn path_of(capture: &Path, group: &str) -> PathBuf {
    let mut name = capture.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{group}.offsets"));
    capture.with_file_name(name)
}

fn failed(path: &Path, problem: &str) -> SourceError {
    SourceError::new(SourceFailure::Contract, format!("the offsets file {} {problem}", path.display()))
}
