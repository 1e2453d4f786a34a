//! Tables that are made, tables that are there, and those that cannot be written.

use serde_json::{Value, json};
use settle_core::sink::{FailureKind, Outcome, SinkError};
use settle_engine::config::target::{Evolution, TableRule, Target};
use settle_engine::sampling;
use settle_engine::sinks::postgres::{self, ForeignKeys, PostgresConfig};
use settle_engine::sinks::unique::Unique;

use crate::database::{Database, META, declared, row, soft, target, with_rule};
use crate::log::{Log, batch};

fn log() -> Log {
    Log::from("t", &[("c", 10, json!({"id": 1, "v": "a"})), ("c", 11, json!({"id": 2, "v": "b"}))])
}

fn keyed_by_text() -> Log {
    Log::from("t", &[("c", 10, json!({"id": "a", "v": "x"}))])
}

/// Why a run over this log is refused, after this SQL.
fn refused_as(config: impl Fn(PostgresConfig) -> PostgresConfig, sql: &str, log: &Log) -> String {
    let database = Database::new();
    database.run(sql);
    let (mut sink, _) = database.open_as(config(database.config()), target(), &log.records).unwrap();
    let error = database.apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract, "{error}");
    assert_eq!(database.one("SELECT count(*) FROM settle_meta WHERE kind = 'table'"), "0", "nothing of it is left");
    error.context
}

fn refused(sql: &str) -> String {
    refused_as(|config| config, sql, &log())
}

/// A table with these columns beside the key and Settle's own.
fn table(more: &str) -> String {
    format!("CREATE TABLE t (id bigint PRIMARY KEY, v text, {META}{more});")
}

#[test]
fn a_table_is_made_from_the_schema_of_its_records() {
    let database = Database::new();
    let mut log = Log::of("t");
    let named = |kind: &str, name: &str| json!({"type": kind, "name": name, "optional": true, "field": name});
    let mut fields = vec![json!({"type": "int64", "optional": false, "field": "id"})];
    for (kind, name) in [
        ("int64", "io.debezium.time.MicroTimestamp"),
        ("int32", "io.debezium.time.Date"),
        ("string", "io.debezium.data.Json"),
        ("string", "io.debezium.data.Uuid"),
        ("string", "io.debezium.time.ZonedTimestamp"),
        ("bytes", "io.debezium.data.Bits"),
    ] {
        fields.push(named(kind, name));
    }
    fields.push(json!({"type": "array", "items": {"type": "int16"}, "optional": true, "field": "list"}));
    log.add_with_schema("c", 10, &json!({"id": 1, "list": [1]}), &Value::from(fields));
    database.apply_all(&target(), &log.records, 1);
    let types = database.select(
        "SELECT attname AS name, format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END AS kind
         FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum",
    );
    let types: Vec<(&str, &str)> =
        types.iter().map(|row| (row["name"].as_deref().unwrap(), row["kind"].as_deref().unwrap())).collect();
    assert_eq!(
        types,
        [
            ("id", "bigint NOT NULL"),
            ("io.debezium.time.MicroTimestamp", "timestamp without time zone"),
            ("io.debezium.time.Date", "date"),
            ("io.debezium.data.Json", "json"),
            ("io.debezium.data.Uuid", "uuid"),
            ("io.debezium.time.ZonedTimestamp", "timestamp with time zone"),
            ("io.debezium.data.Bits", "bit varying"),
            ("list", "smallint[]"),
            ("_op", "text"),
            ("_source_ts_ms", "bigint"),
            ("_version_hi", "bigint NOT NULL"),
            ("_version_lo", "bigint NOT NULL"),
        ]
    );
}

#[test]
fn without_a_schema_the_types_are_not_guessed() {
    let why = refused("");
    assert!(
        why.starts_with("nothing says the type of the key column \"id\": the records come without a schema"),
        "{why}"
    );
    let database = Database::new();
    let target = declared("t", &[("id", "bigint")]);
    let mut sink = database.sink(target.clone(), &log().records);
    let error = database.apply(&mut sink, &batch(&log().records)).unwrap_err();
    // The table has the key alone, so that its columns may grow; but into which type?
    assert!(
        error.context.contains("no schema that says its type; declare it under [tables.\"public.t\".columns]"),
        "{error}"
    );
    assert!(error.context.contains("ADD COLUMN \"v\" text if the type is right"), "{error}");
}

