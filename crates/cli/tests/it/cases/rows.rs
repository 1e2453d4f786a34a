//! Cases about order, delivery and names: they end with rows.

use serde_json::json;

use super::case::Case;
use super::stand::{Sink, Stand, same_rows};
use super::verdict::{Outcome, Verdict};
use super::walk::{every_cut, has_rows, not_read_yet, refused, steps, target};

/// The case's steps in their order end with its rows, and so they do after one more replay.
pub fn plain(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    steps(&mut stand, case)?;
    has_rows(&stand, case)?;
    let again = stand.run(&["--until-end", "--group", "again"]);
    if again.code != 0 {
        return Err(format!("a replay ended with {}: {}", again.code, again.said));
    }
    has_rows(&stand, case).map_err(|why| format!("after a replay: {why}"))?;
    if sink.is_atomic() && again.report.applied > 0 {
        return Err("a replay changed something".to_owned());
    }
    if case.expect.get("clickhouse_final").is_some() && sink == Sink::ClickHouse {
        let rows = stand.rows(&format!(
            "SELECT *, _is_deleted AS is_deleted FROM {} FINAL WHERE _is_deleted = 0",
            sink.quoted(target(case))
        ));
        same_rows(&case.expect["clickhouse_final"], &rows, &case.table.key, true)?;
    }
    Ok(Verdict::Pass(""))
}

/// B05: every change of one transaction, in every cut; the flattened topic is not read yet.
pub fn one_transaction(case: &Case, sink: Sink) -> Outcome {
    every_cut(case, || Stand::of(case, sink), &case.of_topic("srv.public.t"), true)?;
    let mut flat = Stand::of(case, sink);
    flat.configure();
    flat.feed(case.of_topic("srv.public.t.flat"));
    refused(&flat.run(&["--until-end"]), &["record srv.public.t.flat:0:0", "no Debezium envelope"])?;
    Ok(Verdict::Pass("the flattened topic is refused by name until a later part reads it"))
}

/// B15: numbers of binlog files compare as numbers.
pub fn binlog_numbers(case: &Case, sink: Sink) -> Outcome {
    // Both topics name the source table `t`, so each is read into a database of its own.
    for topic in ["my.shop.t", "my.shop.u"] {
        let mut stand = Stand::of(case, sink);
        stand.configure();
        stand.feed(case.of_topic(topic));
        stand.run_to_end()?;
        let name = topic.rsplit('.').next().unwrap_or_default();
        let table = if stand.has_table(name) { name } else { "t" };
        same_rows(&case.expect["rows"][name], &stand.table(table), &case.table.key, true)?;
    }
    Ok(Verdict::Pass(""))
}

/// B18: updates and deletes of a batch in any cut.
pub fn any_cut(case: &Case, sink: Sink) -> Outcome {
    let all = sink == Sink::Sqlite || settle_testkit::services::is_full();
    every_cut(case, || Stand::of(case, sink), &case.entries(), all)?;
    Ok(Verdict::Pass(match sink {
        Sink::Sqlite => "every cut",
        _ => "every size of batches, every single border; all 64 cuts in a full run",
    }))
}

/// B45: a column that was not sent, in any cut.
pub fn toast_in_any_cut(case: &Case, sink: Sink) -> Outcome {
    let all = sink == Sink::Sqlite || settle_testkit::services::is_full();
    every_cut(case, || Stand::of(case, sink), &case.entries(), all)?;
    Ok(Verdict::Pass(match sink {
        Sink::Sqlite => "every cut",
        _ => "every size of batches, every single border; all 32 cuts in a full run",
    }))
}

