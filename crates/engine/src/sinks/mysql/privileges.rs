//! Whether the user may make and alter tables, and read and write their rows.
//!
//! What comes by a role cannot be seen here: where one is active, it is said and not held against anybody.

use mysql_async::Value;

use super::connection::{Connection, text};
use super::failure::Outcome;
use crate::finding::Finding;
use crate::sinks::sql::dialect::Dialect;
use crate::sinks::sql::positions;

/// What a run does to rows.
const ROWS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];

/// What a run would need beyond a connection.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) create: bool,
    pub(super) alter: bool,
    /// Tables whose rows it reads and writes. A privilege on one may be granted before it is made.
    pub(super) tables: Vec<String>,
}

/// What the user has.
struct Granted {
    /// Everywhere, or on the database.
    everywhere: Vec<String>,
    /// Tables, each with one privilege on it, or on columns of it.
    tables: Vec<(String, String)>,
}

/// What the user lacks of what a run would need.
pub(super) async fn missing(connection: &mut Connection, needs: &Needs) -> Outcome<Vec<Finding>> {
    let operation = "look at the privileges";
    let who = "SELECT CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', \
               QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))), COALESCE(CURRENT_ROLE(), 'NONE'), DATABASE()";
    let mut facts = connection.rows(operation, who, Vec::new()).await?.into_iter().flatten().filter_map(text);
    let (Some(user), Some(role), Some(database)) = (facts.next(), facts.next(), facts.next()) else {
        return Ok(Vec::new());
    };
    let granted = granted(connection, operation, &user).await?;
    let has = |privilege: &str| granted.everywhere.iter().any(|granted| granted == privilege);
    let finding = |lacks: &str, place: &str, or: &str| {
        let what = format!("{user} has no {lacks} privilege on {place}, and a run needs it");
        let fix = format!("run GRANT {lacks} ON `{database}`.* TO {user}{or}");
        match role.as_str() {
            "NONE" => Finding::error(what, fix),
            role => Finding::warning(format!("{what}, unless the role {role} brings it"), fix),
        }
    };
    let mut findings = Vec::new();
    for (privilege, _) in [("CREATE", needs.create), ("ALTER", needs.alter)].into_iter().filter(|(_, needed)| *needed) {
        if !has(privilege) {
            let or = "; or make the tables by hand (`settle ddl`)";
            findings.push(finding(privilege, &format!("the database {database}"), or));
        }
    }
    for privilege in ROWS.into_iter().filter(|privilege| !has(privilege)) {
        let is_granted = |table: &&String| {
            let mut on = granted.tables.iter().filter(|(_, granted)| granted == privilege);
            on.any(|(name, _)| connection.server.same_table(name, table))
        };
        // No run takes a row of positions away.
        let is_needed = |table: &&String| privilege != "DELETE" || table.as_str() != positions::TABLE;
        let without = needs.tables.iter().filter(is_needed).filter(|table| !is_granted(table));
        let without: Vec<&str> = without.map(String::as_str).collect();
        if !without.is_empty() {
            let place = format!("{} of the database {database}", Dialect::MySql.list(without));
            findings.push(finding(privilege, &place, ""));
        }
    }
    Ok(findings)
}

async fn granted(connection: &mut Connection, operation: &str, user: &str) -> Outcome<Granted> {
    let grantee = || Value::from(user);
    let sql = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = ? \
               UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES \
               WHERE GRANTEE = ? AND DATABASE() LIKE TABLE_SCHEMA";
    let rows = connection.rows(operation, sql, vec![grantee(), grantee()]).await?;
    let everywhere = rows.into_iter().flatten().filter_map(text).collect();
    let sql = "SELECT TABLE_NAME, PRIVILEGE_TYPE FROM information_schema.TABLE_PRIVILEGES \
               WHERE GRANTEE = ? AND TABLE_SCHEMA = DATABASE() \
               UNION SELECT TABLE_NAME, PRIVILEGE_TYPE FROM information_schema.COLUMN_PRIVILEGES \
               WHERE GRANTEE = ? AND TABLE_SCHEMA = DATABASE()";
    let rows = connection.rows(operation, sql, vec![grantee(), grantee()]).await?;
    let pair = |row: Vec<Value>| {
        let mut texts = row.into_iter().filter_map(text);
        Some((texts.next()?, texts.next()?))
    };
    Ok(Granted { everywhere, tables: rows.into_iter().filter_map(pair).collect() })
}