#[test]
fn what_is_no_plain_table_is_refused_with_what_to_do() {
    for (sql, why) in [
        ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS id", "table \"t\" is a materialized view"),
        (
            "CREATE FOREIGN DATA WRAPPER nowhere_SCHEMA; CREATE SERVER nowhere_SCHEMA FOREIGN DATA WRAPPER nowhere_SCHEMA;
             CREATE FOREIGN TABLE t (id bigint) SERVER nowhere_SCHEMA",
            "table \"t\" is a foreign table",
        ),
        (&table("").replace("CREATE TABLE", "CREATE UNLOGGED TABLE"), "UNLOGGED: a crash of the server empties it; run ALTER TABLE"),
        (&format!("{} CREATE TABLE child () INHERITS (t)", table("")), "has tables that inherit from it"),
        (&format!("{} CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING", table("")), "has rules (CREATE RULE)"),
    ] {
        let name = settle_testkit::kafka::unique("w");
        let found = refused(&sql.replace("SCHEMA", &name));
        if sql.contains("SCHEMA") {
            Database::new().run(&format!("DROP FOREIGN DATA WRAPPER nowhere_{name} CASCADE"));
        }
        assert!(found.contains(why), "{found}");
    }
}

#[test]
fn keys_that_would_merge_are_refused() {
    let text = |kind: &str| format!("CREATE TABLE t (id {kind} PRIMARY KEY, v text, {META})");
    let plain = |config| config;
    for (sql, why) in [
        (text("char(5)"), "takes texts that differ by spaces at their end for one"),
        (
            format!(
                "CREATE COLLATION fold (provider = icu, locale = 'und-u-ks-level2', deterministic = false); {}",
                text("text COLLATE fold")
            ),
            "has the collation",
        ),
        (text("name"), "it cuts text in silence; make it text"),
    ] {
        let found = refused_as(plain, &sql, &keyed_by_text());
        assert!(found.contains(why), "{sql}: {found}");
    }
    let found = refused(&table("").replace("id bigint", "id double precision"));
    assert!(found.contains("and \"id\" of the records is no float"), "{found}");
}

#[test]
fn a_text_in_a_key_of_numbers_is_the_fault_of_its_record_wherever_it_comes() {
    for (kind, why) in [
        ("bigint", "and \"id\" of the records is text; make the column text"),
        ("numeric", "'7' and '7.0' would be one row; if it is a decimal, say so"),
    ] {
        for text in ["not a number", "7"] {
            let (number, text) = (("c", 10, json!({"id": 7, "v": "x"})), ("c", 11, json!({"id": text, "v": "y"})));
            // First of all records, behind another, and alone in the second batch.
            for (records, size) in
                [([text.clone(), number.clone()], 2), ([number.clone(), text.clone()], 2), ([number, text], 1)]
            {
                let database = Database::new();
                database.run(&format!("CREATE TABLE t (id {kind} PRIMARY KEY, v text, {META})"));
                let log = Log::from("t", &records);
                let (mut sink, _) = database.open(target(), &log.records).unwrap();
                let mut batches = log.records.chunks(size).map(batch);
                let error = batches.find_map(|batch| database.apply(&mut sink, &batch).err()).expect("a refusal");
                assert_eq!(error.kind, FailureKind::Row, "{error}");
                assert!(error.place.is_some() && error.context.contains(why), "{error}");
            }
        }
    }
}

#[test]
fn the_key_must_be_unique_at_every_statement_over_exactly_its_columns() {
    let none = "has no primary key or unique index over exactly the key of the records (\"id\")";
    let bare = format!("CREATE TABLE t (id bigint, v text, {META}");
    for (sql, why) in [
        (format!("{bare})"), none),
        (format!("{bare}, PRIMARY KEY (id) DEFERRABLE)"), "is deferrable, or not built to its end"),
        (format!("{bare}, PRIMARY KEY (id, v))"), none),
        (format!("{bare}); CREATE UNIQUE INDEX ON t (id) WHERE v IS NOT NULL"), none),
        (format!("{bare}); CREATE UNIQUE INDEX ON t ((id + 0))"), none),
    ] {
        let found = refused(&sql);
        assert!(found.contains(why), "{sql}: {found}");
    }
    let database = Database::new();
    database.run(&format!("{bare}); CREATE UNIQUE INDEX ON t (id) INCLUDE (v)"));
    assert_eq!(database.apply_all(&target(), &log().records, 10), Outcome { applied: 2, stale: 0 });
}

