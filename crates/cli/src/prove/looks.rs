//! Looks at tables, kept on disk: a look has as many rows as the table.
//!
//! A row is its key, its version and a digest, so that two looks compare key by key, whatever the
//! destination. The file has no name and is gone with the process.

use rusqlite::{Connection, params};
use settle_core::version::Version;
use settle_engine::contents::SeenRow;
use uuid::Uuid;

/// Differing keys that are named.
const NAMED: usize = 10;

/// One look at one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LookId {
    /// Number of the table.
    pub(super) table: usize,
    /// Number of the look; later ones are greater.
    pub(super) look: u32,
}

/// All looks.
pub(super) struct Looks {
    connection: Connection,
}

/// How a key differs between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Difference {
    /// It has a row only in the later look.
    OnlyAfter,
    /// It has a row only in the earlier look.
    OnlyBefore,
    /// Its columns are others, at one version.
    Content,
    /// Its columns are others, at a greater version.
    Newer,
    /// Its columns are others, at a smaller version.
    Older,
}

/// What two looks have in common, and what not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// Keys with a row in the later look, without those left out.
    pub(super) rows: u64,
    /// Keys in the later look of which a delete left its version.
    pub(super) deleted: u64,
    /// Sum over the compared rows of the later look, whatever their order.
    pub(super) checksum: u128,
    /// Keys that differ.
    pub(super) differing: u64,
    /// The first of them.
    pub(super) named: Vec<(String, Difference)>,
    /// Keys that were changed since, by records that were not replayed.
    pub(super) left_out: u64,
    /// Keys that are the same but have a greater version.
    pub(super) raised: u64,
}

/// A key in one look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) version: Version,
    pub(super) is_deleted: bool,
    pub(super) content: u128,
}

impl Looks {
    pub(super) fn new() -> rusqlite::Result<Self> {
        // An empty name is a private file on disk, removed when it is closed.
        let connection = Connection::open("")?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.execute_batch(
            "CREATE TABLE seen (target INTEGER NOT NULL, look INTEGER NOT NULL, key TEXT NOT NULL, version BLOB NOT NULL, \
             is_deleted INTEGER NOT NULL, content BLOB NOT NULL, PRIMARY KEY (target, look, key)) STRICT, WITHOUT ROWID;
             BEGIN",
        )?;
        Ok(Self { connection })
    }

    /// Begins a look anew: an attempt that failed leaves nothing.
    pub(super) fn begin(&mut self, LookId { table, look }: LookId) -> rusqlite::Result<()> {
        self.connection.execute("DELETE FROM seen WHERE target = ?1 AND look = ?2", params![table as i64, look])?;
        // Nothing is needed of what was before the look before.
        let old = params![table as i64, look.saturating_sub(1)];
        self.connection.execute("DELETE FROM seen WHERE target = ?1 AND look < ?2", old)?;
        self.connection.execute_batch("COMMIT; BEGIN")
    }

    /// Keeps a row. A key that is seen twice in a look (it was changed meanwhile) is kept as it was last.
    pub(super) fn put(&mut self, LookId { table, look }: LookId, row: &SeenRow) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare_cached(
            "INSERT INTO seen VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE SET version = excluded.version, \
             is_deleted = excluded.is_deleted, content = excluded.content WHERE excluded.version > seen.version",
        )?;
        let version = row.version.as_u128().to_be_bytes();
        let content = row.content.to_be_bytes();
        insert.execute(params![table as i64, look, row.key, version, row.is_deleted, content])?;
        Ok(())
    }

    /// Compares two looks at a table. `left_out` says of a key, as it is in the earlier and in the
    /// later look, whether a change that was not replayed explains how it is now.
    pub(super) fn compare(
        &self,
        table: usize,
        (before, after): (u32, u32),
        left_out: impl Fn(Option<Entry>, Option<Entry>) -> bool,
    ) -> rusqlite::Result<Compared> {
        let mut select = self.connection.prepare(
            "SELECT a.key, b.version, b.is_deleted, b.content, a.version, a.is_deleted, a.content FROM seen a \
             LEFT JOIN seen b ON b.target = a.target AND b.look = ?2 AND b.key = a.key WHERE a.target = ?1 AND a.look = ?3 \
             UNION ALL \
             SELECT b.key, b.version, b.is_deleted, b.content, NULL, NULL, NULL FROM seen b \
             WHERE b.target = ?1 AND b.look = ?2 \
             AND NOT EXISTS (SELECT 1 FROM seen a WHERE a.target = b.target AND a.look = ?3 AND a.key = b.key)",
        )?;
        let mut compared = Compared::default();
        let mut rows = select.query(params![table as i64, before, after])?;
        while let Some(row) = rows.next()? {
            let key: String = row.get(0)?;
            let (was, is) = (entry(row, 1)?, entry(row, 4)?);
            compared.deleted += u64::from(is.is_some_and(|entry| entry.is_deleted));
            if was != is && left_out(was, is) {
                compared.left_out += 1;
                continue;
            }
            if let Some(entry) = is.filter(|entry| !entry.is_deleted) {
                compared.rows += 1;
                compared.checksum = compared.checksum.wrapping_add(share(&key, entry.content));
            }
            match difference(was, is) {
                Some(difference) => {
                    compared.differing += 1;
                    if compared.named.len() < NAMED {
                        compared.named.push((key, difference));
                    }
                }
                None => {
                    let raised = was.zip(is).is_some_and(|(was, is)| is.version > was.version);
                    compared.raised += u64::from(raised);
                }
            }
        }
        Ok(compared)
    }
}

