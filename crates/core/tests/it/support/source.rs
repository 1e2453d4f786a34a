//! A source database with its connector, simulated: transactions that overlap, snapshots of every
//! kind, crashes that send again, into partitions by key. It knows what its table holds, so that a
//! destination can be compared with the source itself and not with another reading of the log.
//!
//! The positions are those that Debezium writes: on PostgreSQL a transaction's events carry their
//! own lsn and the commit before it *in commit order*; on MariaDB file, position and row, given
//! out at commit.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settle_core::position::Offset;
use settle_core::record::Record;

use super::destination::Columns;
use super::sample::{Placed, Sample, mariadb, postgres, record};

const PARTITIONS: i32 = 3;
const UNSENT: &str = "\"__debezium_unavailable_value\"";

/// What is done at the source, or to the connector.
#[derive(Clone, Debug)]
pub enum Act {
    /// One of two open transactions inserts or updates a row; `body` changes only if it says so.
    Put {
        session: usize,
        id: u64,
        body: bool,
    },
    Delete {
        session: usize,
        id: u64,
    },
    /// The key of a row changes.
    Move {
        session: usize,
        id: u64,
        to: u64,
    },
    Commit {
        session: usize,
    },
    Rollback {
        session: usize,
    },
    Truncate,
    /// Rows from `from` on are read again, at the last commit's position.
    ReadAgain {
        from: u64,
        blocking: bool,
    },
    /// The connector died: what it sent since some commit comes again.
    Crash {
        back: usize,
    },
    /// The connector died and lost its offsets: a full snapshot, and changes from before it again.
    Restart {
        back: usize,
    },
    Rotate,
}

pub fn acts() -> impl Strategy<Value = Vec<Act>> {
    let (session, id) = (0..2usize, 0..6u64);
    let act = prop_oneof![
        12 => (session.clone(), id.clone(), any::<bool>()).prop_map(|(session, id, body)| Act::Put { session, id, body }),
        4 => (session.clone(), id.clone()).prop_map(|(session, id)| Act::Delete { session, id }),
        3 => (session.clone(), id.clone(), id.clone()).prop_map(|(session, id, to)| Act::Move { session, id, to }),
        8 => session.clone().prop_map(|session| Act::Commit { session }),
        1 => session.prop_map(|session| Act::Rollback { session }),
        4 => Just(Act::Truncate),
        1 => (id, any::<bool>()).prop_map(|(from, blocking)| Act::ReadAgain { from, blocking }),
        2 => (0..4usize).prop_map(|back| Act::Crash { back }),
        3 => (0..3usize).prop_map(|back| Act::Restart { back }),
        1 => Just(Act::Rotate),
    ];
    prop::collection::vec(act, 1..80)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Postgres,
    MariaDb,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    n: u64,
    body: u64,
}

/// One change inside a transaction.
#[derive(Clone, Debug)]
struct Change {
    op: &'static str,
    id: u64,
    row: Option<Row>,
    /// The body was changed: on PostgreSQL it is sent only then.
    sent_whole: bool,
    moved_from: Option<u64>,
    /// Its lsn, on PostgreSQL.
    lsn: u64,
}

#[derive(Clone, Debug, Default)]
struct Transaction {
    changes: Vec<Change>,
    /// Rows as this session sees them, where it changed them.
    rows: BTreeMap<u64, Option<Row>>,
}

/// A transaction as it stands in the source's log.
#[derive(Clone, Debug)]
enum Committed {
    Changes { changes: Vec<Change>, commit_lsn: u64, binlog: (u32, u64) },
    Truncate { lsn: u64, commit_lsn: u64, binlog: (u32, u64) },
}

pub struct Source {
    kind: Kind,
    lsn: u64,
    binlog: (u32, u64),
    rows: BTreeMap<u64, Row>,
    sessions: [Transaction; 2],
    log: Vec<Committed>,
    /// The connector does not go back behind this transaction: it has a full snapshot since.
    snapshot_at: usize,
    /// The commit that was streamed last; none since the connector lost its offsets.
    last_commit: Option<u64>,
    partitions: Vec<Vec<Record>>,
}

impl Source {
    /// Runs `acts` at an empty source that is captured from the start.
    pub fn run(kind: Kind, acts: &[Act]) -> Self {
        let mut source = Self {
            kind,
            lsn: 1000,
            binlog: (1, 4),
            rows: BTreeMap::new(),
            sessions: Default::default(),
            log: Vec::new(),
            snapshot_at: 0,
            last_commit: None,
            partitions: vec![Vec::new(); usize::try_from(PARTITIONS).unwrap()],
        };
        acts.iter().for_each(|act| source.act(act));
        source
    }

