//! Captures into PostgreSQL: every keyed shop topic ends as the source table, is proved, and is looked at.

use settle::compare::{TextTable, differences};
use settle_testkit::postgres::Database;

use crate::capture_into_sqlite::interleaved;
use crate::ends::CAPTURE;
use crate::shop::{SHOPS, Shop, shop};
use crate::stage::Stage;

/// A pipeline from a capture into a database of its own.
struct Pipeline {
    shop: Shop,
    stage: Stage,
    database: Database,
}

impl Pipeline {
    async fn of(shop: &Shop, lines: &[String], batch: usize) -> Self {
        let (stage, database) = (Stage::new(), Database::create("capture").await);
        stage.write("capture.jsonl", &lines.join("\n"));
        let pipeline = Self { shop: *shop, stage, database };
        pipeline.configure(&format!("{}[batch]\nmax_rows = {batch}\n", pipeline.columns()));
        pipeline
    }

    fn configure(&self, more: &str) {
        let url = self.stage.write("url", &self.database.url());
        self.stage.configure(&format!(
            "{CAPTURE}time_precision_mode = \"{}\"\n[sink]\nkind = \"postgres\"\nurl = \"file:{}\"\n{more}",
            self.shop.time_precision,
            url.display()
        ));
    }

    /// The records come without schemas: their columns are declared, later ones too.
    fn columns(&self) -> String {
        let expected = self.shop.expected();
        let known = self.shop.clickhouse.iter().map(|(name, kind)| (*name, column_type(kind)));
        let later = expected.rows.values().next().into_iter().flat_map(|row| row.keys());
        let later = later.filter(|name| !self.shop.clickhouse.iter().any(|(known, _)| known == name));
        let all = known.chain(later.map(|name| (name.as_str(), "text".to_owned())));
        let columns: Vec<String> = all.map(|(name, kind)| format!("{name} = \"{kind}\"\n")).collect();
        format!("[tables.\"{}\".columns]\n{}", self.shop.table, columns.concat())
    }

    async fn table(&self) -> TextTable {
        let name = self.shop.name();
        let columns = "SELECT attname FROM pg_attribute WHERE attnum > 0 AND attrelid";
        let names = self.database.rows(&format!("{columns} = '{name}'::regclass ORDER BY attnum")).await;
        let mut table = TextTable::new(self.shop.key);
        for row in self.database.rows(&format!("SET timezone = 'UTC'; SELECT * FROM {name}")).await {
            table.add(names.iter().map(|name| name[0].clone().unwrap()).zip(row).collect());
        }
        table
    }

    async fn assert_equals_source(&self, context: &str) {
        let found = differences(&self.shop.expected(), &self.table().await, &self.shop.carried());
        assert!(found.is_empty(), "{} {}: {context}: {found:#?}", self.shop.folder, self.shop.topic);
    }
}

