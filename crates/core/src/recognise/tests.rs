use super::*;
use crate::debezium::source::Position;
use crate::lane::{Lane, LoneTombstones};
use crate::sample::{Placed, mariadb, postgres, record};

/// A Connect schema, cut down to what tells that it is one.
const SCHEMA: &str = r#"{"type":"struct","fields":[],"optional":false,"name":"s.public.t.Envelope"}"#;

fn wrapped(payload: &str) -> String {
    format!(r#"{{"schema":{SCHEMA},"payload":{payload}}}"#)
}

/// What a payload is, in a word.
fn told(payload: &str) -> Result<String, Reason> {
    let record = record(Some(r#"{"id":1}"#), Some(payload));
    Ok(match recognise(&record)? {
        Shape::Row { op, after, source, schema } => {
            let schema = if schema.is_some() { " with schema" } else { "" };
            format!("{} of {} {}{schema}", op.letter(), source.table, after.unwrap_or("-"))
        }
        Shape::Truncate { source } => format!("truncate of {}", source.table),
        Shape::NoValue => "no value".to_owned(),
        Shape::Control(control) => format!("{control:?}"),
    })
}

/// The whole message of a refused payload, as the user sees it.
fn refused(payload: &[u8]) -> String {
    let mut record = record(Some(r#"{"id":1}"#), None).at(0, 7);
    record.payload = Some(payload.to_vec().into());
    let mut lane = Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
    lane.feed(record).unwrap_err().to_string()
}

#[test]
fn every_form_is_recognised_bare_and_wrapped() {
    let row = r#"{"id":1,"status":"END","schema":{"type":"struct"},"payload":null}"#;
    let change = postgres("u", (Some(5), 6), Some(6)).row(row).envelope();
    let delete = postgres("d", (Some(5), 6), Some(6)).before(r#"{"id":1}"#).envelope();
    let truncate = mariadb("t", 1, 4, 0).row("null").envelope();
    let message = postgres("m", (Some(5), 6), Some(6)).envelope();
    let message = message.replacen('{', r#"{"message":{"prefix":"p","content":"aGk="},"#, 1);
    let begin = r#"{"status":"BEGIN","id":"741:265","event_count":null,"data_collections":null,"ts_ms":1}"#;
    let end = r#"{"status":"END","id":"741:265","event_count":2,"data_collections":[{"data_collection":"public.t","event_count":2}]}"#;
    let heartbeat = r#"{"ts_ms":1796056737537}"#;
    let schema_change = r#"{"source":{"connector":"mariadb","table":null,"db":""},"ts_ms":1,"databaseName":"","schemaName":null,"ddl":"SET x=1","tableChanges":[]}"#;
    for (payload, expected) in [
        (change.as_str(), format!("u of t {row}")),
        (&delete, "d of t -".to_owned()),
        (&truncate, "truncate of t".to_owned()),
        (&message, "Message".to_owned()),
        (begin, "Transaction".to_owned()),
        (end, "Transaction".to_owned()),
        (heartbeat, "Heartbeat".to_owned()),
        (schema_change, "SchemaChange".to_owned()),
    ] {
        assert_eq!(told(payload), Ok(expected.clone()), "{payload}");
        let schema = if expected.contains(" of t ") { " with schema" } else { "" };
        assert_eq!(told(&wrapped(payload)), Ok(format!("{expected}{schema}")), "{payload}");
    }
    assert_eq!(told(&wrapped("null")), Ok("no value".to_owned()));
    // What Connect writes for a tombstone when it is told to write schemas (KAFKA-3832).
    assert_eq!(told(r#"{"schema":null,"payload":null}"#), Ok("no value".to_owned()));
}

#[test]
fn signals_are_recognised_by_table_columns_and_kind() {
    let signal = |row: &str| postgres("c", (Some(5), 6), Some(6)).table("debezium_signal").row(row).envelope();
    let opened = r#"{"id":"1","type":"snapshot-window-open","data":null}"#;
    assert_eq!(told(&signal(opened)), Ok("Signal".to_owned()));
    assert_eq!(
        told(
            &signal(opened).replace("postgresql", "mysql").replace(r#""schema":"public","#, r#""file":"b.1","pos":4,"#)
        ),
        Ok("Signal".to_owned())
    );
    // A delete may know nothing but the key: the rest is made up by the connector.
    let delete = postgres("d", (Some(5), 6), Some(6)).table("Signals").before(r#"{"id":"1","type":"","data":null}"#);
    assert_eq!(told(&delete.envelope()), Ok("Signal".to_owned()));
    // Rows of a table that only looks like it are rows.
    for row in [
        r#"{"id":"1","type":"traffic-light","data":null}"#,
        r#"{"id":"1","type":"","data":"7"}"#,
        r#"{"id":"1","type":"log","data":null,"at":1}"#,
        r#"{"id":1,"type":"log","data":null}"#,
    ] {
        assert_eq!(told(&signal(row)), Ok(format!("c of debezium_signal {row}")));
    }
    assert!(told(&signal(opened).replace("debezium_signal", "t")).unwrap().starts_with("c of t"));
}

#[test]
fn rows_that_resemble_control_records_are_not_skipped() {
    for row in [
        r#"{"id":1,"status":"BEGIN"}"#,
        r#"{"id":"1","status":"END","event_count":3,"total":4}"#,
        r#"{"id":1,"op":"m"}"#,
        r#"{"id":1,"ts_ms":5}"#,
        r#"{"source":null,"ddl":"x"}"#,
        r#"{"op":"m","source":{"connector":"postgresql"}}"#,
    ] {
        assert!(matches!(told(row), Err(Reason::UnknownShape(_) | Reason::Source(_))), "{row}: {:?}", told(row));
    }
}

#[test]
fn what_is_no_envelope_is_refused_by_what_it_is() {
    let no_envelope = "the value is no Debezium envelope: no `op` and `source` at its first level";
    let no_json = "the value is not JSON";
    let advice = "if the topic is written as Avro, Protobuf or text, use the matching converter or remove the record";
    for (payload, expected) in [
        (&b""[..], "the value is empty (zero bytes), which is neither JSON nor a tombstone".to_owned()),
        (b"  ", format!("{no_json} (ends too early); {advice}")),
        (b"{bad json", format!("{no_json} (at line 1 column 2); {advice}")),
        (b"{\"op\":\"c\"", format!("{no_json} (ends too early); {advice}")),
        (b"{\"op\":\"c\"} trailing", format!("{no_json} (at line 1 column 12); {advice}")),
        (b"\xef\xbb\xbf{}", format!("{no_json} (starts with a byte order mark); {advice}")),
        (b"\0\0\0\0\x04\x02", format!("{no_json} (starts with byte 0, as Confluent-framed Avro does); {advice}")),
        (b"\xff\xfe\0\x01", format!("{no_json} (is not UTF-8); {advice}")),
        (b"{\"op\":\"c\",\"x\":\"\xff\"}", format!("{no_json} (is not UTF-8); {advice}")),
        (b"[]", format!("{no_envelope} (found an array)")),
        (b" \"secret\"", format!("{no_envelope} (found a string)")),
        (b"null", format!("{no_envelope} (found a scalar)")),
        (b"17", format!("{no_envelope} (found a scalar)")),
        (b"{}", format!("{no_envelope} (found an empty object)")),
        (
            b"{\"id\":1,\"a\":2,\"b\":3,\"c\":4,\"d\":5,\"e\":6}",
            format!("{no_envelope} (found the fields id, a, b, c, d)"),
        ),
        (b"{\"op\":7}", format!("{no_envelope} (found an object whose field at line 1 column 7 is of another type)")),
        (
            b"{\"op\":\"c\",\"op\":\"d\"}",
            format!("{no_envelope} (found an object whose field at line 1 column 14 is of another type)"),
        ),
        (b"{\"schema\":null,\"payload\":{}}", format!("{no_envelope} (found the fields schema, payload)")),
    ] {
        assert_eq!(refused(payload), format!("record t:0:7: {expected}"), "{}", String::from_utf8_lossy(payload));
    }
    let inside = wrapped("[\"c\",null,{\"id\":1}]");
    assert_eq!(refused(inside.as_bytes()), format!("record t:0:7: {no_envelope} (found an array)"));
    assert_eq!(refused(wrapped("7").as_bytes()), format!("record t:0:7: {no_envelope} (found a scalar)"));
}

#[test]
fn envelopes_that_say_too_little_are_refused_by_what_is_missing() {
    let whole = postgres("c", (Some(5), 6), Some(6)).envelope();
    assert!(told(&whole).is_ok());
    let binlog = mariadb("c", 1, 400, 0).envelope();
    let no_position =
        |field: &str, problem: &str| format!("`source.{field}` is {problem}, so the change has no position");
    let form = r#"not of the form ["<commit lsn>" or null, "<record lsn>"]"#;
    for (payload, expected) in [
        (whole.replace(r#""op":"c""#, r#""op":"x""#), r#"unknown op "x"; known are c, u, d, r, t, m"#.to_owned()),
        (
            whole.replace(r#""op":"c""#, r#""op":"4111 1111 1111 1111""#),
            r#"unknown op "(19 characters)"; known are c, u, d, r, t, m"#.to_owned(),
        ),
        (whole.replace(r#""after":{"id":1}"#, r#""after":null"#), r#"op "c" without a row in `after`"#.to_owned()),
        (whole.replace(r#""after":{"id":1}"#, r#""after":[1]"#), r#"op "c" without a row in `after`"#.to_owned()),
        (
            whole.replace(r#""source":{"#, r#""sauce":{"#),
            "the envelope has no `source` block, so the change has no position".to_owned(),
        ),
        (whole.replace(r#""connector":"postgresql","#, ""), no_position("connector", "missing")),
        (
            whole.replace("postgresql", "sqlserver"),
            "no version scheme for connector \"sqlserver\": PostgreSQL, MySQL and MariaDB are read; \
             set `version.fallback = \"kafka-offset\"` to order by the log instead"
                .to_owned(),
        ),
        (whole.replace(r#""db":"d","#, ""), no_position("db", "missing")),
        (whole.replace(r#""schema":"public","#, ""), no_position("schema", "missing")),
        (whole.replace(r#""table":"t""#, r#""table":"""#), no_position("table", "missing")),
        (
            whole.replace("sequence", "sequins").replace(r#""lsn":6"#, r#""lsn":null"#),
            no_position("sequence", "missing"),
        ),
        (whole.replace(r#"[\"5\",\"6\"]"#, "5,6"), no_position("sequence", form)),
        (whole.replace(r#"[\"5\",\"6\"]"#, r#"[\"5\"]"#), no_position("sequence", form)),
        (whole.replace(r#"[\"5\",\"6\"]"#, r#"[\"-5\",\"6\"]"#), no_position("sequence", form)),
        (binlog.replace(r#""file":"bin.000001","#, ""), no_position("file", "missing")),
        (binlog.replace("bin.000001", "bin.log"), no_position("file", "a name without a numeric suffix")),
        (binlog.replace(r#""pos":400,"#, ""), no_position("pos", "missing")),
    ] {
        assert_eq!(refused(payload.as_bytes()), format!("record t:0:7: {expected}"), "{payload}");
        let both = (told(&payload).unwrap_err(), told(&wrapped(&payload)).unwrap_err());
        assert_eq!(both.0, both.1, "wrapped and bare alike");
    }
}

#[test]
fn a_position_is_read_from_what_there_is() {
    let whole = postgres("c", (Some(5), 6), Some(6)).envelope();
    for payload in [
        whole.replace("sequence", "sequins"),
        whole.replace(r#""sequence":"[\"5\",\"6\"]""#, r#""sequence":null"#),
        whole.replace(r#"[\"5\",\"6\"]"#, r#"[null,\"6\"]"#),
        whole.replace(r#"[\"5\",\"6\"]"#, r#"[null,null]"#),
    ] {
        let record = record(Some("{}"), Some(&payload)).at(0, 7);
        let Ok(Shape::Row { source, .. }) = recognise(&record) else { panic!("{payload}") };
        assert_eq!(
            source.position,
            Position::Postgres { last_commit: None, lsn: Some(6), sequence_lsn: 6 },
            "{payload}"
        );
    }
    let nameless = whole.replace(r#""name":"s""#, r#""name":null"#);
    let record = record(Some("{}"), Some(&nameless)).at(0, 7);
    let Ok(Shape::Row { source, .. }) = recognise(&record) else { panic!("{nameless}") };
    assert_eq!((source.name.as_str(), source.database.as_str()), ("", "d"));
}

#[test]
fn what_a_transform_made_of_an_envelope_is_told_with_the_fix() {
    use crate::record::Header;

    let told = |payload: &str, headers: &[&str]| {
        let mut record = record(Some(r#"{"id":1}"#), Some(payload));
        let header = |name: &&str| Header { name: (*name).into(), value: Some("x".into()) };
        record.headers = headers.iter().map(header).collect();
        match recognise(&record) {
            Err(Reason::UnknownShape(found)) => found,
            other => panic!("{:?}", other.err()),
        }
    };
    let flattened = "ExtractNewRecordState";
    let routed = "EventRouter";
    let context = "__debezium.context.taskId";
    assert!(told(r#"{"id":1,"name":"a","__deleted":"false"}"#, &[]).contains(flattened));
    assert!(told(&wrapped(r#"{"id":1,"__source_lsn":7}"#), &[]).contains(flattened));
    assert!(told(r#"{"id":1}"#, &["__op"]).contains(flattened));
    assert!(told(r#"{"id":1}"#, &[context]).contains(flattened));
    assert!(told(r#"{"to":"x"}"#, &["id", "eventType"]).contains(routed));
    assert!(told(r#""{\"to\":1}""#, &[context, "id"]).contains(routed));
    // Another producer's: nothing is known of it.
    assert_eq!(told(r#"{"to":"x"}"#, &["id"]), "the fields to");
    assert_eq!(told(r#"{"a":1}"#, &[]), "the fields a");
}
