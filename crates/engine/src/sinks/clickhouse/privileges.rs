//! Whether the user of `[sink]` may do what a run does.

use serde::Deserialize;
use settle_core::sink::SinkError;

use super::failure::ServerError;
use super::names::identifier;
use super::server::Server;
use crate::config::{Evolution, Target};
use crate::finding::Finding;

#[derive(Deserialize)]
struct GrantRow {
    result: u8,
}

/// What only truncates need.
const TRUNCATES: &str = "ALTER DELETE";

/// Asks the server for each privilege in the database.
pub(crate) async fn check(server: &Server, target: &Target) -> Result<Vec<Finding>, SinkError> {
    let mut wanted = vec!["SELECT", "INSERT"];
    if target.create {
        wanted.extend(["CREATE TABLE", "CREATE VIEW", "DROP VIEW"]);
    }
    if target.evolution == Evolution::Add {
        wanted.push("ALTER ADD COLUMN");
    }
    let place = format!("{}.*", identifier(&server.database));
    let mut lacking = Vec::new();
    wanted.push(TRUNCATES);
    for privilege in wanted {
        let sql = format!("CHECK GRANT {privilege} ON {place}");
        match server.client.rows::<GrantRow>("checking privileges", &sql).await {
            Ok(rows) if rows.iter().all(|row| row.result == 1) => {}
            Ok(_) => lacking.push(privilege),
            // Servers before 24.11 do not know the statement.
            Err(error) if is_syntax_error(&error) => {
                return Ok(vec![Finding::note(
                    "privileges are not checked: the server is older than CHECK GRANT (24.11); a run that lacks one waits and says which",
                )]);
            }
            Err(error) => return Err(error),
        }
    }
    let what = |lacking: &str| format!("the user of [sink] lacks {lacking} on {place}");
    let fix = |lacking: &str| format!("run GRANT {lacking} ON {place} TO it, as a user who may");
    let mut findings = Vec::new();
    if lacking.pop_if(|last| *last == TRUNCATES).is_some() {
        let what = format!("{}, which a truncate at the source needs, where the connector sends it", what(TRUNCATES));
        findings.push(Finding::warning(what, fix(TRUNCATES)));
    }
    if !lacking.is_empty() {
        let lacking = lacking.join(", ");
        findings.push(Finding::error(what(&lacking), fix(&lacking)));
    }
    Ok(findings)
}

fn is_syntax_error(error: &SinkError) -> bool {
    let server = error.source.as_ref().and_then(|source| source.downcast_ref::<ServerError>());
    server.is_some_and(|error| error.code == 62)
}