/// B20: what keeps a deleted row deleted is not cleaned up.
pub fn delete_markers(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.configure();
    stand.feed(case.entries());
    stand.run_to_end()?;
    match sink {
        Sink::Sqlite => stand.sql("VACUUM; REINDEX; PRAGMA optimize")?,
        Sink::Postgres => {
            stand.sql("VACUUM FULL t")?;
            stand.sql("VACUUM FULL t__tombstones")?;
        }
        Sink::MySql => stand.sql("OPTIMIZE TABLE t, t__tombstones")?,
        Sink::ClickHouse => {
            stand.sql("OPTIMIZE TABLE t FINAL")?;
            if stand.sql("OPTIMIZE TABLE t FINAL CLEANUP").is_ok() {
                return Err("the table that Settle made lets its delete markers be cleaned up".to_owned());
            }
        }
    }
    stand.rewind("srv.public.t", 0, 1);
    let ran = stand.run(&["--max-messages", "1"]);
    if ran.code != 0 || !stand.table("t").is_empty() {
        return Err(format!("exit {}, rows {:?}", ran.code, stand.table("t")));
    }
    if sink.is_atomic() {
        return Ok(Verdict::Pass(
            "tombstones are kept for ever; Settle removes none unless tombstone_retention says so",
        ));
    }
    let made_with = |setting: &str| -> Result<_, String> {
        let mut stand = Stand::of(case, sink);
        stand.sql(&format!(
            "CREATE TABLE t (id Int64, v Nullable(String), _op String, _source_ts_ms Int64, _is_deleted UInt8, \
             _version UInt128) ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id SETTINGS {setting}"
        ))?;
        stand.configure();
        stand.feed(case.entries());
        Ok(stand.run(&["--until-end"]))
    };
    let by_itself = "enable_replacing_merge_with_cleanup_for_min_age_to_force_merge";
    let both = format!("{by_itself} = 1, allow_experimental_replacing_merge_with_cleanup = 1");
    refused(&made_with(&both)?, &[by_itself])?;
    let by_hand = made_with("allow_experimental_replacing_merge_with_cleanup = 1")?;
    if by_hand.code != 0 || !by_hand.logs.contains("FINAL CLEANUP") {
        return Err(format!("no warning of CLEANUP: {}", by_hand.logs));
    }
    Ok(Verdict::Pass("a table that cleans up by itself is refused, one that allows it by hand is warned of"))
}

/// B58: hostile names.
pub fn hostile_names(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    if matches!(sink, Sink::Postgres | Sink::MySql) {
        for name in ["Quoted_\" . Text_Column", "select", "a`b", "x'y", "semi;--"] {
            stand.retype(&case.table.name, name, &sink.column_type("text", false));
        }
    }
    stand.configure();
    stand.feed(case.entries());
    stand.run_to_end()?;
    let rows = json!([{
        "pk": 1, "Quoted_\" . Text_Column": "some text", "select": "kw", "a`b": "bt", "x'y": "sq", "semi;--": "inj",
    }]);
    same_rows(&rows, &stand.table("Quoted_\" . Table"), &["pk".to_owned()], true)?;
    for (table, v) in [("order.items", "dot table"), ("order", "reserved table")] {
        let rows = json!([{"id": 1, "v": v}]);
        same_rows(&rows, &stand.table(table), &["id".to_owned()], true)?;
    }
    Ok(Verdict::Pass(""))
}

/// B61: keys that differ by case, accent, form and a space at the end.
pub fn close_keys(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    steps(&mut stand, case)?;
    let rows: Vec<_> =
        ["a", "A", "a ", "\u{e1}", "a\u{301}"].iter().enumerate().map(|(n, key)| json!({"k": key, "n": n})).collect();
    same_rows(&rows.into(), &stand.table("s"), &case.table.key, true)?;
    if sink == Sink::ClickHouse {
        return Ok(Verdict::Pass(""));
    }
    let tables: &[(&str, [&str; 2])] = match sink {
        Sink::MySql => &[
            ("k VARCHAR(100) COLLATE utf8mb4_general_ci PRIMARY KEY, n INT", ["utf8mb4_general_ci", "key_folding"]),
            // It tells case and accents apart, and no spaces at the end.
            ("k VARCHAR(100) COLLATE utf8mb4_bin PRIMARY KEY, n INT", ["utf8mb4_bin", "key_folding"]),
            ("k CHAR(100) COLLATE utf8mb4_nopad_bin PRIMARY KEY, n INT", ["\"k\"", "VARCHAR"]),
        ],
        _ => &[("k TEXT COLLATE NOCASE PRIMARY KEY, n INTEGER", ["NOCASE", "COLLATE BINARY"])],
    };
    for (columns, words) in tables {
        let mut folded = Stand::of(case, sink);
        folded.sql(&format!("CREATE TABLE s ({columns})"))?;
        folded.configure();
        folded.feed(case.entries());
        refused(&folded.run(&["--until-end"]), words)?;
    }
    Ok(Verdict::Pass("a column that folds case is refused"))
}

