//! What stops a run before a row is written: the whole message is the product.

use settle_core::batch::Batch;
use settle_core::change::TableName;
use settle_core::schema::{Field, RowSchema, SourceType};
use settle_core::sink::FailureKind;
use settle_engine::config::{TableRule, Target};
use settle_engine::finding::{Finding, Severity};
use settle_engine::sinks::clickhouse::{CheckedTable, ClickHouse, Columns, table_ddl};
use settle_testkit::proxy::{Fault, Plan, Proxy};

use crate::records::{Log, batch, event};
use crate::stage::{Stage, apply, creating, declaring, open, ruled, staged};

/// Settle's four columns, as it creates them.
const ADDED: &str = "_op LowCardinality(String), _source_ts_ms Nullable(Int64), _is_deleted UInt8, _version UInt128";
const ENGINE: &str = "ENGINE = ReplacingMergeTree(_version, _is_deleted)";

fn one() -> Batch {
    batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])
}

/// What a run says to this table.
async fn refusal(stage: &Stage, create: &str, batch: &Batch) -> String {
    stage.run("DROP TABLE IF EXISTS t").await;
    stage.run(create).await;
    let error = stage.apply(creating(), batch).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert_eq!(stage.rows("SELECT count() FROM t").await, ["0"]);
    stage.message(&error)
}

