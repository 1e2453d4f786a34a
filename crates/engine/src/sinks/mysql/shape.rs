//! Statements: the guarded ones of a table, and the upsert for one set of columns.
//!
//! Every statement that writes compares the version of the row that is there with the one that is
//! written. An upsert of MySQL assigns column after column, and what stands behind an assignment reads
//! what it assigned: so the lower half of the version comes behind all others, and the upper half, which
//! is the greater of both whichever is newer, comes last. Values come in one order: key columns, other
//! columns, `_op`, `_source_ts_ms`, and the version's halves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use settle_core::columns::Column as Carried;

use super::ddl;
use super::failure::Outcome;
use super::prepared::Prepared;
use crate::config::target::Evolution;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::fields::{Fields, Rules};

const SQL: Dialect = Dialect::MySql;

/// Rows that one statement writes, or looks for.
const ROWS: usize = 512;
/// Values that a prepared statement has room for.
const VALUES: usize = 65_535;

/// A statement for any number of rows, each text made once.
#[derive(Debug)]
pub(super) struct Many {
    head: String,
    row: String,
    between: &'static str,
    tail: String,
    /// Values of a row.
    pub(super) width: usize,
    made: Mutex<HashMap<usize, Arc<str>>>,
}

impl Many {
    fn new(head: String, row: String, tail: String, width: usize) -> Self {
        Self { head, row, between: ", ", tail, width, made: Mutex::default() }
    }

    /// The most rows that it takes.
    pub(super) fn most(&self) -> usize {
        (VALUES / self.width).clamp(1, ROWS)
    }

    /// The text for so many rows.
    pub(super) fn of(&self, rows: usize) -> Arc<str> {
        let make = || -> Arc<str> {
            let list = vec![self.row.as_str(); rows].join(self.between);
            format!("{}{list}{}", self.head, self.tail).into()
        };
        match self.made.lock() {
            Ok(mut made) => made.entry(rows).or_insert_with(make).clone(),
            Err(_) => make(),
        }
    }
}

/// What marks rows deleted.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// Keys, op, time, halves.
    pub(super) upsert: Arc<Many>,
    /// The same, of a row that is not there.
    pub(super) insert: Arc<str>,
    /// Op, time, halves, key, halves: of an older row that is there.
    pub(super) update: Arc<str>,
}

/// The statements of a table that do not depend on the columns of a record.
#[derive(Debug)]
pub(super) struct Statements {
    /// Keys → keys, halves of the version, and whether it is marked deleted.
    pub(super) find_rows: Many,
    /// Keys → keys and halves.
    pub(super) find_tombstones: Many,
    /// Keys with halves: removes older rows.
    pub(super) delete_rows: Many,
    /// Marks rows deleted, also such as were never seen.
    pub(super) mark: Option<Mark>,
    /// Keys with halves.
    pub(super) put_tombstones: Many,
    /// Keys.
    pub(super) drop_tombstones: Many,
    /// What stands behind FROM to find one row.
    pub(super) from_one: String,
}

impl Statements {
    pub(super) fn of(
        plan: &Plan,
        table: &str,
        key: &[String],
        is_deleted: Option<&str>,
        written: Option<&str>,
    ) -> Self {
        let (hi, lo) = (SQL.quoted(&plan.version_hi()), SQL.quoted(&plan.version_lo()));
        let (target, graves) = (SQL.quoted(table), SQL.quoted(&SQL.tombstones(table)));
        let keys = SQL.list(key.iter().map(String::as_str));
        let n = key.len();
        let (tuple, one) = if n == 1 { (keys.clone(), "?".to_owned()) } else { (format!("({keys})"), places(n)) };
        let is_key = is_key(key);
        let flag = is_deleted.map_or("0".to_owned(), |flag| SQL.quoted(flag));
        let within = |head: String| Many::new(format!("{head} WHERE {tuple} IN ("), one.clone(), ")".into(), n);
        let mark = is_deleted.map(|is_deleted| {
            let set = [plan.meta.op.clone(), plan.meta.source_ts_ms.clone()];
            let flag = SQL.quoted(is_deleted);
            let head = format!(
                "INSERT INTO {target} ({keys}, {}, {hi}, {lo}, {flag}) VALUES ",
                SQL.list(set.iter().map(String::as_str))
            );
            let row = format!("({}, 1)", list_of_places(n + 4));
            let assignments: Vec<String> = set.iter().map(|column| format!("{} = ?", SQL.quoted(column))).collect();
            let there = there(plan, table, set.iter().map(String::as_str), Some(is_deleted), 1);
            Mark {
                insert: format!("{head}{row}").into(),
                update: format!(
                    "UPDATE {target} SET {flag} = 1, {}, {hi} = ?, {lo} = ? WHERE {is_key} AND ({hi}, {lo}) < (?, ?)",
                    assignments.join(", ")
                )
                .into(),
                upsert: Arc::new(Many::new(head, row, there, n + 4)),
            }
        });
        let (column, now) = match written {
            Some(written) => (format!(", {}", SQL.quoted(written)), format!(", {}", SQL.now_ms())),
            None => Default::default(),
        };
        Self {
            find_rows: within(format!("SELECT {keys}, {hi}, {lo}, {flag} FROM {target}")),
            find_tombstones: within(format!("SELECT {keys}, {hi}, {lo} FROM {graves}")),
            delete_rows: Many {
                between: " OR ",
                ..Many::new(
                    format!("DELETE FROM {target} WHERE "),
                    format!("({is_key} AND ({hi}, {lo}) < (?, ?))"),
                    String::new(),
                    n + 2,
                )
            },
            mark,
            put_tombstones: Many::new(
                format!("INSERT INTO {graves} ({keys}, {hi}, {lo}{column}) VALUES "),
                format!("({}{now})", list_of_places(n + 2)),
                there(plan, &SQL.tombstones(table), written, None, 0),
                n + 2,
            ),
            drop_tombstones: within(format!("DELETE FROM {graves}")),
            from_one: format!("FROM {target} WHERE {is_key}"),
        }
    }
}

