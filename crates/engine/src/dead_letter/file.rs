//! Dead letters in a file, one a line.
//!
//! A write is durable when it returns: the bytes, and the file itself when it was made for them.
//! Several processes may append: each holds a lock while it does.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use settle_core::sink::{FailureKind, SinkError};

use super::entry::Item;
use super::line;

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
        let is_new = !self.path.exists();
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(&self.path)?;
        file.lock()?;
        // A line that a crash cut off was never acknowledged; what comes now must not grow onto it.
        if ends_inside_a_line(&mut file)? {
            file.write_all(b"\n")?;
        }
        file.write_all(lines)?;
        file.sync_all()?;
        if is_new {
            File::open(folder(&self.path))?.sync_all()?;
        }
        Ok(())
    }

    /// Everything in it, with the number of lines that nobody acknowledged: cut off by a crash.
    /// A file that is not there is empty. Blocks.
    pub(super) fn read(&self) -> Result<(Vec<Item>, u64), SinkError> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Ok(mut file) => file.read_to_end(&mut bytes).map_err(|error| self.failed("read", error))?,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), 0)),
            Err(error) => return Err(self.failed("read", error)),
        };
        let mut items = Vec::new();
        let mut cut_off = 0;
        for (number, bytes) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
            if bytes.is_empty() {
                continue;
            }
            match line::read(bytes) {
                Ok(stored) => items.push(stored.read().map_err(|problem| self.foreign(number, &problem))?),
                Err(_) if !bytes.ends_with(b"}") => cut_off += 1,
                Err(problem) => return Err(self.foreign(number, &problem)),
            }
        }
        Ok((items, cut_off))
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
