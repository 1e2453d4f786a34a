//! Captures as a source: the lines of `kcat -J`, from files or standard input.
//!
//! A capture is a log of its own: partitions, offsets and a topic id, read in the order of the
//! file. The group's offsets lie beside it, so that stopping and resuming work as on Kafka.

mod form;
mod line;
mod offsets;
mod outlook;
mod short;
mod survey;
mod window;

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::Arc;

use settle_core::position::{Offset, Partition, Span, TopicId};
use settle_core::record::Record;
use settle_core::sink::BoxFuture;
use tokio::sync::mpsc;

use crate::log::Ends;
use crate::source::{
    Assignment, Chunk, CommitPoint, GroupOffsets, OffsetStore, PartitionProgress, Source, SourceError, SourceEvent,
    SourceFailure, Stop,
};
use crate::standing;
use crate::topics::wanted;
use offsets::OffsetFile;
pub use outlook::{Outlook, PartitionOutlook, outlook};
pub use survey::{forget_group, offsets_since, survey};
use window::Window;

/// Records sent at once.
const CHUNK_RECORDS: usize = 500;
/// Bytes sent at once.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks between the reader and the run loop.
const CHUNKS_AHEAD: usize = 4;

/// What to read.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// Files, read one after the other; standard input where empty.
    pub paths: Vec<PathBuf>,
    /// Only these topics; all where empty.
    pub topics: Vec<String>,
    /// Whose progress it is.
    pub group: String,
    /// Overrides the id derived from the first line of each topic.
    pub topic_id: Option<TopicId>,
}

/// Starts reading on a thread of its own.
pub fn start(config: CaptureConfig) -> Result<Source, SourceError> {
    let files = load(&config)?;
    spawn(config, files, Window::Whole)
}

/// Reads as the group up to `ends`, whatever the capture has behind them.
pub fn start_below(config: CaptureConfig, ends: Ends) -> Result<Source, SourceError> {
    let files = load(&config)?;
    spawn(config, files, Window::Below(ends))
}

/// Reads these stretches and nothing else, as no group: nothing is committed.
pub fn read(config: CaptureConfig, spans: Vec<Span>) -> Result<Source, SourceError> {
    spawn(config, Vec::new(), Window::of(spans))
}

fn load(config: &CaptureConfig) -> Result<Vec<Arc<OffsetFile>>, SourceError> {
    config.paths.iter().map(|path| OffsetFile::load(path, &config.group).map(Arc::new)).collect()
}

