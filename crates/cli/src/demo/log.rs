//! The recorded log, inside the binary.

/// A recorded topic with the source table as it was at the end.
pub(super) struct Topic {
    /// Table name.
    pub(super) table: &'static str,
    /// Primary key column.
    pub(super) key: &'static str,
    /// Lines as `kcat -J` prints them.
    pub(super) records: &'static str,
    /// The source table, exported at the end.
    pub(super) expected_csv: &'static str,
}

impl Topic {
    /// File name of its capture.
    pub(super) fn capture(&self) -> String {
        format!("shop.public.{}.jsonl", self.table)
    }

    /// File name of the source table's export.
    pub(super) fn expected(&self) -> String {
        format!("{}.expected.csv", self.table)
    }
}

macro_rules! topic {
    ($table:literal, $key:literal) => {
        Topic {
            table: $table,
            key: $key,
            records: include_str!(concat!("../../../../testdata/fixtures/pg-hazards/shop.public.", $table, ".jsonl")),
            expected_csv: include_str!(concat!("../../../../testdata/fixtures/pg-hazards/", $table, ".expected.csv")),
        }
    };
}

/// The topics of the demo.
pub(super) static TOPICS: [Topic; 4] = [
    topic!("customers", "customer_id"),
    topic!("orders", "order_id"),
    topic!("order_items", "order_item_id"),
    topic!("documents", "id"),
];

/// The pipeline's configuration.
pub(super) fn config() -> String {
    let paths: Vec<String> = TOPICS.iter().map(|topic| format!("    \"{}\",\n", topic.capture())).collect();
    format!(
        "# A log captured with `kcat -C -J`, into SQLite.\n\
         [source]\n\
         kind = \"file\"\n\
         group = \"demo\"\n\
         paths = [\n{}]\n\
         \n\
         [sink]\n\
         kind = \"sqlite\"\n\
         path = \"shop.db\"\n\
         create = \"sample\"             # columns from the values seen: the log carries no schemas\n\
         \n\
         [batch]\n\
         max_rows = 2                  # tiny, so that a kill has many places to hit\n",
        paths.concat()
    )
}
