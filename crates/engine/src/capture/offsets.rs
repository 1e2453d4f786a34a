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

use crate::source::{CommitPoint, SourceError, SourceFailure};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    topic: String,
    topic_id: String,
    partition: i32,
    /// Next offset to read.
    offset: Offset,
    /// What is kept with it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    standing: String,
}

struct Committed {
    /// The log that the offset counts in.
    topic_id: TopicId,
    offset: Offset,
    standing: String,
}

#[derive(Default)]
struct State {
    committed: BTreeMap<Partition, Committed>,
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
            if line.offset < 0 {
                return Err(failed(&path, "holds an offset below 0; move it away to start from the beginning"));
            }
            let committed = Committed { topic_id: TopicId(id), offset: line.offset, standing: line.standing };
            state.committed.insert(Partition::new(line.topic, line.partition), committed);
        }
        Ok(Self { path, state: Mutex::new(state) })
    }

    /// Where the group stands in every partition that it has read.
    pub(super) fn committed(&self) -> BTreeMap<Partition, Offset> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.committed.iter().map(|(partition, committed)| (partition.clone(), committed.offset)).collect()
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the file of a group; one that was never written is fine.
    pub(super) fn remove(capture: &Path, group: &str) -> Result<(), SourceError> {
        let path = path_of(capture, group);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(failed(&path, &format!("cannot be removed ({e})"))),
            _ => Ok(()),
        }
    }

    /// Where the group stands in a partition of this capture, and what was kept with the offset.
    pub(super) fn start_of(
        &self,
        partition: &Partition,
        topic_id: TopicId,
    ) -> Result<Option<(Offset, String)>, SourceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.topics.insert(partition.clone(), topic_id);
        match state.committed.get(partition) {
            Some(committed) if committed.topic_id != topic_id => {
                let problem = format!(
                    "belongs to another capture of {partition} (its first line differs); \
                     use another group, or move the offsets file away to start from the beginning"
                );
                Err(failed(&self.path, &problem))
            }
            committed => Ok(committed.map(|committed| (committed.offset, committed.standing.clone()))),
        }
    }

    /// Stores next-to-read offsets of the partitions that are in this capture. Offsets never go back.
    pub(super) fn commit(&self, points: &[CommitPoint]) -> Result<(), SourceError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut moved = false;
        for CommitPoint { partition, offset, metadata } in points {
            let Some(topic_id) = state.topics.get(partition).copied() else { continue };
            if state.committed.get(partition).is_none_or(|known| *offset > known.offset) {
                let committed = Committed { topic_id, offset: *offset, standing: metadata.clone() };
                state.committed.insert(partition.clone(), committed);
                moved = true;
            }
        }
        if moved { self.store(&state) } else { Ok(()) }
    }

    fn store(&self, state: &State) -> Result<(), SourceError> {
        let written = || -> std::io::Result<()> {
            let staged = self.path.with_extension("offsets.new");
            let mut file = File::create(&staged)?;
            for (partition, committed) in &state.committed {
                let line = Line {
                    topic: partition.topic.to_string(),
                    topic_id: committed.topic_id.to_string(),
                    partition: partition.number,
                    offset: committed.offset,
                    standing: committed.standing.clone(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_an_offset_below_0_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let capture = folder.path().join("a.jsonl");
        let written = |offset: i64| {
            let id = TopicId::of_first_line("t", b"");
            let line = format!(r#"{{"topic":"t","topic_id":"{id}","partition":0,"offset":{offset}}}"#);
            std::fs::write(path_of(&capture, "g"), line).unwrap();
            OffsetFile::load(&capture, "g").map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(written(0), Ok(()));
        for offset in [-1, i64::MIN] {
            let said = written(offset).unwrap_err();
            assert!(said.ends_with("holds an offset below 0; move it away to start from the beginning"), "{said}");
        }
    }
}
