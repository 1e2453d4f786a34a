//! Tables are created from schemas and declarations, and replays change nothing.

use settle_engine::config::{MetaNames, TableRule, Target};

use crate::records::{Log, batch, event};
use crate::stage::{apply, creating, declaring, ruled, staged};

const ID_V: &[(&str, &str)] = &[("id", "Int64"), ("v", "Nullable(String)")];

#[tokio::test]
async fn a_table_is_created_from_the_connect_schema() {
    staged(async |stage| {
        let events = [event("c", 100, r#"{"id":1}"#, r#"{"id":1,"name":"a","amount":"BNI=","at":1700000000123,"big":5}"#)
            .with_schema(&[
                ("id", r#"{"type":"int32","optional":false}"#),
                ("name", r#"{"type":"string","optional":false}"#),
                (
                    "amount",
                    r#"{"type":"bytes","optional":true,"name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2","connect.decimal.precision":"12"}}"#,
                ),
                ("at", r#"{"type":"int64","optional":true,"name":"io.debezium.time.Timestamp"}"#),
                ("big", r#"{"type":"int64","optional":true}"#),
            ])];
        let outcome = stage.apply(creating(), &batch(&events)).await.unwrap();
        assert_eq!((outcome.applied, outcome.stale), (1, 0));
        assert_eq!(
            stage.rows("SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 't' ORDER BY position").await,
            [
                "id\tInt32",
                "name\tString",
                "amount\tNullable(Decimal(12, 2))",
                "at\tNullable(DateTime64(3, \\'UTC\\'))",
                "big\tNullable(Int64)",
                "_op\tLowCardinality(String)",
                "_source_ts_ms\tNullable(Int64)",
                "_is_deleted\tUInt8",
                "_version\tUInt128",
            ]
        );
        let version = 100u128 << 64 | 1 << 62 | 100;
        assert_eq!(
            stage.rows("SELECT * FROM t").await,
            [format!("1\ta\t12.34\t2023-11-14 22:13:20.123\t5\tc\t1700000000123\t0\t{version}")]
        );
        assert_eq!(stage.rows("SELECT * FROM t_current").await, ["1\ta\t12.34\t2023-11-14 22:13:20.123\t5"]);
    })
    .await;
}

#[tokio::test]
async fn the_version_column_holds_all_128_bits() {
    staged(async |stage| {
        // Epoch 0, commit and record position as large as they can be.
        let events = [event("c", (1 << 56) - 1, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)];
        stage.apply(declaring(ID_V), &batch(&events)).await.unwrap();
        let version = (u128::from((1u64 << 56) - 1) << 64) | u128::from(1u64 << 62 | ((1 << 56) - 1));
        assert_eq!(stage.rows("SELECT toString(_version) FROM t").await, [version.to_string()]);
    })
    .await;
}

#[tokio::test]
async fn replays_in_any_order_leave_the_greatest_version() {
    staged(async |stage| {
        let mut log = Log::default();
        let first = log.batch(&[
            event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#),
            event("c", 110, r#"{"id":2}"#, r#"{"id":2,"v":"b"}"#),
        ]);
        let second =
            log.batch(&[event("u", 200, r#"{"id":1}"#, r#"{"id":1,"v":"a2"}"#), event("d", 210, r#"{"id":2}"#, "")]);
        for order in [[&first, &second], [&second, &first], [&first, &first], [&second, &second]] {
            for one in order {
                stage.apply(declaring(ID_V), one).await.unwrap();
            }
        }
        assert_eq!(stage.rows("SELECT * FROM t_current ORDER BY id").await, ["1\ta2"]);
        assert_eq!(stage.rows("SELECT id, v, _is_deleted FROM t FINAL ORDER BY id").await, ["1\ta2\t0"]);
        stage.run("OPTIMIZE TABLE t FINAL").await;
        assert_eq!(
            stage.rows("SELECT id, v, _op, _is_deleted FROM t ORDER BY id").await,
            ["1\ta2\tu\t0", "2\t\\N\td\t1"],
            "the delete marker stays after merges"
        );
        assert_eq!(stage.rows("SELECT * FROM t_current ORDER BY id").await, ["1\ta2"]);
    })
    .await;
}

#[tokio::test]
async fn a_key_of_several_columns_is_the_sorting_key_in_its_order() {
    staged(async |stage| {
        let target = declaring(&[("b", "String"), ("a", "Int32"), ("v", "Nullable(Int32)")]);
        let events = [
            event("c", 100, r#"{"a":1,"b":"x\"y"}"#, r#"{"b":"x\"y","a":1,"v":1}"#),
            event("c", 110, r#"{"a":1,"b":"z"}"#, r#"{"b":"z","a":1,"v":2}"#),
            event("d", 120, r#"{"a":1,"b":"z"}"#, ""),
        ];
        stage.apply(target, &batch(&events)).await.unwrap();
        assert_eq!(
            stage.rows("SELECT sorting_key FROM system.tables WHERE database = currentDatabase() AND name = 't'").await,
            ["a, b"]
        );
        assert_eq!(stage.rows("SELECT a, b, v FROM t_current").await, ["1\tx\"y\t1"]);
    })
    .await;
}

#[tokio::test]
async fn names_and_columns_follow_the_rule() {
    staged(async |stage| {
        let rule = TableRule {
            name: Some("orders".into()),
            columns: vec![("key".into(), "Int32".into()), ("value".into(), "String".into())],
            exclude: vec!["secret".into(), "id".into()],
            rename: [("id".to_owned(), "key".to_owned()), ("v".to_owned(), "value".to_owned())].into(),
            ..TableRule::default()
        };
        let meta = MetaNames { op: "op".into(), source_ts_ms: "ts".into(), is_deleted: "gone".into(), version: "version".into(), ..MetaNames::default() };
        let target = Target { meta, ..ruled(rule) };
        let events = [event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a","secret":"s"}"#)];
        stage.apply(target.clone(), &batch(&events)).await.unwrap();
        // A second look finds the table as it was made.
        stage.apply(target, &batch(&events)).await.unwrap();
        assert_eq!(
            stage.rows("SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'orders' ORDER BY position").await,
            ["key", "value", "op", "ts", "gone", "version"]
        );
        assert_eq!(stage.rows("SELECT * FROM orders_current").await, ["1\ta"]);
    })
    .await;
}

#[tokio::test]
async fn a_partitioned_table_takes_blocks_of_more_partitions_than_the_server_allows() {
    staged(async |stage| {
        stage
            .run(
                "CREATE TABLE t (id Int64, v Nullable(String), _op LowCardinality(String), _source_ts_ms Nullable(Int64), \
                 _is_deleted UInt8, _version UInt128) ENGINE = ReplacingMergeTree(_version, _is_deleted) \
                 PARTITION BY intDiv(id, 10) ORDER BY id",
            )
            .await;
        // 260 partitions; a block may have 100.
        let events: Vec<_> =
            (0..2600u64).map(|id| event("c", 1000 + id, &format!(r#"{{"id":{}}}"#, id * 7919 % 2600), &format!(r#"{{"id":{},"v":"x"}}"#, id * 7919 % 2600))).collect();
        let mut log = Log::default();
        let mut sink = stage.sink(creating()).await;
        let outcome = apply(&mut sink, &log.batch(&events)).await.unwrap();
        assert_eq!(outcome.applied, 2600);
        assert_eq!(stage.rows("SELECT count(), uniqExact(id), uniqExact(_partition_id) FROM t").await, ["2600\t2600\t260"]);
        // What was learned is kept: a later block is cut at once, and complete.
        let updates: Vec<_> =
            (0..2600u64).map(|id| event("u", 10_000 + id, &format!(r#"{{"id":{id}}}"#), &format!(r#"{{"id":{id},"v":"y"}}"#))).collect();
        apply(&mut sink, &log.batch(&updates)).await.unwrap();
        assert_eq!(stage.rows("SELECT count(), any(v), uniqExact(v) FROM t_current").await, ["2600\ty\t1"]);
    })
    .await;
}

#[tokio::test]
async fn several_tables_in_one_batch() {
    staged(async |stage| {
        let mut target = declaring(ID_V);
        target.tables.insert("public.u".into(), target.tables["public.t"].clone());
        let events = [
            event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#),
            event("c", 110, r#"{"id":1}"#, r#"{"id":1,"v":"b"}"#).of_table("u"),
        ];
        let outcome = stage.apply(target, &batch(&events)).await.unwrap();
        assert_eq!(outcome.applied, 2);
        assert_eq!(
            stage.rows("SELECT v FROM (SELECT v FROM t_current UNION ALL SELECT v FROM u_current) ORDER BY v").await,
            ["a", "b"]
        );
    })
    .await;
}
