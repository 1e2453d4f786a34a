//! Cases about values: numbers, times, text, bytes, and the columns that take them.

use serde_json::json;

use super::case::Case;
use super::poison::{past_poison, stops};
use super::stand::{Sink, Stand, same_rows};
use super::verdict::{Outcome, Verdict};
use super::walk::{has_rows, refused, steps, target};

/// B33: timestamps before 1970, and one before 1900.
pub fn before_1970(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    steps(&mut stand, case)?;
    has_rows(&stand, case)?;
    Ok(Verdict::Pass(""))
}

/// B36: years of more than four digits, before Christ, and year 1.
pub fn far_years(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.declare(case);
    stand.settings.source = "time_precision_mode = \"microseconds\"\n".to_owned();
    // Astronomical years with a sign outside of 0000 to 9999: -4713 is 4714 BC.
    let rows = json!([
        {"id": 0, "tz": "+21016-11-04 06:51:30.123456", "ts": "+21016-11-04 06:51:30.123456"},
        {"id": 1, "tz": "-4713-12-31 23:59:59.999999"},
        {"id": 2, "tz": "0001-01-01 00:00:00", "ts": "0001-01-01 00:00:00"},
        {"id": 3, "tz": "+294247-01-01 23:59:59.999999"},
        {"id": 4, "tz": "2016-11-04 11:51:30.123456", "ts": "2016-11-04 11:51:30.123456"},
    ]);
    if sink == Sink::Sqlite {
        steps(&mut stand, case)?;
        same_rows(&rows, &stand.table(target(case)), &case.table.key, true)?;
        return Ok(Verdict::Pass("years outside of 0000 to 9999 have a sign, 4714 BC is -4713"));
    }
    if sink == Sink::Postgres {
        steps(&mut stand, case)?;
        let found = stand.table(target(case));
        same_rows(&case.expect["postgres_rows"], &found, &case.table.key, true)?;
        let of_ts = json!([
            {"id": 0, "ts": "21016-11-04 06:51:30.123456"}, {"id": 1, "ts": "4713-12-31 23:59:59.999999 BC"},
            {"id": 2, "ts": "0001-01-01 00:00:00"}, {"id": 3, "ts": "294247-01-01 23:59:59.999999"},
            {"id": 4, "ts": "2016-11-04 11:51:30.123456"},
        ]);
        same_rows(&of_ts, &found, &case.table.key, true)?;
        return Ok(Verdict::Pass(""));
    }
    let found = past_poison(&mut stand, case.entries())?;
    let tz = sink.shown("tz");
    stops(&found, &[(0, &tz), (1, &tz), (3, &tz)])?;
    let rows = json!([rows[2], rows[4]]);
    same_rows(&rows, &stand.table(target(case)), &case.table.key, true)?;
    let kind = if sink == Sink::MySql { "DATETIME has the years 0 to" } else { "DateTime64 ends at the year" };
    Ok(Verdict::SetAside(format!("dead letters at offset 0, 1, 3: {kind} 9999")))
}

/// B38: the unit is the schema's; the column's precision is another.
pub fn units(case: &Case, sink: Sink) -> Outcome {
    let wide = |stand: &mut Stand, digits: u8| {
        for column in ["ms", "us", "ns", "cms"] {
            stand.retype("public.p", column, &format!("Nullable(DateTime64({digits}, 'UTC'))"));
        }
    };
    let mut stand = Stand::of(case, sink);
    wide(&mut stand, 9);
    stand.configure();
    stand.feed(case.of_topic("srv.public.p"));
    stand.run_to_end()?;
    same_rows(&case.expect["rows"], &stand.table("p"), &case.table.key, true)?;
    let mut narrow = Stand::of(case, sink);
    wide(&mut narrow, 3);
    narrow.configure();
    narrow.feed(case.of_topic("srv.public.p"));
    refused(&narrow.run(&["--until-end"]), &["record srv.public.p:0:0", "`us`", "digits"])?;
    let mut bare = Stand::of(case, sink);
    for column in ["ms", "us"] {
        bare.retype("public.p2", column, "Nullable(DateTime64(6, 'UTC'))");
    }
    bare.retype("public.p2", "id", "Int64");
    bare.configure();
    bare.feed(case.of_topic("srv.public.p2"));
    refused(&bare.run(&["--until-end"]), &["record srv.public.p2:0:0", "time_precision_mode"])?;
    Ok(Verdict::Pass("digits that do not fit and integers without a declared unit are refused"))
}

