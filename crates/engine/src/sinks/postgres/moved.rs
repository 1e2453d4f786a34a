//! Values that records did not carry and that the table has under another key: found before anything of
//! the batch is written.

use std::collections::{BTreeSet, HashMap, HashSet};

use bytes::BufMut;
use settle_core::batch::{Kept, Row};
use settle_core::key::Key;
use settle_core::version::Version;
use tokio_postgres::types::{FromSql, Type};

use super::failure::{During, Outcome};
use super::rows::Writer;
use super::stage::{self, Group};
use super::statements::Statements;
use crate::sinks::sql::dialect::Dialect;

/// Where rows that came from another key have their values.
#[derive(Default)]
pub(super) struct Moved {
    /// Fields taken from another key, by the row's place and the column's.
    pub(super) values: HashMap<(usize, usize), Vec<u8>>,
    /// Rows that the table has under their key: what moved them comes again.
    pub(super) there: HashSet<usize>,
}

/// Groups of keys that are looked up.
const STANDING: i32 = -1;
const VALUES: i32 = -2;

/// What a row that is there says of itself.
#[derive(Clone, Copy)]
struct Stored {
    version: Version,
    is_deleted: bool,
}

/// A row that lacks values, and where these are in the record and in the table.
struct Wanting<'b> {
    index: usize,
    row: Row<'b>,
    missing: Vec<(usize, usize)>,
}

/// The values that these rows have under other keys.
pub(super) async fn find(writer: &mut Writer<'_>, rows: &[Row<'_>]) -> Outcome<Moved> {
    let mut moved = Moved::default();
    let wanting: Vec<Wanting<'_>> = rows.iter().enumerate().filter_map(|(at, row)| wanting(writer, at, *row)).collect();
    let mut keys: HashMap<&Key, usize> = HashMap::new();
    for Wanting { index, row, .. } in &wanting {
        let again = row.again();
        let kept = match row.kept() {
            Kept::Row { key, .. } if *key != row.change().key => Some(key),
            _ => None,
        };
        for key in again.iter().map(|again| again.key).chain(kept) {
            keys.entry(key).or_insert(*index);
        }
    }
    if keys.is_empty() {
        return Ok(moved);
    }
    let stored = standing(writer, rows, keys).await?;
    let mut taken: Vec<(&Wanting<'_>, &Key)> = Vec::new();
    for wanting in &wanting {
        match holder(&stored, wanting.row) {
            Some(key) if *key == wanting.row.change().key => {
                moved.there.insert(wanting.index);
            }
            Some(key) => taken.push((wanting, key)),
            None => {}
        }
    }
    values(writer, rows, &taken, &mut moved).await?;
    Ok(moved)
}

fn wanting<'b>(writer: &Writer<'_>, index: usize, row: Row<'b>) -> Option<Wanting<'b>> {
    let prepared = &writer.prepared;
    let columns = row.columns();
    let target = |name: &str| {
        let name = prepared.plan.column(name, false)?;
        prepared.table.columns.iter().position(|column| column.name == name && column.wire.is_ok())
    };
    let missing: Vec<(usize, usize)> = columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.is_unavailable())
        .filter_map(|(at, column)| Some((at, target(&column.name)?)))
        .collect();
    (!missing.is_empty()).then_some(Wanting { index, row, missing })
}

/// The key under which the table, as it is before the batch, has what the row does not carry; none where
/// that is not certain, or the row's own by what it stands on.
fn holder<'b>(stored: &HashMap<&'b Key, Stored>, row: Row<'b>) -> Option<&'b Key> {
    for again in row.again() {
        if stored.get(again.key).is_some_and(|stored| !stored.is_deleted && again.holds(stored.version)) {
            return Some(again.key);
        }
    }
    match row.kept() {
        Kept::Row { key, below } if *key != row.change().key => {
            stored.get(key).filter(|stored| !stored.is_deleted && stored.version < below).map(|_| key)
        }
        // A row marked deleted still has columns, but not those of changes that its delete overtook in
        // a batch, and nothing of a row that was never seen.
        Kept::Row { .. } | Kept::OtherHalf { .. } | Kept::Nowhere => None,
    }
}

