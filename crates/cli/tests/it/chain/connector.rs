//! Debezium between the source and Kafka, set up as users of Settle do, on a worker that may be killed.

use settle::simulate::Table;
use settle_testkit::connect::Worker;

use super::source::Source;
use crate::stage::Stage;

/// Settings for a test: little rest, and chunks of few rows, so that many windows are open while others write.
const SETTINGS: [&str; 6] = [
    "incremental.snapshot.chunk.size=50",
    "signal.poll.interval.ms=500",
    "poll.interval.ms=50",
    "retriable.restart.connector.wait.ms=500",
    // A killed worker's connection may hold the slot a moment longer.
    "slot.max.retries=60",
    "slot.retry.delay.ms=500",
];
/// The variable that commands find the source's address in.
const URL: &str = "CHAIN_SOURCE";

/// The connector of one source; gone with the value.
pub struct Connector {
    worker: Worker,
    stage: Stage,
    name: String,
    url: String,
}

impl Connector {
    /// A worker without a connector.
    pub async fn of(source: &Source) -> Self {
        let worker = Worker::start().await;
        Self { worker, stage: Stage::new(), name: source.prefix().to_owned(), url: source.url() }
    }

    /// Registers the connector for these tables, and waits until it runs.
    pub fn register(&self, tables: &[Table]) {
        let brokers = settle_testkit::services::kafka();
        let mut arguments =
            vec!["register", "--url", "env:CHAIN_SOURCE", "--kafka", brokers, "--replication-factor", "1"];
        arguments.extend(["--signal", Table::Signal.name()]);
        arguments.extend(SETTINGS.iter().flat_map(|setting| ["--set", setting]));
        self.command(&arguments, tables);
    }

    /// Asks for a snapshot of these tables: `incremental`, chunk by chunk beside the stream, or `blocking`, for which
    /// the stream waits.
    pub fn snapshot(&self, kind: &str, tables: &[Table]) {
        self.command(&["snapshot", "--type", kind], tables);
    }

    /// The last that the worker logged.
    pub fn log(&self) -> String {
        let log = self.worker.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Kills the worker with SIGKILL.
    pub fn kill(&mut self) {
        self.worker.kill();
    }

    /// Starts it again. The connector goes on where it was last known to be.
    pub async fn restart(&mut self) {
        self.worker.restart().await;
    }

    fn command(&self, arguments: &[&str], tables: &[Table]) {
        let client = self.worker.client();
        let tables: Vec<&str> = tables.iter().map(|table| table.name()).collect();
        let mut all = vec!["connector", "--connect", client.url()];
        all.extend(arguments);
        let tables = tables.join(",");
        all.extend(["--name", &self.name, "--tables", &tables]);
        let output = self.stage.settle(&all).env(URL, &self.url).output().unwrap();
        assert!(output.status.success(), "settle {all:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the end of the worker's log:\n{}", self.worker.log());
        }
    }
}
