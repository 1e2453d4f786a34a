//! The two ends of a pipeline, as its configuration names them, and what the second one holds.

use std::collections::BTreeMap;

use settle_testkit::clickhouse::Client;
use settle_testkit::services;

use crate::stage::Stage;

/// From the capture in the pipeline's folder.
pub const CAPTURE: &str = "[source]\nkind = \"file\"\npath = \"capture.jsonl\"\ngroup = \"g\"\n";

/// Into a database in the pipeline's folder.
pub const SQLITE: &str = "[sink]\nkind = \"sqlite\"\npath = \"shop.db\"\n";

/// The place of a killed instance is soon taken. To stand behind what else `[source]` says.
pub const SHORT_SESSION: &str = "[source.properties]\n\"session.timeout.ms\" = 6000\n";

/// From topics of the broker.
pub fn kafka(group: &str, topics: &[&str]) -> String {
    kafka_at(services::kafka(), group, topics)
}

/// From topics of the broker at an address.
pub fn kafka_at(brokers: &str, group: &str, topics: &[&str]) -> String {
    format!("[source]\nkind = \"kafka\"\nbrokers = \"{brokers}\"\ngroup = \"{group}\"\ntopics = {topics:?}\n")
}

/// Into a database of ClickHouse, reached at `url`; the password lies in the stage.
pub fn clickhouse_at(url: &str, stage: &Stage, client: &Client) -> String {
    let password = stage.write("password", &client.address().password);
    format!(
        "[sink]\nkind = \"clickhouse\"\nurl = \"{url}\"\ndatabase = \"{}\"\nuser = \"{}\"\npassword = \"file:{}\"\n",
        client.database(),
        client.address().user,
        password.display()
    )
}

/// Into ClickHouse where there is a database of it, else into SQLite.
pub fn sink(stage: &Stage, clickhouse: Option<&Client>) -> String {
    clickhouse.map_or_else(|| SQLITE.to_owned(), |client| clickhouse_at(&client.address().url, stage, client))
}

/// The current rows of a table `t` of two numbers, id and v; none where there is no table.
pub async fn values(stage: &Stage, clickhouse: Option<&Client>) -> BTreeMap<i64, i64> {
    let Some(client) = clickhouse else {
        let connection = rusqlite::Connection::open(stage.path("shop.db")).unwrap();
        let Ok(mut select) = connection.prepare("SELECT id, v FROM t") else { return BTreeMap::new() };
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        return rows.collect::<Result<_, _>>().unwrap();
    };
    if client.number("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 't'").await == 0 {
        return BTreeMap::new();
    }
    let rows = client.rows("SELECT id, v FROM t_current").await;
    rows.into_iter().map(|row| (row[0].parse().unwrap(), row[1].parse().unwrap())).collect()
}
