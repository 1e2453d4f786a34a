//! The tables of the shop, the same on both servers as far as their types allow.

use crate::database::{Engine, name};

/// A table that the traffic writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Customers; the key changes now and then.
    Customers,
    /// Orders.
    Orders,
    /// Their items, with a key of two columns and a second unique index.
    OrderItems,
    /// Documents with a text that PostgreSQL keeps beside the row.
    Documents,
    /// Products: many types.
    Products,
    /// Visits: no key.
    Visits,
    /// What signals of Debezium are written to.
    Signal,
}

/// A column: name, type in PostgreSQL, type in MySQL and MariaDB.
struct Column(&'static str, &'static str, &'static str);

const CUSTOMERS: &[Column] = &[
    Column("customer_id", "integer NOT NULL", "int NOT NULL"),
    Column("name", "text NOT NULL", "varchar(120) NOT NULL"),
    Column("email", "text", "varchar(200)"),
    Column("city", "text", "varchar(120)"),
    Column("credit", "numeric(12,2) NOT NULL", "decimal(12,2) NOT NULL"),
    Column("updated_at", "timestamp(6) with time zone NOT NULL", "datetime(6) NOT NULL"),
];
const ORDERS: &[Column] = &[
    Column("order_id", "bigint NOT NULL", "bigint NOT NULL"),
    Column("customer_id", "integer NOT NULL", "int NOT NULL"),
    Column("status", "text NOT NULL", "varchar(20) NOT NULL"),
    Column("amount", "numeric(12,2) NOT NULL", "decimal(12,2) NOT NULL"),
    Column("note", "text", "text"),
    Column("updated_at", "timestamp(6) with time zone NOT NULL", "datetime(6) NOT NULL"),
];
const ORDER_ITEMS: &[Column] = &[
    Column("order_id", "bigint NOT NULL", "bigint NOT NULL"),
    Column("line", "integer NOT NULL", "int NOT NULL"),
    Column("sku", "varchar(40) NOT NULL", "varchar(40) NOT NULL"),
    Column("quantity", "integer NOT NULL", "int NOT NULL"),
    Column("unit_price", "numeric(12,2) NOT NULL", "decimal(12,2) NOT NULL"),
];
const DOCUMENTS: &[Column] = &[
    Column("document_id", "integer NOT NULL", "int NOT NULL"),
    Column("title", "text NOT NULL", "varchar(200) NOT NULL"),
    Column("body", "text", "longtext"),
    Column("revision", "integer NOT NULL", "int NOT NULL"),
];
const PRODUCTS: &[Column] = &[
    Column("product_id", "integer NOT NULL", "int NOT NULL"),
    Column("name", "varchar(120)", "varchar(120)"),
    Column("code", "char(8)", "char(8)"),
    Column("active", "boolean", "tinyint(1)"),
    Column("stock", "smallint", "smallint"),
    Column("sold", "bigint", "bigint unsigned"),
    Column("price", "numeric(38,10)", "decimal(38,10)"),
    Column("weight", "double precision", "double"),
    Column("rating", "real", "float"),
    Column("colour", "text CHECK (colour IN ('red', 'green', 'blue'))", "enum('red','green','blue')"),
    Column("tags", "jsonb", "json"),
    Column("picture", "bytea", "varbinary(64)"),
    Column("uid", "uuid", "char(36)"),
    Column("released", "date", "date"),
    Column("opens", "time(6) without time zone", "time(6)"),
    Column("created", "timestamp(6) without time zone", "datetime(6)"),
    Column("seen_ms", "timestamp(3) without time zone", "datetime(3)"),
    Column("changed", "timestamp(6) with time zone", "timestamp(6) NULL"),
];
const VISITS: &[Column] = &[
    Column("customer_id", "integer NOT NULL", "int NOT NULL"),
    Column("page", "text", "varchar(200)"),
    Column("visited_at", "timestamp(6) with time zone NOT NULL", "datetime(6) NOT NULL"),
];
const SIGNAL: &[Column] = &[
    Column("id", "varchar(64) NOT NULL", "varchar(64) NOT NULL"),
    Column("type", "varchar(32) NOT NULL", "varchar(32) NOT NULL"),
    Column("data", "varchar(2048)", "varchar(2048)"),
];

impl Table {
    /// Those that are made unless they are there; `Visits` where the traffic has keyless rows.
    pub fn all(keyless: bool) -> Vec<Self> {
        let mut all =
            vec![Self::Customers, Self::Orders, Self::OrderItems, Self::Documents, Self::Products, Self::Signal];
        all.extend(keyless.then_some(Self::Visits));
        all
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Customers => "customers",
            Self::Orders => "orders",
            Self::OrderItems => "order_items",
            Self::Documents => "documents",
            Self::Products => "products",
            Self::Visits => "visits",
            Self::Signal => "debezium_signal",
        }
    }

    /// The columns of its primary key.
    pub fn key(self) -> &'static [&'static str] {
        match self {
            Self::Customers => &["customer_id"],
            Self::Orders => &["order_id"],
            Self::OrderItems => &["order_id", "line"],
            Self::Documents => &["document_id"],
            Self::Products => &["product_id"],
            Self::Visits => &[],
            Self::Signal => &["id"],
        }
    }

    fn definition(self) -> &'static [Column] {
        match self {
            Self::Customers => CUSTOMERS,
            Self::Orders => ORDERS,
            Self::OrderItems => ORDER_ITEMS,
            Self::Documents => DOCUMENTS,
            Self::Products => PRODUCTS,
            Self::Visits => VISITS,
            Self::Signal => SIGNAL,
        }
    }

    /// Names of its columns, in order.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        self.definition().iter().map(|column| column.0)
    }

    /// The statements that make it.
    pub(crate) fn ddl(self, engine: Engine) -> Vec<String> {
        let quote = |part: &str| name(&[part], engine);
        let table = quote(self.name());
        let mut lines: Vec<String> = self
            .definition()
            .iter()
            .map(|Column(column, postgres, mysql)| {
                let kind = if engine == Engine::Postgres { postgres } else { mysql };
                format!("{} {kind}", quote(column))
            })
            .collect();
        if !self.key().is_empty() {
            let key: Vec<String> = self.key().iter().map(|column| quote(column)).collect();
            lines.push(format!("PRIMARY KEY ({})", key.join(", ")));
        }
        if self == Self::OrderItems {
            // What REPLACE meets beside the key.
            lines.push(format!("UNIQUE ({}, {})", quote("order_id"), quote("sku")));
        }
        let end = if engine == Engine::MySql { " DEFAULT CHARSET=utf8mb4" } else { "" };
        let mut all = vec![format!("CREATE TABLE {table} ({}){end}", lines.join(", "))];
        match (self, engine) {
            // Uncompressed and beside the row as soon as the row is above 2 kB.
            (Self::Documents, Engine::Postgres) => {
                all.push(format!("ALTER TABLE {table} ALTER COLUMN body SET STORAGE EXTERNAL"));
            }
            // Else the server refuses updates and deletes of a published table.
            (Self::Visits, Engine::Postgres) => all.push(format!("ALTER TABLE {table} REPLICA IDENTITY FULL")),
            _ => {}
        }
        all
    }
}
