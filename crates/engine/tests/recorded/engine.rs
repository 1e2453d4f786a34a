//! What differs between the databases.

use settle_core::record::Record;
use settle_core::sink::Outcome;
use settle_engine::config::target::Target;

use super::spelling;
use super::topic::Topic;
use crate::database::Shown;

/// A column, the text that the source's client shows, the engine's text.
pub type Spellings = &'static [(&'static str, &'static str, &'static str)];

/// An empty database. What an engine does not say itself is compared as text.
pub trait Engine: Sized {
    /// So many records of a topic are also cut into batches of 1, 2 and 7.
    const PREFIX: usize;
    /// So many orders of the partitions are tried where deletes mark rows.
    const SOFT_ORDERS: u64 = 5;
    /// The fewest records in a batch of a replay.
    const REPLAYED: usize = 1;
    /// A false flag, as it is shown.
    const FALSE: &str = "0";

    fn new() -> Self;

    /// Makes the tables of these records, where the sink is not to make them.
    fn make(&self, _: &Target, _: &[Record]) {}

    /// Applies records in batches of `size`, as one run with the floors that the database knows.
    fn apply_all(&self, target: &Target, records: &[Record], size: usize) -> Outcome;

    /// The table's rows with every column.
    fn all(&self, table: &str) -> Vec<Shown>;

    /// Declared types of a topic's table, where values alone do not tell; those of MySQL, which SQLite takes too.
    fn columns(topic: &Topic) -> &'static [(&'static str, &'static str)] {
        match topic.name {
            "mariadb_customers" => &[("customer_id", "INT"), ("name", "TEXT"), ("updated_at", "DATETIME(3)")],
            "mariadb_orders" => &[("order_id", "INT"), ("updated_at", "DATETIME(0)"), ("amount", "DECIMAL(12,2)")],
            "mariadb_duplicates" => &[("order_id", "INT"), ("updated_at", "DATETIME(0)")],
            "mariadb_wide" => &[
                ("id", "BIGINT"),
                ("d0", "DECIMAL(38,10)"),
                ("dt0", "DATETIME(0)"),
                ("dt6", "DATETIME(6)"),
                ("ts6", "TIMESTAMP(6)"),
                ("d", "DATE"),
                ("t", "TIME(6)"),
                ("bits", "BLOB"),
                ("bin", "BLOB"),
            ],
            _ => &[],
        }
    }

    /// Values that the source's client shows otherwise.
    fn spellings(topic: &Topic) -> Spellings;

    /// A text of the source's client, as the engine is to show it.
    fn spelled<'a>(topic: &Topic, name: &str, text: &'a str) -> &'a str {
        let mut spellings = Self::spellings(topic).iter();
        spellings.find(|(column, shown, _)| *column == name && *shown == text).map_or(text, |(.., ours)| *ours)
    }

    /// The source table, as this database shows it that holds the topic's.
    fn expected(&self, topic: &Topic) -> Vec<Shown> {
        let mut rows = topic.rows();
        for (name, cell) in rows.iter_mut().flatten() {
            *cell = cell.as_deref().map(|text| Self::spelled(topic, name, text).to_owned());
        }
        rows
    }

    /// A value in the one spelling in which both sides are compared.
    fn comparable(text: &str) -> String {
        spelling::comparable(text)
    }

    /// True where both are the same value, each in its comparable spelling.
    fn same(wanted: Option<&str>, found: Option<&str>) -> bool {
        spelling::same(wanted, found)
    }
}
