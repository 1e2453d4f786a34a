//! How the Java services are run: a small heap, a quick start, a log on standard output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::ServiceError;

const LOG4J: &str = "\
rootLogger.level = INFO
rootLogger.appenderRef.stdout.ref = stdout
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{ISO8601} %p %m (%c)%n
";

/// Writes how to log into `folder`.
pub(super) fn log_settings(folder: &Path) -> Result<PathBuf, ServiceError> {
    let file = folder.join("log4j2.properties");
    fs::write(&file, LOG4J).map_err(ServiceError::io(format!("writing {}", file.display())))?;
    Ok(file)
}

/// `java` with all `jars` as its class path; the class to run is still to be added.
pub(super) fn command(jars: &Path, log_settings: &Path, folder: &Path) -> Command {
    let mut command = Command::new("java");
    command
        .args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"])
        .arg(format!("-Dlog4j2.configurationFile={}", log_settings.display()))
        .arg("-classpath")
        .arg(jars.join("*"))
        .current_dir(folder);
    command
}