/// B40: intervals as text stay as they are sent; as a number they are microseconds and nothing else.
pub fn intervals(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    steps(&mut stand, case)?;
    let rows = json!([
        {"id": 1, "a": 37_091_106_780_000_i64, "b": "P1Y2M3DT4H5M6.78S"},
        {"id": 2, "a": -1, "b": "P0Y0M0DT5H1M0.123457S"},
        {"id": 3, "a": 0, "b": "P-1Y-2M3DT-4H"},
    ]);
    if sink == Sink::Postgres {
        let rows = json!([
            {"id": 1, "a": 37_091_106_780_000_i64, "b": "1 year 2 mons 3 days 04:05:06.78"},
            {"id": 2, "a": -1, "b": "05:01:00.123457"},
            {"id": 3, "a": 0, "b": "-1 years -2 mons +3 days -04:00:00"},
        ]);
        same_rows(&rows, &stand.table("iv"), &case.table.key, true)?;
        return Ok(Verdict::Pass("text becomes an interval with its months and days; numbers are microseconds"));
    }
    same_rows(&rows, &stand.table("iv"), &case.table.key, true)?;
    Ok(Verdict::Pass("ISO-8601 text; numbers are microseconds"))
}

/// B43: bytes in three forms. Which form a string has is declared, never guessed.
pub fn bytes(case: &Case, sink: Sink) -> Outcome {
    let columns = match sink {
        Sink::Postgres => "id, encode(d, 'hex') AS d, d IS NULL AS is_null",
        _ => "id, lower(hex(d)) AS d, d IS NULL AS is_null",
    };
    let of = |mode: &str| {
        let mut stand = Stand::of(case, sink);
        let kind = match sink {
            Sink::Sqlite => "BLOB",
            Sink::ClickHouse => "Nullable(BLOB)",
            Sink::Postgres => "bytea",
            Sink::MySql => "LONGBLOB",
        };
        stand.retype("public.bin", "d", kind);
        if sink == Sink::ClickHouse {
            stand.retype("public.bin", "id", "Int64");
        }
        stand.settings.source = mode.to_owned();
        stand
    };
    let all: String = (0..=255).map(|byte| format!("{byte:02x}")).collect();
    let rows = json!([
        {"id": 1, "d": "010203", "is_null": 0}, {"id": 2, "d": "010203"}, {"id": 3, "d": "cafe"},
        {"id": 5, "d": "", "is_null": 0}, {"id": 6, "d": all},
    ]);
    let mut hex = of("binary_handling_mode = \"hex\"\n");
    let found = past_poison(&mut hex, case.entries())?;
    stops(&found, &[(3, "not hexadecimal")])?;
    same_rows(&rows, &hex.select(columns, "bin"), &case.table.key, true)?;
    let mut base64 = of("binary_handling_mode = \"base64\"\n");
    let found = past_poison(&mut base64, case.entries())?;
    // "010203" is no base64 of whole bytes; a lenient decoder would invent some.
    stops(&found, &[(1, "not base64"), (3, "not base64")])?;
    same_rows(&json!([{"id": 3, "d": "71a7de"}]), &base64.select(columns, "bin"), &case.table.key, false)?;
    let mut safe = of("binary_handling_mode = \"base64-url-safe\"\n");
    stops(&past_poison(&mut safe, case.entries())?, &[(1, "not URL-safe base64")])?;
    same_rows(&json!([{"id": 4, "d": "ffef"}]), &safe.select(columns, "bin"), &case.table.key, false)?;
    let mut undeclared = of("");
    undeclared.configure();
    undeclared.feed(case.entries());
    refused(&undeclared.run(&["--until-end"]), &["binary_handling_mode"])?;
    Ok(Verdict::SetAside("dead letters: strings that are not in the declared form".into()))
}

/// B48: NULL is NULL; where the column has none the row is refused.
pub fn null_is_null(case: &Case, sink: Sink) -> Outcome {
    let mut without = Stand::of(case, sink);
    without.settings.tables.insert("public.t".into(), "exclude = [\"q\"]".into());
    without.settings.columns.get_mut("public.t").ok_or("declared")?.retain(|(name, _)| name != "q");
    steps(&mut without, case)?;
    has_rows(&without, case)?;
    let mut with = Stand::of(case, sink);
    with.retype("public.t", "q", "Int32");
    let found = past_poison(&mut with, case.entries())?;
    stops(&found, &[(1, "column `q` (Int32): NULL where the column is not Nullable")])?;
    same_rows(&json!([{"id": 1, "v": "x", "q": 7}]), &with.table("t"), &case.table.key, true)?;
    Ok(Verdict::SetAside("dead letters at offset 1: NULL where the column has none".into()))
}

