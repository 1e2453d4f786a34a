//! Records as Debezium writes them, made by hand: for orders that no recording has.

use bytes::Bytes;
use settle_core::position::{Offset, Partition};
use settle_core::record::{Header, Record};

/// A change event that is being written.
#[derive(Clone, Debug)]
pub struct Sample {
    op: String,
    key: Option<String>,
    before: String,
    after: String,
    source: String,
    server: String,
    table: String,
    headers: Vec<(String, String)>,
}

/// A change of row `{"id":1}` in `public.t` of server `s`, database `d`. `sequence` and `lsn` as in
/// the record: the commit before the transaction, the record's own position.
pub fn postgres(op: &str, sequence: (Option<u64>, u64), lsn: Option<u64>) -> Sample {
    let last_commit = sequence.0.map_or("null".to_owned(), |n| format!("\\\"{n}\\\""));
    let lsn = lsn.map_or("null".to_owned(), |n| n.to_string());
    Sample::new(
        op,
        format!(
            r#""connector":"postgresql","db":"d","ts_ms":7,"sequence":"[{last_commit},\"{}\"]","schema":"public","lsn":{lsn}"#,
            sequence.1
        ),
    )
}

/// The same on MariaDB, in database `d`.
pub fn mariadb(op: &str, file: u32, pos: u64, row: u64) -> Sample {
    Sample::new(
        op,
        format!(
            r#""connector":"mariadb","db":"d","ts_ms":7,"sequence":null,"file":"bin.{file:06}","pos":{pos},"row":{row}"#
        ),
    )
}

/// A tombstone of row `id`.
pub fn tombstone(id: u64) -> Record {
    record(Some(&format!(r#"{{"id":{id}}}"#)), None)
}

/// A record of partition 0 of topic `t` at offset 0, out of its text.
pub fn record(key: Option<&str>, payload: Option<&str>) -> Record {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Record {
        partition: Partition::new("t", 0),
        offset: 0,
        timestamp_ms: Some(7),
        key: key.map(bytes),
        payload: payload.map(bytes),
        headers: Vec::new(),
    }
}

/// Puts a record at its place.
pub trait Placed {
    /// At `offset` of partition `number`.
    fn at(self, number: i32, offset: Offset) -> Record;
}

impl Placed for Record {
    fn at(mut self, number: i32, offset: Offset) -> Record {
        self.partition = Partition::new(self.partition.topic.clone(), number);
        self.offset = offset;
        self
    }
}

impl Placed for Sample {
    fn at(self, number: i32, offset: Offset) -> Record {
        self.record().at(number, offset)
    }
}

impl Sample {
    fn new(op: &str, source: String) -> Self {
        let row = if op == "d" { "null" } else { r#"{"id":1}"# };
        Self {
            op: op.to_owned(),
            key: Some(r#"{"id":1}"#.to_owned()),
            before: "null".to_owned(),
            after: row.to_owned(),
            source,
            server: "s".to_owned(),
            table: "t".to_owned(),
            headers: Vec::new(),
        }
    }

    /// Of row `id`, with nothing but its key in it.
    #[must_use]
    pub fn id(mut self, id: u64) -> Self {
        let key = format!(r#"{{"id":{id}}}"#);
        if self.op != "d" {
            self.after.clone_from(&key);
        }
        self.key = Some(key);
        self
    }

    /// With this row, as JSON.
    #[must_use]
    pub fn row(mut self, json: &str) -> Self {
        json.clone_into(&mut self.after);
        self
    }

    /// With this row before, as JSON.
    #[must_use]
    pub fn before(mut self, json: &str) -> Self {
        json.clone_into(&mut self.before);
        self
    }

    /// With this message key, or none.
    #[must_use]
    pub fn key(mut self, json: Option<&str>) -> Self {
        self.key = json.map(str::to_owned);
        self
    }

    /// From another server.
    #[must_use]
    pub fn server(mut self, name: &str) -> Self {
        name.clone_into(&mut self.server);
        self
    }

    /// Of another table.
    #[must_use]
    pub fn table(mut self, name: &str) -> Self {
        name.clone_into(&mut self.table);
        self
    }

    /// At this source time, milliseconds since 1970.
    #[must_use]
    pub fn time(mut self, ms: i64) -> Self {
        self.source = self.source.replace("\"ts_ms\":7", &format!("\"ts_ms\":{ms}"));
        self
    }

    /// Without a source time.
    #[must_use]
    pub fn without_time(mut self) -> Self {
        let start = self.source.find("\"ts_ms\":").unwrap();
        let end = start + self.source[start..].find(',').unwrap() + 1;
        self.source.replace_range(start..end, "");
        self
    }

    /// Read by this snapshot, as `source.snapshot` says it.
    #[must_use]
    pub fn snapshot(mut self, word: &str) -> Self {
        self.source.push_str(&format!(",\"snapshot\":\"{word}\""));
        self
    }

    /// Sent by this run of the connector.
    #[must_use]
    pub fn run(self, id: &str) -> Self {
        self.header("__debezium.context.runId", id)
    }

    /// With a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The envelope.
    pub fn envelope(&self) -> String {
        format!(
            r#"{{"before":{},"after":{},"source":{{{},"name":"{}","table":"{}"}},"transaction":null,"op":"{}","ts_ms":8}}"#,
            self.before, self.after, self.source, self.server, self.table, self.op
        )
    }

    /// The record, at offset 0 of partition 0.
    pub fn record(&self) -> Record {
        let header = |(name, value): &(String, String)| Header {
            name: name.as_str().into(),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
        };
        let mut record = record(self.key.as_deref(), Some(&self.envelope()));
        record.headers = self.headers.iter().map(header).collect();
        record
    }
}
