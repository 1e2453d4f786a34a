//! Cases that end with a refusal, and those whose refusal is not built yet.

use serde_json::json;

use super::case::Case;
use super::stand::{Sink, Stand, same_rows};
use super::verdict::{Outcome, Verdict};
use super::walk::{refused, target};

/// B06: a connector without a version scheme.
pub fn other_connector(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.configure();
    stand.feed(case.entries());
    let verdict = refused(&stand.run(&["--until-end"]), &["record srv.dbo.t:0:0", "sqlserver", "kafka-offset"])?;
    if !stand.table(target(case)).is_empty() {
        return Err("rows are there".to_owned());
    }
    let (code, said) = stand.command(&["check"]);
    if code == 0 || !said.contains("sqlserver") {
        return Err(format!("check does not say it at start: exit {code}: {said}"));
    }
    Ok(verdict)
}

/// B13, B16: the log began anew with lower positions. Nothing of it is applied before somebody says
/// that it is a new one; then everything is.
pub fn new_log(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.configure();
    let entries = case.entries();
    let (topic, first) = (entries[1].topic.clone(), entries[1].offset);
    stand.feed(entries);
    let ran = stand.run(&["--until-end"]);
    let place = format!("{topic}:0:{first}");
    refused(&ran, &[&format!("record {place}"), "began anew", &format!("settle epoch bump {place}")])?;
    if stand.committed(&topic, 0) != Some(first) {
        return Err(format!("committed {:?} where the new log begins at {first}", stand.committed(&topic, 0)));
    }
    let (code, said) = stand.command(&["epoch", "bump", &place]);
    if code != 0 || !said.contains(&format!("epoch 1 begins at {place}")) {
        return Err(format!("epoch bump: exit {code}: {said}"));
    }
    stand.run_to_end()?;
    let rows =
        if case.expect["rows"].is_array() { &case.expect["rows"] } else { &case.expect["rows_after_epoch_bump"] };
    same_rows(rows, &stand.table(target(case)), &case.table.key, true)?;
    let replay = stand.run(&["--until-end", "--group", "again"]);
    if replay.code != 0 {
        return Err(format!("replay: exit {}: {}", replay.code, replay.said));
    }
    same_rows(rows, &stand.table(target(case)), &case.table.key, true)?;
    Ok(Verdict::Pass(
        "stops where the new log begins; goes on behind `settle epoch bump`, and a replay changes nothing",
    ))
}

/// B21: a sorting key that is not the key.
pub fn other_sorting_key(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.sql(
        "CREATE TABLE people (id Int64, account_id Int32, name Nullable(String), _op String, _source_ts_ms Int64, \
         _is_deleted UInt8, _version UInt128) ENGINE = ReplacingMergeTree(_version, _is_deleted) \
         ORDER BY (account_id, id)",
    )?;
    stand.configure();
    stand.feed(case.entries());
    let verdict = refused(&stand.run(&["--until-end"]), &["account_id"])?;
    if stand.rows("SELECT count() AS n FROM people")[0]["n"].as_deref() != Some("0") {
        return Err("rows were written".to_owned());
    }
    let (code, said) = stand.command(&["check"]);
    if code == 0 || !said.contains("account_id") {
        return Err(format!("check does not say it at start: exit {code}: {said}"));
    }
    Ok(verdict)
}

/// B23: a table that another tool filled.
pub fn other_versions(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    match sink {
        Sink::Sqlite => {
            stand.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, _version INTEGER, is_deleted INTEGER)")?
        }
        Sink::Postgres | Sink::MySql => {
            stand.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v TEXT, _version BIGINT, is_deleted INTEGER)")?
        }
        Sink::ClickHouse => stand.sql(
            "CREATE TABLE t (id Int64, v Nullable(String), _version UInt64, is_deleted UInt8) \
             ENGINE = ReplacingMergeTree(_version, is_deleted) ORDER BY id",
        )?,
    }
    let step = case.steps.iter().find(|step| step.step == "target").ok_or("no target step")?;
    stand.sql(step.sql.as_deref().ok_or("no SQL")?)?;
    stand.configure();
    stand.feed(case.entries());
    let verdict = refused(&stand.run(&["--until-end"]), &["version"])?;
    let rows = stand.rows("SELECT id, v FROM t");
    same_rows(&json!([{"id": 1, "v": "from other tool"}]), &rows, &case.table.key, true)?;
    if stand.committed("srv.public.t", 0).is_some_and(|offset| offset > 0) {
        return Err("an offset was committed".to_owned());
    }
    Ok(verdict)
}

/// B88: a table without a key.
pub fn append(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.configure();
    stand.feed(case.entries());
    refused(&stand.run(&["--until-end"]), &["record srv.public.log:0:0", "no message key", "message.key.columns"])?;
    Ok(Verdict::Part(3, "append tables; a record without a key is refused by name until then".into()))
}