/// B63: tombstones after deletes, without them, alone, and without a key.
pub fn tombstones(case: &Case, sink: Sink) -> Outcome {
    let entries = case.of_topic("srv.public.t");
    let mut strict = Stand::of(case, sink);
    strict.configure();
    strict.feed(entries.clone());
    refused(&strict.run(&["--until-end"]), &["record srv.public.t:0:5", "a tombstone alone"])?;
    if strict.committed("srv.public.t", 0) != Some(5) || !strict.table("t").is_empty() {
        return Err("what came before the lone tombstone is not settled".to_owned());
    }
    let mut skipping = Stand::of(case, sink);
    skipping.settings.source = "lone_tombstones = \"skip\"\n".to_owned();
    skipping.configure();
    skipping.feed(entries);
    let report = skipping.run_to_end()?;
    if report.control != 3 || !skipping.table("t").is_empty() {
        return Err(format!("{report:?}, rows {:?}", skipping.table("t")));
    }
    let mut flat = Stand::of(case, sink);
    flat.configure();
    flat.feed(case.of_topic("flat.t"));
    refused(&flat.run(&["--until-end"]), &["record flat.t:0:0", "no Debezium envelope"])?;
    Ok(Verdict::Pass("alone it is refused unless lone_tombstones = \"skip\"; the flattened topic is refused by name"))
}

/// B66: the target's column was renamed while records with the old name were on their way.
pub fn renamed_column(case: &Case, sink: Sink) -> Outcome {
    let before = case.entries()[..1].to_vec();
    let after = case.entries()[1..].to_vec();
    let rename = |stand: &Stand| stand.sql("ALTER TABLE rn RENAME COLUMN b TO b_renamed");
    let begun = |settings: &str| -> Result<Stand, String> {
        let mut stand = Stand::of(case, sink);
        stand.settings.sink = settings.to_owned();
        stand.configure();
        stand.feed(before.clone());
        stand.run_to_end()?;
        rename(&stand)?;
        stand.feed(after.clone());
        Ok(stand)
    };
    // Told to refuse, it stops at the first record that does not fit, and the row is as it was.
    let stand = begun("evolution = \"refuse\"\n")?;
    refused(&stand.run(&["--until-end"]), &["b", "evolution"])?;
    if stand.committed("my.shop.rn", 0) != Some(1) {
        return Err("the offset moved past what was refused".to_owned());
    }
    // Told of the new name, it goes on.
    let mut stand = begun("evolution = \"refuse\"\n")?;
    let name = case.table.name.clone();
    stand.settings.tables.insert(name.clone(), "rename = { b = \"b_renamed\" }".to_owned());
    for (column, _) in stand.settings.columns.get_mut(&name).into_iter().flatten() {
        if column == "b" {
            *column = "b_renamed".to_owned();
        }
    }
    stand.configure();
    stand.run_to_end()?;
    has_rows(&stand, case)?;
    // By default a column that appears is added: nothing is lost, and nothing is NULL that had a value.
    let stand = begun("")?;
    let ran = stand.run(&["--until-end"]);
    if ran.code != 0 {
        return Err(format!("exit {}: {}", ran.code, ran.said));
    }
    // ClickHouse writes whole rows: the column that 37 does not carry takes its default, with a warning.
    let kept = if sink.is_atomic() { json!("v37") } else { json!(null) };
    let rows = json!([
        {"id": 37, "b": "upd37", "b_renamed": kept},
        {"id": 38, "b": "v38", "b_renamed": null},
        {"id": 40, "b": null, "b_renamed": "v40"},
    ]);
    same_rows(&rows, &stand.table("rn"), &case.table.key, true)?;
    if sink == Sink::ClickHouse && !ran.logs.contains("was renamed") {
        return Err(format!("no word of a rename: {}", ran.logs));
    }
    Ok(Verdict::Pass("by rename or evolution = \"refuse\"; by default the old column is added again"))
}

/// B11, B65: flattened records.
pub fn flattened(case: &Case, sink: Sink) -> Outcome {
    not_read_yet(&mut Stand::of(case, sink), case, 5, "flattened records (ExtractNewRecordState)")
}

/// B71: Avro.
pub fn avro(case: &Case, sink: Sink) -> Outcome {
    not_read_yet(&mut Stand::of(case, sink), case, 5, "Avro and the schema registry")
}
