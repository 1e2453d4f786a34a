//! The connection: opened for one writer, and watched for a file that is no longer the one opened.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::config::SqliteConfig;
use super::failure::{During, Outcome, contract};

/// Opens the database, which is made if it is missing.
pub(super) fn open(config: &SqliteConfig) -> Outcome<Connection> {
    let path = &config.path;
    let operation = || format!("open {}", path.display());
    refuse_no_file(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        return Err(contract(operation(), format!("the folder {} does not exist; create it", folder.display())));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).during(operation)?;
    prepare(&connection, config).during(operation)?;
    Ok(connection)
}

/// Refuses a path that can be no file: SQLite would take it for a database in memory, or it is a folder.
pub(super) fn refuse_no_file(path: &Path) -> Outcome<()> {
    // No URIs: a path is a path, whatever it begins with.
    if path.as_os_str().is_empty() || path == Path::new(":memory:") {
        let operation = format!("open {}", path.display());
        return Err(contract(operation, "a database in memory is lost with the process; name a file in [sink] path"));
    }
    if path.is_dir() {
        let operation = format!("open {}", path.display());
        return Err(contract(operation, "it is a folder; name a file in [sink] path"));
    }
    Ok(())
}

/// Settings of the connection. Only the journal mode stays with the file.
pub(super) fn prepare(connection: &Connection, config: &SqliteConfig) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_millis(config.busy_timeout_ms))?;
    // Where WAL cannot be had (some network file systems) SQLite stays with its rollback journal:
    // slower, as safe.
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        tracing::warn!(path = %config.path.display(), mode, "no write-ahead log for this file: readers wait for batches");
    }
    // Offsets are committed behind our COMMIT: it must survive a power cut.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // 32 MiB instead of 2: a batch of scattered keys finds its pages without asking the system.
    connection.pragma_update(None, "cache_size", -32_768)?;
    // The source has enforced its foreign keys; rows of different tables come in any order, and a
    // cascade here would delete rows without a version.
    connection.pragma_update(None, "foreign_keys", false)?;
    // A quoted name that is no column is an error, not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.set_prepared_statement_cache_capacity(256);
    Ok(())
}

/// Which file a path names at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    /// The file at `path`; none where the system has no such numbers, or there is no file.
    #[cfg(unix)]
    pub(super) fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }

    #[cfg(not(unix))]
    pub(super) fn of(_: &Path) -> Option<Self> {
        None
    }
}

/// Refuses to go on when the file was removed or replaced: SQLite would go on writing to a file
/// that has no name any more, and the offsets of what it holds would be committed.
pub(super) fn still_the_same(path: &Path, opened: Option<FileId>) -> Outcome<()> {
    if opened == FileId::of(path) {
        return Ok(());
    }
    Err(contract(
        format!("write to {}", path.display()),
        "the database file was removed or replaced during the run; put it back and start again, or read the topics \
         into the new file from their beginning with another group",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_can_be_no_file_is_refused_before_it_is_opened() {
        let folder = std::env::temp_dir();
        for (path, why) in [
            (Path::new(""), "lost with the process"),
            (Path::new(":memory:"), "lost with the process"),
            (folder.as_path(), "it is a folder; name a file in [sink] path"),
        ] {
            let error = refuse_no_file(path).expect_err("a path that is no file's");
            assert!(error.context.contains(why), "{error}");
        }
        assert!(refuse_no_file(&folder.join("shop.db")).is_ok());
    }
}
