//! The tables and the shared rows: made where they are missing, never changed where they are there.

use crate::database::{DatabaseError, Engine, Session, name, quoted};
use crate::simulate::plan::{Planner, range, seed_rows};
use crate::simulate::run::SimulateError;
use crate::simulate::statement::Statement;
use crate::simulate::stock::Effect;
use crate::simulate::{Options, Table};

/// Makes what is missing.
pub(crate) async fn make(session: &mut Session, options: &Options) -> Result<(), SimulateError> {
    let keyless = options.hazards.has(crate::simulate::Hazard::Keyless, session.engine());
    for table in Table::all(keyless) {
        let doing = |error: DatabaseError| error.while_doing(format!("making table {}", table.name()));
        let found = session.column(&columns_of(table, session)).await.map_err(doing)?;
        if found.is_empty() {
            for statement in table.ddl(session.engine()) {
                session.execute(&statement).await.map_err(doing)?;
            }
        } else if found != table.columns().collect::<Vec<_>>() {
            return Err(SimulateError::ForeignTable(table.name()));
        }
        let any = format!("SELECT 1 FROM {} LIMIT 1", name(&[table.name()], session.engine()));
        let rows = seed_rows(options.seed, table, session.engine());
        if !rows.is_empty() && session.value(&any).await.map_err(doing)?.is_none() {
            session.execute(&Statement::Insert(table, rows).sql(session.engine())).await.map_err(doing)?;
        }
    }
    Ok(())
}

fn columns_of(table: Table, session: &Session) -> String {
    let schema = match session.engine() {
        Engine::Postgres => "current_schema()",
        Engine::MySql => "database()",
    };
    format!(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = {schema} AND table_name = {} \
         ORDER BY ordinal_position",
        quoted(table.name(), session.engine())
    )
}

/// Tells the planner which rows an earlier run left in the writer's range.
pub(crate) async fn adopt(session: &mut Session, planner: &mut Planner, writer: usize) -> Result<(), DatabaseError> {
    let (first, end) = range(writer);
    let engine = session.engine();
    let quote = |part: &str| name(&[part], engine);
    for table in [Table::Customers, Table::Orders, Table::Documents, Table::Products] {
        let Some(key) = table.key().first() else { continue };
        let (key, of) = (quote(key), quote(table.name()));
        let sql = format!("SELECT {key} FROM {of} WHERE {key} >= {first} AND {key} < {end} ORDER BY {key}");
        for value in session.column(&sql).await? {
            if let Ok(key) = value.parse() {
                planner.adopt(Effect::Born(table, key));
            }
        }
    }
    let sql = format!(
        "SELECT order_id, line, sku FROM {} WHERE order_id >= {first} AND order_id < {end} ORDER BY order_id, line",
        quote(Table::OrderItems.name())
    );
    for row in session.rows(&sql).await? {
        let mut numbers = row.iter().flatten().map(|text| text.trim_start_matches("SKU-").parse::<i64>());
        if let (Some(Ok(order)), Some(Ok(line)), Some(Ok(sku))) = (numbers.next(), numbers.next(), numbers.next()) {
            planner.adopt(Effect::ItemBorn(order, line, sku));
        }
    }
    Ok(())
}
