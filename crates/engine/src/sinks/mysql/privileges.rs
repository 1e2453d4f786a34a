//! Whether the user may make and alter tables.
//!
//! What comes by a role cannot be seen here: where one is active, it is said and not held against anybody.

use mysql_async::Value;

use super::connection::{Connection, text};
use super::failure::Outcome;
use crate::finding::Finding;

/// What the user lacks of what a run would need.
pub(super) async fn missing(connection: &mut Connection, create: bool, alter: bool) -> Outcome<Vec<Finding>> {
    let needed: Vec<&str> = [("CREATE", create), ("ALTER", alter)]
        .into_iter()
        .filter(|(_, needed)| *needed)
        .map(|(name, _)| name)
        .collect();
    if needed.is_empty() {
        return Ok(Vec::new());
    }
    let operation = "look at the privileges";
    let who = "SELECT CONCAT(QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', 1)), '@', \
               QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))), COALESCE(CURRENT_ROLE(), 'NONE'), DATABASE()";
    let mut facts = connection.rows(operation, who, Vec::new()).await?.into_iter().flatten().filter_map(text);
    let (Some(user), Some(role), Some(database)) = (facts.next(), facts.next(), facts.next()) else {
        return Ok(Vec::new());
    };
    let sql = "SELECT PRIVILEGE_TYPE FROM information_schema.USER_PRIVILEGES WHERE GRANTEE = ? \
               UNION SELECT PRIVILEGE_TYPE FROM information_schema.SCHEMA_PRIVILEGES \
               WHERE GRANTEE = ? AND DATABASE() LIKE TABLE_SCHEMA";
    let grantee: Value = user.as_str().into();
    let rows = connection.rows(operation, sql, vec![grantee.clone(), grantee]).await?;
    let granted: Vec<String> = rows.into_iter().flatten().filter_map(text).collect();
    let lacks = needed.into_iter().filter(|needed| !granted.iter().any(|granted| granted == needed));
    Ok(lacks
        .map(|lacks| {
            let what = format!("{user} has no {lacks} privilege on the database {database}, and a run needs it");
            let fix =
                format!("run GRANT {lacks} ON `{database}`.* TO {user}; or make the tables by hand (`settle ddl`)");
            match role.as_str() {
                "NONE" => Finding::error(what, fix),
                role => Finding::warning(format!("{what}, unless the role {role} brings it"), fix),
            }
        })
        .collect())
}
