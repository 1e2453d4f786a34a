//! `settle_positions` of databases that were made before generations were counted.

use rusqlite::Connection;

use super::failure::{During, Outcome};
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions;

/// Makes the table, or the column that it lacks.
pub(super) fn make(connection: &Connection) -> Outcome<()> {
    let operation = || "create settle_positions".to_owned();
    connection.execute_batch(&positions::create(Dialect::Sqlite, positions::TABLE)).during(operation)?;
    let has_generation = connection
        .prepare_cached("SELECT 1 FROM pragma_table_info('settle_positions') WHERE name = 'generation'")
        .and_then(|mut select| select.exists([]))
        .during(operation)?;
    if !has_generation {
        let add = "ALTER TABLE settle_positions ADD COLUMN generation INTEGER NOT NULL DEFAULT 0";
        connection.execute_batch(add).during(|| "add the generation to settle_positions".into())?;
    }
    Ok(())
}
