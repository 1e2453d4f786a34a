//! Tables that were made by hand: the message holds the statements that move them, and they work.

use crate::records::{batch, event};
use crate::stage::{Stage, creating, staged};

fn one() -> settle_core::batch::Batch {
    batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])
}

#[tokio::test]
async fn a_table_made_by_hand_gets_its_migration_and_the_migration_works() {
    staged(async |stage| {
        stage
            .run(
                "CREATE TABLE t (id Int64, v Nullable(String), op String, source_ts_ms Int64, is_deleted UInt8, _version UInt64) \
                 ENGINE = ReplacingMergeTree(_version, is_deleted) ORDER BY id",
            )
            .await;
        stage.run("INSERT INTO t VALUES (1, 'old', 'c', 5, 0, 7), (1, 'older', 'c', 4, 0, 6), (2, 'kept', 'c', 5, 0, 7), (3, 'gone', 'd', 5, 1, 9)").await;
        let error = stage.apply(creating(), &one()).await.unwrap_err();
        let migration = [
            "CREATE TABLE IF NOT EXISTS `shop`.`t_settle` (`id` Int64, `v` Nullable(String), `_op` LowCardinality(String), \
             `_source_ts_ms` Nullable(Int64), `_is_deleted` UInt8, `_version` UInt128) ENGINE = \
             ReplacingMergeTree(`_version`, `_is_deleted`) ORDER BY (`id`)",
            "INSERT INTO `shop`.`t_settle` (`id`, `v`, `_op`, `_source_ts_ms`, `_is_deleted`) SELECT `id`, `v`, `op`, \
             `source_ts_ms`, `is_deleted` FROM `shop`.`t` FINAL",
            "EXCHANGE TABLES `shop`.`t_settle` AND `shop`.`t`",
        ];
        assert!(
            stage.message(&error).starts_with(&format!(
                "checking `shop`.`t`: the engine of `shop`.`t` reads version and delete marker from `_version` and \
                 `is_deleted`, settle writes them to `_version` and `_is_deleted`; move its rows into a table of the right \
                 shape, any change then wins over them: {}; or write to another table (name in [tables.\"public.t\"])",
                migration.join("; ")
            )),
            "{}",
            stage.message(&error)
        );
        for statement in migration {
            stage.run(&statement.replace("`shop`", &format!("`{}`", stage.database.database()))).await;
        }
        stage.apply(creating(), &one()).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current ORDER BY id").await, ["1\ta", "2\tkept"]);
    })
    .await;
}

/// The statements of a refusal, each run as it stands there.
async fn migrate(stage: &Stage, told: &str) {
    let (_, rest) = told.split_once("any change then wins over them: ").unwrap_or_else(|| panic!("{told}"));
    let (statements, _) = rest.split_once("; or write to another table").unwrap();
    for statement in statements.split("; ") {
        stage.run(statement).await;
    }
}

