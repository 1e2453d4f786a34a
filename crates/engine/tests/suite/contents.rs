//! What a table holds beside its tombstones, where versions lie in two halves.

use settle_core::version::Version;
use settle_testkit::suite::{Contents, Live, RowKey, Shown, Table};

/// What readers see of these rows, and what is deleted: as a row that has the flag, or as a tombstone.
pub fn contents(table: &Table, rows: Vec<Shown>, tombstones: &[Shown], flag: &str) -> Contents {
    let mut contents = Contents::default();
    for row in tombstones {
        contents.deleted.insert(key(table, row), version(row));
    }
    for row in rows {
        let (key, version) = (key(table, &row), version(&row));
        if row.get("_is_deleted").is_some_and(|deleted| deleted.as_deref() == Some(flag)) {
            let known = contents.deleted.entry(key).or_insert(version);
            *known = version.max(*known);
            continue;
        }
        let columns = row.into_iter().filter(|(name, _)| !name.starts_with('_')).collect();
        contents.live.insert(key, Live { version, columns });
    }
    contents.deleted.retain(|key, _| !contents.live.contains_key(key));
    contents
}

fn key(table: &Table, row: &Shown) -> RowKey {
    table.key().map(|column| row[&column.name].clone().unwrap()).collect()
}

fn version(row: &Shown) -> Version {
    let half = |name: &str| row[name].as_deref().unwrap().parse::<i64>().unwrap().cast_unsigned();
    Version::from_halves(half("_version_hi"), half("_version_lo"))
}
