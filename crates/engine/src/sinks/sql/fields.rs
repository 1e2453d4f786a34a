//! Records that carry the same columns, and where in the table these go, in databases that prepare a
//! statement for them.

use std::borrow::Borrow;
use std::collections::HashSet;

use settle_core::columns::Column as Carried;
use settle_core::sink::SinkError;

use super::added;
use super::keyed::Keyed;
use super::outline::Outline;
use super::session::Outcome;
use crate::config::target::Evolution;

/// One set of columns.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The record's columns in its order, and which of them keep the stored value.
    names: Vec<Box<str>>,
    keeps: Vec<bool>,
    /// The record's columns that are bound, in order, with their place in the table.
    pub(crate) bound: Vec<(usize, usize)>,
    /// Columns that the table lacks: they must be NULL for this set to do.
    absent: Vec<usize>,
    /// True where a column that was not sent is one that the table lacks: no value is stored.
    pub(crate) loses: bool,
    /// True where a written column keeps the stored value.
    pub(crate) keeps_any: bool,
}

/// What decides where columns go beside their names.
pub(crate) struct Rules<'a> {
    /// What is being done, for errors.
    pub(crate) operation: String,
    /// Columns of the source that the table lacks and may not get.
    pub(crate) ignored: &'a HashSet<String>,
    pub(crate) evolution: Evolution,
    /// The refusal of two columns that go to one.
    pub(crate) two_of_a_name: fn(&str, &str) -> SinkError,
}

impl Fields {
    /// True if it does for a record with these columns, some of which keep the stored value.
    pub(crate) fn fits<'c>(&self, columns: &[impl Borrow<Carried<'c>>], keeps: &[bool]) -> bool {
        self.names.len() == columns.len()
            && self.keeps == keeps
            && self.names.iter().zip(columns).all(|(name, column)| **name == *column.borrow().name)
            && self.absent.iter().all(|&at| columns[at].borrow().json == "null")
    }

    /// These columns; or the place of one that the table lacks and that has a value.
    pub(crate) fn of<'c, T: Outline>(
        keyed: Keyed<'_, T>,
        rules: &Rules<'_>,
        columns: &[impl Borrow<Carried<'c>>],
        keeps: &[bool],
    ) -> Outcome<Result<Self, usize>> {
        let Keyed { dialect, plan, table, key } = keyed;
        let added = added::columns(dialect, plan);
        let (mut bound, mut absent): (Vec<(usize, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut loses = false;
        for (at, column) in columns.iter().enumerate() {
            let carried: &Carried<'c> = column.borrow();
            // The key is the message key's.
            if key.iter().any(|key| *key.source == *carried.name) {
                continue;
            }
            let Some(name) = plan.column(&carried.name, false) else { continue };
            if added.iter().any(|added| dialect.same(&added.name, name)) || dialect.same(name, &plan.meta.is_deleted) {
                return Err(added::taken(&rules.operation, name));
            }
            let Some(target) = table.place(dialect, name) else {
                match carried.json {
                    _ if rules.ignored.contains(name) => {}
                    "null" => absent.push(at),
                    _ if keeps[at] && rules.evolution == Evolution::Add => loses = true,
                    _ => return Ok(Err(at)),
                }
                continue;
            };
            if key.iter().any(|key| key.at == target) || bound.iter().any(|&(_, other)| other == target) {
                return Err((rules.two_of_a_name)(&rules.operation, name));
            }
            if !table.is_generated(target) {
                bound.push((at, target));
            }
        }
        let keeps_any = bound.iter().any(|&(at, _)| keeps[at]);
        bound.retain(|&(at, _)| !keeps[at]);
        let names = columns.iter().map(|column| Box::from(&*column.borrow().name)).collect();
        Ok(Ok(Self { names, keeps: keeps.to_vec(), bound, absent, loses, keeps_any }))
    }
}