/// B50: JSON text is text, to the byte.
pub fn json_text(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    steps(&mut stand, case)?;
    same_rows(&case.expect["rows"], &stand.table("j"), &case.table.key, false)?;
    let rest = json!([{"id": 0, "j": "{\"p\":[1.5]}"}, {"id": 5, "j": "\"plain\""}]);
    same_rows(&rest, &stand.table("j"), &case.table.key, false)?;
    Ok(Verdict::Pass(""))
}

/// B51: a map with nulls and odd keys.
pub fn maps(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.retype("public.hs", "m", if sink == Sink::Postgres { "json" } else { "Map(String, Nullable(String))" });
    steps(&mut stand, case)?;
    has_rows(&stand, case)?;
    Ok(Verdict::Pass(""))
}

/// B53: text with a semantic name, bytes of text, an array of text.
pub fn named_text(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    steps(&mut stand, case)?;
    let columns = match sink {
        // Bytes of text, and a true array.
        Sink::Postgres => "id, lt, r, convert_from(tsq, 'UTF8') AS tsq, ct, array_to_json(a) AS a",
        _ => "*",
    };
    let found = stand.select(columns, "cu");
    same_rows(&case.expect["rows"], &found, &case.table.key, true)?;
    let rest = json!([{"id": 1, "ct": "Hello World", "a": ["Ship.Frigate", "Ship.Destroyer"]}]);
    same_rows(&rest, &found, &case.table.key, true)?;
    Ok(Verdict::Pass(""))
}

/// B56: a column that the target computes is left to it; a plain one keeps what it has.
pub fn generated(case: &Case, sink: Sink) -> Outcome {
    let mut computed = Stand::of(case, sink);
    computed.settings.columns.clear();
    match sink {
        Sink::Sqlite | Sink::Postgres | Sink::MySql => computed.sql(
            "CREATE TABLE g (id INTEGER PRIMARY KEY, price INTEGER, qty INTEGER, \
             total INTEGER GENERATED ALWAYS AS (price * qty) STORED)",
        )?,
        Sink::ClickHouse => computed.sql(
            "CREATE TABLE g (id Int32, price Nullable(Int32), qty Nullable(Int32), \
             total Nullable(Int64) MATERIALIZED price * qty, _op String, _source_ts_ms Int64, _is_deleted UInt8, \
             _version UInt128) ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id",
        )?,
    }
    steps(&mut computed, case)?;
    same_rows(&case.expect["rows_generated"], &computed.select("id, price, qty, total", "g"), &case.table.key, true)?;
    let mut plain = Stand::of(case, sink);
    plain.retype("public.g", "total", &sink.column_type("int", false));
    if sink.is_atomic() {
        if sink == Sink::Sqlite {
            plain.settings.columns.clear();
        }
        steps(&mut plain, case)?;
        same_rows(&case.expect["rows_plain"], &plain.table("g"), &case.table.key, true)?;
        return Ok(Verdict::Pass(""));
    }
    steps(&mut plain, case)?;
    let rows = json!([{"id": 1, "price": 10, "qty": 3, "total": null}]);
    same_rows(&rows, &plain.table("g"), &case.table.key, true)?;
    Ok(Verdict::Pass("a plain column that a record does not carry takes its default there"))
}

/// B68: a column that is gone at the source; pairs are made by name.
pub fn dropped_column(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    let mut rows = case.expect["rows"].clone();
    rows[1]["b"] = "dflt".into();
    if sink.is_atomic() {
        stand.sql("CREATE TABLE dc (id INTEGER PRIMARY KEY, a TEXT, b TEXT NOT NULL DEFAULT 'dflt', c TEXT)")?;
        steps(&mut stand, case)?;
        same_rows(&rows, &stand.table("dc"), &case.table.key, true)?;
        return Ok(Verdict::Pass(""));
    }
    stand.sql(
        "CREATE TABLE dc (id Int32, a Nullable(String), b String DEFAULT 'dflt', c Nullable(String), _op String, \
         _source_ts_ms Int64, _is_deleted UInt8, _version UInt128) \
         ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY id",
    )?;
    steps(&mut stand, case)?;
    // A new version of a row is a whole row: what it does not carry takes the column's default.
    rows[0]["b"] = "dflt".into();
    same_rows(&rows, &stand.table("dc"), &case.table.key, true)?;
    Ok(Verdict::Pass("a column that a record does not carry takes its default there"))
}

/// B26: integers beyond floats and beyond 64 bits.
pub fn wide_integers(case: &Case, sink: Sink) -> Outcome {
    let mut stand = Stand::of(case, sink);
    stand.declare(case);
    steps(&mut stand, case)?;
    has_rows(&stand, case)?;
    Ok(Verdict::Pass(""))
}
