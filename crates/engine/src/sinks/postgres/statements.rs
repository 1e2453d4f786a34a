//! The statements that write what waits in a stage. Each compares the version of the row that is there
//! with the one that is written, as a row value.
//!
//! `t` is the target, `s` the stage, `g` the tombstones.

use super::ddl::within;
use super::prepared::{GravesTable, Prepared};
use super::stage::{column_name, key_name, value};
use super::table::Column;
use crate::sinks::sql::dialect::Dialect;

const SQL: Dialect = Dialect::Postgres;

/// Writes the statements of one table.
pub(super) struct Statements<'a> {
    prepared: &'a Prepared,
    stage: &'a str,
    hi: String,
    lo: String,
}

impl<'a> Statements<'a> {
    pub(super) fn new(prepared: &'a Prepared, stage: &'a str) -> Self {
        let (hi, lo) = (SQL.quoted(&prepared.plan.version_hi()), SQL.quoted(&prepared.plan.version_lo()));
        Self { prepared, stage, hi, lo }
    }

    /// Inserts or updates the whole rows of a group.
    pub(super) fn upsert(&self, group: i32, columns: &[&Column]) -> String {
        let values = columns.iter().map(|column| (SQL.quoted(&column.name), value("s", &column_name(column), column)));
        let meta = self.meta().into_iter().map(|(name, staged)| (name, format!("s.{staged}")));
        let live = self.prepared.is_deleted.iter().map(|flag| (SQL.quoted(flag), "false".to_owned()));
        let set: Vec<(String, String)> = values.chain(meta).chain(live).collect();
        self.insert(group, &set)
    }

    /// Marks rows deleted, also those that were never seen.
    pub(super) fn mark_deleted(&self, group: i32, flag: &str) -> String {
        let meta = self.meta().into_iter().map(|(name, staged)| (name, format!("s.{staged}")));
        let set: Vec<(String, String)> = meta.chain([(SQL.quoted(flag), "true".to_owned())]).collect();
        self.insert(group, &set)
    }

    fn insert(&self, group: i32, set: &[(String, String)]) -> String {
        let Self { stage, hi, lo, .. } = self;
        let keys = self.keys();
        let key_values: Vec<String> =
            self.prepared.key_columns().enumerate().map(|(at, column)| value("s", &key_name(at), column)).collect();
        let names: Vec<&str> = set.iter().map(|(name, _)| name.as_str()).collect();
        let values: Vec<&str> = set.iter().map(|(_, value)| value.as_str()).collect();
        let assignments: Vec<String> = names.iter().map(|name| format!("{name} = excluded.{name}")).collect();
        // A column that counts by itself takes the key of the source only so.
        let overriding = match self.prepared.key_columns().any(|column| column.identity_always) {
            true => " OVERRIDING SYSTEM VALUE",
            false => "",
        };
        format!(
            "INSERT INTO {} AS t ({keys}, {}){overriding} SELECT {}, {} FROM {stage} s WHERE s.g = {group}{} ORDER BY s.n \
             ON CONFLICT ({keys}) DO UPDATE SET {} WHERE (excluded.{hi}, excluded.{lo}) > (t.{hi}, t.{lo})",
            self.prepared.target(),
            names.join(", "),
            key_values.join(", "),
            values.join(", "),
            self.not_buried(),
            assignments.join(", "),
        )
    }

    /// Updates rows that keep some of their stored values: those that the mask has, bit by bit in the
    /// order of the columns. `kept` says which columns any row of the group keeps.
    pub(super) fn update(&self, group: i32, columns: &[&Column], kept: &[bool]) -> String {
        let Self { stage, hi, lo, .. } = self;
        let values = columns.iter().zip(kept).enumerate().map(|(at, (column, kept))| {
            let (name, value) = (SQL.quoted(&column.name), value("s", &column_name(column), column));
            match kept {
                true => {
                    format!("{name} = CASE WHEN pg_catalog.get_bit(s.mask, {at}) = 1 THEN t.{name} ELSE {value} END")
                }
                false => format!("{name} = {value}"),
            }
        });
        let meta = self.meta().into_iter().map(|(name, staged)| format!("{name} = s.{staged}"));
        let assignments: Vec<String> = values.chain(meta).collect();
        // A row marked deleted is another life: its values are not this row's.
        let live =
            self.prepared.is_deleted.as_ref().map_or(String::new(), |flag| format!(" AND NOT t.{}", SQL.quoted(flag)));
        format!(
            "UPDATE {} AS t SET {} FROM {stage} s WHERE s.g = {group} AND {} AND (t.{hi}, t.{lo}) < (s.hi, s.lo){live}{}",
            self.prepared.target(),
            assignments.join(", "),
            self.same_key("t"),
            self.not_buried(),
        )
    }

