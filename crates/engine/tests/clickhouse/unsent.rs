//! Values that PostgreSQL did not send (TOAST): the stored one is looked up, per row and column.

use settle_core::batch::Batch;
use settle_core::sink::{FailureKind, Outcome};
use settle_engine::config::{Evolution, TableRule, Target};

use crate::recorder::Recorder;
use crate::records::{Event, Log, UNSENT, batch, event, truncate};
use crate::stage::{Stage, apply, creating, declaring, ruled, staged};

const COLUMNS: &[(&str, &str)] =
    &[("id", "Int64"), ("n", "Int32"), ("txt", "Nullable(String)"), ("b", "Nullable(String)")];

fn row(op: &'static str, lsn: u64, id: u32, rest: &str) -> Event {
    let rest = rest.replace("UNSENT", &format!("{UNSENT:?}"));
    let key = format!(r#"{{"id":{id}}}"#);
    let after = if op == "d" { String::new() } else { format!(r#"{{"id":{id},{rest}}}"#) };
    event(op, lsn, &key, &after)
}

/// A whole life before the one that counts.
fn log() -> [Event; 5] {
    [
        row("c", 10, 1, r#""n":1,"txt":"REAL","b":"x""#),
        row("u", 20, 1, r#""n":2,"txt":UNSENT,"b":"y""#),
        row("d", 30, 1, ""),
        row("c", 50, 1, r#""n":5,"txt":"REAL2","b":"z""#),
        row("u", 60, 1, r#""n":6,"txt":UNSENT,"b":UNSENT"#),
    ]
}

const END: [&str; 1] = ["1\t6\tREAL2\tz"];

async fn current(stage: &Stage) -> Vec<String> {
    stage.rows("SELECT * FROM t_current ORDER BY id").await
}

async fn clear(stage: &Stage) {
    for statement in ["DROP TABLE IF EXISTS t", "DROP VIEW IF EXISTS t_current"] {
        stage.run(statement).await;
    }
}

#[tokio::test]
async fn every_cut_keeps_the_value_of_the_rows_own_life() {
    staged(async |stage| {
        let log = log();
        for cuts in 0..1_u32 << (log.len() - 1) {
            clear(stage).await;
            let mut line = Log::default();
            let mut sink = stage.sink(declaring(COLUMNS)).await;
            let mut from = 0;
            for at in 1..=log.len() {
                if at == log.len() || cuts >> (at - 1) & 1 == 1 {
                    apply(&mut sink, &line.batch(&log[from..at])).await.unwrap();
                    from = at;
                }
            }
            assert_eq!(current(stage).await, END, "cuts {cuts:b}");
            let mut again = Log::default();
            for pair in log.chunks(2) {
                apply(&mut sink, &again.batch(pair)).await.unwrap();
            }
            assert_eq!(current(stage).await, END, "cuts {cuts:b}, again");
        }
    })
    .await;
}

#[tokio::test]
async fn another_instance_finds_what_the_first_one_wrote() {
    staged(async |stage| {
        let mut line = Log::default();
        let (mut first, mut second) = (stage.sink(declaring(COLUMNS)).await, stage.sink(declaring(COLUMNS)).await);
        let full = line.batch(&[row("c", 10, 1, r#""n":1,"txt":"A","b":"x""#)]);
        let masked = |line: &mut Log, lsn| line.batch(&[row("u", lsn, 1, r#""n":2,"txt":UNSENT,"b":"y""#)]);
        let (one, two) = (masked(&mut line, 20), masked(&mut line, 30));
        apply(&mut first, &full).await.unwrap();
        apply(&mut second, &one).await.unwrap();
        apply(&mut first, &two).await.unwrap();
        assert_eq!(current(stage).await, ["1\t2\tA\ty"]);
    })
    .await;
}

#[tokio::test]
async fn without_a_stored_value_the_run_stops_and_says_the_cure() {
    staged(async |stage| {
        let error = stage.apply(declaring(COLUMNS), &batch(&log()[4..])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
        assert_eq!(
            stage.message(&error),
            "preparing rows for `shop`.`t`: record srv.public.t:0:0 does not carry `txt`, `b` (__debezium_unavailable_value) \
             and the table has no earlier row with a value; set REPLICA IDENTITY FULL on public.t at the source, take a new \
             snapshot of it, and start a new group at its rows"
        );
        assert_eq!(stage.rows("SELECT count() FROM t").await, ["0"]);
        // The row of the deleted life is there, and its marker.
        let mut line = Log::default();
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        apply(&mut sink, &line.batch(&log()[..3])).await.unwrap();
        let error = apply(&mut sink, &line.batch(&log()[4..])).await.unwrap_err();
        assert_eq!(error.kind, FailureKind::Contract);
    })
    .await;
}

#[tokio::test]
async fn a_row_that_a_truncate_emptied_holds_no_value() {
    staged(async |stage| {
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        let mut line = Log::default();
        apply(&mut sink, &line.batch(&[row("c", 10, 1, r#""n":1,"txt":"old","b":"x""#)])).await.unwrap();
        // It is still there: the truncate is recorded, and its DELETE did nothing yet.
        apply(&mut sink, &line.batch(&[truncate(20).on(2)])).await.unwrap();
        let version = 10u128 << 64 | 10;
        stage
            .run(&format!("INSERT INTO t (id, txt, _op, _version) VALUES (1, 'old', 'c', toUInt128('{version}'))"))
            .await;
        let masked = line.batch(&[row("u", 30, 1, r#""n":2,"txt":UNSENT,"b":"y""#)]);
        assert_eq!(apply(&mut sink, &masked).await.unwrap_err().kind, FailureKind::Contract);
    })
    .await;
}

#[tokio::test]
async fn a_column_that_is_not_written_needs_no_value() {
    staged(async |stage| {
        let masked = batch(&[row("u", 60, 1, r#""n":6,"txt":UNSENT,"b":"z""#)]);
        let columns = [("id", "Int64"), ("n", "Int32"), ("b", "String")];
        let columns = columns.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec();
        let rule = TableRule { exclude: vec!["txt".into()], columns, ..TableRule::default() };
        assert_eq!(stage.apply(ruled(rule), &masked).await.unwrap(), Outcome { applied: 1, stale: 0 });
        assert_eq!(current(stage).await, ["1\t6\tz"]);
    })
    .await;
}

#[tokio::test]
async fn a_column_that_the_table_lacks_has_no_value_to_keep() {
    staged(async |stage| {
        for evolution in [Evolution::Add, Evolution::Refuse, Evolution::Ignore] {
            // Alone, and beside a row that has a value, so that the column is added.
            for others in [vec![], vec![row("c", 15, 2, r#""n":1,"txt":"T""#)]] {
                clear(stage).await;
                let target = Target { evolution, ..declaring(&COLUMNS[..2]) };
                let mut line = Log::default();
                let mut sink = stage.sink(target).await;
                apply(&mut sink, &line.batch(&[row("c", 10, 1, r#""n":1"#)])).await.unwrap();
                let mut events = others;
                events.push(row("u", 20, 1, r#""n":2,"txt":UNSENT"#));
                let result = apply(&mut sink, &line.batch(&events)).await;
                match evolution {
                    Evolution::Add | Evolution::Refuse => assert_eq!(result.unwrap_err().kind, FailureKind::Contract),
                    Evolution::Ignore => {
                        result.unwrap();
                        assert_eq!(current(stage).await[0], "1\t2");
                    }
                }
            }
        }
    })
    .await;
}

/// Row 1 becomes row 2, whose create does not carry the body.
fn moving() -> [Event; 3] {
    [
        row("c", 10, 1, r#""n":1,"txt":"long","b":"x""#),
        row("d", 20, 1, ""),
        row("c", 20, 2, r#""n":2,"txt":UNSENT,"b":"y""#).on(1).moved_from(r#"{"id":1}"#),
    ]
}

/// The marker holds no values, and a row whose partition has not been read so far not the last ones.
/// A connector that was killed sends its last records again, and goes on with new ones.
#[tokio::test]
async fn records_that_come_again_with_newer_ones_stand_on_what_was_made_of_them() {
    staged(async |stage| {
        let updates = [
            row("c", 10, 1, r#""n":1,"txt":"long","b":"x""#),
            row("u", 20, 1, r#""n":2,"txt":UNSENT,"b":"x""#),
            row("u", 30, 1, r#""n":3,"txt":UNSENT,"b":"x""#),
            row("u", 40, 1, r#""n":4,"txt":UNSENT,"b":"x""#),
        ];
        for (before, again) in [(2, 1), (3, 1), (3, 2)] {
            clear(stage).await;
            let (mut sink, mut line) = (stage.sink(declaring(COLUMNS)).await, Log::default());
            apply(&mut sink, &line.batch(&updates[..before])).await.unwrap();
            apply(&mut sink, &line.batch(&updates[again..])).await.unwrap();
            assert_eq!(current(stage).await, ["1\t4\tlong\tx"], "{before} before, again from {again}");
        }
        let mut moves = moving().to_vec();
        moves.push(row("u", 30, 2, r#""n":3,"txt":UNSENT,"b":"y""#).on(1));
        for again in [1, 2] {
            clear(stage).await;
            let (mut sink, mut line) = (stage.sink(declaring(COLUMNS)).await, Log::default());
            apply(&mut sink, &line.batch(&moves[..1])).await.unwrap();
            apply(&mut sink, &line.batch(&moves[1..3])).await.unwrap();
            apply(&mut sink, &line.batch(&moves[again..])).await.unwrap();
            assert_eq!(current(stage).await, ["2\t3\tlong\ty"], "a key change, again from {again}");
        }
    })
    .await;
}

#[tokio::test]
async fn without_its_other_half_a_value_that_was_not_sent_is_refused() {
    staged(async |stage| {
        for before in [1, 2] {
            clear(stage).await;
            let mut sink = stage.sink(declaring(COLUMNS)).await;
            apply(&mut sink, &batch(&moving()[..before])).await.unwrap();
            let error = apply(&mut sink, &batch(&moving()[2..])).await.unwrap_err();
            assert_eq!(error.kind, FailureKind::Contract);
            assert!(
                error.context.contains(
                    "the row changed its key, and its values under the old key are gone or not known to be the last"
                ),
                "{error}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn an_insert_without_a_value_and_without_an_old_key_is_refused() {
    staged(async |stage| {
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        let mut line = Log::default();
        apply(&mut sink, &line.batch(&[row("c", 10, 1, r#""n":1,"txt":"other","b":"x""#)])).await.unwrap();
        let error =
            apply(&mut sink, &line.batch(&[row("c", 20, 1, r#""n":1,"txt":UNSENT,"b":"x""#)])).await.unwrap_err();
        assert!(error.context.contains("it is an insert that does not say which row it was before"), "{error}");
    })
    .await;
}

/// `UPDATE t SET id = id + 1`: each row takes the key of the next, which made room for it.
fn shifted(rows: u32) -> (Vec<Event>, Vec<Event>) {
    let text = |id| format!(r#""n":{id},"txt":"body {id}","b":"x""#);
    let stored = (1..=rows).map(|id| row("c", 10 + u64::from(id), id, &text(id))).collect();
    let moved = (1..=rows).rev().flat_map(|id| {
        let lsn = 100_000 + u64::from(rows - id);
        let create = row("c", lsn, id + 1, &format!(r#""n":{id},"txt":UNSENT,"b":"x""#));
        [row("d", lsn, id, ""), create.moved_from(&format!(r#"{{"id":{id}}}"#))]
    });
    (stored, moved.collect())
}

#[tokio::test]
async fn rows_that_take_each_others_keys_keep_their_own_values() {
    staged(async |stage| {
        let rows = 1100;
        let (stored, moved) = shifted(rows);
        let recorder = Recorder::before(&stage.database.address().url).await;
        let mut address = stage.database.address().clone();
        address.url = recorder.url();
        let mut sink = stage.sink_at(&address, declaring(COLUMNS)).await;
        let mut line = Log::default();
        apply(&mut sink, &line.batch(&stored)).await.unwrap();
        let moves: Batch = line.batch(&moved);
        // The reply is lost behind each of its inserts: three of rows that moved, one of the rest.
        for lose in [1, 1, 1, 1] {
            recorder.lose_insert(lose);
            assert_eq!(apply(&mut sink, &moves).await.unwrap_err().kind, FailureKind::Unreachable);
        }
        let outcome = apply(&mut sink, &moves).await.unwrap();
        assert_eq!(outcome, Outcome { applied: 1, stale: u64::from(rows) }, "all but the marker of row 1 are there");
        let sums = "SELECT count(), countIf(id = n + 1 AND txt = concat('body ', toString(n))) FROM t_current";
        assert_eq!(stage.rows(sums).await, [format!("{rows}\t{rows}")]);
    })
    .await;
}

#[tokio::test]
async fn answers_that_are_too_long_are_asked_for_in_pieces() {
    staged(async |stage| {
        let mut sink = stage.sink(declaring(COLUMNS)).await;
        let mut line = Log::default();
        let ids = || 1..=24_u32;
        for id in ids() {
            let text = format!(r#""n":1,"txt":"{}","b":"x""#, "x".repeat(1 << 20));
            apply(&mut sink, &line.batch(&[row("c", 10 + u64::from(id), id, &text)])).await.unwrap();
        }
        let masked: Vec<Event> =
            ids().map(|id| row("u", 100 + u64::from(id), id, r#""n":2,"txt":UNSENT,"b":"y""#)).collect();
        apply(&mut sink, &line.batch(&masked)).await.unwrap();
        let sums = "SELECT count(), sum(length(txt)), sum(n), uniqExact(b) FROM t_current";
        assert_eq!(stage.rows(sums).await, [format!("24\t{}\t48\t1", 24 << 20)]);
    })
    .await;
}

/// Every type that a column may have: its value, in SQL, and NULL where it may be.
const TYPES: &[(&str, &str)] = &[
    ("Bool", "true"),
    ("Int8", "-128"),
    ("UInt64", "18446744073709551615"),
    ("Int128", "toInt128('-170141183460469231731687303715884105728')"),
    ("UInt128", "toUInt128('340282366920938463463374607431768211455')"),
    ("UInt256", "toUInt256('115792089237316195423570985008687907853269984665640564039457584007913129639935')"),
    ("Float32", "0.1"),
    ("Float64", "nan"),
    ("Decimal(9, 2)", "toDecimal32('-1.25', 2)"),
    ("Decimal(38, 18)", "toDecimal128('-12345678901234567890.123456789012345678', 18)"),
    ("Decimal(76, 10)", "toDecimal256('123456789012345678901234567890123456789012345678901234567890.0123456789', 10)"),
    ("String", "unhex('00ff27225c0a80')"),
    ("LowCardinality(String)", "'low'"),
    ("FixedString(3)", "unhex('ff0061')"),
    ("Date", "'2149-06-06'"),
    ("Date32", "'1900-01-01'"),
    ("DateTime('Europe/Berlin')", "toDateTime(1698541200)"),
    ("DateTime64(3, 'America/New_York')", "fromUnixTimestamp64Milli(-1)"),
    ("DateTime64(9)", "fromUnixTimestamp64Nano(1700000000123456789)"),
    ("UUID", "'00112233-4455-6677-8899-aabbccddeeff'"),
    ("Enum8('a' = -1, 'it\\'s' = 2)", "'it\\'s'"),
    ("Enum16('x' = 300)", "'x'"),
    ("IPv4", "'255.1.2.3'"),
    ("IPv6", "'2001:db8::ff00:42:8329'"),
];

#[tokio::test]
async fn every_type_comes_back_to_the_bit() {
    staged(async |stage| {
        let mut columns = Vec::new();
        let mut values = Vec::new();
        for (kind, value) in TYPES {
            for (wrapped, sql) in [
                ((*kind).to_owned(), (*value).to_owned()),
                (nullable(kind), (*value).to_owned()),
                (nullable(kind), "NULL".to_owned()),
                (format!("Array({})", nullable(kind)), format!("[{value}, NULL]")),
                (format!("Array(Array({kind}))"), format!("[[{value}], []]")),
                (format!("Map(String, {kind})"), format!("map('k', {value}, '', {value})")),
            ] {
                columns.push(format!("c{} {wrapped}", columns.len()));
                values.push(sql);
            }
        }
        stage
            .run(&format!(
                "CREATE TABLE t (id Int64, n Int32, {}, _op String, _source_ts_ms Nullable(Int64), _is_deleted UInt8, \
                 _version UInt128) ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id \
                 SETTINGS allow_suspicious_low_cardinality_types = 1",
                columns.join(", ")
            ))
            .await;
        stage.run(&format!("INSERT INTO t SELECT 1, 1, {}, 'c', 5, 0, toUInt128('7')", values.join(", "))).await;
        let all = (0..columns.len()).map(|n| format!("c{n}")).collect::<Vec<_>>().join(", ");
        let stored = stage.rows(&format!("SELECT {all} FROM t")).await;
        let masked: Vec<String> = (0..columns.len()).map(|n| format!("\"c{n}\":UNSENT")).collect();
        let update = row("u", 20, 1, &format!("\"n\":2,{}", masked.join(",")));
        stage.apply(creating(), &batch(&[update])).await.unwrap();
        assert_eq!(stage.rows("SELECT n FROM t FINAL").await, ["2"]);
        assert_eq!(stage.rows("SELECT count() FROM t").await, ["2"], "the row from before is still there");
        assert_eq!(stage.rows(&format!("SELECT {all} FROM t FINAL")).await, stored);
    })
    .await;
}

fn nullable(kind: &str) -> String {
    match kind.strip_prefix("LowCardinality(") {
        Some(inner) => format!("LowCardinality(Nullable({inner})"),
        None => format!("Nullable({kind})"),
    }
}

#[tokio::test]
async fn rows_are_found_by_keys_of_every_type() {
    staged(async |stage| {
        for (kind, value) in TYPES.iter().filter(|(kind, _)| !kind.starts_with("Float")) {
            clear(stage).await;
            stage
                .run(&format!(
                    "CREATE TABLE t (k {kind}, k2 String, n Int32, txt Nullable(String), _op String, \
                     _source_ts_ms Nullable(Int64), _is_deleted UInt8, _version UInt128) \
                     ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY (k2, k)"
                ))
                .await;
            // What the source would send for this value, as a text.
            let sent = match *kind {
                "String" => "caf\u{e9} 'x' \\\\".to_owned(),
                "FixedString(3)" => "a'b".to_owned(),
                "Bool" => "true".to_owned(),
                kind if kind.starts_with("DateTime") => "2023-11-14T22:13:20.123Z".to_owned(),
                _ => stage.rows(&format!("SELECT CAST({value} AS {kind})")).await[0].replace("\\'", "'"),
            };
            let json = match *kind {
                kind if kind == "Bool" || kind.contains("Int") => sent,
                kind if kind.starts_with("DateTime('") => "\"2023-11-14T22:13:20Z\"".to_owned(),
                _ => format!("\"{sent}\""),
            };
            let key = format!(r#"{{"k":{json},"k2":"it's"}}"#);
            let event = |op, lsn, rest: &str| event(op, lsn, &key, &format!(r#"{{"k":{json},"k2":"it's",{rest}}}"#));
            let mut line = Log::default();
            let mut sink = stage.sink(creating()).await;
            apply(&mut sink, &line.batch(&[event("c", 10, r#""n":1,"txt":"kept""#)]))
                .await
                .unwrap_or_else(|e| panic!("{kind}: {e}"));
            let masked = event("u", 20, &format!(r#""n":2,"txt":"{UNSENT}""#));
            apply(&mut sink, &line.batch(&[masked])).await.unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(stage.rows("SELECT n, txt FROM t FINAL").await, ["2\tkept"], "{kind}");
        }
    })
    .await;
}
