//! From the bytes of a record to its shape. Nothing is read by guess: what has no known form is
//! refused by name.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::change::{Control, Op};
use crate::columns::Columns;
use crate::debezium::envelope::{self, Envelope};
use crate::debezium::source::{SourceBlock, SourceError};
use crate::record::Record;
use crate::refusal::Reason;

/// What the value of a record is, by its form.
pub(crate) enum Shape<'a> {
    /// A change of a row.
    Row {
        op: Op,
        /// The row's JSON object; none for a delete.
        after: Option<&'a str>,
        source: SourceBlock,
        /// Text of the envelope's Connect schema, where the record is wrapped.
        schema: Option<&'a str>,
    },
    /// `op=t`.
    Truncate { source: SourceBlock },
    /// No value: a tombstone, or an empty record where the key is missing too.
    NoValue,
    /// Concerns no row.
    Control(Control),
}

/// Tells what `record` is.
pub(crate) fn recognise(record: &Record) -> Result<Shape<'_>, Reason> {
    shape_of_record(record).map_err(|reason| match reason {
        Reason::UnknownShape(found) => Reason::UnknownShape(match transformed(record) {
            Some(hint) => format!("{found}; {hint}"),
            None => found,
        }),
        other => other,
    })
}

fn shape_of_record(record: &Record) -> Result<Shape<'_>, Reason> {
    let Some(payload) = record.payload.as_deref() else {
        return Ok(Shape::NoValue);
    };
    if payload.is_empty() {
        return Err(Reason::EmptyValue);
    }
    let text = std::str::from_utf8(payload).map_err(|_| not_utf8(payload))?;
    let envelope = read(text)?;
    if envelope.op.is_some() {
        return shape(envelope, None, text);
    }
    match (envelope.schema.map(RawValue::get), envelope.payload.map(RawValue::get)) {
        (Some(schema), Some(payload)) if envelope::is_connect_schema(schema) => {
            shape(read(payload)?, Some(schema), payload)
        }
        (schema, None) if schema.is_none_or(envelope::is_connect_schema) && is_empty_wrapper(text) => {
            Ok(Shape::NoValue)
        }
        _ => shape(envelope, None, text),
    }
}

/// Splits an object into the parts of an envelope. Anything else is refused first: a list would be
/// read as the fields in their order.
fn read(text: &str) -> Result<Envelope<'_>, Reason> {
    match text.bytes().find(|b| !b.is_ascii_whitespace()) {
        Some(b'[') => return Err(Reason::UnknownShape("an array".to_owned())),
        Some(b'"') => return Err(Reason::UnknownShape("a string".to_owned())),
        _ => {}
    }
    serde_json::from_str(text).map_err(|e| not_json(text, &e))
}

fn shape<'a>(envelope: Envelope<'a>, schema: Option<&'a str>, text: &str) -> Result<Shape<'a>, Reason> {
    let unknown = || Reason::UnknownShape(first_fields(text));
    let Some(op) = envelope.op.as_deref() else {
        return control_without_op(&envelope, text).map(Shape::Control).ok_or_else(unknown);
    };
    let (op, letter) = match op {
        "c" => (Op::Create, "c"),
        "u" => (Op::Update, "u"),
        "d" => (Op::Delete, "d"),
        "r" => (Op::Read, "r"),
        "m" => {
            // A flattened row may well have a column `op`.
            let told = envelope.source.is_some() && Columns::of(text).get("message", 0).is_some();
            return told.then_some(Shape::Control(Control::Message)).ok_or_else(unknown);
        }
        "t" => {
            let raw = envelope.source.as_ref().ok_or(SourceError::Missing)?;
            return Ok(Shape::Truncate { source: SourceBlock::check(raw)? });
        }
        other => return Err(Reason::UnknownOp(shown(other))),
    };
    let raw = envelope.source.as_ref().ok_or(SourceError::Missing)?;
    let source = SourceBlock::check(raw)?;
    let row = if op == Op::Delete { envelope.before } else { envelope.after };
    let row = row.map(|raw| raw.get());
    if is_signal(&source.table, op, row) {
        return Ok(Shape::Control(Control::Signal));
    }
    let after = match op {
        Op::Delete => None,
        _ => Some(row.filter(|json| json.starts_with('{')).ok_or(Reason::NoRow(letter))?),
    };
    Ok(Shape::Row { op, after, source, schema })
}

