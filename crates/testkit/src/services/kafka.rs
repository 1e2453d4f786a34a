//! Apache Kafka: one KRaft broker from Maven Central.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use super::java::{command, log_settings};
use super::maven::Artifacts;
use super::process::{free_port, run, tail, wait_ready};
use super::{Folders, Given, Launch, Process, Progress, Running, Service, ServiceError, packages};

/// The environment variable that replaces the broker: `host:port`.
pub const KAFKA: &str = "SETTLE_TEST_KAFKA";

const VERSION: &str = "4.2.0";
/// The broker, and what Kafka Connect runs by: `kafka-tools` brings `connect-runtime` and `connect-json` of its version along.
pub(super) const ARTIFACTS: Artifacts = Artifacts {
    folder: "kafka-4.2.0",
    coordinates: &[
        "org.apache.kafka:kafka_2.13:4.2.0",
        "org.apache.kafka:kafka-tools:4.2.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
    ],
};
const CLUSTER_ID: &str = "c2V0dGxlLXRlc3QtLS0tLQ";

/// One broker that is its own controller.
pub struct Kafka;

impl Service for Kafka {
    fn name(&self) -> &'static str {
        "kafka"
    }

    fn replaced_by(&self) -> &'static str {
        KAFKA
    }

    fn prepare(&self, folders: &Folders, progress: Progress<'_>) -> Result<(), ServiceError> {
        packages::ensure(&[&packages::JAVA, &packages::MAVEN], progress)?;
        ARTIFACTS.resolve(&folders.cache, self.name(), progress).map(drop)
    }

    fn start(&self, folders: &Folders, folder: &Path, _: &Given) -> Result<Launch, ServiceError> {
        let jars = folders.cache.join(ARTIFACTS.folder).join("jars");
        let (port, controller) = (free_port()?, free_port()?);
        let settings = folder.join("server.properties");
        fs::write(&settings, properties(port, controller, &folder.join("data")))
            .map_err(ServiceError::io(format!("writing {}", settings.display())))?;
        let log4j = log_settings(folder)?;
        let java = || command(&jars, &log4j, folder);
        let mut format = java();
        format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"]).arg(&settings);
        run("kafka: formatting its storage", &mut format)?;
        let log = folder.join("kafka.log");
        let (process, child) = Process::spawn(java().arg("kafka.Kafka").arg(&settings), &log)?;
        let address = format!("127.0.0.1:{port}");
        Ok(Launch { process, child, log, exports: [(KAFKA.to_owned(), address.clone())].into(), address })
    }

    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError> {
        wait_ready(self.name(), &running.process, &running.log, Duration::from_secs(90), || {
            tail(&running.log, usize::MAX).contains("Kafka Server started")
                && TcpStream::connect(&running.address).is_ok()
        })
    }

    fn describe(&self) -> String {
        format!("Kafka {VERSION}")
    }
}

fn properties(port: u16, controller: u16, data: &Path) -> String {
    format!(
        "\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
# A topic that nobody created is an error, never a topic.
auto.create.topics.enable=false
delete.topic.enable=true
num.partitions=1
# One broker can hold one copy.
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
# Few partitions of the internal topics: a quick start.
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
controlled.shutdown.enable=false
# Compaction, retention and deletion are seen within a test's time.
log.cleaner.enable=true
log.cleaner.backoff.ms=500
log.cleaner.dedupe.buffer.size=8388608
log.retention.check.interval.ms=1000
log.initial.task.delay.ms=1000
log.segment.delete.delay.ms=1000
num.network.threads=2
num.io.threads=4
",
        data = data.display()
    )
}
