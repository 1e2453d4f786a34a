//! Settle behind the log: one pipeline into SQLite, one of two instances into ClickHouse.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rusqlite::Connection;
use settle::simulate::Table;
use settle_testkit::clickhouse::Client;
use settle_testkit::kafka;
use settle_testkit::services::is_full;

use super::source::Source;
use crate::child::{Running, until};
use crate::ends::{self, SHORT_SESSION, SQLITE};
use crate::stage::{Report, Stage};

/// What both destinations take: all tables of the shop that have a key.
pub const TABLES: [Table; 5] = [Table::Customers, Table::Orders, Table::OrderItems, Table::Documents, Table::Products];

/// A pipeline as a file says it, but for its destination.
pub(super) fn configuration(source: &Source, group: &str, instance: &str) -> String {
    let topics = TABLES.map(|table| source.topic(table));
    let source = ends::kafka(group, &topics.each_ref().map(|topic| topic.as_str()));
    // Small batches, so that many of them are there to be killed in.
    let rows = if is_full() { 200 } else { 50 };
    format!("{source}instance = \"{instance}\"\n{SHORT_SESSION}[batch]\nmax_rows = {rows}\nmax_age_ms = 100\n")
}

/// One `settle run` after the other from one folder.
pub struct Instance {
    name: String,
    pub stage: Stage,
    run: Option<Running>,
    reports: Vec<Report>,
    kills: u64,
}

impl Instance {
    pub(super) fn new(name: String, stage: Stage, configuration: &str) -> Self {
        stage.configure(configuration);
        Self { name, stage, run: None, reports: Vec::new(), kills: 0 }
    }

    pub fn start(&mut self) {
        assert!(self.run.is_none(), "it runs");
        self.run = Some(Running::start(&self.stage, &[]));
    }

    /// Ends it with SIGKILL.
    pub fn kill(&mut self) {
        self.assert_runs();
        self.run.take().unwrap().kill();
        self.kills += 1;
    }

    /// Asks it to end, and keeps its report.
    pub fn leave(&mut self) {
        self.assert_runs();
        let run = self.run.take().unwrap();
        run.signal(Signal::SIGINT);
        let logs = run.logs();
        let (status, report) = run.wait();
        assert_eq!(status.code(), Some(130), "{report:?}\n{logs}");
        assert_eq!(report.unsettled, 0, "a first signal drains: {report:?}");
        let placed = report.applied + report.superseded + report.stale + report.control + report.truncates;
        assert_eq!(report.read, placed + report.dead_lettered, "the counters balance: {report:?}");
        self.reports.push(report);
    }

    /// Waits until it has said so.
    pub async fn until_said(&mut self, text: &str) {
        until(text, async || self.assert_runs(), |logs| logs.contains(text)).await;
    }

    /// Panics with what it said if it has ended; gives its logs.
    pub fn assert_runs(&mut self) -> String {
        let run = self.run.as_mut().expect("it was started");
        let ended = run.has_ended();
        let logs = run.logs();
        assert!(!ended, "settle run has ended by itself:\n{logs}");
        logs
    }

    pub fn reports(&self) -> &[Report] {
        &self.reports
    }

    pub fn kills(&self) -> u64 {
        self.kills
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(run) = self.run.as_ref().filter(|_| std::thread::panicking()) {
            eprintln!("what {} said:\n{}", self.name, run.logs());
        }
    }
}

/// What a group has committed, summed over its partitions.
pub(super) async fn committed(source: &Source, group: &str) -> i64 {
    let mut sum = 0;
    for table in TABLES {
        let places = kafka::committed(group, &source.topic(table)).await;
        sum += places.into_iter().flatten().map(|place| place.offset).sum::<i64>();
    }
    sum
}

/// Settle into SQLite.
pub struct IntoSqlite {
    pub instance: Instance,
    pub group: String,
}

impl IntoSqlite {
    pub fn new(source: &Source) -> Self {
        let group = format!("{}-sqlite", source.prefix());
        let file = configuration(source, &group, "one") + SQLITE;
        Self { instance: Instance::new("the instance into SQLite".to_owned(), Stage::new(), &file), group }
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.instance.stage.path("shop.db")
    }

    fn query(&self, sql: &str) -> Option<i64> {
        let connection = Connection::open(self.path()).ok()?;
        connection.query_row(sql, [], |row| row.get(0)).ok()
    }

    /// Records that the database has taken in: the sum of its next-to-read offsets.
    pub fn durable(&self) -> i64 {
        self.query("SELECT coalesce(sum(next_offset), 0) FROM settle_positions").unwrap_or(0)
    }

    /// Waits until so many records more are in the database.
    pub async fn until_more(&mut self, records: i64) {
        let wanted = self.durable() + records;
        let now = async || {
            self.instance.assert_runs();
            self.durable()
        };
        until("records in SQLite", now, |now| *now >= wanted).await;
    }

    /// Kills it when rows are durable whose offset may not be committed, until its next run says that records
    /// came again. It may take some kills: the commit follows within milliseconds, and may be on its way.
    pub async fn kill_before_a_commit(&mut self) {
        for _ in 0..20 {
            let before = self.durable();
            let limit = Instant::now() + Duration::from_secs(60);
            while self.durable() == before {
                assert!(Instant::now() < limit, "no batch in SQLite: {}", self.instance.assert_runs());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            self.instance.kill();
            self.instance.start();
            self.until_more(1).await;
            self.instance.leave();
            self.instance.start();
            if self.instance.reports().last().is_some_and(|report| report.redelivered > 0) {
                return;
            }
        }
        panic!("no kill of 20 fell between a write and its commit");
    }
}

/// Settle into ClickHouse, by two instances of one group.
pub struct IntoClickHouse {
    pub one: Instance,
    pub two: Instance,
    pub database: Client,
    pub group: String,
}

impl IntoClickHouse {
    pub async fn new(source: &Source) -> Self {
        let database = Client::with_fresh_database("chain").await;
        let group = format!("{}-clickhouse", source.prefix());
        let of = |instance: &str| {
            let stage = Stage::new();
            let sink = ends::sink(&stage, Some(&database));
            Instance::new(
                format!("instance {instance} into ClickHouse"),
                stage,
                &(configuration(source, &group, instance) + &sink),
            )
        };
        let (one, two) = (of("one"), of("two"));
        Self { one, two, database, group }
    }

    /// Waits until the group has committed so many records more.
    pub async fn until_more(&mut self, source: &Source, records: i64) {
        let wanted = committed(source, &self.group).await + records;
        let now = async || {
            self.one.assert_runs();
            committed(source, &self.group).await
        };
        until("records in ClickHouse", now, |now| *now >= wanted).await;
    }
}
