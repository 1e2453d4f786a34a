//! Columns that appear in the middle of a topic, or are missing from records.

use settle_core::sink::FailureKind;
use settle_engine::config::{Evolution, Target};

use crate::records::{Log, event};
use crate::stage::{apply, creating, declaring, staged};

const ID_V: &[(&str, &str)] = &[("id", "Int64"), ("v", "Nullable(String)")];

#[tokio::test]
async fn a_column_of_a_schemaless_topic_is_added_with_its_first_value() {
    staged(async |stage| {
        let mut log = Log::default();
        let mut sink = stage.sink(declaring(ID_V)).await;
        apply(&mut sink, &log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])).await.unwrap();
        // Only NULLs: nothing is lost by leaving the column out.
        apply(&mut sink, &log.batch(&[event("c", 110, r#"{"id":2}"#, r#"{"id":2,"v":"b","n":null}"#)])).await.unwrap();
        assert_eq!(stage.rows("SELECT count() FROM system.columns WHERE database = currentDatabase() AND table = 't'").await, ["6"]);
        let added = log.batch(&[
            event("c", 120, r#"{"id":3}"#, r#"{"id":3,"v":"c","n":7,"f":1.5,"b":true,"s":"x","o":{"a":[1]}}"#),
            event("c", 130, r#"{"id":4}"#, r#"{"id":4,"v":"d"}"#),
            event("c", 140, r#"{"id":5}"#, r#"{"id":5,"v":"e","n":null,"f":2.5,"b":null,"s":null,"o":null}"#),
        ]);
        apply(&mut sink, &added).await.unwrap();
        assert_eq!(
            stage.rows("SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 't' AND position > 6 ORDER BY position").await,
            ["n\tNullable(Int64)", "f\tNullable(Float64)", "b\tNullable(Bool)", "s\tNullable(String)", "o\tNullable(String)"]
        );
        assert_eq!(
            stage.rows("SELECT * FROM t_current ORDER BY id").await,
            [
                "1\ta\t\\N\t\\N\t\\N\t\\N\t\\N",
                "2\tb\t\\N\t\\N\t\\N\t\\N\t\\N",
                "3\tc\t7\t1.5\ttrue\tx\t{\"a\":[1]}",
                "4\td\t\\N\t\\N\t\\N\t\\N\t\\N",
                "5\te\t\\N\t2.5\t\\N\t\\N\t\\N",
            ],
            "the view shows the new columns too"
        );
    })
    .await;
}

#[tokio::test]
async fn a_column_of_a_connect_schema_is_added_with_its_type() {
    staged(async |stage| {
        let id = ("id", r#"{"type":"int32","optional":false}"#);
        let day = ("day", r#"{"type":"int32","optional":false,"name":"io.debezium.time.Date"}"#);
        let mut log = Log::default();
        let mut sink = stage.sink(creating()).await;
        apply(&mut sink, &log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1}"#).with_schema(&[id])]))
            .await
            .unwrap();
        let later = event("c", 110, r#"{"id":2}"#, r#"{"id":2,"day":19675}"#).with_schema(&[id, day]);
        apply(&mut sink, &log.batch(&[later])).await.unwrap();
        assert_eq!(
            stage.rows("SELECT id, day, toTypeName(day) FROM t_current ORDER BY id").await,
            ["1\t\\N\tNullable(Date32)", "2\t2023-11-14\tNullable(Date32)"]
        );
    })
    .await;
}

#[tokio::test]
async fn another_instance_may_have_added_the_column_first() {
    staged(async |stage| {
        let mut log = Log::default();
        let mut first = stage.sink(declaring(ID_V)).await;
        let mut second = stage.sink(declaring(ID_V)).await;
        apply(&mut first, &log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])).await.unwrap();
        apply(&mut second, &log.batch(&[event("c", 110, r#"{"id":2}"#, r#"{"id":2,"v":"b"}"#)])).await.unwrap();
        let both = log.batch(&[event("u", 120, r#"{"id":1}"#, r#"{"id":1,"v":"a","n":1}"#)]);
        apply(&mut first, &both).await.unwrap();
        apply(&mut second, &both).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current ORDER BY id").await, ["1\ta\t1", "2\tb\t\\N"]);
    })
    .await;
}

#[tokio::test]
async fn evolution_refuse_stops_with_the_ddl_and_ignore_leaves_the_column_out() {
    staged(async |stage| {
        let mut log = Log::default();
        let target = |evolution| Target { evolution, ..declaring(ID_V) };
        let batch = log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a","n":7}"#)]);
        let error = stage.apply(target(Evolution::Refuse), &batch).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "preparing `shop`.`t`: `shop`.`t` has no column `n`, which records of public.t carry, and [sink] evolution is \
             \"refuse\"; run ALTER TABLE `shop`.`t` ADD COLUMN IF NOT EXISTS `n` Nullable(Int64), or exclude it in \
             [tables.\"public.t\"]"
        );
        stage.apply(target(Evolution::Ignore), &batch).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current").await, ["1\ta"]);
    })
    .await;
}

#[tokio::test]
async fn a_column_that_records_do_not_carry_takes_the_servers_default() {
    staged(async |stage| {
        let target = declaring(&[("id", "Int64"), ("v", "Nullable(String)"), ("d", "String DEFAULT 'dflt'")]);
        let mut log = Log::default();
        let mut sink = stage.sink(target).await;
        let events = [
            event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a","d":"x"}"#),
            event("c", 110, r#"{"id":2}"#, r#"{"v":null,"id":2}"#),
        ];
        apply(&mut sink, &log.batch(&events)).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current ORDER BY id").await, ["1\ta\tx", "2\t\\N\tdflt"]);
    })
    .await;
}

#[tokio::test]
async fn computed_columns_are_never_listed() {
    staged(async |stage| {
        stage
            .run(
                "CREATE TABLE t (id Int64, price Int32, qty Int32, total Int32 MATERIALIZED price * qty, twice Int32 ALIAS qty * 2, \
                 _op LowCardinality(String), _source_ts_ms Nullable(Int64), _is_deleted UInt8, _version UInt128) \
                 ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id",
            )
            .await;
        let mut log = Log::default();
        let events = [event("c", 100, r#"{"id":1}"#, r#"{"id":1,"price":10,"qty":3,"total":20,"twice":0}"#)];
        stage.apply(creating(), &log.batch(&events)).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current").await, ["1\t10\t3\t30\t6"]);
    })
    .await;
}

#[tokio::test]
async fn a_wider_source_type_stops_with_the_ddl_when_a_value_no_longer_fits() {
    staged(async |stage| {
        let schema = |bits: &str| format!(r#"{{"type":"{bits}","optional":true}}"#);
        let row = |lsn, n: i64, bits| {
            event("u", lsn, r#"{"id":1}"#, &format!(r#"{{"id":1,"n":{n}}}"#))
                .with_schema(&[("id", r#"{"type":"int32","optional":false}"#), ("n", &schema(bits))])
        };
        let mut log = Log::default();
        let mut sink = stage.sink(creating()).await;
        apply(&mut sink, &log.batch(&[row(100, 1, "int32")])).await.unwrap();
        apply(&mut sink, &log.batch(&[row(110, 2, "int64")])).await.unwrap();
        let error = apply(&mut sink, &log.batch(&[row(120, 3_000_000_000, "int64")])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "encoding rows for `shop`.`t`: record srv.public.t:0:2: column `n` (Nullable(Int32)): out of the range of int32; \
             the source's type is another now; run ALTER TABLE `shop`.`t` MODIFY COLUMN `n` Nullable(Int64)"
        );
    })
    .await;
}

#[tokio::test]
async fn a_renamed_column_is_followed_by_the_rule() {
    staged(async |stage| {
        let columns = [("id", "Int64"), ("b_renamed", "Nullable(String)"), ("seen_at", "DateTime DEFAULT now()")];
        let mut target = declaring(&columns);
        target.tables.get_mut("public.t").unwrap().rename.insert("b".into(), "b_renamed".into());
        let mut log = Log::default();
        let mut sink = stage.sink(target).await;
        apply(&mut sink, &log.batch(&[event("c", 100, r#"{"id":37}"#, r#"{"id":37,"b_renamed":"v37"}"#)]))
            .await
            .unwrap();
        // Still in flight when the target was renamed, and both in one batch.
        let late = [
            event("u", 110, r#"{"id":37}"#, r#"{"id":37,"b":"upd37"}"#),
            event("c", 120, r#"{"id":38}"#, r#"{"id":38,"b":"v38"}"#),
            event("c", 130, r#"{"id":40}"#, r#"{"id":40,"b_renamed":"v40"}"#),
        ];
        apply(&mut sink, &log.batch(&late)).await.unwrap();
        assert_eq!(
            stage.rows("SELECT id, b_renamed FROM t_current ORDER BY id").await,
            ["37\tupd37", "38\tv38", "40\tv40"]
        );
    })
    .await;
}

#[tokio::test]
async fn a_column_that_is_added_while_another_is_dropped_goes_on() {
    staged(async |stage| {
        let mut log = Log::default();
        let mut sink = stage.sink(declaring(ID_V)).await;
        let events = [
            event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#),
            event("c", 110, r#"{"id":2}"#, r#"{"id":2,"w":"b"}"#),
        ];
        apply(&mut sink, &log.batch(&events)).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current ORDER BY id").await, ["1\ta\t\\N", "2\t\\N\tb"]);
    })
    .await;
}
