//! The rows: inserts, updates of all, the inserts again, and a mixture with deletes.

use settle_core::batch::Batch;
use settle_core::fold::{Fold, Limits};
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::record::Record;
use settle_core::sink::PlacedPartition;
use settle_core::version::Version;

use super::part_of;

const TOPIC: &str = "shop.public.orders";
const STATUS: [&str; 4] = ["new", "paid", "shipped", "returned"];

/// A row as a client of the engine has it.
#[derive(Clone)]
pub struct Row {
    pub id: i64,
    pub customer_id: i64,
    pub status: &'static str,
    /// Hundredths.
    pub amount: i64,
    pub quantity: i32,
    pub express: bool,
    /// Microseconds since 1970.
    pub ordered_at: i64,
    pub note: String,
    pub ts_ms: i64,
    /// What happened: `c`, `u` or `d`.
    pub op: char,
    pub version: Version,
}

/// One kind of work.
pub struct Step {
    pub name: &'static str,
    pub batches: Vec<Batch>,
    /// The same rows, batch by batch.
    pub rows: Vec<Vec<Row>>,
}

impl Step {
    /// How many rows of a batch change something.
    pub fn applies(&self, rows: usize) -> u64 {
        if self.name == "stale" { 0 } else { rows as u64 }
    }
}

/// The steps, to be done in their order.
pub struct Work {
    pub steps: Vec<Step>,
}

/// A log that grows.
struct Log {
    lane: Lane,
    lsn: u64,
    random: u64,
}

impl Work {
    pub fn new(rows: usize, batch: usize) -> Self {
        let mut log =
            Log { lane: Lane::new(part_of(TOPIC).partition, 0, &[], LoneTombstones::Refuse), lsn: 1 << 24, random: 7 };
        let count = i64::try_from(rows).expect("a number of rows");
        let inserts: Vec<(i64, char)> = (0..count).map(|id| (id, 'c')).collect();
        let mut updates: Vec<(i64, char)> = (0..count).map(|id| (id, 'u')).collect();
        log.shuffle(&mut updates);
        // Of four changes two update, one deletes, one inserts.
        let mut mixture: Vec<(i64, char)> = (0..count)
            .map(|n| match n % 4 {
                0 | 1 => (n, 'u'),
                2 => (n, 'd'),
                _ => (count + n, 'c'),
            })
            .collect();
        log.shuffle(&mut mixture);
        // Other than the inserts, what comes again is not what the table was made with.
        let steps = [("insert", &inserts), ("update", &updates)];
        let mut steps: Vec<Step> = steps.map(|(name, changes)| log.step(name, changes, batch)).into();
        let again = |records: &[Record]| {
            let mut lane = Lane::new(part_of(TOPIC).partition, 0, &[], LoneTombstones::Refuse);
            records.chunks(batch).map(|chunk| folded(&mut lane, chunk.to_vec())).collect()
        };
        let mut first =
            Log { lane: Lane::new(part_of(TOPIC).partition, 0, &[], LoneTombstones::Refuse), lsn: 1 << 24, random: 7 };
        let (records, rows) = first.records(&inserts);
        steps.push(Step {
            name: "stale",
            batches: again(&records),
            rows: rows.chunks(batch).map(<[Row]>::to_vec).collect(),
        });
        steps.push(log.step("mixed", &mixture, batch));
        Self { steps }
    }

    pub fn part(&self) -> PlacedPartition {
        part_of(TOPIC)
    }
}

fn folded(lane: &mut Lane, records: Vec<Record>) -> Batch {
    let mut fold = Fold::new(Limits { max_rows: usize::MAX, max_bytes: usize::MAX, max_age_ms: u64::MAX });
    for record in records {
        let (partition, offset) = (record.partition.clone(), record.offset);
        let fed = lane.feed(record).expect("a record of a known form");
        fold.push(&partition, offset, fed.event, fed.floor, 0).expect("it follows");
    }
    fold.cut()
}

impl Log {
    fn step(&mut self, name: &'static str, changes: &[(i64, char)], batch: usize) -> Step {
        let (records, rows) = self.records(changes);
        let batches = records.chunks(batch).map(|chunk| folded(&mut self.lane, chunk.to_vec())).collect();
        Step { name, batches, rows: rows.chunks(batch).map(<[Row]>::to_vec).collect() }
    }

    fn records(&mut self, changes: &[(i64, char)]) -> (Vec<Record>, Vec<Row>) {
        let first = self.lane.next();
        let made = changes.iter().zip(first..).map(|(&(id, op), offset)| self.record(id, op, offset));
        made.unzip()
    }

    fn record(&mut self, id: i64, op: char, offset: i64) -> (Record, Row) {
        self.lsn += 96;
        let (lsn, before, random) = (self.lsn, self.lsn - 48, self.random());
        let pick = |of: u64| i64::try_from(random % of).expect("small");
        let length = usize::try_from(random % 200).expect("small");
        let row = Row {
            id,
            customer_id: pick(100_000),
            status: STATUS[usize::try_from(random % 4).expect("small")],
            amount: pick(100_000),
            quantity: i32::try_from(1 + pick(9)).expect("small"),
            express: random.is_multiple_of(5),
            ordered_at: 1_700_000_000_000_000 + i64::try_from(lsn).expect("small"),
            note: "left at the door, ring twice; ".repeat(7)[..length].to_owned(),
            ts_ms: 1_700_000_000_000,
            op,
            version: Version::default(),
        };
        let after = if op == 'd' {
            "null".to_owned()
        } else {
            format!(
                r#"{{"id":{id},"customer_id":{},"status":"{}","amount":"{}.{:02}","quantity":{},"express":{},"ordered_at":{},"note":"{}"}}"#,
                row.customer_id,
                row.status,
                row.amount / 100,
                row.amount % 100,
                row.quantity,
                row.express,
                row.ordered_at,
                row.note
            )
        };
        let payload = format!(
            r#"{{"before":null,"after":{after},"source":{{"connector":"postgresql","name":"shop","ts_ms":{},"db":"shop","sequence":"[\"{before}\",\"{lsn}\"]","schema":"public","table":"orders","lsn":{lsn}}},"op":"{op}"}}"#,
            row.ts_ms
        );
        let record = Record {
            partition: part_of(TOPIC).partition,
            offset,
            timestamp_ms: None,
            key: Some(format!("{{\"id\":{id}}}").into_bytes().into()),
            payload: Some(payload.into_bytes().into()),
            headers: Vec::new(),
        };
        // As the lane makes it: the commit before, then the record.
        let version = Version::from_halves(before, lsn);
        (record, Row { version, ..row })
    }

    fn shuffle(&mut self, changes: &mut [(i64, char)]) {
        for at in (1..changes.len()).rev() {
            changes.swap(at, usize::try_from(self.random() % (at as u64 + 1)).expect("an index"));
        }
    }

    fn random(&mut self) -> u64 {
        // splitmix64
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