fn spawn(config: CaptureConfig, files: Vec<Arc<OffsetFile>>, window: Window) -> Result<Source, SourceError> {
    let (events, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let store = CaptureOffsets { files: files.clone() };
    std::thread::Builder::new()
        .name("settle-capture".to_owned())
        .spawn(move || {
            let mut deliver = |event: SourceEvent| events.blocking_send(event).map_err(|_| Stop::NobodyListens);
            let sent = read_all(&config, &files, &window, &mut deliver);
            let last = match sent {
                Ok(()) => SourceEvent::Ended,
                Err(Stop::Failed(error)) => SourceEvent::Failed(error),
                Err(Stop::NobodyListens) => return,
            };
            // The loop may be gone already; then nobody needs to know.
            let _ = events.blocking_send(last);
        })
        .map_err(|e| {
            SourceError::new(SourceFailure::Contract, format!("cannot start a thread to read the capture ({e})"))
        })?;
    Ok(Source { events: receiver, offsets: Box::new(store), group: GroupOffsets::default() })
}

/// Reads the first records of each partition, up to `limit` of each, for `ddl`.
pub fn sample(config: &CaptureConfig, limit: usize) -> Result<Vec<Record>, SourceError> {
    let outlook = outlook(config, limit);
    match outlook.refused {
        Some(error) => Err(error),
        None => Ok(outlook.records),
    }
}

/// What takes the events of a reader.
type Deliver<'a> = dyn FnMut(SourceEvent) -> Result<(), Stop> + 'a;

fn read_all(
    config: &CaptureConfig,
    files: &[Arc<OffsetFile>],
    window: &Window,
    deliver: &mut Deliver<'_>,
) -> Result<(), Stop> {
    if config.paths.is_empty() {
        let mut reader = Reader::new("standard input".to_owned(), config, None, window, deliver);
        return reader.read(&mut std::io::stdin().lock());
    }
    if let Window::Whole = window {
        short::refuse(config, files)?;
    }
    read_files(config, files, window, false, deliver)
}

/// Reads the captures one after the other; with `over_again`, also what the group has read before.
fn read_files(
    config: &CaptureConfig,
    files: &[Arc<OffsetFile>],
    window: &Window,
    over_again: bool,
    deliver: &mut Deliver<'_>,
) -> Result<(), Stop> {
    let mut owners: HashMap<Arc<str>, String> = HashMap::new();
    let mut unwanted = BTreeSet::new();
    for (at, path) in config.paths.iter().enumerate() {
        let name = path.display().to_string();
        let mut reader = Reader::new(name.clone(), config, files.get(at).cloned(), window, deliver);
        reader.over_again = over_again;
        reader.elsewhere.clone_from(&owners);
        reader.read(&mut open(path)?)?;
        owners.extend(reader.topics.into_keys().map(|topic| (topic, name.clone())));
        unwanted.append(&mut reader.unwanted);
    }
    if owners.is_empty() && !unwanted.is_empty() {
        let found: Vec<&str> = unwanted.iter().take(5).map(|topic| &**topic).collect();
        let message = format!(
            "no topic of the captures matches topics = {:?} in [source]; they hold {}",
            config.topics,
            found.join(", ")
        );
        return Err(SourceError::new(SourceFailure::Contract, message).into());
    }
    Ok(())
}

fn open(path: &PathBuf) -> Result<BufReader<File>, SourceError> {
    let file = File::open(path).map_err(|e| unreadable(&path.display().to_string(), &e))?;
    Ok(BufReader::with_capacity(1 << 18, file))
}

fn unreadable(name: &str, error: &std::io::Error) -> SourceError {
    SourceError::new(SourceFailure::Contract, format!("the capture {name} cannot be read ({error})"))
}

fn not_text(name: &str, number: usize) -> SourceError {
    let message = format!(
        "{name} line {number} is not UTF-8: the file was saved in another encoding (convert it: iconv -t UTF-8), or the \
         record holds bytes that are no text, as Avro, which a capture cannot carry (read its topic from Kafka)"
    );
    SourceError::new(SourceFailure::Contract, message)
}

fn parse(text: &str, number: usize, name: &str) -> Result<Record, SourceError> {
    line::parse(text).map_err(|problem| {
        let message = format!(
            "{name} line {number}: {problem}; a capture holds one JSON object a line, as `kcat -C -J` prints them"
        );
        SourceError::new(SourceFailure::Contract, message)
    })
}

/// The state of reading one capture.
struct Reader<'a, 'd> {
    name: String,
    config: &'a CaptureConfig,
    offsets: Option<Arc<OffsetFile>>,
    window: &'a Window,
    deliver: &'a mut Deliver<'d>,
    topics: HashMap<Arc<str>, TopicId>,
    /// Topics of the captures before, with the capture that has them.
    elsewhere: HashMap<Arc<str>, String>,
    /// Topics that are not asked for.
    unwanted: BTreeSet<Arc<str>>,
    /// The assignment under which each partition is read, and what comes next of it.
    next: HashMap<Partition, (u64, Offset)>,
    /// Delivers also what an earlier run of the group has read.
    over_again: bool,
    chunk: Vec<Record>,
    chunk_generation: u64,
    chunk_bytes: usize,
}

impl<'a, 'd> Reader<'a, 'd> {
    fn new(
        name: String,
        config: &'a CaptureConfig,
        offsets: Option<Arc<OffsetFile>>,
        window: &'a Window,
        deliver: &'a mut Deliver<'d>,
    ) -> Self {
        Self {
            name,
            config,
            offsets,
            window,
            deliver,
            topics: HashMap::new(),
            elsewhere: HashMap::new(),
            unwanted: BTreeSet::new(),
            next: HashMap::new(),
            over_again: false,
            chunk: Vec::new(),
            chunk_generation: 0,
            chunk_bytes: 0,
        }
    }

    fn read(&mut self, input: &mut dyn BufRead) -> Result<(), Stop> {
        let first = input.fill_buf().map_err(|e| unreadable(&self.name, &e))?;
        if let Some(other) = form::of_another_form(first) {
            let message = format!("the capture {} {other}", self.name);
            return Err(SourceError::new(SourceFailure::Contract, message).into());
        }
        let mut text = String::new();
        for number in 1.. {
            text.clear();
            let read = input.read_line(&mut text).map_err(|e| match e.kind() {
                std::io::ErrorKind::InvalidData => not_text(&self.name, number),
                _ => unreadable(&self.name, &e),
            })?;
            if read == 0 {
                break;
            }
            if text.trim().is_empty() {
                continue;
            }
            let record = parse(&text, number, &self.name)?;
            if wanted(&self.config.topics, &record.partition.topic) {
                self.take(record, text.trim_end())?;
            } else if !self.unwanted.contains(&record.partition.topic) {
                self.unwanted.insert(record.partition.topic);
            }
        }
        self.flush()
    }

    fn take(&mut self, record: Record, text: &str) -> Result<(), Stop> {
        let topic = &record.partition.topic;
        // Before any of its records is delivered: they would be read as a second life of the log.
        if let Some(other) = self.elsewhere.get(topic) {
            let message = format!(
                "topic {topic} is in two captures, {other} and {}: a topic is one log, so read them in two runs or join \
                 the files",
                self.name
            );
            return Err(SourceError::new(SourceFailure::Contract, message).into());
        }
        let topic_id = self.topic_id(topic, text)?;
        let Some(generation) = self.window.pass(&record.partition, record.offset) else { return Ok(()) };
        let next = match self.next.get(&record.partition) {
            Some(&(known, next)) if known == generation => next,
            _ => self.assign(&record, topic_id, generation)?,
        };
        if record.offset < next {
            return Ok(()); // read by an earlier run of this group
        }
        if self.chunk.first().is_some_and(|first| first.partition != record.partition)
            || self.chunk.len() >= CHUNK_RECORDS
            || self.chunk_bytes >= CHUNK_BYTES
        {
            self.flush()?;
        }
        self.chunk_generation = generation;
        self.chunk_bytes += record.size();
        self.chunk.push(record);
        Ok(())
    }

    /// The id of the log that a topic is: places of two logs must never be taken for one.
    fn topic_id(&mut self, topic: &Arc<str>, text: &str) -> Result<TopicId, Stop> {
        if let Some(known) = self.topics.get(topic) {
            return Ok(*known);
        }
        let other = self.topics.keys().chain(self.elsewhere.keys()).next();
        let id = match (self.config.topic_id, other) {
            (Some(_), Some(other)) => {
                let message = format!(
                    "{} holds {topic}, {other} was read before it, and [source] topic_id is the identity of one log; read \
                     one topic a run ([source] topics), or leave topic_id out",
                    self.name
                );
                return Err(SourceError::new(SourceFailure::Contract, message).into());
            }
            (Some(id), None) => id,
            (None, _) => TopicId::of_first_line(topic, text.as_bytes()),
        };
        self.topics.insert(topic.clone(), id);
        Ok(id)
    }

    /// The first record of a partition: it is ours from where the group stands. Returns the next
    /// offset to deliver.
    fn assign(&mut self, record: &Record, topic_id: TopicId, generation: u64) -> Result<Offset, Stop> {
        let partition = record.partition.clone();
        let committed = match &self.offsets {
            Some(offsets) => offsets.start_of(&partition, topic_id)?,
            None => None,
        };
        let start = committed.as_ref().map_or(record.offset, |(offset, _)| *offset);
        let next = if self.over_again { record.offset } else { start };
        self.next.insert(partition.clone(), (generation, next));
        self.flush()?;
        let resumed = committed.is_some();
        let standing = committed.and_then(|(offset, line)| standing::of(&partition, topic_id, offset, &line));
        let assignment = Assignment {
            partition,
            topic_id: Some(topic_id),
            start,
            begins: record.offset,
            resumed,
            standing,
            partitions: 0,
            waits: false,
            generation,
        };
        self.send(SourceEvent::Assigned(vec![assignment]))?;
        Ok(next)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let records = std::mem::take(&mut self.chunk);
        self.chunk_bytes = 0;
        let Some(first) = records.first() else { return Ok(()) };
        let partition = first.partition.clone();
        self.send(SourceEvent::Records(Chunk { partition, generation: self.chunk_generation, records }))
    }

    fn send(&mut self, event: SourceEvent) -> Result<(), Stop> {
        (self.deliver)(event)
    }
}

/// The offsets of all captures of a run.
struct CaptureOffsets {
    files: Vec<Arc<OffsetFile>>,
}

impl OffsetStore for CaptureOffsets {
    fn commit<'a>(&'a self, offsets: &'a [CommitPoint]) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async move { self.files.iter().try_for_each(|file| file.commit(offsets)) })
    }

    fn progress<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Vec<PartitionProgress>>, SourceError>> {
        Box::pin(async { Ok(None) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        // The reader's thread ends by itself: its next send finds nobody listening.
        Box::pin(async {})
    }
}

#[cfg(test)]
mod tests;
