//! What the table and its tombstones hold under the keys of a batch.

use std::collections::HashMap;

use mysql_async::Value as Bound;
use settle_core::version::Version;

use super::failure::{Outcome, contract};
use super::ident::ident;
use super::rows::{Item, Writer};
use super::shape::{Many, Statements};

/// What a row that is there says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub(super) version: Version,
    pub(super) is_deleted: bool,
}

impl Writer<'_> {
    fn looking(&self) -> String {
        format!("look up rows of \"{}\"", self.prepared.table.name)
    }

    /// The version under a key.
    pub(super) async fn stored(&mut self, key: &[Bound]) -> Outcome<Option<Stored>> {
        let (operation, sql) = (self.looking(), self.prepared.statements.find_rows.of(1));
        let rows = self.connection.rows(&operation, &sql, key.to_vec()).await?;
        rows.into_iter().next().map(|row| stored(&operation, &row[key.len()..])).transpose()
    }

    pub(super) async fn grave(&mut self, key: &[Bound]) -> Outcome<Option<Version>> {
        if !self.prepared.has_tombstones {
            return Ok(None);
        }
        let (operation, sql) = (self.looking(), self.prepared.statements.find_tombstones.of(1));
        let rows = self.connection.rows(&operation, &sql, key.to_vec()).await?;
        rows.into_iter().next().map(|row| version(&operation, &row[key.len()..])).transpose()
    }

    pub(super) async fn stored_of(&mut self, items: &[Item<'_, '_>]) -> Outcome<HashMap<Vec<u8>, Stored>> {
        if self.prepared.many {
            return self.found(items, |statements| &statements.find_rows, stored).await;
        }
        let mut found = HashMap::new();
        for item in items {
            found.extend(self.stored(&item.key).await?.map(|stored| (item.ident.clone(), stored)));
        }
        Ok(found)
    }

    pub(super) async fn graves(&mut self, items: &[Item<'_, '_>]) -> Outcome<HashMap<Vec<u8>, Version>> {
        self.found(items, |statements| &statements.find_tombstones, version).await
    }

    /// What a statement finds under the keys of many rows, as `read` takes it from what stands behind the key.
    async fn found<T>(
        &mut self,
        items: &[Item<'_, '_>],
        find: impl Fn(&Statements) -> &Many,
        read: impl Fn(&str, &[Bound]) -> Outcome<T>,
    ) -> Outcome<HashMap<Vec<u8>, T>> {
        let mut found = HashMap::new();
        let (operation, width) = (self.looking(), self.prepared.key.len());
        for items in items.chunks(find(&self.prepared.statements).most()) {
            let sql = find(&self.prepared.statements).of(items.len());
            let keys = items.iter().flat_map(|item| item.key.iter().cloned()).collect();
            for row in self.connection.rows(&operation, &sql, keys).await? {
                let ident = ident(&row[..width]);
                self.known(items, &ident)?;
                found.insert(ident, read(&operation, &row[width..])?);
            }
        }
        Ok(found)
    }

    /// A key that reads back otherwise than it was asked for would be taken for one that is not there.
    fn known(&self, items: &[Item<'_, '_>], ident: &[u8]) -> Outcome<()> {
        // Sorted by it.
        match items.binary_search_by(|item| item.ident.as_slice().cmp(ident)) {
            Ok(_) => Ok(()),
            Err(_) => Err(contract(
                self.looking(),
                "the table holds a key in another spelling than the source's; bring its rows to that spelling",
            )),
        }
    }

    /// Forgets the tombstones of rows that are there again.
    pub(super) async fn drop_graves(&mut self, items: &[Item<'_, '_>]) -> Outcome<()> {
        let prepared = &*self.prepared;
        let graves: Vec<&Item<'_, '_>> = items.iter().filter(|item| item.grave.is_some()).collect();
        let drop = &prepared.statements.drop_tombstones;
        for items in graves.chunks(drop.most()) {
            let keys = items.iter().flat_map(|item| item.key.iter().cloned()).collect();
            self.connection.run(&prepared.operation(), &drop.of(items.len()), keys).await?;
        }
        Ok(())
    }
}

fn stored(operation: &str, row: &[Bound]) -> Outcome<Stored> {
    let is_deleted = matches!(row.get(2), Some(Bound::Int(flag)) if *flag != 0);
    Ok(Stored { version: version(operation, row)?, is_deleted })
}

pub(super) fn version(operation: &str, row: &[Bound]) -> Outcome<Version> {
    let half = |at: usize| match row.get(at) {
        Some(Bound::Int(half)) => Ok(half.cast_unsigned()),
        Some(Bound::UInt(half)) => Ok(*half),
        _ => Err(contract(operation, "a version is no number")),
    };
    Ok(Version::from_halves(half(0)?, half(1)?))
}
