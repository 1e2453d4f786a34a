//! Kafka Connect with the Debezium connectors for PostgreSQL and MariaDB, from Maven Central.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::kafka::{self, KAFKA};
use super::maven::Artifacts;
use super::process::{free_port, wait_ready};
use super::{Folders, Given, Launch, Process, Progress, Running, Service, ServiceError, java, packages, web};

/// The environment variable that replaces the worker: `http://host:port` of one that has both connectors and reaches the databases.
pub const CONNECT_URL: &str = "SETTLE_TEST_CONNECT_URL";

/// Each in a folder of its own, which Connect loads apart from the others: they need different versions of the same jars.
const PLUGINS: [Artifacts; 2] = [
    Artifacts {
        folder: "debezium-postgres-3.6.1",
        coordinates: &["io.debezium:debezium-connector-postgres:3.6.1.Final"],
    },
    // The newest that is served for MariaDB.
    Artifacts {
        folder: "debezium-mariadb-3.5.0",
        coordinates: &["io.debezium:debezium-connector-mariadb:3.5.0.Final"],
    },
];
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(120);

/// One worker in distributed mode, the only one of its group.
pub struct Connect;

impl Service for Connect {
    fn name(&self) -> &'static str {
        "connect"
    }

    fn replaced_by(&self) -> &'static str {
        CONNECT_URL
    }

    fn needs(&self) -> &'static [&'static str] {
        &[KAFKA]
    }

    fn prepare(&self, folders: &Folders, progress: Progress<'_>) -> Result<(), ServiceError> {
        packages::ensure(&[&packages::JAVA], progress)?;
        for artifacts in [&kafka::ARTIFACTS].into_iter().chain(&PLUGINS) {
            if !artifacts.is_resolved(&folders.cache) {
                packages::ensure(&[&packages::MAVEN], progress)?;
                artifacts.resolve(&folders.cache, self.name(), progress)?;
            }
        }
        Ok(())
    }

    fn start(&self, folders: &Folders, folder: &Path, given: &Given) -> Result<Launch, ServiceError> {
        let port = free_port()?;
        let broker = given.get(KAFKA).map_or("", String::as_str);
        // A broker that the user gave may still hold what an earlier worker left.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let group = format!("settle-connect-{:x}", since_epoch.as_micros());
        let log = folder.join("connect.log");
        let (process, child) = Process::spawn(&mut worker(folders, folder, broker, &group, port)?, &log)?;
        let address = format!("http://127.0.0.1:{port}");
        Ok(Launch { process, child, log, exports: [(CONNECT_URL.to_owned(), address.clone())].into(), address })
    }

    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError> {
        let address = running.address.strip_prefix("http://").unwrap_or_default();
        wait_ready(self.name(), &running.process, &running.log, READY_LIMIT, || is_healthy(address))
    }

    fn describe(&self) -> String {
        "Kafka Connect with Debezium 3.6.1 (PostgreSQL) and 3.5.0 (MariaDB)".into()
    }
}

/// Whether the worker at `host:port` takes requests.
pub(crate) fn is_healthy(address: &str) -> bool {
    web::get(address, "/health").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}

/// The command of a worker that keeps its configuration and log settings in `folder`, and its state in topics named after `group`.
pub(crate) fn worker(
    folders: &Folders,
    folder: &Path,
    broker: &str,
    group: &str,
    port: u16,
) -> Result<Command, ServiceError> {
    let settings = folder.join("worker.properties");
    let plugins: Vec<PathBuf> = PLUGINS.iter().map(|plugin| folders.cache.join(plugin.folder)).collect();
    fs::write(&settings, properties(broker, group, port, &plugins))
        .map_err(ServiceError::io(format!("writing {}", settings.display())))?;
    let jars = folders.cache.join(kafka::ARTIFACTS.folder).join("jars");
    let mut command = java::command(&jars, &java::log_settings(folder)?, folder);
    command.arg("org.apache.kafka.connect.cli.ConnectDistributed").arg(&settings);
    Ok(command)
}

fn properties(broker: &str, group: &str, port: u16, plugins: &[PathBuf]) -> String {
    let plugins = plugins.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(",");
    format!(
        "\
bootstrap.servers={broker}
group.id={group}
listeners=http://127.0.0.1:{port}
rest.advertised.host.name=127.0.0.1
rest.advertised.port={port}
plugin.path={plugins}
# The plugins name their classes themselves; looking through all jars takes seconds.
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
config.storage.topic={group}-configs
config.storage.replication.factor=1
offset.storage.topic={group}-offsets
offset.storage.replication.factor=1
offset.storage.partitions=1
status.storage.topic={group}-status
status.storage.replication.factor=1
status.storage.partitions=1
# Short, so that a killed worker sends again what a real one might: some, not everything since its start.
offset.flush.interval.ms=1000
# A killed worker that comes again waits until the broker has given up its former self: the shortest time the broker allows.
session.timeout.ms=6000
heartbeat.interval.ms=2000
scheduled.rebalance.max.delay.ms=0
"
    )
}
