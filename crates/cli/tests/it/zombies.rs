//! An instance that sleeps through the loss of its partitions, and wakes with a batch of theirs:
//! nothing of it is applied, and what the new owner deleted stays deleted.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use rusqlite::Connection;
use settle_testkit::kafka::{self, Record};

use crate::child::{Running, until};
use crate::stage::Stage;

const ROWS: i64 = 40;

/// Two instances of one pipeline, each with a configuration of its own.
struct Pair {
    topic: String,
    /// It has the database, too.
    sleeper: Stage,
    other: Stage,
}

impl Pair {
    async fn new() -> Self {
        let topic = kafka::unique("zombie");
        kafka::create_topic(&topic, 2, &[]).await;
        let pair = Self { topic, sleeper: Stage::new(), other: Stage::new() };
        // The sleeper keeps all that it reads in one open batch.
        pair.configure(&pair.sleeper, "max_rows = 100000\nmax_age_ms = 3600000");
        pair.configure(&pair.other, "max_age_ms = 50");
        pair
    }

    fn configure(&self, stage: &Stage, batch: &str) {
        stage.write(
            "settle.toml",
            &format!(
                "[source]\nkind = \"kafka\"\nbrokers = \"{}\"\ngroup = \"{}\"\ntopics = [\"{}\"]\n\
                 [source.properties]\n\"session.timeout.ms\" = 6000\n\
                 [sink]\nkind = \"sqlite\"\npath = \"{}\"\n[batch]\n{batch}\n\
                 [tables.\"public.t\".columns]\nid = \"INTEGER\"\nv = \"INTEGER\"\n",
                settle_testkit::services::kafka(),
                self.group(),
                self.topic,
                self.sleeper.path("shop.db").display(),
            ),
        );
    }

    fn group(&self) -> String {
        format!("{}-group", self.topic)
    }

    /// A change of every row, or its delete, at a position of its own.
    async fn produce(&self, op: &str, base: i64) {
        let record = |id: i64| {
            let lsn = 1_000_000 + base * 1_000 + id;
            let after = if op == "d" { "null".to_owned() } else { format!(r#"{{"id":{id},"v":{}}}"#, base + id) };
            let value = format!(
                r#"{{"before":null,"after":{after},"source":{{"connector":"postgresql","name":"s","db":"d","ts_ms":{lsn},"snapshot":"false","sequence":"[\"{lsn}\",\"{lsn}\"]","schema":"public","table":"t","lsn":{lsn}}},"transaction":null,"op":"{op}","ts_ms":{lsn}}}"#
            );
            let partition = i32::try_from(id % 2).unwrap();
            Record::new(&self.topic, partition, Some(&format!(r#"{{"id":{id}}}"#)), Some(&value))
        };
        kafka::produce((0..ROWS).map(record).collect::<Vec<_>>()).await;
    }

    fn rows(&self) -> BTreeMap<i64, i64> {
        let connection = Connection::open(self.sleeper.path("shop.db")).unwrap();
        let Ok(mut select) = connection.prepare("SELECT id, v FROM t") else { return BTreeMap::new() };
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    }

    async fn committed(&self) -> Vec<i64> {
        let places = kafka::committed(&self.group(), &self.topic).await;
        places.into_iter().map(|place| place.map_or(0, |place| place.offset)).collect()
    }

    /// A sleeper that holds every row in its batch, and another instance that has taken its
    /// partitions, applied that, and deleted all of it.
    async fn asleep(&self) -> (Running, Running) {
        self.produce("c", 0).await;
        let sleeper = Running::start(&self.sleeper, &[]);
        sleeper.until_said("caught up with the log").await;
        sleeper.signal(Signal::SIGSTOP);
        assert_eq!(self.committed().await, [0, 0], "it holds them in a batch that waits");
        self.produce("d", 1).await;
        let other = Running::start(&self.other, &[]);
        let end = ROWS;
        until("the other has applied all of it", async || self.committed().await, |c| *c == [end, end]).await;
        assert_eq!(self.rows(), BTreeMap::new());
        (sleeper, other)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombies_batch_is_refused_and_it_goes_on_with_what_it_is_assigned_then() {
    let pair = Pair::new().await;
    let (mut sleeper, other) = pair.asleep().await;
    sleeper.signal(Signal::SIGCONT);
    // It joins the group again, so that both have a partition; or it ends, as one that was fenced.
    let joined = |logs: &str| logs.matches("partitions assigned").count() >= 2;
    until(
        "it joined again, or ended",
        async || (sleeper.logs(), sleeper.has_ended()),
        |(logs, ended)| *ended || joined(logs),
    )
    .await;
    let fenced = sleeper.has_ended();
    pair.produce("c", 2).await;
    if !fenced {
        sleeper.until_said("partitions assigned").await;
        sleeper.signal(Signal::SIGTERM);
    }
    let (status, report) = sleeper.wait();
    assert_eq!(status.code(), Some(if fenced { 7 } else { 130 }), "{report:?}");
    // Applied a second time they would be stale: the tombstones of hard deletes see to that here. They
    // were not: the whole batch was refused.
    assert_eq!((report.stale, report.unsettled), (0, 40), "{report:?}");
    let end = ROWS + ROWS / 2;
    until("everything is applied", async || pair.committed().await, |c| *c == [end, end]).await;
    other.signal(Signal::SIGTERM);
    assert_eq!(other.wait().0.code(), Some(130));
    assert_eq!(pair.rows(), (0..ROWS).map(|id| (id, 2 + id)).collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_that_is_asked_to_stop_drains_nothing_that_is_not_its_own() {
    let pair = Pair::new().await;
    let (sleeper, other) = pair.asleep().await;
    // It wakes to the signal, and drains before it hears of the group.
    sleeper.signal(Signal::SIGTERM);
    sleeper.signal(Signal::SIGCONT);
    let (status, report) = sleeper.wait();
    assert_eq!(status.code(), Some(130), "{report:?}");
    assert_eq!((report.applied, report.stale, report.unsettled), (0, 0, 40), "{report:?}");
    assert_eq!(pair.rows(), BTreeMap::new(), "nothing came back");
    other.signal(Signal::SIGTERM);
    assert_eq!(other.wait().0.code(), Some(130));
    assert_eq!(pair.committed().await, [ROWS, ROWS]);
}