/// What a row adds to the checksum: its key counts, too.
fn share(key: &str, content: u128) -> u128 {
    let mut bytes = content.to_be_bytes().to_vec();
    bytes.extend(key.as_bytes());
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &bytes).as_u128()
}

fn entry(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<Option<Entry>> {
    let Some(version) = row.get::<_, Option<[u8; 16]>>(at)? else { return Ok(None) };
    Ok(Some(Entry {
        version: Version::from(u128::from_be_bytes(version)),
        is_deleted: row.get(at + 1)?,
        content: u128::from_be_bytes(row.get(at + 2)?),
    }))
}

/// A key without a row and one whose delete left its version are alike to every reader.
fn difference(was: Option<Entry>, is: Option<Entry>) -> Option<Difference> {
    let live = |entry: Option<Entry>| entry.filter(|entry| !entry.is_deleted);
    match (live(was), live(is)) {
        (None, None) => None,
        (None, Some(_)) => Some(Difference::OnlyAfter),
        (Some(_), None) => Some(Difference::OnlyBefore),
        (Some(was), Some(is)) if was.content == is.content => None,
        (Some(was), Some(is)) => Some(match is.version.cmp(&was.version) {
            std::cmp::Ordering::Equal => Difference::Content,
            std::cmp::Ordering::Greater => Difference::Newer,
            std::cmp::Ordering::Less => Difference::Older,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, version: u128, is_deleted: bool, content: u128) -> SeenRow {
        SeenRow { key: key.to_owned(), version: Version::from(version), is_deleted, content }
    }

    fn compared(before: &[SeenRow], after: &[SeenRow], changed_since: &[u128]) -> Compared {
        let mut looks = Looks::new().unwrap();
        for (look, rows) in [(0, before), (1, after)] {
            let id = LookId { table: 0, look };
            looks.begin(id).unwrap();
            rows.iter().for_each(|row| looks.put(id, row).unwrap());
        }
        let since = |_, is: Option<Entry>| is.is_some_and(|is| changed_since.contains(&is.version.as_u128()));
        looks.compare(0, (0, 1), since).unwrap()
    }

    #[test]
    fn equal_looks_agree_in_any_order_and_deletes_are_no_rows() {
        let rows = [row("1", 5, false, 7), row("2", 6, false, 8), row("3", 9, true, 0)];
        let mut turned = rows.clone();
        turned.reverse();
        let same = compared(&rows, &turned, &[]);
        assert_eq!((same.rows, same.deleted, same.differing, same.left_out), (2, 1, 0, 0));
        assert_eq!(same.checksum, compared(&turned, &rows[..2], &[]).checksum, "a delete adds nothing");
    }

    #[test]
    fn contents_that_changed_places_between_keys_differ_in_the_checksum() {
        let rows = [row("1", 5, false, 7), row("2", 6, false, 8)];
        let moved = [row("1", 5, false, 8), row("2", 6, false, 7)];
        let differs = compared(&rows, &moved, &[]);
        assert_eq!(differs.differing, 2);
        assert_ne!(differs.checksum, compared(&rows, &rows, &[]).checksum);
    }

    #[test]
    fn every_way_to_differ_is_told_apart() {
        let before = [
            row("gone", 5, false, 1),
            row("deleted", 5, false, 1),
            row("same version", 5, false, 1),
            row("newer", 5, false, 1),
            row("older", 5, false, 1),
            row("raised", 5, false, 1),
        ];
        let after = [
            row("deleted", 6, true, 0),
            row("came", 5, false, 1),
            row("same version", 5, false, 2),
            row("newer", 6, false, 2),
            row("older", 4, false, 2),
            row("raised", 6, false, 1),
        ];
        let compared = compared(&before, &after, &[]);
        let mut named = compared.named;
        named.sort();
        let named: Vec<(&str, Difference)> = named.iter().map(|(key, how)| (key.as_str(), *how)).collect();
        assert_eq!(
            named,
            [
                ("came", Difference::OnlyAfter),
                ("deleted", Difference::OnlyBefore),
                ("gone", Difference::OnlyBefore),
                ("newer", Difference::Newer),
                ("older", Difference::Older),
                ("same version", Difference::Content),
            ]
        );
        assert_eq!((compared.differing, compared.raised), (6, 1));
    }

    #[test]
    fn a_key_that_was_changed_since_is_left_out_and_counted() {
        let before = [row("1", 5, false, 1), row("2", 5, false, 1)];
        let after = [row("1", 9, false, 2), row("2", 5, false, 1), row("3", 9, false, 2)];
        let compared = compared(&before, &after, &[9]);
        assert_eq!((compared.rows, compared.differing, compared.left_out), (1, 0, 2));
    }

    #[test]
    fn no_more_than_ten_keys_are_named() {
        let rows: Vec<SeenRow> = (0..25).map(|n| row(&n.to_string(), 1, false, 1)).collect();
        let compared = compared(&rows, &[], &[]);
        assert_eq!((compared.differing, compared.named.len()), (25, 10));
    }
}