/// What the table has under these keys; beside each a row whose record says the types of its fields.
async fn standing<'b>(
    writer: &mut Writer<'_>,
    rows: &[Row<'_>],
    keys: HashMap<&'b Key, usize>,
) -> Outcome<HashMap<&'b Key, Stored>> {
    let keys: Vec<(&Key, usize)> = keys.into_iter().collect();
    let mut group = Group::default();
    for (at, (key, row)) in keys.iter().enumerate() {
        let encoded = writer.key(key, rows[*row].change())?;
        group.add(at, encoded.order, |out| {
            out.put_slice(&encoded.fields);
            Ok(())
        })?;
    }
    let flag = writer.prepared.is_deleted.as_deref().map(|flag| Dialect::Postgres.quoted(flag));
    let mut found = HashMap::new();
    for row in look_up(writer, group_of(STANDING, &mut group), flag.as_slice()).await? {
        let Some(at) = group.row(row.get(0)) else { continue };
        let version = Version::from_halves(row.get::<_, i64>(1).cast_unsigned(), row.get::<_, i64>(2).cast_unsigned());
        let is_deleted = flag.is_some() && row.get::<_, bool>(3);
        found.insert(keys[at].0, Stored { version, is_deleted });
    }
    Ok(found)
}

/// Takes the values of the rows that hold them.
async fn values(
    writer: &mut Writer<'_>,
    rows: &[Row<'_>],
    taken: &[(&Wanting<'_>, &Key)],
    moved: &mut Moved,
) -> Outcome<()> {
    if taken.is_empty() {
        return Ok(());
    }
    let mut group = Group::default();
    for (at, (wanting, key)) in taken.iter().enumerate() {
        let encoded = writer.key(key, rows[wanting.index].change())?;
        group.add(at, encoded.order, |out| {
            out.put_slice(&encoded.fields);
            Ok(())
        })?;
    }
    let targets: BTreeSet<usize> =
        taken.iter().flat_map(|(wanting, _)| wanting.missing.iter().map(|(_, target)| *target)).collect();
    let targets: Vec<usize> = targets.into_iter().collect();
    let selected: Vec<String> = targets
        .iter()
        .map(|at| {
            let column = &writer.prepared.table.columns[*at];
            let waits = column.wire.as_ref().ok().and_then(|wire| wire.waits_as());
            let waits = waits.map_or(String::new(), |kind| format!("::{kind}"));
            format!("{}{waits}", Dialect::Postgres.quoted(&column.name))
        })
        .collect();
    let operation = writer.prepared.operation();
    for row in look_up(writer, group_of(VALUES, &mut group), &selected).await? {
        let Some((wanting, _)) = group.row(row.get(0)).and_then(|at| taken.get(at)) else { continue };
        for (at, target) in &wanting.missing {
            let Ok(place) = targets.binary_search(target) else { continue };
            let raw: Option<Raw<'_>> = row.try_get(3 + place).during(|| operation.clone())?;
            let mut field = Vec::new();
            match raw {
                Some(Raw(bytes)) => {
                    field.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                    field.put_slice(bytes);
                }
                None => field.put_i32(-1),
            }
            moved.values.insert((wanting.index, *at), field);
        }
    }
    Ok(())
}

fn group_of(number: i32, group: &mut Group) -> (i32, &Group) {
    group.sort();
    (number, group)
}

async fn look_up(
    writer: &mut Writer<'_>,
    (number, group): (i32, &Group),
    columns: &[String],
) -> Outcome<Vec<tokio_postgres::Row>> {
    let stage = stage::stage(writer.session, writer.prepared).await?;
    writer.copy(&stage, &writer.key_names(), &[(number, group)], &[]).await?;
    let sql = Statements::new(writer.prepared, &stage).find(number, columns);
    let operation = format!("look up rows of \"{}\"", writer.prepared.table.name);
    writer.session.connection().rows(&operation, &sql, &[]).await
}

/// A value in the binary form in which it can be sent again.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
