//! The source: one database on a real server.

use settle::compare::TextTable;
use settle::database::{Address, Session};
use settle::simulate::{Hazard, Hazards, Table};
use settle_testkit::kafka::unique;
use settle_testkit::{mariadb, postgres};

use super::canonical::Kind;
use super::contents;

/// Rows written last to every table. The keys are always the same, and so many that each partition of each
/// topic has some: behind them in the log is nothing that was written before.
pub const MARKS: usize = 64;

enum Server {
    Postgres(Box<postgres::Database>),
    MariaDb(mariadb::Database),
}

/// A source database of one test; gone with the value.
pub struct Source {
    server: Server,
    /// Of topics, slot and connector.
    prefix: String,
}

impl Source {
    pub async fn postgres() -> Self {
        Self {
            server: Server::Postgres(Box::new(postgres::Database::create("chain").await)),
            prefix: unique("chainpg"),
        }
    }

    pub async fn mariadb() -> Self {
        Self { server: Server::MariaDb(mariadb::Database::create("chain").await), prefix: unique("chainmaria") }
    }

    /// The connector's name, and the first part of its topics'.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn url(&self) -> String {
        match &self.server {
            Server::Postgres(database) => database.url(),
            Server::MariaDb(database) => database.url(),
        }
    }

    /// Where a table is, as the connector names it.
    fn qualified(&self, table: Table) -> String {
        match &self.server {
            Server::Postgres(_) => format!("public.{}", table.name()),
            Server::MariaDb(database) => format!("{}.{}", database.name(), table.name()),
        }
    }

    pub fn topic(&self, table: Table) -> String {
        format!("{}.{}", self.prefix, self.qualified(table))
    }

    /// Empties a table.
    pub async fn truncate(&self, table: Table) {
        self.execute(&format!("TRUNCATE TABLE {}", table.name())).await;
    }

    /// What the writers do beside their work.
    pub fn hazards(&self) -> Hazards {
        match &self.server {
            Server::Postgres(_) => Hazards::default().with(Hazard::Truncate),
            // A truncate in the middle of a full snapshot ends the connector of MariaDB with an error ("Table definition
            // has changed"): there the drill truncates when none is taken.
            Server::MariaDb(_) => Hazards::default(),
        }
    }

    /// Chunks that incremental snapshots have begun with so far: the connector writes down each.
    pub async fn chunks(&self) -> u64 {
        let sql = "SELECT count(*) FROM debezium_signal WHERE type = 'snapshot-window-open'";
        let mut session = self.session().await;
        session.value(sql).await.unwrap().unwrap().parse().unwrap()
    }

    /// Writes the marks, as the last of all transactions.
    pub async fn mark(&self, tables: &[Table]) {
        let rows = |row: &dyn Fn(usize) -> String| (1..=MARKS).map(row).collect::<Vec<_>>().join(", ");
        let moment = "'2024-01-01 00:00:00'";
        for table in tables {
            let (columns, rows) = match table {
                Table::Customers => {
                    ("customer_id, name, credit, updated_at", rows(&|key| format!("(-{key}, 'mark', 0, {moment})")))
                }
                Table::Orders => (
                    "order_id, customer_id, status, amount, updated_at",
                    rows(&|key| format!("(-{key}, 1, 'mark', 0, {moment})")),
                ),
                Table::OrderItems => {
                    ("order_id, line, sku, quantity, unit_price", rows(&|key| format!("(-{key}, 1, 'mark', 0, 0)")))
                }
                Table::Documents => ("document_id, title, revision", rows(&|key| format!("(-{key}, 'mark', 0)"))),
                Table::Products => ("product_id", rows(&|key| format!("(-{key})"))),
                Table::Visits | Table::Signal => continue,
            };
            self.execute(&format!("INSERT INTO {} ({columns}) VALUES {rows}", table.name())).await;
        }
    }

    /// The columns of a table and what they hold.
    pub async fn columns(&self, table: Table) -> Vec<(String, Kind)> {
        let schema = match &self.server {
            Server::Postgres(_) => "current_schema()",
            Server::MariaDb(_) => "database()",
        };
        let sql = format!(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = {schema} AND \
             table_name = '{}' ORDER BY ordinal_position",
            table.name()
        );
        let rows = self.session().await.rows(&sql).await.unwrap();
        let column = |row: Vec<Option<String>>| {
            let mut row = row.into_iter().flatten();
            let name = row.next().unwrap();
            let kind = Kind::of(&row.next().unwrap());
            (name, kind)
        };
        rows.into_iter().map(column).collect()
    }

    /// What a table holds.
    pub async fn table(&self, table: Table, columns: &[(String, Kind)]) -> TextTable {
        contents::in_server(&self.url(), table, columns).await
    }

    async fn execute(&self, sql: &str) {
        match &self.server {
            Server::Postgres(database) => database.execute(sql).await,
            Server::MariaDb(database) => database.execute(sql).await,
        }
    }

    /// A session whose times are in UTC.
    async fn session(&self) -> Session {
        Session::open(&Address::parse(&self.url()).unwrap()).await.unwrap()
    }
}