#[test]
fn another_unique_index_is_refused_unless_it_is_allowed() {
    let beside = "beside the key of the records (\"id\")";
    for more in [", UNIQUE (v)", ", UNIQUE NULLS NOT DISTINCT (v)", ", EXCLUDE USING btree (v WITH =)"] {
        assert!(refused(&table(more)).contains(beside), "{more}");
    }
    let of_a_part = format!("{} CREATE UNIQUE INDEX ON t (v) WHERE id > 5", table(""));
    assert!(refused(&of_a_part).contains("unique over an expression or a part of the rows"));

    let database = Database::new();
    database.run(&table(", UNIQUE (v)"));
    let config = PostgresConfig { unique: Unique::Allow, ..database.config() };
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "v": "a"})),
            ("c", 11, json!({"id": 2, "v": "b"})),
            ("d", 12, json!({"id": 1})),
            ("c", 13, json!({"id": 3, "v": "a"})),
            ("u", 14, json!({"id": 2, "v": "a"})),
        ],
    );
    let (mut sink, _) = database.open_as(config, target(), &log.records).unwrap();
    database.apply(&mut sink, &batch(&log.records[..2])).unwrap();
    // What a delete frees is taken in the same batch.
    assert_eq!(database.apply(&mut sink, &batch(&log.records[2..4])).unwrap(), Outcome { applied: 2, stale: 0 });
    let error = database.apply(&mut sink, &batch(&log.records[4..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Constraint);
    assert_eq!(error.context, "another row has its value in the unique index \"t_v_key\"");
}

#[test]
fn a_unique_constraint_that_is_deferrable_is_looked_at_when_the_batch_is_committed() {
    let database = Database::new();
    database.run(&table(", UNIQUE (v) DEFERRABLE"));
    let config = PostgresConfig { unique: Unique::Allow, ..database.config() };
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "v": "a"})),
            ("c", 11, json!({"id": 2, "v": "b"})),
            // The two change places.
            ("u", 12, json!({"id": 1, "v": "b"})),
            ("u", 13, json!({"id": 2, "v": "a"})),
            ("u", 14, json!({"id": 2, "v": "b"})),
        ],
    );
    let (mut sink, _) = database.open_as(config, target(), &log.records).unwrap();
    database.apply(&mut sink, &batch(&log.records[..2])).unwrap();
    database.apply(&mut sink, &batch(&log.records[2..4])).unwrap();
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "b")]), row(&[("id", "2"), ("v", "a")])]);
    let error = database.apply(&mut sink, &batch(&log.records[4..])).unwrap_err();
    assert_eq!((error.kind, error.effect), (FailureKind::Constraint, settle_core::sink::Effect::None));
    assert_eq!(database.one("SELECT next_offset FROM settle_positions WHERE consumer_group <> ''"), "4");
}

#[test]
fn a_partitioned_table_is_a_table() {
    let database = Database::new();
    database.run(&format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, v text, {META}) PARTITION BY RANGE (id);
         CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10);
         CREATE TABLE high PARTITION OF t FOR VALUES FROM (10) TO (100)"
    ));
    let log = Log::from(
        "t",
        &[
            ("c", 10, json!({"id": 1, "v": "a"})),
            ("c", 11, json!({"id": 11, "v": "b"})),
            ("u", 12, json!({"id": 11, "v": "c"})),
            ("d", 13, json!({"id": 1})),
            ("c", 14, json!({"id": 100, "v": "nowhere"})),
        ],
    );
    assert_eq!(database.apply_all(&target(), &log.records[..4], 1).applied, 4);
    assert_eq!(database.rows("high"), [row(&[("id", "11"), ("v", "c")])]);
    assert_eq!(database.count("low"), 0);
    let mut sink = database.sink(target(), &log.records);
    assert_eq!(database.apply(&mut sink, &batch(&log.records[4..])).unwrap_err().kind, FailureKind::Constraint);
    database.run("ALTER TABLE high ADD UNIQUE (v)");
    let error = database.apply(&mut sink, &batch(&log.records[2..3])).unwrap_err();
    assert!(error.context.contains("has \"high_v_key\", unique over \"v\""), "{error}");
}

