//! Cases about a consumer group: on the real broker, with processes that stop, die and take over.

use nix::sys::signal::Signal;
use settle_testkit::kafka;

use super::case::{Case, Entry};
use super::faults::{numbered, numbered_rows};
use super::stand::{Sink, Stand, same_rows};
use super::verdict::{Outcome, Verdict, first_words};
use super::walk::refused;
use crate::child::{Running, until};
use crate::ends::{self, SHORT_SESSION};

/// A topic of the broker with a stand that reads it.
struct Stream {
    stand: Stand,
    topic: String,
}

impl Stream {
    fn of(case: &Case, sink: Sink, partitions: i32) -> Self {
        let stand = Stand::of(case, sink);
        let topic = kafka::unique(&format!("case-{}-{}", case.id, sink.name()));
        stand.runtime.block_on(kafka::create_topic(&topic, partitions, &[]));
        Self { stand, topic }
    }

    fn configure(&mut self, batch: &str, more: &str) {
        self.stand.settings.batch = batch.to_owned();
        let source = ends::kafka(&self.group(), &[&self.topic]) + more + SHORT_SESSION;
        self.stand.configure_from(&source, "settle.toml");
    }

    fn group(&self) -> String {
        format!("{}-group", self.topic)
    }

    fn produce(&self, entries: &[Entry]) {
        let records: Vec<_> = entries.iter().map(|entry| entry.record(&self.topic)).collect();
        self.stand.runtime.block_on(kafka::produce(records));
    }

    async fn committed(&self) -> Vec<i64> {
        let places = kafka::committed(&self.group(), &self.topic).await;
        places.into_iter().map(|place| place.map_or(0, |place| place.offset)).collect()
    }

    fn committed_now(&self) -> Vec<i64> {
        self.stand.runtime.block_on(self.committed())
    }

    /// Waits until the sum of the committed offsets is this. They never go back meanwhile.
    fn until_committed(&self, wanted: i64) -> Result<(), String> {
        let mut seen: i64 = 0;
        let mut went_back = None;
        let sum = async || {
            let now = self.committed().await.iter().sum::<i64>();
            if now < seen {
                went_back = Some((seen, now));
            }
            seen = seen.max(now);
            now
        };
        self.stand.runtime.block_on(until("committed", sum, |now| *now >= wanted));
        went_back.map_or(Ok(()), |(from, to)| Err(format!("the committed offset went from {from} back to {to}")))
    }

    fn until_said(&self, run: &Running, text: &str) {
        self.stand.runtime.block_on(run.until_said(text));
    }

    fn until_said_times(&self, run: &Running, text: &str, times: usize) {
        let said = async || run.logs().matches(text).count();
        self.stand.runtime.block_on(until(text, said, |count| *count >= times));
    }

    fn stop(&self, run: Running) -> Result<crate::stage::Report, String> {
        run.signal(Signal::SIGTERM);
        let logs = run.logs();
        let (status, report) = run.wait();
        if status.code() == Some(130) { Ok(report) } else { Err(format!("{status}, {report:?}: {logs}")) }
    }
}

const OPEN: &str = "max_rows = 100000\nmax_age_ms = 600000";

/// B76: killed while a hundred records wait in memory.
pub fn killed_before_the_write(case: &Case, sink: Sink) -> Outcome {
    let mut stream = Stream::of(case, sink, 1);
    stream.configure(OPEN, "instance = \"one\"\n");
    stream.produce(&numbered(case, 100, 0, 0));
    let run = Running::start(&stream.stand.stage, &[]);
    stream.until_said(&run, "caught up with the log");
    let committed = stream.committed_now();
    run.kill();
    if committed != [0] || !stream.stand.table("t").is_empty() {
        return Err(format!("{committed:?} was committed while nothing was written"));
    }
    stream.configure("max_rows = 7", "instance = \"one\"\n");
    let mut run = Running::start(&stream.stand.stage, &["--until-end"]);
    while !run.has_ended() {
        // Asked in this order, the rows can only be more than what was committed.
        let committed = stream.committed_now()[0];
        let rows = stream.stand.table("t").len();
        if committed > i64::try_from(rows).unwrap_or(i64::MAX) {
            return Err(format!("{committed} was committed with {rows} rows durable"));
        }
    }
    let (status, report) = run.wait();
    if !status.success() {
        return Err(format!("{status}, {report:?}"));
    }
    numbered_rows(&stream.stand, case, 100)?;
    Ok(Verdict::Pass(""))
}

