//! Statements: the guarded ones of a table, and the upsert for one set of columns.
//!
//! Every statement that writes compares the version of the row that is there with the one that is
//! written, as a row value. Parameters come in one order: key columns, other columns, `_op`,
//! `_source_ts_ms`, and the version's halves last.

use settle_core::columns::Column as Carried;

use super::ddl;
use super::failure::Outcome;
use super::name::{list, quoted, tombstones};
use super::prepared::Prepared;
use crate::config::target::Evolution;
use crate::sinks::plan::Plan;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::fields::{Fields, Rules};

/// The statements of a table that do not depend on the columns of a record.
#[derive(Debug)]
pub(super) struct Statements {
    /// Key → halves of the version, and whether it is marked deleted.
    pub(super) find_row: String,
    /// Key, halves: removes an older row.
    pub(super) delete_row: String,
    /// Key, op, time, halves: marks a row deleted, also one that was never seen.
    pub(super) mark_deleted: Option<String>,
    /// Key → halves.
    pub(super) find_tombstone: String,
    /// Key, halves.
    pub(super) put_tombstone: String,
    /// Key.
    pub(super) drop_tombstone: String,
}

impl Statements {
    pub(super) fn of(plan: &Plan, table: &str, key: &[&str], is_deleted: Option<&str>, written: Option<&str>) -> Self {
        let (hi, lo) = (quoted(&plan.version_hi()), quoted(&plan.version_lo()));
        let (target, graves) = (quoted(table), quoted(&tombstones(table)));
        let (keys, is_key) = (list(key.iter().copied()), is_key(key));
        let n = key.len();
        let older = format!("({hi}, {lo}) < (?{}, ?{})", n + 1, n + 2);
        let flag = is_deleted.map_or("0".to_owned(), quoted);
        let newer = |of: &str| format!("(excluded.{hi}, excluded.{lo}) > ({of}.{hi}, {of}.{lo})");
        let mark_deleted = is_deleted.map(|is_deleted| {
            let (op, time) = (quoted(&plan.meta.op), quoted(&plan.meta.source_ts_ms));
            let set: Vec<String> =
                [&op, &time, &hi, &lo].iter().map(|column| format!("{column} = excluded.{column}")).collect();
            format!(
                "INSERT INTO {target} AS t ({keys}, {op}, {time}, {hi}, {lo}, {flag}) VALUES ({}, 1) \
                 ON CONFLICT ({keys}) DO UPDATE SET {}, {} = 1 WHERE {}",
                places(n + 4),
                set.join(", "),
                quoted(is_deleted),
                newer("t")
            )
        });
        let (column, now, dated) = match written {
            Some(written) => {
                let (written, sql) = (quoted(written), Dialect::Sqlite);
                let later = sql.later(&format!("t.{written}"), &format!("excluded.{written}"));
                (format!(", {written}"), format!(", {}", sql.now_ms()), format!(", {written} = {later}"))
            }
            None => Default::default(),
        };
        Self {
            find_row: format!("SELECT {hi}, {lo}, {flag} FROM {target} WHERE {is_key}"),
            delete_row: format!("DELETE FROM {target} WHERE {is_key} AND {older}"),
            mark_deleted,
            find_tombstone: format!("SELECT {hi}, {lo} FROM {graves} WHERE {is_key}"),
            put_tombstone: format!(
                "INSERT INTO {graves} AS t ({keys}, {hi}, {lo}{column}) VALUES ({}{now}) \
                 ON CONFLICT ({keys}) DO UPDATE SET {hi} = excluded.{hi}, {lo} = excluded.{lo}{dated} WHERE {}",
                places(n + 2),
                newer("t")
            ),
            drop_tombstone: format!("DELETE FROM {graves} WHERE {is_key}"),
        }
    }
}

/// Removes what a truncate empties: the halves of the mask of its order, and those of its place, are
/// the parameters.
pub(super) fn truncate(table: &str, hi: &str, lo: &str) -> String {
    format!("DELETE FROM {} WHERE ({} & ?1, {} & ?2) < (?3, ?4)", quoted(table), quoted(hi), quoted(lo))
}

fn is_key(key: &[&str]) -> String {
    let parts: Vec<String> = key.iter().enumerate().map(|(i, name)| format!("{} = ?{}", quoted(name), i + 1)).collect();
    parts.join(" AND ")
}

fn places(n: usize) -> String {
    (1..=n).map(|i| format!("?{i}")).collect::<Vec<_>>().join(", ")
}

/// The statement for records that carry one set of columns.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) fields: Fields,
    /// An upsert; or where a column keeps the stored value, an update of a row that is there.
    pub(super) sql: String,
}

impl Shape {
    /// The shape of these columns; or the place of one that the table lacks and that has a value.
    pub(super) fn of(
        prepared: &Prepared,
        columns: &[&Carried<'_>],
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
        let sql = if fields.keeps_any { update(prepared, &names) } else { upsert(prepared, &names) };
        Ok(Ok(Self { fields, sql }))
    }
}

/// The columns that every write sets, after the record's own.
fn tail(plan: &Plan) -> [String; 4] {
    [plan.meta.op.clone(), plan.meta.source_ts_ms.clone(), plan.version_hi(), plan.version_lo()]
}

fn upsert(prepared: &Prepared, names: &[&str]) -> String {
    let tail = tail(&prepared.plan);
    let keys: Vec<&str> = prepared.key.iter().map(|k| prepared.table.columns[k.at].name.as_str()).collect();
    let set: Vec<&str> = names.iter().copied().chain(tail.iter().map(String::as_str)).collect();
    let mut assignments: Vec<String> = set.iter().map(|c| format!("{0} = excluded.{0}", quoted(c))).collect();
    let (mut flag, mut live) = (String::new(), "");
    if let Some(is_deleted) = &prepared.is_deleted {
        flag = format!(", {}", quoted(is_deleted));
        live = ", 0";
        assignments.push(format!("{} = 0", quoted(is_deleted)));
    }
    let (hi, lo) = (quoted(&tail[2]), quoted(&tail[3]));
    format!(
        "INSERT INTO {} AS t ({}{flag}) VALUES ({}{live}) ON CONFLICT ({}) DO UPDATE SET {} \
         WHERE (excluded.{hi}, excluded.{lo}) > (t.{hi}, t.{lo})",
        quoted(&prepared.table.name),
        list(keys.iter().chain(&set).copied()),
        places(keys.len() + set.len()),
        list(keys.iter().copied()),
        assignments.join(", "),
    )
}

fn update(prepared: &Prepared, names: &[&str]) -> String {
    let tail = tail(&prepared.plan);
    let keys: Vec<&str> = prepared.key.iter().map(|k| prepared.table.columns[k.at].name.as_str()).collect();
    let set = names.iter().copied().chain(tail.iter().map(String::as_str));
    let assignments: Vec<String> =
        set.enumerate().map(|(i, c)| format!("{} = ?{}", quoted(c), keys.len() + i + 1)).collect();
    // A row marked deleted is another life: its values are not this row's.
    let live = prepared.is_deleted.as_ref().map_or(String::new(), |flag| format!(" AND {} = 0", quoted(flag)));
    let last = keys.len() + assignments.len();
    format!(
        "UPDATE {} SET {} WHERE {} AND ({}, {}) < (?{}, ?{last}){live}",
        quoted(&prepared.table.name),
        assignments.join(", "),
        is_key(&keys),
        quoted(&tail[2]),
        quoted(&tail[3]),
        last - 1,
    )
}