#[test]
fn generated_columns_defaults_and_columns_of_the_user_stay_what_they_are() {
    let database = Database::new();
    database.run(&table(
        ", twice text GENERATED ALWAYS AS (v || v) STORED, n serial, made timestamptz NOT NULL DEFAULT 'epoch', mine text",
    ));
    let mut log = log();
    log.add(0, "u", 20, &json!({"id": 1, "v": "c", "twice": "ignored"}), &[]);
    database.apply_all(&target(), &log.records[..2], 10);
    database.run("UPDATE t SET mine = 'x'");
    database.apply_all(&target(), &log.records, 1);
    let sample = sampling::read(log.records.clone());
    let found = database.wait(postgres::check(&database.config(), &target(), &sample, &[]));
    let told: Vec<String> =
        found.iter().filter(|finding| finding.what.contains("twice")).map(ToString::to_string).collect();
    let said = "column \"twice\" of table \"t\" is computed by the database: what the source sends for it is not stored; exclude it \
         ([tables.\"…\"] exclude), or make it an ordinary column";
    assert_eq!(told, [said]);
    let shown = "SELECT string_agg(concat_ws(',', id, v, twice, n, extract(epoch FROM made)::int, mine), ';' ORDER BY id) FROM t";
    assert_eq!(database.one(shown), "1,c,cc,1,0,x;2,b,bb,2,0,x");
}

#[test]
fn an_identity_column_takes_the_key_and_no_other_value() {
    let database = Database::new();
    database.run(&table("").replace("id bigint", "id bigint GENERATED ALWAYS AS IDENTITY"));
    let mut log = log();
    log.add(0, "u", 20, &json!({"id": 1, "v": "c"}), &[]);
    log.add(0, "d", 21, &json!({"id": 2}), &[]);
    assert_eq!(database.apply_all(&target(), &log.records, 1).applied, 4);
    assert_eq!(database.rows("t"), [row(&[("id", "1"), ("v", "c")])]);
    let why = refused(&table("").replace("v text", "v bigint GENERATED ALWAYS AS IDENTITY"));
    assert!(why.contains("is GENERATED ALWAYS AS IDENTITY, and no UPDATE may set it; run ALTER TABLE"), "{why}");
}

#[test]
fn a_domain_is_its_type_with_its_checks() {
    let database = Database::new();
    database.run(
        "CREATE DOMAIN ident AS bigint CHECK (value > 0); CREATE DOMAIN outer_ident AS ident;
                  CREATE DOMAIN word AS varchar(3) DEFAULT 'dft' NOT NULL",
    );
    database.run(&format!("CREATE TABLE t (id outer_ident PRIMARY KEY, v word, w word, {META})"));
    let mut log = log();
    log.add(0, "c", 20, &json!({"id": -1, "v": "a"}), &[]);
    log.add(0, "d", 21, &json!({"id": 1}), &[]);
    database.apply_all(&target(), &log.records[..2], 10);
    assert_eq!(database.one("SELECT string_agg(id || v || w, ' ' ORDER BY id) FROM t"), "1adft 2bdft");
    let mut sink = database.sink(target(), &log.records);
    let error = database.apply(&mut sink, &batch(&log.records[2..3])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Constraint, "{error}");
    database.apply(&mut sink, &batch(&log.records[3..])).unwrap();
    assert_eq!((database.count("t"), database.count("t__tombstones")), (1, 1));
}