fn places(n: usize) -> String {
    format!("({})", list_of_places(n))
}

fn list_of_places(n: usize) -> String {
    SQL.places(1, n)
}

fn is_key(key: &[String]) -> String {
    key.iter().map(|name| format!("{} = ?", SQL.quoted(name))).collect::<Vec<_>>().join(" AND ")
}

/// What becomes of a row that is there: these columns get the new values where the new version is
/// greater, and nothing changes where it is not. `flag` is what the column that marks deleted rows gets.
fn there<'c>(
    plan: &Plan,
    table: &str,
    columns: impl IntoIterator<Item = &'c str>,
    is_deleted: Option<&str>,
    flag: u8,
) -> String {
    let target = SQL.quoted(table);
    let names = [plan.version_hi(), plan.version_lo()];
    let [hi, lo] = names.each_ref().map(|name| SQL.quoted(name));
    let [new_hi, new_lo] = names.each_ref().map(|name| SQL.inserted(name));
    let is_newer = format!("({new_hi}, {new_lo}) > ({target}.{hi}, {target}.{lo})");
    let mut set: Vec<String> = columns
        .into_iter()
        .map(|column| {
            let (name, new) = (SQL.quoted(column), SQL.inserted(column));
            // No clock takes a tombstone back.
            let later = SQL.later(&format!("{target}.{name}"), &new);
            let new = if column == plan.meta.written_ms { later } else { new };
            format!("{name} = IF({is_newer}, {new}, {target}.{name})")
        })
        .collect();
    if let Some(is_deleted) = is_deleted {
        let name = SQL.quoted(is_deleted);
        set.push(format!("{name} = IF({is_newer}, {flag}, {target}.{name})"));
    }
    set.push(format!("{lo} = IF({is_newer}, {new_lo}, {target}.{lo})"));
    set.push(format!("{hi} = GREATEST({target}.{hi}, {new_hi})"));
    format!(" ON DUPLICATE KEY UPDATE {}", set.join(", "))
}

/// The statements for records that carry one set of columns.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fields: Fields,
    /// Inserts rows, or updates older ones.
    pub(super) upsert: Many,
    /// Inserts a row that is not there: columns as in the upsert.
    pub(super) insert: String,
    /// Updates an older row that is there, and not marked deleted where a column keeps its value. Columns
    /// come first here, and the key and the halves behind them.
    pub(super) update: String,
}

impl Shape {
    /// The shape of these columns; or the place of one that the table lacks and that has a value.
    pub(super) fn of(
        prepared: &Prepared,
        columns: &[Carried<'_>],
        keeps: &[bool],
        evolution: Evolution,
    ) -> Outcome<Result<Self, usize>> {
        let rules = Rules {
            operation: prepared.operation(),
            ignored: &prepared.ignored,
            evolution,
            two_of_a_name: ddl::two_of_a_name,
        };
        let fields = match Fields::of(prepared.keyed(), &rules, columns, keeps)? {
            Ok(fields) => fields,
            Err(at) => return Ok(Err(at)),
        };
        let names: Vec<&str> = fields.bound.iter().map(|&(_, at)| prepared.table.columns[at].name.as_str()).collect();
        let (upsert, insert, update) = statements(prepared, &names, fields.keeps_any);
        Ok(Ok(Self { fields, upsert, insert, update }))
    }
}

fn statements(prepared: &Prepared, names: &[&str], keeps_any: bool) -> (Many, String, String) {
    let plan = &prepared.plan;
    let keys: Vec<String> = prepared.key.iter().map(|k| prepared.table.columns[k.at].name.clone()).collect();
    let (op, time) = (plan.meta.op.clone(), plan.meta.source_ts_ms.clone());
    let (hi, lo) = (plan.version_hi(), plan.version_lo());
    let own: Vec<&str> = names.iter().copied().chain([op.as_str(), &time]).collect();
    let all: Vec<&str> = keys.iter().map(String::as_str).chain(own.iter().copied()).chain([hi.as_str(), &lo]).collect();
    let target = SQL.quoted(&prepared.table.name);
    let flag = prepared.is_deleted.as_deref();
    let (flag_name, live) = flag.map_or((String::new(), ""), |flag| (format!(", {}", SQL.quoted(flag)), ", 0"));
    let head = format!("INSERT INTO {target} ({}{flag_name}) VALUES ", SQL.list(all.iter().copied()));
    let row = format!("({}{live})", list_of_places(all.len()));
    let insert = format!("{head}{row}");
    let upsert = Many::new(head, row, there(plan, &prepared.table.name, own.iter().copied(), flag, 0), all.len());
    let mut set: Vec<String> =
        own.iter().chain(&[hi.as_str(), &lo]).map(|c| format!("{} = ?", SQL.quoted(c))).collect();
    let mut guard = format!("({}, {}) < (?, ?)", SQL.quoted(&hi), SQL.quoted(&lo));
    if let Some(flag) = flag {
        // A row marked deleted is another life: its values are not this row's.
        if keeps_any {
            guard.push_str(&format!(" AND {} = 0", SQL.quoted(flag)));
        }
        set.insert(0, format!("{} = 0", SQL.quoted(flag)));
    }
    let update = format!("UPDATE {target} SET {} WHERE {} AND {guard}", set.join(", "), is_key(&keys));
    (upsert, insert, update)
}
