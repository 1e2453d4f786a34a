//! `settle_meta`: the scheme, and floors that come back.

use settle_core::change::Lineage;
use settle_core::sink::{FailureKind, Sink};
use settle_core::version::Floor;
use settle_engine::config::{TableRule, Target};
use settle_engine::sinks::clickhouse::ClickHouse;

use crate::records::{Log, batch, event};
use crate::stage::{apply, declaring, open, parts, staged, topic_id};

const ID_V: &[(&str, &str)] = &[("id", "Int64"), ("v", "Nullable(String)")];

#[tokio::test]
async fn floors_are_recorded_before_the_rows_and_come_back() {
    staged(async |stage| {
        let mut log = Log::default();
        let snapshot = log.batch(&[
            event("r", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#).of_full_snapshot(),
            event("r", 200, r#"{"id":2}"#, r#"{"id":2,"v":"b"}"#).of_full_snapshot(),
        ]);
        assert_eq!(snapshot.floors().len(), 2);
        // The table cannot take rows: it has another key. The floors are recorded all the same.
        stage.run("CREATE TABLE t (x Int8) ENGINE = MergeTree ORDER BY x").await;
        stage.apply(declaring(ID_V), &snapshot).await.unwrap_err();
        stage.run("DROP TABLE t").await;
        assert_eq!(
            stage.rows("SELECT kind, topic_id, partition, subject, offset, value FROM settle_meta WHERE kind = 'floor' ORDER BY offset").await,
            [
                format!("floor\t{}\t0\t[\"srv\",\"shop\"]\t0\t100", topic_id()),
                format!("floor\t{}\t0\t[\"srv\",\"shop\"]\t1\t200", topic_id()),
            ]
        );
        stage.apply(declaring(ID_V), &snapshot).await.unwrap();
        stage.apply(declaring(ID_V), &snapshot).await.unwrap();
        assert_eq!(stage.rows("SELECT count() FROM settle_meta WHERE kind = 'floor'").await, ["2"], "a replay records nothing twice");
        let mut sink = ClickHouse::new(stage.config(), declaring(ID_V)).unwrap();
        let places = open(&mut sink).await.unwrap();
        let floor = |offset, commit| Floor {
            lineage: Lineage { source: "srv".into(), database: "shop".into() }.into(),
            offset,
            commit,
        };
        assert_eq!(places.floors, [(parts()[0].clone(), floor(0, 100)), (parts()[0].clone(), floor(1, 200))]);
        // Another incarnation of the topic has none.
        let mut other = parts();
        other.iter_mut().for_each(|part| part.topic_id.0 = uuid::Uuid::nil());
        assert_eq!(sink.open(&other).await.unwrap().floors, []);
    })
    .await;
}

#[tokio::test]
async fn another_version_scheme_is_refused() {
    staged(async |stage| {
        drop(stage.sink(declaring(ID_V)).await);
        assert_eq!(stage.rows("SELECT subject FROM settle_meta WHERE kind = 'scheme'").await, ["commit-position/1"]);
        stage.run("TRUNCATE TABLE settle_meta").await;
        stage.run("INSERT INTO settle_meta (kind, subject) VALUES ('scheme', 'kafka-offset/1')").await;
        let mut sink = ClickHouse::new(stage.config(), declaring(ID_V)).unwrap();
        let error = open(&mut sink).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "reading `shop`.`settle_meta`: the rows of this database were written with the version scheme \"kafka-offset/1\", \
             this settle uses \"commit-position/1\": their versions do not compare; use the settle that wrote them, or write \
             to another database"
        );
    })
    .await;
}

#[tokio::test]
async fn a_missing_database_is_created_only_where_that_is_allowed() {
    staged(async |stage| {
        let mut config = stage.config();
        config.database = format!("{}_more", config.database);
        let mut sink = ClickHouse::new(config.clone(), Target { create: false, ..declaring(ID_V) }).unwrap();
        let error = open(&mut sink).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "creating the database `shop_more`: it does not exist, and [sink] create is false; run CREATE DATABASE IF NOT \
             EXISTS `shop_more`"
        );
        let mut sink = ClickHouse::new(config.clone(), declaring(ID_V)).unwrap();
        open(&mut sink).await.unwrap();
        let tables = stage.rows(&format!("SHOW TABLES FROM {}", config.database)).await;
        stage.run(&format!("DROP DATABASE {}", config.database)).await;
        assert_eq!(tables, ["settle_meta"]);
    })
    .await;
}

