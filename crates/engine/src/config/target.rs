//! What every sink that keeps tables is told about them.

use std::collections::BTreeMap;
use std::time::Duration;

use settle_core::change::TableName;
use settle_core::schema::Conventions;

use super::source::choice;
use super::{SinkConfig, duration, raw};

/// How a delete leaves the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletes {
    /// The row stays, marked deleted.
    Soft,
    /// The row goes; its version stays in `<table>__tombstones`.
    Hard,
}

/// What happens when a record carries a column that the target table lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evolution {
    /// Add it, nullable.
    #[default]
    Add,
    /// Stop, with the DDL to run.
    Refuse,
    /// Leave the column out; said once.
    Ignore,
}

/// What happens to rows that a full snapshot taken again does not refresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnResnapshot {
    /// They stay; it is reported that they may be ghosts.
    #[default]
    Report,
    /// They are deleted once all of the snapshot is applied.
    Sweep,
}

/// Names of the columns that Settle adds to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaNames {
    /// Operation letter.
    pub op: String,
    /// `source.ts_ms`.
    pub source_ts_ms: String,
    /// Delete marker.
    pub is_deleted: String,
    /// ClickHouse: one UInt128. SQL sinks append `_hi` and `_lo`.
    pub version: String,
    /// When a tombstone was written; in `<table>__tombstones` only.
    pub written_ms: String,
}

impl Default for MetaNames {
    fn default() -> Self {
        Self {
            op: "_op".into(),
            source_ts_ms: "_source_ts_ms".into(),
            is_deleted: "_is_deleted".into(),
            version: "_version".into(),
            written_ms: "_written_ms".into(),
        }
    }
}

/// `[tables."public.orders"]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableRule {
    /// Target table's name; the source table's where none.
    pub name: Option<String>,
    /// Declared column types, in the target's own words, in order.
    pub columns: Vec<(String, String)>,
    /// Overrides the sink's default.
    pub deletes: Option<Deletes>,
    /// Overrides the sink's default.
    pub on_resnapshot: Option<OnResnapshot>,
    /// Columns that are not written.
    pub exclude: Vec<String>,
    /// Only these columns are written, where not empty (key columns always are).
    pub include: Vec<String>,
    /// Source column name → target column name.
    pub rename: BTreeMap<String, String>,
}

/// What a table-keeping sink is told.
#[derive(Clone, Debug, Default)]
pub struct Target {
    /// Rules by source table, as `namespace.name`.
    pub tables: BTreeMap<String, TableRule>,
    /// How deletes leave tables whose rule does not say; the sink's own default where none.
    pub deletes: Option<Deletes>,
    /// Rows that a full snapshot taken again does not refresh, in tables whose rule does not say.
    pub on_resnapshot: OnResnapshot,
    /// How old the version that a hard delete leaves must be to be purged; none ever is where none.
    pub tombstone_retention: Option<Duration>,
    /// Names of the added columns.
    pub meta: MetaNames,
    /// New columns in the middle of a topic.
    pub evolution: Evolution,
    /// Whether missing tables are created.
    pub create: bool,
    /// What was declared of topics without schemas.
    pub conventions: Conventions,
}

impl Target {
    /// The rule of a source table, if there is one.
    pub fn rule(&self, table: &TableName) -> Option<&TableRule> {
        self.tables.get(&table.to_string())
    }

    /// What happens to ghosts of a source table.
    pub fn on_resnapshot(&self, table: &TableName) -> OnResnapshot {
        self.rule(table).and_then(|rule| rule.on_resnapshot).unwrap_or(self.on_resnapshot)
    }

    /// The target table's name.
    pub fn table_name(&self, table: &TableName) -> String {
        self.rule(table).and_then(|rule| rule.name.clone()).unwrap_or_else(|| table.name.to_string())
    }
}

