//! What a connector and Settle need of PostgreSQL.

use settle_engine::finding::Finding;

use crate::connector::Configuration;
use crate::connector::fitness::{Captured, Fitness, Server, listed, of_tables};
use crate::database::{DatabaseError, Engine, Session, quoted};

/// Tables of users: name, key, whether updates lack what is stored beside the row, who may publish it, whether it is logged.
const TABLES: &str = "SELECT n.nspname || '.' || c.relname, \
    EXISTS (SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary), \
    c.reltoastrelid <> 0 AND pg_relation_size(c.reltoastrelid) > 0 AND c.relreplident <> 'f', \
    pg_has_role(current_user, c.relowner, 'USAGE'), \
    c.relpersistence = 'u' \
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't' \
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_%' ORDER BY 1";

const MAY_REPLICATE: &str = "SELECT r.rolsuper OR r.rolreplication OR EXISTS (SELECT 1 FROM pg_auth_members m \
    JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid AND g.rolname = 'rds_replication') \
    FROM pg_roles r WHERE r.rolname = current_user";

const FREE_SLOTS: &str =
    "SELECT current_setting('max_replication_slots')::int > (SELECT count(*) FROM pg_replication_slots)";

/// A row of [`TABLES`].
struct Table {
    captured: Captured,
    beside: bool,
    owned: bool,
    unlogged: bool,
}

pub(super) async fn inspect(session: &mut Session, wanted: &Configuration) -> Result<Fitness, DatabaseError> {
    let (mut findings, slot_is_read) = server(session, wanted).await?;
    let tables = tables(session).await?;
    let all: Vec<Captured> = tables.iter().map(|table| table.captured.clone()).collect();
    findings.extend(of_tables(wanted, Server::Postgres, &all));

    let names = wanted.captured(Server::Postgres);
    let captured: Vec<&Table> =
        tables.iter().filter(|table| names.is_empty() || names.contains(&table.captured.name)).collect();
    let those = |is: fn(&Table) -> bool| -> Vec<String> {
        captured.iter().filter(|table| is(table)).map(|table| table.captured.name.clone()).collect()
    };
    let beside = those(|table| table.beside);
    if !beside.is_empty() {
        findings.push(Finding::warning(
            format!(
                "values stored beside their rows in {}: an update that does not touch them sends a placeholder, and \
                 Settle keeps what the destination has; where it has none yet, the run stops",
                listed(&beside)
            ),
            format!("to have them in every event: ALTER TABLE {} REPLICA IDENTITY FULL", beside[0]),
        ));
    }
    let unlogged = those(|table| table.unlogged);
    if !unlogged.is_empty() {
        findings.push(Finding::error(
            format!("unlogged, so that no change of them is ever sent: {}", listed(&unlogged)),
            format!("ALTER TABLE {} SET LOGGED", unlogged[0]),
        ));
    }
    let publication = quoted(&wanted.publication(), Engine::Postgres);
    let published = session.value(&format!("SELECT 1 FROM pg_publication WHERE pubname = {publication}")).await?;
    let foreign = those(|table| !table.owned);
    if published.is_none() && !foreign.is_empty() {
        findings.push(Finding::error(
            format!("{} does not own {}, and only owners publish a table", wanted.address.user(), listed(&foreign)),
            format!("let the owner run: CREATE PUBLICATION {} FOR TABLE {}", wanted.publication(), foreign.join(", ")),
        ));
    }
    Ok(Fitness { server: Server::Postgres, slot_is_read, unsigned: false, findings })
}

async fn server(session: &mut Session, wanted: &Configuration) -> Result<(Vec<Finding>, bool), DatabaseError> {
    let mut findings = Vec::new();
    let mut slot_is_read = false;
    let level = session.value("SHOW wal_level").await?.unwrap_or_default();
    if level != "logical" {
        findings.push(Finding::error(
            format!("wal_level is {level}: no change can be decoded"),
            "ALTER SYSTEM SET wal_level = logical, then restart the server",
        ));
    }
    if session.value(MAY_REPLICATE).await?.as_deref() != Some("t") {
        let user = wanted.address.user();
        findings
            .push(Finding::error(format!("{user} may not replicate"), format!("ALTER ROLE {user} WITH REPLICATION")));
    }
    let slot = quoted(&wanted.slot(), Engine::Postgres);
    let database = format!("SELECT database, active FROM pg_replication_slots WHERE slot_name = {slot}");
    match session.rows(&database).await?.into_iter().next().as_deref() {
        None => {
            if session.value(FREE_SLOTS).await?.as_deref() != Some("t") {
                findings.push(Finding::error(
                    "every replication slot is taken",
                    "drop one that nobody reads (SELECT * FROM pg_replication_slots), or raise max_replication_slots",
                ));
            }
        }
        Some([Some(database), _]) if database != wanted.address.database() => {
            findings.push(Finding::error(
                format!("slot {} belongs to another database", wanted.slot()),
                "choose a name with --slot",
            ));
        }
        // Of this connector where it is registered already.
        Some([_, Some(active)]) if active == "t" => {
            slot_is_read = true;
            findings.push(Finding::warning(
                format!("slot {} is there, and is being read", wanted.slot()),
                "by this connector where it is registered already; else choose another --slot",
            ));
        }
        // Or of one that was deleted.
        Some(_) => findings.push(Finding::note(format!("slot {} is there and will be used", wanted.slot()))),
    }
    Ok((findings, slot_is_read))
}

async fn tables(session: &mut Session) -> Result<Vec<Table>, DatabaseError> {
    let is = |cell: Option<&Option<String>>| cell.is_some_and(|text| text.as_deref() == Some("t"));
    let rows = session.rows(TABLES).await?;
    Ok(rows
        .into_iter()
        .map(|row| Table {
            captured: Captured { name: row.first().cloned().flatten().unwrap_or_default(), has_key: is(row.get(1)) },
            beside: is(row.get(2)),
            owned: is(row.get(3)),
            unlogged: is(row.get(4)),
        })
        .collect())
}