#[tokio::test]
async fn rows_of_an_epoch_that_nobody_recorded_are_refused() {
    staged(async |stage| {
        let mut log = Log::default();
        let first = log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)]);
        stage.apply(declaring(ID_V), &first).await.unwrap();
        // 2^120 is epoch 1; what another tool wrote may be anything.
        stage.run("INSERT INTO t (id, _version) VALUES (9, toUInt128('1329227995784915872903807060280344576'))").await;
        let error = stage.apply(declaring(ID_V), &first).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "checking `shop`.`t`: `shop`.`t` holds rows whose version 1/0/0/0 (epoch/commit/rank/record) is above every epoch \
             recorded in settle_meta (0): they would win over everything that comes; if another tool wrote them, give them \
             version 0 with ALTER TABLE `shop`.`t` UPDATE `_version` = 0 WHERE 1, or write to another table (name in \
             [tables.\"public.t\"]); if settle_meta was lost, restore it from a backup"
        );
        // A boundary that is recorded makes them ours.
        stage.run("INSERT INTO settle_meta (kind, offset, value) VALUES ('epoch', 0, 1)").await;
        let mut sink = stage.sink(declaring(ID_V)).await;
        apply(&mut sink, &first).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_table_that_another_pipeline_fills_is_refused() {
    staged(async |stage| {
        let row = || event("c", 10, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#);
        stage.apply(declaring(ID_V), &batch(&[row()])).await.unwrap();
        // The same again is the same pipeline, or another instance of it.
        stage.apply(declaring(ID_V), &batch(&[row()])).await.unwrap();
        let error = stage.apply(declaring(ID_V), &batch(&[row().of_database("blog")])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "preparing the table for public.t of srv/blog: public.t of srv/blog would be written to table t, which is filled \
             from public.t of srv/shop: positions of two servers do not compare; give it another name, in a pipeline of its \
             own: [tables.\"public.t\"] name = \"…\""
        );
        let mut target = declaring(ID_V);
        target.tables.insert("public.u".into(), TableRule { name: Some("t".into()), ..TableRule::default() });
        let error = stage.apply(target, &batch(&[row().of_table("u")])).await.unwrap_err();
        assert!(error.context.contains("the keys of two tables would mix"), "{error}");
        assert_eq!(stage.rows("SELECT count() FROM t").await, ["2"]);
        assert_eq!(
            stage.rows("SELECT subject FROM settle_meta FINAL WHERE kind = 'table'").await,
            ["[\"t\",[\"srv\",\"shop\",\"public\",\"t\"]]"]
        );
    })
    .await;
}

/// Two that claim a table at once: the one that was there first, and not the one that reads first.
#[tokio::test]
async fn of_two_claims_the_earlier_one_counts() {
    staged(async |stage| {
        drop(stage.sink(declaring(ID_V)).await);
        for (server, at) in [("z", "2024-01-01 00:00:00.001"), ("a", "2024-01-01 00:00:00.002")] {
            stage
                .run(&format!(
                    "INSERT INTO settle_meta (kind, topic_id, partition, subject, written_at) VALUES ('table', \
                     '00000000-0000-0000-0000-000000000000', 0, '[\"t\",[\"{server}\",\"shop\",\"public\",\"t\"]]', '{at}')"
                ))
                .await;
        }
        let row = event("c", 10, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#);
        let error = stage.apply(declaring(ID_V), &batch(&[row])).await.unwrap_err();
        assert!(error.context.contains("which is filled from public.t of z/shop"), "{error}");
    })
    .await;
}

/// Instances of one group that start together: everything is created, altered and shown once.
#[tokio::test]
async fn instances_that_start_together_share_everything() {
    staged(async |stage| {
        let mut target = declaring(ID_V);
        target.tables.insert("public.u".into(), target.tables["public.t"].clone());
        let work = async |instance: u64| {
            let mut sink = ClickHouse::new(stage.config(), target.clone()).unwrap();
            open(&mut sink).await.unwrap();
            let mut log = Log::default();
            for step in 0..4u64 {
                let id = instance * 10 + step;
                let key = format!(r#"{{"id":{id}}}"#);
                // Each brings a column of its own, and one that all bring.
                let after = format!(r#"{{"id":{id},"v":"a","c{}":{id},"all{step}":1}}"#, instance % 3);
                let row = event("c", 100 + id, &key, &after);
                let rows = log.batch(&[row.clone(), row.of_table("u")]);
                apply(&mut sink, &rows).await.unwrap();
            }
        };
        tokio::join!(work(0), work(1), work(2), work(3));
        for table in ["t", "u"] {
            let shown = format!("SELECT count(), sum(v = 'a'), sum(all0), sum(all3), count(c0) + count(c1) + count(c2) FROM {table}_current");
            assert_eq!(stage.rows(&shown).await, ["16\t16\t4\t4\t16"], "{table}");
        }
        assert_eq!(stage.rows("SELECT kind, count() FROM settle_meta FINAL GROUP BY kind ORDER BY kind").await, ["filled\t2", "group-begins\t1", "scheme\t1", "table\t2"]);
    })
    .await;
}