/// Gathers the table rules of the file.
pub(crate) fn check(raw: &raw::Config, sink: &SinkConfig) -> Result<Target, String> {
    let deletes = [("soft", Deletes::Soft), ("hard", Deletes::Hard)];
    let fallback = choice("[sink] deletes", raw.sink.deletes.as_deref(), &deletes)?;
    let resnapshots = [("report", OnResnapshot::Report), ("sweep", OnResnapshot::Sweep)];
    let on_resnapshot = choice("[sink] on_resnapshot", raw.sink.on_resnapshot.as_deref(), &resnapshots)?;
    let evolution = choice(
        "[sink] evolution",
        raw.sink.evolution.as_deref(),
        &[("add", Evolution::Add), ("refuse", Evolution::Refuse), ("ignore", Evolution::Ignore)],
    )?;
    let create = match &raw.sink.create {
        None => true,
        Some(toml::Value::Boolean(flag)) => *flag,
        Some(toml::Value::String(word)) if word == "sample" && matches!(sink, SinkConfig::Sqlite { .. }) => true,
        Some(_) => {
            return Err(
                "[sink] create is true or false (SQLite also knows \"sample\": columns from the values seen)".into()
            );
        }
    };
    let mut tables = BTreeMap::new();
    for (table, rule) in &raw.tables {
        if !table.contains('.') {
            return Err(format!(
                "[tables.\"{table}\"]: name the source table with its schema or database, as [tables.\"public.{table}\"]"
            ));
        }
        let own = choice(&format!("[tables.\"{table}\"] deletes"), rule.deletes.as_deref(), &deletes)?;
        let rule_key = format!("[tables.\"{table}\"] on_resnapshot");
        let own_resnapshot = choice(&rule_key, rule.on_resnapshot.as_deref(), &resnapshots)?;
        let deletes = own.or(fallback);
        if deletes == Some(Deletes::Hard) && matches!(sink, SinkConfig::ClickHouse { .. }) {
            return Err(HARD_IN_CLICKHOUSE.to_owned());
        }
        tables.insert(
            table.clone(),
            TableRule {
                name: rule.name.clone(),
                columns: rule.columns.0.clone(),
                deletes,
                on_resnapshot: own_resnapshot,
                exclude: rule.exclude.clone(),
                include: rule.include.clone(),
                rename: rule.rename.clone(),
            },
        );
    }
    if fallback == Some(Deletes::Hard) && matches!(sink, SinkConfig::ClickHouse { .. }) {
        return Err(HARD_IN_CLICKHOUSE.to_owned());
    }
    let tombstone_retention = raw.sink.tombstone_retention.as_deref().map(tombstone_retention).transpose()?;
    let names = MetaNames::default();
    let meta = &raw.sink.meta;
    if meta.written_ms.is_some() && matches!(sink, SinkConfig::ClickHouse { .. }) {
        return Err("[sink.meta] written_ms does not belong to kind = \"clickhouse\"; remove it".to_owned());
    }
    Ok(Target {
        tables,
        deletes: fallback,
        on_resnapshot: on_resnapshot.unwrap_or_default(),
        tombstone_retention,
        meta: MetaNames {
            op: meta.op.clone().unwrap_or(names.op),
            source_ts_ms: meta.source_ts_ms.clone().unwrap_or(names.source_ts_ms),
            is_deleted: meta.is_deleted.clone().unwrap_or(names.is_deleted),
            version: meta.version.clone().unwrap_or(names.version),
            written_ms: meta.written_ms.clone().unwrap_or(names.written_ms),
        },
        evolution: evolution.unwrap_or_default(),
        create,
        conventions: super::source::conventions(&raw.source)?,
    })
}

fn tombstone_retention(text: &str) -> Result<Duration, String> {
    match duration::read(text) {
        Ok(retention) if !retention.is_zero() && i64::try_from(retention.as_millis()).is_ok() => Ok(retention),
        Ok(_) => {
            Err("[sink] tombstone_retention must be longer than the source keeps its records, as \"45d\"".to_owned())
        }
        Err(why) => Err(format!("[sink] tombstone_retention = \"{text}\": {why}")),
    }
}

const HARD_IN_CLICKHOUSE: &str = "deletes = \"hard\" is not for ClickHouse: a delete marker must stay to beat late older rows; \
     read through the <table>_current view, which hides deleted rows";