/// Debezium's own records that have no `op`, each by all of its fields: a row of the user's table
/// that only resembles one must not be skipped.
fn control_without_op(envelope: &Envelope<'_>, text: &str) -> Option<Control> {
    const TIMES: [&str; 3] = ["ts_ms", "ts_us", "ts_ns"];
    const TRANSACTION: [&str; 4] = ["status", "id", "event_count", "data_collections"];
    let columns = Columns::of(text);
    let has = |name: &str| columns.get(name, 0).is_some();
    if envelope.source.is_some() {
        let changes = envelope.ddl.is_some() || envelope.table_changes.is_some();
        return (changes && has("databaseName")).then_some(Control::SchemaChange);
    }
    let only = |names: &[&str]| columns.iter().all(|c| TIMES.contains(&&*c.name) || names.contains(&&*c.name));
    if TRANSACTION.iter().all(|name| has(name)) && only(&TRANSACTION) {
        let status = envelope.status.and_then(|raw| serde_json::from_str::<Cow<'_, str>>(raw.get()).ok());
        return matches!(status.as_deref(), Some("BEGIN" | "END")).then_some(Control::Transaction);
    }
    (envelope.ts_ms.is_some() && only(&[])).then_some(Control::Heartbeat)
}

/// True for a Connect wrapper, and nothing but one, around null.
fn is_empty_wrapper(text: &str) -> bool {
    let columns = Columns::of(text);
    columns.len() == 2
        && columns.get("schema", 0).is_some()
        && columns.get("payload", 1).is_some_and(|column| column.json == "null")
}

/// A row of the signal table: its three columns, a known signal, and a name that says so.
fn is_signal(table: &str, op: Op, row: Option<&str>) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Signal<'a> {
        #[serde(borrow, rename = "id")]
        _id: Option<Cow<'a, str>>,
        #[serde(borrow, rename = "type")]
        kind: Option<Cow<'a, str>>,
        #[serde(borrow, rename = "data")]
        _data: Option<Cow<'a, str>>,
    }
    if !contains_ignoring_case(table, "signal") {
        return false;
    }
    let signal: Option<Signal<'_>> = row.and_then(|json| serde_json::from_str(json).ok());
    signal.is_some_and(|s| match s.kind.as_deref().unwrap_or_default() {
        // What a delete's `before` holds where the table's replica identity is its key.
        "" => op == Op::Delete,
        "execute-snapshot"
        | "stop-snapshot"
        | "pause-snapshot"
        | "resume-snapshot"
        | "snapshot-window-open"
        | "snapshot-window-close"
        | "schema-changes"
        | "log" => true,
        _ => false,
    })
}

fn contains_ignoring_case(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// The transform of the connector that a record went through, where it looks like one, with the fix.
fn transformed(record: &Record) -> Option<&'static str> {
    const FLATTENED: &str = "it looks like a row that ExtractNewRecordState flattened: take that transform off the \
                             connector, settle reads whole envelopes";
    let payload = std::str::from_utf8(record.payload.as_deref()?).ok()?;
    let payload = envelope::unwrap(payload);
    let columns = Columns::of(payload);
    let added = |name: &str| matches!(name, "__op" | "__deleted" | "__table") || name.starts_with("__source");
    if columns.iter().any(|column| added(&column.name)) || record.headers.iter().any(|header| added(&header.name)) {
        return Some(FLATTENED);
    }
    let by_debezium = record.headers.iter().any(|header| header.name.starts_with("__debezium.context."));
    if record.header("id").is_some() && (by_debezium || record.header("eventType").is_some()) {
        return Some(
            "it looks like an event of the outbox EventRouter, which changes no row: leave its topic out of `topics`, or read \
             the outbox table without that transform",
        );
    }
    (by_debezium && !columns.is_empty()).then_some(FLATTENED)
}

fn not_utf8(payload: &[u8]) -> Reason {
    let hint = match payload {
        [0, _, _, _, _, ..] => AVRO,
        [0x1F, 0x8B, ..] => "is compressed with gzip by its producer",
        _ => "is not UTF-8",
    };
    Reason::NotJson(hint.to_owned())
}

const AVRO: &str = "starts with byte 0, as Confluent-framed Avro does";

fn not_json(text: &str, error: &serde_json::Error) -> Reason {
    let hint = match text.as_bytes() {
        [0, _, _, _, _, ..] => AVRO,
        [0xEF, 0xBB, 0xBF, ..] => "starts with a byte order mark",
        _ if error.is_eof() => "ends too early",
        _ if error.is_data() => return Reason::UnknownShape(shape_of(text, error)),
        _ => return Reason::NotJson(format!("at line {} column {}", error.line(), error.column())),
    };
    Reason::NotJson(hint.to_owned())
}

/// What stands where an envelope should, without its content.
fn shape_of(text: &str, error: &serde_json::Error) -> String {
    if text.trim_start().starts_with('{') {
        format!("an object whose field at line {} column {} is of another type", error.line(), error.column())
    } else {
        "a scalar".to_owned()
    }
}

/// An operation as it may stand in a message: one that is longer than a letter may be a row's.
fn shown(op: &str) -> String {
    match op.chars().count() {
        0..=2 => op.to_owned(),
        many => format!("({many} characters)"),
    }
}

/// The first field names of an object, for the message.
fn first_fields(json: &str) -> String {
    let columns = Columns::of(json);
    let names: Vec<_> = columns.iter().take(5).map(|c| c.name.to_string()).collect();
    match names.as_slice() {
        [] => "an empty object".to_owned(),
        names => format!("the fields {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