#[tokio::test]
async fn the_sorting_key_must_be_the_key() {
    staged(async |stage| {
        let message = async |create: String| refusal(stage, &create, &one()).await;
        assert_eq!(
            message(format!("CREATE TABLE t (id Int64, account_id Int32, v Nullable(String), {ADDED}) {ENGINE} ORDER BY (account_id, id)")).await,
            "checking `shop`.`t`: `shop`.`t` has ORDER BY (`account_id`, `id`), the key of the topic is (`id`): a delete carries \
             only the key, its marker would stand at another `account_id` than the row and never remove it; so would an update \
             of `account_id`; recreate the table with ORDER BY (`id`), or put `account_id` into the key with \
             message.key.columns in the connector"
        );
        assert_eq!(
            message(format!("CREATE TABLE t (id Int64, v Nullable(String), {ADDED}) {ENGINE} ORDER BY intHash32(id)")).await,
            "checking `shop`.`t`: `shop`.`t` is sorted by the expression intHash32(id): rows of one key are merged only where \
             the sorting key is the key itself; recreate the table with ORDER BY (`id`)"
        );
        let two = batch(&[event("c", 100, r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#)]);
        assert_eq!(
            refusal(stage, &format!("CREATE TABLE t (a Int64, b Int64, {ADDED}) {ENGINE} ORDER BY a"), &two).await,
            "checking `shop`.`t`: `shop`.`t` has ORDER BY (`a`), the key of the topic is (`a`, `b`): rows that differ in `b` \
             alone would replace each other; recreate the table with ORDER BY (`a`, `b`)"
        );
        // The order of the columns does not matter.
        stage.run("DROP TABLE t").await;
        stage.run(&format!("CREATE TABLE t (a Int64, b Int64, {ADDED}) {ENGINE} ORDER BY (b, a) PRIMARY KEY b")).await;
        stage.apply(creating(), &two).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn other_engines_versions_and_keys_are_refused() {
    staged(async |stage| {
        let starts = |text: &'static str| move |message: String| assert!(message.starts_with(text), "{message}");
        let cases: [(String, &'static str); 7] = [
            (
                format!("CREATE TABLE t (id Int64, v Nullable(String), {ADDED}) ENGINE = MergeTree ORDER BY id"),
                "checking `shop`.`t`: `shop`.`t` has the engine MergeTree, which does not keep one row per key; move its rows \
                 into a table of the right shape",
            ),
            (
                format!("CREATE TABLE t (id Int64, v Nullable(String), {ADDED}) ENGINE = ReplacingMergeTree ORDER BY id"),
                "checking `shop`.`t`: `shop`.`t` has no version column: its engine keeps the row that was inserted last; move",
            ),
            (
                format!("CREATE TABLE t (id Int64, v Nullable(String), {ADDED}) ENGINE = ReplacingMergeTree(_version) ORDER BY id"),
                "checking `shop`.`t`: `shop`.`t` has no delete marker in its engine: a late older row could resurrect a deleted \
                 one; move",
            ),
            (
                format!(
                    "CREATE TABLE t (id Int64, v Nullable(String), {}) {ENGINE} ORDER BY id",
                    ADDED.replace("UInt128", "UInt64")
                ),
                "checking `shop`.`t`: the version column `_version` of `shop`.`t` is UInt64, a version has 128 bits (UInt128); \
                 move",
            ),
            (
                format!("CREATE TABLE t (id Int64, v Nullable(String), d Date, {ADDED}) {ENGINE} ORDER BY id PARTITION BY toYYYYMM(d)"),
                "checking `shop`.`t`: `shop`.`t` has PARTITION BY toYYYYMM(d), but `d` is not in the key (`id`): versions of one \
                 row would lie in several partitions, which are never merged; recreate the table with a partition expression \
                 of key columns, or with none",
            ),
            (
                format!(
                    "CREATE TABLE t (id Nullable(Int64), v Nullable(String), {ADDED}) {ENGINE} ORDER BY id \
                     SETTINGS allow_nullable_key = 1"
                ),
                "checking `shop`.`t`: the key column `id` of `shop`.`t` is Nullable(Int64): a key is never NULL; recreate the \
                 table with the column not Nullable",
            ),
            (
                "CREATE TABLE t (id Int64, v Nullable(String), _is_deleted UInt8, _version UInt128, _source_ts_ms String) \
                 ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id"
                    .into(),
                "checking `shop`.`t`: `shop`.`t` has no column `_op`, to which settle writes; run ALTER TABLE `shop`.`t` ADD \
                 COLUMN IF NOT EXISTS `_op` LowCardinality(String). And: column `_source_ts_ms` of `shop`.`t` is String, settle \
                 writes Nullable(Int64) to it; run ALTER TABLE `shop`.`t` MODIFY COLUMN `_source_ts_ms` Nullable(Int64)",
            ),
        ];
        for (create, text) in cases {
            starts(text)(refusal(stage, &create, &one()).await);
        }
        stage.run("DROP TABLE t").await;
        stage.run("CREATE VIEW t AS SELECT 1 AS id").await;
        let error = stage.apply(creating(), &one()).await.unwrap_err();
        starts("checking `shop`.`t`: `shop`.`t` is a View; write to another table")(stage.message(&error));
    })
    .await;
}

#[tokio::test]
async fn whatever_removes_delete_markers_is_refused() {
    staged(async |stage| {
        let table = |rest: &str| format!("CREATE TABLE t (id Int64, v Nullable(String), d DateTime DEFAULT now(), {ADDED}) {ENGINE} ORDER BY id {rest}");
        let why = "removes delete markers, so a late older row could resurrect a deleted one";
        assert_eq!(
            refusal(stage, &table("TTL d + INTERVAL 30 DAY"), &one()).await,
            format!(
                "checking `shop`.`t`: the TTL d + toIntervalDay(30) of `shop`.`t` {why}; end it with WHERE `_is_deleted` = 0, or \
                 run ALTER TABLE `shop`.`t` REMOVE TTL"
            )
        );
        let setting = "enable_replacing_merge_with_cleanup_for_min_age_to_force_merge";
        assert_eq!(
            refusal(stage, &table(&format!("SETTINGS {setting} = 1, allow_experimental_replacing_merge_with_cleanup = 1")), &one()).await,
            format!("checking `shop`.`t`: the setting {setting} of `shop`.`t` {why}; run ALTER TABLE `shop`.`t` RESET SETTING {setting}")
        );
        for harmless in ["TTL d + INTERVAL 30 DAY DELETE WHERE _is_deleted = 0", "TTL d + INTERVAL 30 DAY RECOMPRESS CODEC(ZSTD(3))"] {
            stage.run("DROP TABLE IF EXISTS t").await;
            stage.run(&table(harmless)).await;
            stage.apply(creating(), &one()).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn columns_of_the_source_never_meet_those_that_settle_adds() {
    staged(async |stage| {
        let clash = batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a","_version":7}"#)]);
        let message = "column `_version` of the source has the name of a column that settle adds; rename or exclude it in \
                       [tables.\"public.t\"], or give settle's column another name in [sink.meta]";
        let error = stage.apply(declaring(&[("id", "Int64"), ("v", "Nullable(String)")]), &clash).await.unwrap_err();
        assert_eq!(stage.message(&error), format!("preparing rows for `shop`.`t`: {message}"));
        let schema = [("id", r#"{"type":"int32","optional":false}"#), ("_version", r#"{"type":"int32","optional":false}"#)];
        let clash = batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"_version":7}"#).with_schema(&schema)]);
        stage.run("DROP TABLE t").await;
        let error = stage.apply(creating(), &clash).await.unwrap_err();
        assert_eq!(stage.message(&error), format!("laying out the table for public.t: {message}"));
        let rule = TableRule {
            columns: vec![("id".into(), "Int64".into()), ("v".into(), "Nullable(String)".into())],
            rename: [("w".to_owned(), "v".to_owned())].into(),
            ..TableRule::default()
        };
        let both = batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a","w":"b"}"#)]);
        let error = stage.apply(ruled(rule), &both).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "preparing rows for `shop`.`t`: two columns of the source are written to `v`; give one another name under `rename` in \
             [tables.\"public.t\"]"
        );
    })
    .await;
}

#[tokio::test]
async fn a_nullable_source_column_needs_a_nullable_target() {
    staged(async |stage| {
        stage.run(&format!("CREATE TABLE t (id Int64, q Int32, {ADDED}) {ENGINE} ORDER BY id")).await;
        let fields = [("id", r#"{"type":"int64","optional":false}"#), ("q", r#"{"type":"int32","optional":true}"#)];
        let row = batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"q":5}"#).with_schema(&fields)]);
        let error = stage.apply(creating(), &row).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "holding the records' schema against `shop`.`t`: column `q` of `shop`.`t` is Int32, the source allows NULL in it; run \
             ALTER TABLE `shop`.`t` MODIFY COLUMN `q` Nullable(Int32)"
        );
    })
    .await;
}

#[tokio::test]
async fn a_missing_table_says_how_it_can_be_made() {
    staged(async |stage| {
        let error = stage.apply(creating(), &one()).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "creating `shop`.`t` for public.t: the table does not exist, and the records carry no schema to take its columns \
             from; declare them under `columns` in [tables.\"public.t\"], or create the table from what `settle ddl` prints"
        );
        drop(stage.sink(creating()).await);
        let target = Target { create: false, ..declaring(&[("id", "Int64"), ("v", "Nullable(String)")]) };
        let error = stage.apply(target, &one()).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "creating `shop`.`t` for public.t: the table does not exist, and [sink] create is false; run CREATE TABLE IF NOT \
             EXISTS `shop`.`t`\n(\n    `id` Int64,\n    `v` Nullable(String),\n    `_op` LowCardinality(String),\n    \
             `_source_ts_ms` Nullable(Int64),\n    `_is_deleted` UInt8,\n    `_version` UInt128\n)\nENGINE = \
             ReplacingMergeTree(`_version`, `_is_deleted`)\nORDER BY (`id`)"
        );
        let error = stage.apply(declaring(&[("v", "String")]), &one()).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "laying out the table for public.t: the key column `id` is neither in the records' schema nor declared; add it under \
             `columns` in [tables.\"public.t\"]"
        );
        let error = stage.apply(declaring(&[("id", "Nullable(Int64)")]), &one()).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "laying out the table for public.t: the key column `id` is declared as Nullable(Int64); a key is never NULL, declare \
             it without Nullable in [tables.\"public.t\"]"
        );
    })
    .await;
}

#[tokio::test]
async fn rows_that_cannot_share_a_table_are_refused() {
    staged(async |stage| {
        let mut log = Log::default();
        let target = declaring(&[("id", "Int64"), ("v", "Nullable(String)")]);
        let mut sink = stage.sink(target.clone()).await;
        apply(&mut sink, &log.batch(&[event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)])).await.unwrap();
        let other = log.batch(&[event("c", 110, r#"{"id":1}"#, r#"{"id":1,"v":"b"}"#).of_database("blog")]);
        let error = apply(&mut sink, &other).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "preparing `shop`.`t` for public.t: record srv.public.t:0:1: public.t of srv/blog would be written to table t, \
             which is filled from public.t of srv/shop: positions of two servers do not compare; give it another name, in a \
             pipeline of its own: [tables.\"public.t\"] name = \"…\""
        );
        let key = log.batch(&[event("c", 120, r#"{"id":1,"v":"b"}"#, r#"{"id":1,"v":"b"}"#)]);
        let error = apply(&mut sink, &key).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "preparing `shop`.`t` for public.t: the key of record srv.public.t:0:2 is (id, v), the rows before had (id); \
             recreate the table with the new key and read the topic again, or set message.key.columns back"
        );
        let mut shared = target;
        let rule = TableRule { name: Some("t".into()), ..shared.tables["public.t"].clone() };
        shared.tables.insert("public.u".into(), rule);
        let both = log.batch(&[
            event("c", 130, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#),
            event("c", 140, r#"{"id":1}"#, r#"{"id":1,"v":"b"}"#).of_table("u"),
        ]);
        let error = stage.apply(shared, &both).await.unwrap_err();
        assert_eq!(
            stage.message(&error),
            "preparing the table for public.u of srv/shop: public.u of srv/shop would be written to table t, which is filled \
             from public.t of srv/shop: the keys of two tables would mix; give it another name: [tables.\"public.u\"] name = \
             \"…\""
        );
    })
    .await;
}

#[tokio::test]
async fn a_view_that_settle_did_not_make_is_left_alone() {
    staged(async |stage| {
        stage.run("CREATE TABLE t_current (precious Int8) ENGINE = MergeTree ORDER BY precious").await;
        stage.run("INSERT INTO t_current VALUES (1)").await;
        stage.apply(declaring(&[("id", "Int64"), ("v", "Nullable(String)")]), &one()).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current").await, ["1"]);
    })
    .await;
}

#[tokio::test]
async fn check_finds_everything_at_once_and_changes_nothing() {
    staged(async |stage| {
        stage
            .run(&format!(
                "CREATE TABLE t (id Int64, account_id Int32, q Int32, d Date, {}) {ENGINE} ORDER BY (account_id, id) \
                 PARTITION BY d",
                ADDED.replace("_op LowCardinality(String), ", "")
            ))
            .await;
        let (t, u) = (name("t"), name("u"));
        let schema = RowSchema {
            fields: vec![
                Field { name: "id".into(), source_type: SourceType::Int { bits: 64 }, optional: false },
                Field { name: "q".into(), source_type: SourceType::Int { bits: 32 }, optional: true },
            ],
        };
        let tables = [
            CheckedTable { table: &t, key: &["id"], schema: Some(&schema), rows: None },
            CheckedTable { table: &u, key: &["id"], schema: None, rows: None },
        ];
        let mut sink = ClickHouse::new(stage.config(), creating()).unwrap();
        let findings = sink.check(&tables).await;
        let of = |severity| {
            let shown = |f: &Finding| f.to_string().replace(stage.database.database(), "shop");
            findings.iter().filter(|f| f.severity == severity).map(shown).collect::<Vec<_>>()
        };
        let errors = of(Severity::Error);
        let about =
            ["has ORDER BY", "has PARTITION BY", "has no column `_op`", "column `q`", "`shop`.`u` does not exist"];
        assert_eq!(errors.len(), about.len(), "{errors:#?}");
        for (error, about) in errors.iter().zip(about) {
            assert!(error.contains(about), "{error}");
        }
        let notes = of(Severity::Note);
        assert!(notes[0].starts_with("the server is ClickHouse "), "{notes:?}");
        assert!(notes.contains(&"`shop`.`settle_meta` does not exist; a run creates it".to_owned()), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("insert_quorum = 0")), "{notes:?}");
        assert_eq!(stage.rows("SHOW TABLES").await, ["t"], "nothing was created");
        // A run that would start has no error.
        stage.run("DROP TABLE t").await;
        let findings = sink.check(&tables[..1]).await;
        assert!(findings.iter().all(|finding| finding.severity == Severity::Note), "{findings:?}");
        open(&mut sink).await.unwrap();
        // Wrong credentials are one finding.
        let mut config = stage.config();
        config.user = Some("nobody".into());
        let findings = ClickHouse::new(config, creating()).unwrap().check(&tables).await;
        assert_eq!(findings.len(), 1);
        assert!(findings[0].is_error() && findings[0].what.contains("AUTHENTICATION_FAILED"), "{findings:?}");
    })
    .await;
}

#[tokio::test]
async fn check_names_the_privileges_that_are_lacking() {
    staged(async |stage| {
        let (proxy, address) = Proxy::before_clickhouse().await;
        let mut sink = ClickHouse::new(stage.config_at(&address), creating()).unwrap();
        let errors = async |sink: &mut ClickHouse| {
            let shown = |f: Finding| f.to_string().replace(stage.database.database(), "shop");
            sink.check(&[]).await.into_iter().filter(Finding::is_error).map(shown).collect::<Vec<_>>()
        };
        assert_eq!(errors(&mut sink).await, Vec::<String>::new());
        let denied = Fault::Answer { status: 200, code: None, body: "{\"result\":0}\n".into() };
        proxy.plan(Plan::new(denied).containing("CHECK GRANT ALTER"));
        assert_eq!(
            errors(&mut sink).await,
            [
                "the user of [sink] lacks ALTER ADD COLUMN on `shop`.*; run GRANT ALTER ADD COLUMN ON `shop`.* TO it, as a user \
                 who may"
            ]
        );
        let unknown = "Code: 62. DB::Exception: Syntax error: failed at position 1. (SYNTAX_ERROR) (version 24.3.1.1)\n";
        let old = Fault::Answer { status: 400, code: Some(62), body: unknown.into() };
        proxy.plan(Plan::new(old).containing("CHECK GRANT"));
        assert_eq!(errors(&mut sink).await, Vec::<String>::new());
        // Only truncates need it, and most connectors send none.
        let denied = Fault::Answer { status: 200, code: None, body: "{\"result\":0}\n".into() };
        proxy.plan(Plan::new(denied).containing("CHECK GRANT ALTER DELETE"));
        assert_eq!(errors(&mut sink).await, Vec::<String>::new());
        let warned = sink.check(&[]).await.iter().any(|found| found.to_string().contains("lacks ALTER DELETE"));
        assert!(warned);
    })
    .await;
}

#[tokio::test]
async fn what_ddl_prints_is_accepted_by_a_run() {
    staged(async |stage| {
        let seen = [("id".to_owned(), Some(settle_core::schema::Inferred::Int64)), ("v".to_owned(), None)];
        let target = Target { create: false, ..Target::default() };
        let statements =
            table_ddl(&name("t"), &["id"], Columns::Seen(&seen), &target, stage.database.database(), None).unwrap();
        assert_eq!(statements.len(), 3, "settle_meta, the table, its view");
        for statement in &statements {
            stage.run(statement).await;
        }
        stage.apply(target, &one()).await.unwrap();
        assert_eq!(stage.rows("SELECT * FROM t_current").await, ["1\ta"]);
    })
    .await;
}

fn name(table: &str) -> TableName {
    TableName { namespace: "public".into(), name: table.into() }
}