#[test]
fn a_trigger_runs_in_the_users_search_path_and_what_it_says_is_not_repeated() {
    let database = Database::new();
    database.run(&format!(
        "{} CREATE TABLE seen (id bigint);
         CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
           INSERT INTO seen VALUES (new.id);
           IF new.v = 's3cret' THEN RAISE EXCEPTION 'no %', new.v; END IF;
           RETURN NULL; END $$;
         CREATE TRIGGER see AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION see()",
        table("")
    ));
    let mut log = log();
    log.add(0, "c", 20, &json!({"id": 3, "v": "s3cret"}), &[]);
    database.apply_all(&target(), &log.records[..2], 1);
    database.apply_all(&target(), &log.records[..2], 1);
    assert_eq!(database.count("seen"), 2);
    let mut sink = database.sink(target(), &log.records);
    let error = database.apply(&mut sink, &batch(&log.records[2..])).unwrap_err();
    assert_eq!(error.kind, FailureKind::Constraint);
    assert_eq!(error.context, "a constraint or a trigger of the table refuses the row");
}

#[test]
fn foreign_keys_of_a_table_and_to_it_are_refused_or_switched_off() {
    let of = format!("CREATE TABLE p (id text PRIMARY KEY); {}", table("").replace("v text", "v text REFERENCES p"));
    let to = format!("{} CREATE TABLE child (id bigint REFERENCES t ON DELETE CASCADE)", table(""));
    for sql in [&of, &to] {
        let why = refused(sql);
        assert!(why.contains("is bound by foreign keys: ") && why.contains("foreign_keys = \"off\""), "{why}");
        let database = Database::new();
        database.run(sql);
        let config = PostgresConfig { foreign_keys: ForeignKeys::Off, ..database.config() };
        let (mut sink, _) = database.open_as(config, target(), &log().records).unwrap();
        database.apply(&mut sink, &batch(&log().records)).unwrap();
        assert_eq!(database.count("t"), 2);
    }
}

#[test]
fn columns_of_settle_of_another_form_are_refused() {
    for (from, to, why) in [
        (
            "\"_version_hi\" bigint NOT NULL",
            "\"_version_hi\" integer NOT NULL",
            "column \"_version_hi\" of table \"t\" is not of the form bigint NOT NULL",
        ),
        (
            "\"_version_lo\" bigint NOT NULL",
            "\"_version_lo\" bigint",
            "column \"_version_lo\" of table \"t\" is not of the form bigint NOT NULL",
        ),
        ("\"_op\" text", "\"_op\" integer", "column \"_op\" of table \"t\" is not of the form text"),
        (
            "\"_op\" text",
            "\"_op\" text, \"_is_deleted\" integer NOT NULL DEFAULT 0",
            "is not of the form boolean NOT NULL",
        ),
    ] {
        let found = refused(&table("").replace(from, to));
        assert!(found.contains(why), "{found}");
    }
    let found = refused(&format!("{} CREATE TABLE t__tombstones (id bigint PRIMARY KEY)", table("")));
    assert!(found.contains("is not the one in which Settle keeps the versions of deleted rows of \"t\""), "{found}");
}

#[test]
fn a_soft_delete_of_a_row_never_seen_needs_defaults() {
    let database = Database::new();
    database.run(&table(", \"_is_deleted\" boolean NOT NULL DEFAULT false, must text NOT NULL"));
    let mut sink = database.sink(soft(target()), &log().records);
    let error = database.apply(&mut sink, &batch(&log().records)).unwrap_err();
    assert!(
        error.context.contains("columns that are NOT NULL without a default: \"must\"; give them a default"),
        "{error}"
    );
}

