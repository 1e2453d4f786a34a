//! Old tombstones of a table of PostgreSQL: the shared rule, with the index that it goes by.

use std::time::Duration;

use super::apply::State;
use super::failure::Outcome;
use super::own;
use super::transaction::Transaction;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::session::Session;
use crate::sinks::sql::tombstones::{self, Graves, Purged};

/// Purges a piece of the tombstones that are older than `retention`.
pub(super) async fn purge(
    session: &mut Transaction,
    state: &State,
    graves: &Graves,
    retention: Duration,
) -> Outcome<Purged> {
    if state.target.create && !tombstones::is_indexed(session, graves).await? {
        let operation = tombstones::indexing(graves);
        session.connection().run(&operation, &own::alone(&state.config.schema)).await?;
        // Another instance may have made it meanwhile.
        if !tombstones::is_indexed(session, graves).await? {
            let table = Dialect::Postgres.quoted(&graves.table);
            let index = tombstones::create_index(Dialect::Postgres, &graves.table, &table, &graves.written);
            session.execute(&operation, &index, &[]).await?;
        }
    }
    tombstones::purge(session, graves, retention).await
}
