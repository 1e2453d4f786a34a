//! Old tombstones of a table of MySQL: the shared rule, with the index that it goes by. Each statement
//! is a transaction of its own.

use std::time::Duration;

use super::connection::Connection;
use super::failure::Outcome;
use crate::config::target::Target;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::tombstones::{self, Graves, Purged};

/// Purges a piece of the tombstones that are older than `retention`.
pub(super) async fn purge(
    connection: &mut Connection,
    target: &Target,
    graves: &Graves,
    retention: Duration,
) -> Outcome<Purged> {
    if target.create && !tombstones::is_indexed(connection, graves).await? {
        let table = Dialect::MySql.quoted(&graves.table);
        let index = tombstones::create_index(Dialect::MySql, &graves.table, &table, &graves.written);
        let made = connection.alter(&tombstones::indexing(graves), &index).await;
        // Another instance may have made it at the same time.
        if !tombstones::is_indexed(connection, graves).await? {
            made?;
        }
    }
    // Where nobody may make an index, all of them are read.
    connection.be_patient(true);
    let purged = tombstones::purge(connection, graves, retention).await;
    connection.be_patient(false);
    purged
}
