//! Dead letters in a file, one a line.
//!
//! A write is durable when it returns: the bytes, and the file itself when it was made for them.
//! Several processes may append: each holds a lock while it does.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use settle_core::sink::{FailureKind, SinkError};

use super::entry::{Item, Values};
use super::line::{self, Unreadable};

/// A file of dead letters.
#[derive(Clone, Debug)]
pub(super) struct DeadLetterFile {
    path: PathBuf,
}

impl DeadLetterFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Appends whole lines. Blocks.
    pub(super) fn append(&self, lines: &[u8]) -> Result<(), SinkError> {
        self.try_append(lines).map_err(|error| self.failed("append to", error))
    }

    fn try_append(&self, lines: &[u8]) -> io::Result<()> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
        file.lock()?;
        // A line that a crash cut off was never acknowledged; what comes now must not grow onto it.
        if ends_inside_a_line(&mut file)? {
            file.write_all(b"\n")?;
        }
        file.write_all(lines)?;
        file.sync_all()?;
        // Whoever made the file may not have come this far.
        File::open(folder(&self.path))?.sync_all()
    }

    /// Refuses what could not become a file of dead letters, or is a file of something else: its first
    /// line tells. Nothing is made. Blocks.
    pub(super) fn look(&self) -> Result<(), SinkError> {
        let failed = |error| self.failed("keep", error);
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return fs::metadata(folder(&self.path)).map(drop).map_err(failed);
            }
            Err(error) => return Err(failed(error)),
        };
        // What somebody is writing is waited for, as in reading.
        file.lock_shared().map_err(failed)?;
        let mut file = BufReader::new(file);
        let mut bytes = Vec::new();
        for number in 1.. {
            // Before it is read: a line of something else may be as long as its file.
            let begins = file.fill_buf().map_err(failed)?;
            let begins = begins.split(|byte| *byte == b'\n').next().unwrap_or_default();
            if !line::begins_as_ours(begins) {
                return Err(self.foreign(number, "it is no dead letter, and nothing is written behind it"));
            }
            bytes.clear();
            if file.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
                break;
            }
            let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            match line::read(line) {
                // Nobody was told of a line that a crash cut off: the next one says what the file is.
                Err(Unreadable::CutOff) => {}
                Err(Unreadable::Foreign(problem)) => return Err(self.foreign(number, &problem)),
                Ok(stored) => {
                    let read = Values::LeftOut.of(stored).read();
                    return read.map(drop).map_err(|problem| self.foreign(number, &problem));
                }
            }
        }
        Ok(())
    }

    /// Gives everything in it to `take`, and says how many lines nobody acknowledged: cut off by a
    /// crash. A file that is not there is empty. Blocks.
    pub(super) fn read(&self, values: Values, mut take: impl FnMut(Item)) -> Result<u64, SinkError> {
        let failed = |error| self.failed("read", error);
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(failed(error)),
        };
        // What somebody is writing is waited for: half of it would look cut off.
        file.lock_shared().map_err(failed)?;
        let mut file = BufReader::new(file);
        let mut bytes = Vec::new();
        let mut cut_off = 0;
        for number in 1.. {
            bytes.clear();
            if file.read_until(b'\n', &mut bytes).map_err(failed)? == 0 {
                break;
            }
            let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
            if line.is_empty() {
                continue;
            }
            match line::read(line) {
                Ok(stored) => {
                    take(values.of(stored).read().map_err(|problem| self.foreign(number, &problem))?);
                }
                Err(Unreadable::CutOff) => cut_off += 1,
                Err(Unreadable::Foreign(problem)) => return Err(self.foreign(number, &problem)),
            }
        }
        Ok(cut_off)
    }

    fn foreign(&self, number: u64, problem: &str) -> SinkError {
        let context = format!("line {number}: {problem}; is `path` in [dlq] the right file?");
        SinkError::new(FailureKind::Contract, format!("read dead letters from {}", self.path.display()), context)
    }

    fn failed(&self, what: &str, error: io::Error) -> SinkError {
        let (kind, context) = match error.kind() {
            ErrorKind::NotFound => (
                FailureKind::Contract,
                format!(
                    "the folder {} does not exist; create it, or change `path` in [dlq]",
                    folder(&self.path).display()
                ),
            ),
            ErrorKind::PermissionDenied => (
                FailureKind::Denied,
                "access is denied; give the user of this process read and write access to the file and its folder"
                    .to_owned(),
            ),
            ErrorKind::IsADirectory => {
                (FailureKind::Contract, "it is a folder; name a file in `path` of [dlq]".to_owned())
            }
            _ => (FailureKind::NotWritable, format!("{error}; see that the disk has room and may be written")),
        };
        SinkError::new(kind, format!("{what} the dead letters in {}", self.path.display()), context).caused_by(error)
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn ends_inside_a_line(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last[0] != b'\n')
}