fn column_type(clickhouse: &str) -> String {
    match clickhouse.trim_start_matches("Nullable(") {
        "Int32" | "Int32)" => "integer".to_owned(),
        "Int64" | "Int64)" => "bigint".to_owned(),
        decimal if decimal.starts_with("Decimal") => {
            decimal.trim_end_matches("))").trim_end_matches(')').replace("Decimal", "numeric") + ")"
        }
        instant if instant.starts_with("DateTime64(3") => "timestamp(3)".to_owned(),
        instant if instant.starts_with("DateTime64") => "timestamptz".to_owned(),
        _ => "text".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_shop_topic_equals_its_source_after_one_pass_and_two_replays_and_is_proved() {
    for shop in SHOPS {
        let pipeline = Pipeline::of(shop, &shop.lines(), 10_000).await;
        let first = pipeline.stage.run(&["--until-end"]);
        pipeline.assert_equals_source("one pass").await;
        for group in ["replay-1", "replay-2"] {
            let replay = pipeline.stage.run(&["--until-end", "--group", group]);
            assert_eq!((replay.read, replay.applied), (first.read, 0), "{}: a replay changes nothing", shop.topic);
            pipeline.assert_equals_source(group).await;
        }
        for args in [&["prove", "--times", "1"][..], &["prove", "--fresh"]] {
            let (code, text) = pipeline.stage.said(args);
            assert_eq!(code, 0, "{} {args:?}: {text}", shop.topic);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_interleaving_and_any_stop_ends_the_same() {
    let small = [
        shop("pg-hazards", "shop.public.customers"),
        shop("pg-hazards", "shop.public.order_items"),
        shop("pg-hazards", "shop.public.documents"),
        shop("mariadb", "mshop.mshop.customers"),
        shop("pg-composite-key", "cmp.public.stock"),
    ];
    for (seed, shop) in (0..).zip(&small) {
        let lines = interleaved(&shop.lines(), seed);
        let pipeline = Pipeline::of(shop, &lines, 7).await;
        let stop = 1 + lines.len() / 3;
        let first = pipeline.stage.run(&["--max-messages", &stop.to_string()]);
        assert_eq!((first.read, first.ended.as_str()), (stop as u64, "max-messages"));
        let rest = pipeline.stage.run(&["--until-end"]);
        assert_eq!(rest.read, (lines.len() - stop) as u64, "{}: nothing is read twice", shop.topic);
        pipeline.assert_equals_source(&format!("stopped after {stop}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proof_leaves_nothing_and_sees_what_was_changed_by_hand() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let pipeline = Pipeline::of(&shop, &shop.lines(), 100).await;
    let stage = &pipeline.stage;
    stage.run(&["--until-end"]);
    let schemas = "SELECT string_agg(nspname, ',' ORDER BY 1) FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast)'";
    let groups = "SELECT DISTINCT consumer_group FROM settle_positions ORDER BY 1";
    let before = (pipeline.database.rows(schemas).await, pipeline.database.rows(groups).await);
    pipeline.database.execute("UPDATE customers SET city = 'Elsewhere' WHERE customer_id IN (4, 10)").await;
    pipeline.database.execute("DELETE FROM customers WHERE customer_id = 20").await;
    let (code, text) = stage.said(&["prove", "--fresh"]);
    assert_eq!(code, 5, "{text}");
    for id in ["4", "10", "20"] {
        assert!(text.contains(&format!("{{\"customer_id\":{id}}}")), "{text}");
    }
    let (code, text) = stage.said(&["prove", "--times", "1"]);
    assert_eq!(code, 5, "the lost row is brought back: {text}");
    assert_eq!(stage.said(&["prove", "--times", "1"]).0, 0);
    assert_eq!((pipeline.database.rows(schemas).await, pipeline.database.rows(groups).await), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_checked_before_and_looked_at_afterwards() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let pipeline = Pipeline::of(&shop, &shop.lines(), 100).await;
    let stage = &pipeline.stage;
    let (code, text) = stage.said(&["check"]);
    assert_eq!(code, 0, "{text}");
    for told in ["table \"customers\" is made: CREATE TABLE \"public\".\"customers\" (", "synchronous_commit = "] {
        assert!(text.contains(told), "{told}: {text}");
    }
    assert!(pipeline.database.rows("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").await.is_empty());
    let (code, sql) = stage.said(&["ddl"]);
    assert_eq!(code, 0, "{sql}");
    pipeline.database.execute(&sql).await;
    stage.run(&["--until-end"]);
    pipeline.assert_equals_source("in tables made with what ddl printed").await;

    let (code, text) = stage.said(&["status"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("customers                      12 rows, up to version 0/45398848/1/45398848"), "{text}");
    let (code, text) = stage.said(&["explain", "--table", "public.customers", "--key", "{\"customer_id\":2}"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("wins") && !text.contains("DURING-INC"), "{text}");
    let place = text.lines().nth(1).unwrap().split_whitespace().next().unwrap();
    let (_, text) = stage.said(&["explain", place, "--values"]);
    assert!(text.contains("DURING-INC"), "{text}");
    pipeline.database.execute("DELETE FROM customers WHERE customer_id = 2").await;
    let (code, text) = stage.said(&["replay", "--from", place, "--to", place]);
    assert_eq!(code, 0, "{text}");

    // As a user meets it: types that nobody told, and a password in the file.
    pipeline.database.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    pipeline.configure("");
    let (code, text) = stage.said(&["check"]);
    assert_eq!(code, 5, "{text}");
    assert!(text.contains("nothing says the type of the key column \"customer_id\""), "{text}");
    let (code, sql) = stage.said(&["ddl"]);
    assert_eq!(code, 0, "{sql}");
    assert!(sql.contains("\"customer_id\" bigint NOT NULL") && sql.contains("\"updated_at\" text"), "{sql}");
    stage.configure(&format!("{CAPTURE}[sink]\nkind = \"postgres\"\nurl = \"{}\"\n", pipeline.database.url()));
    let (code, text) = stage.said(&["check"]);
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("[sink] url must not hold a password: use password = \"env:NAME\""), "{text}");
    assert!(!text.contains(pipeline.database.password()), "{text}");
}
