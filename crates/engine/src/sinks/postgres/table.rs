//! A table as PostgreSQL's catalog has it.

use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::column::{CatalogType, Wire};
use super::connection::Connection;
use super::failure::Outcome;
use crate::sinks::sql::outline::Outline;

/// One column.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    /// Its number in the table, which stays what it is whatever is added or dropped.
    pub(super) number: i16,
    /// Its type as SQL, a domain's own name.
    pub(super) declared: String,
    /// The type beneath a domain, as SQL.
    pub(super) base: String,
    /// Name and number of that type.
    pub(super) base_name: String,
    pub(super) base_oid: u32,
    /// How its values are sent, or why they cannot be.
    pub(super) wire: Result<Wire, &'static str>,
    pub(super) not_null: bool,
    pub(super) has_default: bool,
    /// Computed by PostgreSQL: not written.
    pub(super) generated: bool,
    /// `GENERATED ALWAYS AS IDENTITY`: taken in an INSERT that overrides it, in no UPDATE.
    pub(super) identity_always: bool,
    /// Collation, where it has one: its name as SQL, and whether different texts are different to it.
    pub(super) collation: Option<(String, bool)>,
}

/// A unique index or an exclusion constraint.
#[derive(Clone, Debug)]
pub(super) struct Unique {
    pub(super) name: String,
    pub(super) is_primary: bool,
    /// Its columns; none where it is partial, over an expression, or no unique index.
    pub(super) columns: Option<Vec<String>>,
    /// False where it is checked at the end of a transaction, or was not built to its end.
    pub(super) is_usable: bool,
    /// True if different texts are different to it.
    pub(super) deterministic: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) name: String,
    /// `pg_class.relkind`
    pub(super) form: char,
    /// `pg_class.relpersistence`
    pub(super) persistence: char,
    pub(super) has_rules: bool,
    pub(super) has_children: bool,
    pub(super) hides_rows: bool,
    /// Bytes of its rows, its partitions' too.
    pub(super) size: i64,
    pub(super) columns: Vec<Column>,
    pub(super) uniques: Vec<Unique>,
    /// Foreign keys that are enforced, of it and to it: name, table that has it.
    pub(super) foreign_keys: Vec<(String, String)>,
    pub(super) triggers: Vec<String>,
    /// Changes with everything above.
    pub(super) fingerprint: String,
}

impl Outline for Description {
    fn name(&self) -> &str {
        &self.name
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|column| column.name.as_str())
    }

    fn is_generated(&self, at: usize) -> bool {
        self.columns[at].generated
    }
}

impl Description {
    /// The column called `name`.
    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// What every look-up of tables is asked with: `c` is the table's row in `pg_class`.
///
/// Row versions of the catalog change with every change of what they describe, and with nothing else.
const FINGERPRINT: &str =
    "pg_catalog.md5(pg_catalog.concat_ws(',', c.oid, c.xmin, pg_catalog.row_security_active(c.oid),
  (SELECT pg_catalog.string_agg(a.xmin::text, '-' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
    WHERE a.attrelid = c.oid AND a.attnum > 0),
  (SELECT pg_catalog.string_agg(x.indexrelid::text || '/' || x.xmin::text, '-' ORDER BY x.indexrelid)
    FROM pg_catalog.pg_index x WHERE x.indrelid = c.oid
      OR x.indrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p)),
  (SELECT pg_catalog.string_agg(k.oid::text || '/' || k.xmin::text, '-' ORDER BY k.oid)
    FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid OR k.confrelid = c.oid),
  (SELECT pg_catalog.string_agg(g.oid::text || '/' || g.xmin::text, '-' ORDER BY g.oid)
    FROM pg_catalog.pg_trigger g WHERE g.tgrelid = c.oid),
  (SELECT pg_catalog.string_agg(h.inhrelid::text, '-' ORDER BY h.inhrelid)
    FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid)))";

const TABLE: &str = "SELECT c.oid, c.relname::text, c.relkind::text, c.relpersistence::text, c.relhasrules,
  EXISTS (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhparent = c.oid),
  pg_catalog.row_security_active(c.oid), FINGERPRINT, (SELECT pg_catalog.sum(pg_catalog.pg_relation_size(p.relid))::int8
    FROM (SELECT c.oid UNION SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) p) p (relid))
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2";

const COLUMNS: &str = "WITH RECURSIVE base (number, oid, modifier, not_null, has_default) AS (
  SELECT a.attnum, a.atttypid, a.atttypmod, a.attnotnull, false FROM pg_catalog.pg_attribute a
  WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
  SELECT b.number, t.typbasetype, t.typtypmod, b.not_null OR t.typnotnull, b.has_default OR t.typdefault IS NOT NULL
  FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid WHERE t.typtype = 'd'
)
SELECT a.attname::text, a.attnum, pg_catalog.format_type(a.atttypid, a.atttypmod),
  pg_catalog.format_type(b.oid, b.modifier), b.not_null, a.atthasdef OR a.attidentity <> '' OR b.has_default,
  a.attgenerated <> '', a.attidentity = 'a',
  (SELECT pg_catalog.quote_ident(s.nspname) || '.' || pg_catalog.quote_ident(l.collname)
    FROM pg_catalog.pg_collation l JOIN pg_catalog.pg_namespace s ON s.oid = l.collnamespace
    WHERE l.oid = a.attcollation),
  (SELECT l.collisdeterministic FROM pg_catalog.pg_collation l WHERE l.oid = a.attcollation),
  t.oid, b.modifier, t.typname::text, t.typtype::text, e.oid, e.typname::text, e.typtype::text
FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.oid AND t.typtype <> 'd'
JOIN pg_catalog.pg_attribute a ON a.attrelid = $1 AND a.attnum = b.number
LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem AND t.typcategory = 'A' AND t.typlen = -1
  AND t.typname NOT IN ('int2vector', 'oidvector')
ORDER BY a.attnum";

/// Of a partitioned table also the indexes that one of its partitions has for itself.
const UNIQUES: &str = "SELECT i.relname::text,
  x.indisunique AND x.indpred IS NULL AND x.indexprs IS NULL,
  x.indimmediate AND x.indisvalid AND x.indisready AND x.indislive,
  (SELECT pg_catalog.array_agg(a.attname::text ORDER BY k.place)
    FROM pg_catalog.unnest(x.indkey::int2[]) WITH ORDINALITY k (number, place)
    JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number
    WHERE k.place <= x.indnkeyatts),
  NOT EXISTS (SELECT FROM pg_catalog.unnest(x.indcollation::oid[]) k (oid)
    JOIN pg_catalog.pg_collation l ON l.oid = k.oid WHERE NOT l.collisdeterministic),
  x.indisprimary AND x.indrelid = $1
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
WHERE (x.indisunique OR x.indisexclusion) AND (x.indrelid = $1 OR
  x.indrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree($1) p) AND NOT EXISTS
    (SELECT FROM pg_catalog.pg_inherits h WHERE h.inhrelid = x.indexrelid))
ORDER BY i.relname";

/// Since PostgreSQL 18 a foreign key may be one that nothing enforces.
const FOREIGN_KEYS: &str = "SELECT k.conname::text, k.conrelid::pg_catalog.regclass::text
FROM pg_catalog.pg_constraint k WHERE k.contype = 'f' AND (k.conrelid = $1 OR k.confrelid = $1)
  AND coalesce((pg_catalog.to_jsonb(k) ->> 'conenforced')::boolean, true)
ORDER BY k.conname";

const TRIGGERS: &str = "SELECT g.tgname::text FROM pg_catalog.pg_trigger g
WHERE g.tgrelid = $1 AND NOT g.tgisinternal AND g.tgenabled <> 'D' ORDER BY g.tgname";

/// Reads the table called `name`; none where there is no such table.
pub(super) async fn describe(connection: &Connection, schema: &str, name: &str) -> Outcome<Option<Description>> {
    let operation = format!("read the columns of \"{name}\"");
    let ask = async |sql: &str, values: &[(&(dyn ToSql + Sync), Type)]| connection.rows(&operation, sql, values).await;
    let sql = TABLE.replace("FINGERPRINT", FINGERPRINT);
    let found = ask(&sql, &[(&schema, Type::TEXT), (&name, Type::TEXT)]).await?;
    let Some(found) = found.first() else { return Ok(None) };
    let oid: u32 = found.get(0);
    let of_table: &[(&(dyn ToSql + Sync), Type)] = &[(&oid, Type::OID)];
    let (columns, uniques, foreign_keys, triggers) = tokio::try_join!(
        ask(COLUMNS, of_table),
        ask(UNIQUES, of_table),
        ask(FOREIGN_KEYS, of_table),
        ask(TRIGGERS, of_table)
    )?;
    Ok(Some(Description {
        name: found.get(1),
        form: letter(found, 2),
        persistence: letter(found, 3),
        has_rules: found.get(4),
        has_children: found.get(5),
        hides_rows: found.get(6),
        size: found.get::<_, Option<i64>>(8).unwrap_or(0),
        columns: columns.iter().map(column).collect(),
        uniques: uniques.iter().map(unique).collect(),
        foreign_keys: foreign_keys.iter().map(|row| (row.get(0), row.get(1))).collect(),
        triggers: triggers.iter().map(|row| row.get(0)).collect(),
        fingerprint: found.get(7),
    }))
}

/// What says whether the tables are still as they were described: fingerprints by name.
pub(super) async fn fingerprints(
    connection: &Connection,
    schema: &str,
    names: &[&str],
) -> Outcome<Vec<(String, String)>> {
    let sql = format!(
        "SELECT c.relname::text, {FINGERPRINT} FROM pg_catalog.pg_class c
         JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = ANY ($2)"
    );
    let found =
        connection.rows("look at the tables", &sql, &[(&schema, Type::TEXT), (&names, Type::TEXT_ARRAY)]).await?;
    Ok(found.iter().map(|row| (row.get(0), row.get(1))).collect())
}

fn letter(row: &Row, at: usize) -> char {
    row.get::<_, String>(at).chars().next().unwrap_or(' ')
}

fn column(row: &Row) -> Column {
    let element = row.get::<_, Option<u32>>(14).map(|oid| {
        Box::new(CatalogType { oid, modifier: -1, name: row.get(15), form: letter(row, 16), element: None })
    });
    let base =
        CatalogType { oid: row.get(10), modifier: row.get(11), name: row.get(12), form: letter(row, 13), element };
    let collation: Option<String> = row.get(8);
    Column {
        name: row.get(0),
        number: row.get(1),
        declared: row.get(2),
        base: row.get(3),
        wire: base.wire(),
        base_oid: base.oid,
        base_name: base.name,
        not_null: row.get(4),
        has_default: row.get(5),
        generated: row.get(6),
        identity_always: row.get(7),
        collation: collation.map(|name| (name, row.get::<_, Option<bool>>(9).unwrap_or(true))),
    }
}

fn unique(row: &Row) -> Unique {
    let plain: bool = row.get(1);
    let columns: Option<Vec<String>> = row.get(3);
    Unique {
        name: row.get(0),
        columns: columns.filter(|_| plain),
        is_usable: row.get(2),
        deterministic: row.get(4),
        is_primary: row.get(5),
    }
}