    /// The first row of these groups that neither the table nor its tombstones have as new or newer.
    pub(super) fn unwritten(&self, groups: [i32; 2]) -> String {
        let Self { stage, hi, lo, .. } = self;
        format!(
            "SELECT s.g, s.n FROM {stage} s WHERE s.g IN ({}, {}) AND NOT EXISTS (SELECT FROM {} t WHERE {} \
             AND (t.{hi}, t.{lo}) >= (s.hi, s.lo)){} ORDER BY s.g, s.n LIMIT 1",
            groups[0],
            groups[1],
            self.prepared.target(),
            self.same_key("t"),
            self.not_buried(),
        )
    }

    /// Removes the rows of a group that are older than their delete.
    pub(super) fn delete(&self, group: i32) -> String {
        let Self { stage, hi, lo, .. } = self;
        format!(
            "DELETE FROM {} AS t USING {stage} s WHERE s.g = {group} AND {} AND (t.{hi}, t.{lo}) < (s.hi, s.lo)",
            self.prepared.target(),
            self.same_key("t"),
        )
    }

    /// Leaves the versions of deletes. A row that is still there is as new as its delete.
    pub(super) fn bury(&self, group: i32, graves: &GravesTable) -> String {
        let Self { stage, hi, lo, .. } = self;
        let keys = self.keys();
        let values: Vec<String> =
            self.prepared.key_columns().enumerate().map(|(at, column)| value("s", &key_name(at), column)).collect();
        let (column, now, dated) = match &graves.written {
            Some(written) => {
                let written = SQL.quoted(written);
                let later = SQL.later(&format!("g.{written}"), &format!("excluded.{written}"));
                (format!(", {written}"), format!(", {}", SQL.now_ms()), format!(", {written} = {later}"))
            }
            None => Default::default(),
        };
        format!(
            "INSERT INTO {} AS g ({keys}, {hi}, {lo}{column}) SELECT {}, s.hi, s.lo{now} FROM {stage} s WHERE s.g = {group} \
             AND NOT EXISTS (SELECT FROM {} t WHERE {}) ORDER BY s.n ON CONFLICT ({keys}) DO UPDATE \
             SET {hi} = excluded.{hi}, {lo} = excluded.{lo}{dated} WHERE (excluded.{hi}, excluded.{lo}) > (g.{hi}, g.{lo})",
            within(&self.prepared.schema, &graves.name),
            values.join(", "),
            self.prepared.target(),
            self.same_key("t"),
        )
    }

    /// Drops the tombstones that rows of these groups have left behind.
    pub(super) fn unbury(&self, groups: &[i32], graves: &GravesTable) -> String {
        let Self { stage, hi, lo, .. } = self;
        let groups: Vec<String> = groups.iter().map(i32::to_string).collect();
        format!(
            "DELETE FROM {} AS g USING {stage} s WHERE s.g IN ({}) AND {} AND (g.{hi}, g.{lo}) < (s.hi, s.lo)",
            within(&self.prepared.schema, &graves.name),
            groups.join(", "),
            self.same_key("g"),
        )
    }

    /// Columns of the target's rows that have the keys of a group.
    pub(super) fn find(&self, group: i32, columns: &[String]) -> String {
        let columns: Vec<String> = columns.iter().map(|column| format!(", t.{column}")).collect();
        format!(
            "SELECT s.n, t.{}, t.{}{} FROM {} s JOIN {} t ON {} WHERE s.g = {group}",
            self.hi,
            self.lo,
            columns.concat(),
            self.stage,
            self.prepared.target(),
            self.same_key("t"),
        )
    }

    /// The columns that every write sets, each with its name in the stage.
    fn meta(&self) -> [(String, &'static str); 4] {
        let meta = &self.prepared.plan.meta;
        [
            (SQL.quoted(&meta.op), "op"),
            (SQL.quoted(&meta.source_ts_ms), "ts"),
            (self.hi.clone(), "hi"),
            (self.lo.clone(), "lo"),
        ]
    }

    fn keys(&self) -> String {
        SQL.list(self.prepared.key_columns().map(|column| column.name.as_str()))
    }

    fn same_key(&self, table: &str) -> String {
        let same = self.prepared.key_columns().enumerate().map(|(at, column)| {
            format!("{table}.{} = {}", SQL.quoted(&column.name), value("s", &key_name(at), column))
        });
        same.collect::<Vec<_>>().join(" AND ")
    }

    /// What keeps out the rows whose delete is as new or newer.
    fn not_buried(&self) -> String {
        let Self { hi, lo, .. } = self;
        self.prepared.graves.as_ref().map_or(String::new(), |graves| {
            format!(
                " AND NOT EXISTS (SELECT FROM {} g WHERE {} AND (g.{hi}, g.{lo}) >= (s.hi, s.lo))",
                within(&self.prepared.schema, &graves.name),
                self.same_key("g"),
            )
        })
    }
}