    /// What the connector wrote, by partition and offset.
    pub fn records(&self) -> Vec<Record> {
        self.partitions.concat()
    }

    /// The table, as a destination should hold it.
    pub fn table(&self) -> BTreeMap<String, Columns> {
        self.rows.iter().map(|(id, row)| (format!(r#"{{"id":{id}}}"#), columns(*id, row, true))).collect()
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Put { session, id, body } => self.put(session, id, body),
            Act::Delete { session, id } => self.delete(session, id),
            Act::Move { session, id, to } => self.rename(session, id, to),
            Act::Commit { session } => self.commit(session),
            Act::Rollback { session } => self.sessions[session] = Transaction::default(),
            Act::Truncate => self.truncate(),
            Act::ReadAgain { from, blocking } => self.read_again(from, blocking),
            Act::Crash { back } => self.send_again(back),
            Act::Restart { back } => self.restart(back),
            Act::Rotate => self.binlog = (self.binlog.0 + 1, 4),
        }
    }

    fn tick(&mut self) -> u64 {
        self.lsn += 10;
        self.lsn
    }

    /// True if the other session holds the row's lock.
    fn is_locked(&self, session: usize, id: u64) -> bool {
        self.sessions[1 - session].rows.contains_key(&id)
    }

    fn seen(&self, session: usize, id: u64) -> Option<Row> {
        self.sessions[session].rows.get(&id).cloned().unwrap_or_else(|| self.rows.get(&id).cloned())
    }

    fn change(&mut self, session: usize, op: &'static str, id: u64, row: Option<Row>, sent_whole: bool) {
        let lsn = self.tick();
        let transaction = &mut self.sessions[session];
        transaction.rows.insert(id, row.clone());
        transaction.changes.push(Change { op, id, row, sent_whole, moved_from: None, lsn });
    }

    fn put(&mut self, session: usize, id: u64, body: bool) {
        if self.is_locked(session, id) {
            return;
        }
        let n = self.tick();
        match self.seen(session, id) {
            Some(row) => {
                let body_now = if body { n } else { row.body };
                self.change(session, "u", id, Some(Row { n, body: body_now }), body);
            }
            None => self.change(session, "c", id, Some(Row { n, body: n }), true),
        }
    }

    fn delete(&mut self, session: usize, id: u64) {
        if !self.is_locked(session, id) && self.seen(session, id).is_some() {
            self.change(session, "d", id, None, true);
        }
    }

    fn rename(&mut self, session: usize, id: u64, to: u64) {
        if self.is_locked(session, id) || self.is_locked(session, to) || self.seen(session, to).is_some() {
            return;
        }
        let Some(row) = self.seen(session, id) else { return };
        self.change(session, "d", id, None, true);
        self.change(session, "c", to, Some(row), true);
        // Both halves stand at one position.
        let [.., delete, create] = self.sessions[session].changes.as_mut_slice() else { return };
        create.lsn = delete.lsn;
        create.moved_from = Some(id);
    }

    fn commit(&mut self, session: usize) {
        let Transaction { changes, rows } = std::mem::take(&mut self.sessions[session]);
        if changes.is_empty() {
            return;
        }
        for (id, row) in rows {
            match row {
                Some(row) => drop(self.rows.insert(id, row)),
                None => drop(self.rows.remove(&id)),
            }
        }
        let commit_lsn = self.tick();
        let binlog = self.binlog;
        self.binlog.1 += 100 * (changes.len() as u64 + 1);
        self.log.push(Committed::Changes { changes, commit_lsn, binlog });
        self.stream(self.log.len() - 1);
    }

    fn truncate(&mut self) {
        // It waits for every open transaction on the table.
        if self.sessions.iter().any(|session| !session.changes.is_empty()) {
            return;
        }
        self.rows.clear();
        let (lsn, commit_lsn, binlog) = (self.tick(), self.tick(), self.binlog);
        self.binlog.1 += 100;
        self.log.push(Committed::Truncate { lsn, commit_lsn, binlog });
        self.stream(self.log.len() - 1);
    }

    /// Sends one transaction of the log.
    fn stream(&mut self, at: usize) {
        match self.log[at].clone() {
            Committed::Changes { changes, commit_lsn, binlog } => {
                for (change, row) in changes.iter().zip(0..) {
                    self.send(change, binlog, row);
                }
                self.last_commit = Some(commit_lsn);
            }
            Committed::Truncate { lsn, commit_lsn, binlog } => {
                let sample = self.position("t", lsn, binlog, 0).key(None).row("null");
                self.write(0, sample);
                self.last_commit = Some(commit_lsn);
            }
        }
    }

    fn position(&self, op: &str, lsn: u64, binlog: (u32, u64), row: u64) -> Sample {
        match self.kind {
            Kind::Postgres => postgres(op, (self.last_commit, lsn), Some(lsn)),
            // Two rows an event.
            Kind::MariaDb => mariadb(op, binlog.0, binlog.1 + 100 * (row / 2), row % 2),
        }
    }

    fn send(&mut self, change: &Change, binlog: (u32, u64), row: u64) {
        // Both halves of a key change are one row of the binlog.
        let row = if change.moved_from.is_some() { row - 1 } else { row };
        let mut sample = self.position(change.op, change.lsn, binlog, row).id(change.id);
        if let Some(after) = &change.row {
            let whole = change.sent_whole || self.kind == Kind::MariaDb;
            sample = sample.row(&json(&columns(change.id, after, whole)));
        }
        if let Some(from) = change.moved_from {
            sample = sample.header("__debezium.oldkey", &format!(r#"{{"id":{from}}}"#));
        }
        self.write(change.id, sample);
        if change.op == "d" {
            self.append(change.id, record(Some(&format!(r#"{{"id":{}}}"#, change.id)), None));
        }
    }

    fn read_again(&mut self, from: u64, blocking: bool) {
        // Before any commit was seen the rows would be those of a full snapshot.
        let Some(last_commit) = self.last_commit else { return };
        let now = self.tick();
        let lsn = blocking.then_some(now);
        for (id, row) in self.rows.clone().range(from..) {
            let sample = match self.kind {
                Kind::Postgres => postgres("r", (Some(last_commit), now), lsn),
                Kind::MariaDb => mariadb("r", self.binlog.0, self.binlog.1, 0),
            };
            self.write(*id, sample.id(*id).row(&json(&columns(*id, row, true))));
        }
    }

    fn send_again(&mut self, back: usize) {
        let from = self.log.len().saturating_sub(back).max(self.snapshot_at);
        if from == self.log.len() {
            return;
        }
        // The positions are the first ones, so is the commit before each.
        self.last_commit = (from > self.snapshot_at).then(|| commit_lsn(&self.log[from - 1]));
        (from..self.log.len()).for_each(|at| self.stream(at));
    }

    fn restart(&mut self, back: usize) {
        let now = self.tick();
        self.last_commit = None;
        for (id, row) in self.rows.clone() {
            let sample = match self.kind {
                Kind::Postgres => postgres("r", (None, now), Some(now)),
                Kind::MariaDb => mariadb("r", self.binlog.0, self.binlog.1, 0),
            };
            self.write(id, sample.id(id).row(&json(&columns(id, &row, true))));
        }
        // MariaDB goes on at the snapshot's position; a PostgreSQL slot may be behind it.
        let back = if self.kind == Kind::MariaDb { 0 } else { back };
        let from = self.log.len().saturating_sub(back);
        self.snapshot_at = from;
        (from..self.log.len()).for_each(|at| self.stream(at));
    }

    fn write(&mut self, id: u64, sample: Sample) {
        self.append(id, sample.record());
    }

    fn append(&mut self, id: u64, record: Record) {
        let number = i32::try_from(id).unwrap() % PARTITIONS;
        let partition = &mut self.partitions[usize::try_from(number).unwrap()];
        let offset = Offset::try_from(partition.len()).unwrap();
        partition.push(record.at(number, offset));
    }

    /// Ids that some change sent without its body.
    pub fn has_unsent_values(&self) -> bool {
        let unsent =
            |r: &Record| r.payload.as_deref().is_some_and(|p| p.windows(UNSENT.len()).any(|w| w == UNSENT.as_bytes()));
        self.partitions.iter().flatten().any(unsent)
    }

    /// The operations that it sent.
    pub fn ops(&self) -> BTreeSet<char> {
        let op = |record: &Record| {
            let payload = String::from_utf8(record.payload.as_deref()?.to_vec()).unwrap();
            payload.split("\"op\":\"").nth(1)?.chars().next()
        };
        self.partitions.iter().flatten().filter_map(op).collect()
    }
}

fn commit_lsn(committed: &Committed) -> u64 {
    match committed {
        Committed::Changes { commit_lsn, .. } | Committed::Truncate { commit_lsn, .. } => *commit_lsn,
    }
}

fn columns(id: u64, row: &Row, whole: bool) -> Columns {
    let body = if whole { format!("\"body {}\"", row.body) } else { UNSENT.to_owned() };
    [("id", id.to_string()), ("n", row.n.to_string()), ("body", body)]
        .map(|(name, json)| (name.to_owned(), json))
        .into()
}

fn json(columns: &Columns) -> String {
    let fields: Vec<_> = columns.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
    format!("{{{}}}", fields.join(","))
}