/// B78: a partition goes away and comes back.
pub fn away_and_back(case: &Case, sink: Sink) -> Outcome {
    let mut stream = Stream::of(case, sink, 1);
    stream.configure("max_rows = 5", "");
    let records = numbered(case, 50, 0, 0);
    stream.produce(&records[..10]);
    let a = Running::start(&stream.stand.stage, &[]);
    stream.until_committed(10)?;
    // Stopped, it loses the partition without knowing.
    a.signal(Signal::SIGSTOP);
    stream.produce(&records[10..]);
    let b = Running::start(&stream.stand.stage, &[]);
    stream.until_committed(50)?;
    a.signal(Signal::SIGCONT);
    stream.stop(b)?;
    stream.until_said_times(&a, "partitions assigned", 2);
    stream.until_committed(50)?;
    stream.stop(a)?;
    if stream.committed_now() != [50] {
        return Err(format!("the group stands at {:?}", stream.committed_now()));
    }
    numbered_rows(&stream.stand, case, 50)?;
    Ok(Verdict::Pass(""))
}

/// B80: a partition is revoked while its records are in an open batch.
pub fn revoked_in_a_batch(case: &Case, sink: Sink) -> Outcome {
    let mut stream = Stream::of(case, sink, 2);
    stream.configure(OPEN, "");
    // The case has the same three keys in both partitions; six rows need six keys.
    let records = [numbered(case, 3, 0, 0), numbered(case, 3, 1, 3)].concat();
    stream.produce(&records);
    let a = Running::start(&stream.stand.stage, &[]);
    stream.until_said(&a, "caught up with the log");
    if stream.committed_now() != [0, 0] {
        return Err("an offset moved before its rows were written".to_owned());
    }
    let b = Running::start(&stream.stand.stage, &[]);
    stream.until_committed(3)?;
    stream.until_said(&b, "partitions assigned");
    let (b, a) = (stream.stop(b)?, stream.stop(a)?);
    if a.read + b.read != 6 || a.redelivered + b.redelivered != 0 {
        return Err(format!("records were read twice: {a:?}, {b:?}"));
    }
    if stream.committed_now() != [3, 3] {
        return Err(format!("the group stands at {:?}", stream.committed_now()));
    }
    numbered_rows(&stream.stand, case, 6)?;
    Ok(Verdict::Pass("with six keys: the case has the same three in both partitions"))
}

/// B81: the old owner writes after the new one.
pub fn late_write(case: &Case, sink: Sink) -> Outcome {
    let mut stream = Stream::of(case, sink, 1);
    stream.configure("max_age_ms = 4000", "");
    let entries = case.entries();
    stream.produce(&entries[..2]);
    let a = Running::start(&stream.stand.stage, &[]);
    stream.until_said(&a, "caught up with the log");
    a.signal(Signal::SIGSTOP);
    if stream.committed_now() != [0] || !stream.stand.table("t").is_empty() {
        return Err("the old owner wrote before it was stopped".to_owned());
    }
    stream.produce(&entries[2..]);
    stream.configure("max_age_ms = 100", "");
    let b = Running::start(&stream.stand.stage, &[]);
    stream.until_committed(3)?;
    a.signal(Signal::SIGCONT);
    stream.until_said(&a, "partitions lost");
    let b = stream.stop(b)?;
    let a = stream.stop(a)?;
    same_rows(&case.expect["rows"], &stream.stand.table("t"), &case.table.key, true)?;
    if a.applied + a.stale + a.superseded + a.unsettled == 0 {
        return Err(format!("nothing came late: {a:?}, {b:?}"));
    }
    if stream.committed_now() != [3] {
        return Err(format!("the group stands at {:?}", stream.committed_now()));
    }
    Ok(Verdict::Pass(""))
}

/// B83: what the group would read next is not in the log any more.
pub fn gone_from_the_log(case: &Case, sink: Sink) -> Outcome {
    let mut stream = Stream::of(case, sink, 1);
    stream.configure("", "");
    stream.produce(&borrowed(10));
    let ran = stream.stand.run(&["--max-messages", "3"]);
    if ran.code != 0 {
        return Err(format!("exit {}: {}", ran.code, ran.said));
    }
    stream.stand.runtime.block_on(kafka::delete_records(&stream.topic, 0, 7));
    let ran = stream.stand.run(&["--until-end"]);
    let topic = stream.topic.clone();
    refused(&ran, &["from offset 3", "begins at 7", &topic, "--to-offset 7"])?;
    if stream.committed_now() != [3] || stream.stand.table("t").len() != 3 {
        return Err("the gap was passed".to_owned());
    }
    // A group that never committed starts at the beginning, wherever that is.
    let fresh = stream.stand.run(&["--until-end", "--group", &kafka::unique("fresh")]);
    if fresh.code != 0 || fresh.report.read != 3 {
        return Err(format!("exit {}: {} {:?}", fresh.code, fresh.said, fresh.report));
    }
    let said = ran.said.replace(&stream.group(), "GROUP").replace(&topic, "TOPIC");
    Ok(Verdict::Refused(first_words(&said)))
}

/// Records in the form of another case, since this one has none of its own.
fn borrowed(count: i64) -> Vec<Entry> {
    let other = super::case::all().into_iter().find(|other| other.id == "B76").expect("the case B76");
    numbered(&other, count, 0, 0)
}