/// Rows 1 (twice, the newer is `old`), 2, and 3, which is deleted.
const HANDMADE: &[(&str, &str)] = &[
    // The usual tutorial: a version of 64 bits, the marker beside the engine.
    (
        "(id Int64, v Nullable(String), op LowCardinality(String), source_ts_ms UInt64, is_deleted UInt8, _version UInt64) \
         ENGINE = ReplacingMergeTree(_version) ORDER BY id",
        "(1, 'older', 'c', 4, 0, 6), (1, 'old', 'u', 5, 0, 7), (2, 'kept', 'c', 5, 0, 7), (3, 'gone', 'd', 5, 1, 9)",
    ),
    // Debezium's flat records into a table without versions.
    (
        "(id Int64, v String, __op Nullable(String), __source_ts_ms Nullable(Int64), __deleted String) \
         ENGINE = ReplacingMergeTree ORDER BY id",
        "(1, 'older', 'c', 4, 'false'), (1, 'old', NULL, NULL, 'false'), (2, 'kept', 'c', 5, 'false'), (3, 'gone', 'd', 5, 'true')",
    ),
    // Times and flags of other types, other names in the engine, partitions by the key.
    (
        "(id Int64, v Nullable(String), op Enum8('c' = 1, 'u' = 2, 'd' = 3), source_ts_ms DateTime64(3, 'UTC'), gone UInt8, \
         ver DateTime64(3)) ENGINE = ReplacingMergeTree(ver, gone) PARTITION BY id % 2 ORDER BY id",
        "(1, 'older', 'c', 4, 0, 6), (1, 'old', 'u', 5, 0, 7), (2, 'kept', 'c', 5, 0, 7), (3, 'gone', 'd', 5, 1, 9)",
    ),
    // A log of changes.
    (
        "(id Nullable(Int64), v Nullable(String), op String, source_ts_ms DateTime, is_deleted Bool, _version UInt64) \
         ENGINE = MergeTree ORDER BY tuple()",
        "(1, 'older', 'c', 4, 0, 6), (1, 'old', 'u', 5, 0, 7), (2, 'kept', 'c', 5, 0, 7), (3, 'gone', 'd', 5, 1, 9)",
    ),
    // A plain copy.
    (
        "(id Int64, v Nullable(String), is_deleted Nullable(UInt8)) ENGINE = MergeTree ORDER BY id",
        "(1, 'old', NULL), (2, 'kept', 0), (3, 'gone', 1)",
    ),
];

#[tokio::test]
async fn every_table_made_by_hand_can_be_moved_as_it_is_told() {
    staged(async |stage| {
        for (table, rows) in HANDMADE {
            for statement in
                ["DROP TABLE IF EXISTS t", "DROP TABLE IF EXISTS t_settle", "DROP VIEW IF EXISTS t_current"]
            {
                stage.run(statement).await;
            }
            stage.run(&format!("CREATE TABLE t {table}")).await;
            for row in rows.split("), (") {
                let row = row.trim_matches(['(', ')']);
                stage.run(&format!("INSERT INTO t VALUES ({row})")).await;
            }
            let error = stage.apply(creating(), &one()).await.unwrap_err();
            migrate(stage, &error.to_string()).await;
            let moved = "SELECT id, v FROM t FINAL WHERE _is_deleted = 0 ORDER BY id";
            assert_eq!(stage.rows(moved).await, ["1\told", "2\tkept"], "{table}");
            stage.apply(creating(), &one()).await.unwrap_or_else(|error| panic!("{table}: {error}"));
            assert_eq!(stage.rows("SELECT id, v FROM t_current ORDER BY id").await, ["1\ta", "2\tkept"], "{table}");
            if table.contains("source_ts_ms") {
                let times = "SELECT _op, _source_ts_ms FROM t WHERE id = 2";
                let ms = if table.contains("source_ts_ms DateTime") { "5000" } else { "5" };
                assert_eq!(stage.rows(times).await, [format!("c\t{ms}")], "{table}");
            }
            if table.contains("PARTITION BY") {
                assert_eq!(
                    stage
                        .rows(
                            "SELECT partition_key FROM system.tables WHERE database = currentDatabase() AND name = 't'"
                        )
                        .await,
                    ["id % 2"]
                );
            }
        }
    })
    .await;
}

/// A column of the source that is called so is no column of a tool.
#[tokio::test]
async fn the_sources_own_columns_are_moved_too() {
    staged(async |stage| {
        stage.run("CREATE TABLE t (id Int64, version String, deleted UInt8) ENGINE = MergeTree ORDER BY id").await;
        stage.run("INSERT INTO t VALUES (1, 'v1', 1)").await;
        let error = stage.apply(creating(), &one()).await.unwrap_err();
        migrate(stage, &error.to_string()).await;
        assert_eq!(stage.rows("SELECT id, version, deleted, _is_deleted FROM t").await, ["1\tv1\t1\t0"]);
    })
    .await;
}
