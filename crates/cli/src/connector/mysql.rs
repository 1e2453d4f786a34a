//! What a connector and Settle need of MySQL and MariaDB.

use std::collections::BTreeMap;

use settle_engine::finding::Finding;

use crate::connector::Configuration;
use crate::connector::fitness::{Captured, Fitness, Server, listed, of_tables};
use crate::database::{DatabaseError, Session};

const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'log_bin', 'binlog_format', \
    'binlog_row_image', 'binlog_row_value_options', 'binlog_transaction_compression', 'binlog_legacy_event_pos')";

const TABLES: &str = "SELECT CONCAT(t.table_schema, '.', t.table_name), EXISTS (SELECT 1 FROM \
    information_schema.table_constraints k WHERE k.table_schema = t.table_schema AND k.table_name = t.table_name \
    AND k.constraint_type = 'PRIMARY KEY') FROM information_schema.tables t \
    WHERE t.table_schema = DATABASE() AND t.table_type = 'BASE TABLE' ORDER BY 1";

const UNSIGNED: &str = "SELECT DISTINCT CONCAT(table_schema, '.', table_name), column_key = 'PRI' \
    FROM information_schema.columns WHERE table_schema = DATABASE() AND data_type = 'bigint' \
    AND column_type LIKE '%unsigned%' ORDER BY 1";

const CASCADES: &str = "SELECT DISTINCT CONCAT(constraint_schema, '.', table_name) \
    FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() \
    AND (delete_rule IN ('CASCADE', 'SET NULL') OR update_rule IN ('CASCADE', 'SET NULL')) ORDER BY 1";

pub(super) async fn inspect(session: &mut Session, wanted: &Configuration) -> Result<Fitness, DatabaseError> {
    let variables: BTreeMap<String, String> =
        session.rows(VARIABLES).await?.into_iter().filter_map(pair).map(|(k, v)| (k.to_lowercase(), v)).collect();
    let version = variables.get("version").map(String::as_str).unwrap_or_default();
    let server = if version.to_lowercase().contains("mariadb") { Server::MariaDb } else { Server::MySql };
    let mut findings = of_binlog(&variables);

    let grants = session.column("SHOW GRANTS").await?.join("\n").to_uppercase();
    findings.extend(of_grants(&grants, wanted.address.user()));

    let tables: Vec<Captured> = session
        .rows(TABLES)
        .await?
        .into_iter()
        .filter_map(pair)
        .map(|(name, key)| Captured { name, has_key: key == "1" })
        .collect();
    findings.extend(of_tables(wanted, server, &tables));

    let names = wanted.captured(server);
    let is_captured = |name: &String| names.is_empty() || names.contains(name);
    let unsigned: Vec<(String, String)> = session.rows(UNSIGNED).await?.into_iter().filter_map(pair).collect();
    let unsigned: Vec<(String, String)> = unsigned.into_iter().filter(|(name, _)| is_captured(name)).collect();
    if !unsigned.is_empty() && !wanted.schemas {
        let tables: Vec<String> = unsigned.iter().map(|(name, _)| name.clone()).collect();
        findings.push(Finding::warning(
            format!(
                "unsigned bigints in {}: without schemas their bytes do not say that they are a number",
                listed(&tables)
            ),
            "leave the schemas on, or declare the columns in Settle",
        ));
    }
    let cascades: Vec<String> = session.column(CASCADES).await?.into_iter().filter(is_captured).collect();
    if !cascades.is_empty() {
        findings.push(Finding::warning(
            format!(
                "{}: foreign keys with CASCADE or SET NULL; what they change is in no event, so that the destination \
                 keeps the old rows",
                listed(&cascades)
            ),
            "delete and update the child rows with statements of their own",
        ));
    }
    Ok(Fitness { server, slot_is_read: false, unsigned: !unsigned.is_empty(), findings })
}

/// What the log must hold.
fn of_binlog(variables: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut wants = |name: &str, is: fn(&str) -> bool, why: &str, fix: &str| {
        let value = variables.get(name).map(String::as_str);
        // A variable that the server does not know is a feature that it does not have.
        if let Some(value) = value.filter(|value| !is(value)) {
            let value = if value.is_empty() { "empty" } else { value };
            findings.push(Finding::error(format!("{name} is {value}: {why}"), fix));
        }
    };
    wants("log_bin", |v| v == "ON", "there is no log to read", "start the server with log_bin, and restart it");
    wants(
        "binlog_format",
        |v| v == "ROW",
        "statements are logged instead of rows",
        "SET GLOBAL binlog_format = 'ROW', in the server's configuration too; sessions that are open keep the old one",
    );
    wants(
        "binlog_row_image",
        |v| v == "FULL",
        "columns that an update does not touch are missing",
        "SET GLOBAL binlog_row_image = 'FULL', in the server's configuration too",
    );
    wants(
        "binlog_row_value_options",
        str::is_empty,
        "parts of documents are logged instead of documents",
        "SET GLOBAL binlog_row_value_options = '', in the server's configuration too",
    );
    wants(
        "binlog_transaction_compression",
        |v| v == "OFF",
        "all changes of a transaction get one position, so that Settle cannot order them",
        "SET GLOBAL binlog_transaction_compression = OFF, in the server's configuration too",
    );
    wants(
        "binlog_legacy_event_pos",
        |v| v == "ON" || v == "1",
        "several events get one position, so that Settle cannot order them",
        "SET GLOBAL binlog_legacy_event_pos = ON, in the server's configuration too",
    );
    findings
}

fn of_grants(grants: &str, user: &str) -> Option<Finding> {
    let has = |names: &[&str]| names.iter().any(|name| grants.contains(name));
    let everything = grants.lines().any(|line| line.contains("ALL PRIVILEGES ON *.*"));
    let reads = has(&["REPLICATION SLAVE", "REPLICATION REPLICA"]);
    let asks = has(&["REPLICATION CLIENT", "BINLOG MONITOR", "BINLOG ADMIN", "SLAVE MONITOR"]);
    if everything || (reads && asks) {
        return None;
    }
    // Roles are not looked into, so it is no error.
    Some(Finding::warning(
        format!("{user} does not seem to have the privileges to read the log"),
        format!("GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}"),
    ))
}

fn pair(row: Vec<Option<String>>) -> Option<(String, String)> {
    let mut cells = row.into_iter();
    Some((cells.next()??, cells.next().flatten().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_log_that_does_not_hold_whole_rows_in_order_is_told() {
        let good = [("log_bin", "ON"), ("binlog_format", "ROW"), ("binlog_row_image", "FULL")];
        assert!(of_binlog(&variables(&good)).is_empty());
        for (name, value) in [
            ("log_bin", "OFF"),
            ("binlog_format", "MIXED"),
            ("binlog_row_image", "MINIMAL"),
            ("binlog_row_value_options", "PARTIAL_JSON"),
            ("binlog_transaction_compression", "ON"),
            ("binlog_legacy_event_pos", "OFF"),
        ] {
            let mut bad = variables(&good);
            bad.insert(name.to_owned(), value.to_owned());
            let findings = of_binlog(&bad);
            assert!(
                findings.len() == 1 && findings[0].is_error() && findings[0].what.starts_with(name),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn privileges_may_come_in_one_or_in_parts() {
        assert!(of_grants("GRANT ALL PRIVILEGES ON *.* TO `A`@`%`", "a").is_none());
        assert!(of_grants("GRANT SELECT, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `A`@`%`", "a").is_none());
        assert!(of_grants("GRANT ALL PRIVILEGES ON `SHOP`.* TO `A`@`%`", "a").is_some());
    }
}