#[test]
fn a_table_that_is_changed_during_the_run_is_looked_at_again() {
    let database = Database::new();
    database.run(&table(""));
    let mut log = log();
    for (lsn, id) in (20..).zip(3..11) {
        log.add(0, "c", lsn, &json!({"id": id, "v": "x"}), &[]);
    }
    let mut sink = database.sink(target(), &log.records);
    let mut next = log.records.chunks(1);
    let mut apply = || -> Result<Outcome, SinkError> { database.apply(&mut sink, &batch(next.next().unwrap())) };
    apply().unwrap();
    database.run("ALTER TABLE t ALTER COLUMN v TYPE varchar(1)");
    apply().unwrap();
    database.run("ALTER TABLE t ADD UNIQUE (v)");
    assert!(apply().unwrap_err().context.contains("beside the key of the records"));
    database.run("ALTER TABLE t DROP CONSTRAINT t_v_key; ALTER TABLE t ADD CHECK (v <> 'x')");
    assert_eq!(apply().unwrap_err().kind, FailureKind::Constraint);
    database.run(&format!("DROP TABLE t; {}", table(", w text")));
    apply().unwrap();
    database.run("ALTER TABLE t RENAME v TO u; ALTER TABLE t RENAME w TO v");
    apply().unwrap();
    database.run("ALTER TABLE t__tombstones RENAME TO kept");
    let error = apply().unwrap_err();
    assert!(error.context.contains("its tombstones are not there any more (table \"t__tombstones\")"), "{error}");
    database.run("ALTER TABLE kept RENAME TO t__tombstones");
    database.run("ALTER TABLE t RENAME TO kept");
    let error = apply().unwrap_err();
    assert!(error.context.starts_with("it was dropped while the run wrote to it"), "{error}");
    database.run("ALTER TABLE kept RENAME TO t");
    apply().unwrap();
    assert_eq!(
        database.one("SELECT string_agg(id || coalesce(u, '-') || coalesce(v, '-'), ' ' ORDER BY id) FROM t"),
        "5x- 6-x 9-x"
    );
}

#[test]
fn a_new_column_comes_with_its_first_record_in_one_transaction() {
    let database = Database::new();
    let field = |name: &str, kind: &str| json!({"type": kind, "optional": name != "id", "field": name});
    let mut log = Log::of("t");
    let two = json!([field("id", "int64"), field("v", "string")]);
    let three = json!([field("id", "int64"), field("v", "string"), field("w", "double")]);
    log.add_with_schema("c", 10, &json!({"id": 1, "v": "a"}), &two);
    log.add_with_schema("c", 11, &json!({"id": 2, "v": "b", "w": null}), &three);
    log.add_with_schema("c", 12, &json!({"id": 3, "v": "c", "w": 1.5}), &three);
    log.add_with_schema("u", 13, &json!({"id": 1, "v": "d"}), &two);
    database.apply_all(&target(), &log.records, 1);
    assert_eq!(database.one("SELECT string_agg(concat_ws(',', id, v, w), ' ' ORDER BY id) FROM t"), "1,d 2,b 3,c,1.5");
    for (evolution, wanted) in [(Evolution::Refuse, None), (Evolution::Ignore, Some("1,d 2,b 3,c"))] {
        let forgotten = "DELETE FROM settle_meta WHERE kind = 'tombstones'";
        database.run(&format!("DROP TABLE t, t__tombstones; {forgotten}; {}", table("")));
        let target = Target { evolution, ..target() };
        let mut sink = database.sink(target, &log.records);
        let applied: Result<Vec<Outcome>, SinkError> =
            crate::log::batches(&log.records, 1, &[]).iter().map(|batch| database.apply(&mut sink, batch)).collect();
        match wanted {
            None => {
                let why = applied.unwrap_err().context;
                assert!(why.contains("ADD COLUMN \"w\" double precision, or set [sink] evolution"), "{why}");
            }
            Some(rows) => {
                applied.unwrap();
                assert_eq!(database.one("SELECT string_agg(concat_ws(',', id, v), ' ' ORDER BY id) FROM t"), rows);
            }
        }
    }
}

#[test]
fn columns_are_renamed_left_out_and_named_apart() {
    let database = Database::new();
    let rule = TableRule {
        name: Some("Ziel".into()),
        rename: [("id".to_owned(), "Key".to_owned())].into(),
        exclude: vec!["v".into()],
        columns: vec![("Key".into(), "bigint".into())],
        ..TableRule::default()
    };
    database.apply_all(&with_rule("t", rule), &log().records, 1);
    assert_eq!(database.rows("Ziel"), [row(&[("Key", "1")]), row(&[("Key", "2")])]);
    let long = "x".repeat(64);
    let log = Log::from("t", &[("c", 10, json!({"id": 1, long.as_str(): 1}))]);
    let database = Database::new();
    database.run(&table(""));
    let mut sink = database.sink(target(), &log.records);
    let error = database.apply(&mut sink, &batch(&log.records)).unwrap_err();
    assert!(error.context.contains("PostgreSQL cuts names behind 63 bytes; rename or exclude it"), "{error}");
}
