//! From the bytes of a record to its shape. Nothing is read by guess: what has no known form is
//! refused by name.

use std::borrow::Cow;

use serde::Deserialize;

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
    let Some(payload) = record.payload.as_deref() else {
        return Ok(Shape::NoValue);
    };
    if payload.is_empty() {
        return Err(Reason::EmptyValue);
    }
    if payload.iter().find(|b| !b.is_ascii_whitespace()).is_some_and(|b| matches!(b, b'[' | b'"')) {
        return Err(Reason::UnknownShape("no object".to_owned()));
    }
    let envelope: Envelope<'_> = serde_json::from_slice(payload).map_err(|e| not_json(payload, &e))?;
    if envelope.op.is_none()
        && let (Some(schema), Some(payload)) = (envelope.schema, envelope.payload)
        && envelope::is_connect_schema(schema.get())
    {
        if payload.get() == "null" {
            return Ok(Shape::NoValue);
        }
        let inner: Envelope<'_> =
            serde_json::from_str(payload.get()).map_err(|e| not_json(payload.get().as_bytes(), &e))?;
        return shape(inner, Some(schema.get()), payload.get());
    }
    let text = std::str::from_utf8(payload).map_err(|e| Reason::NotJson(e.to_string()))?;
    shape(envelope, None, text)
}

fn shape<'a>(envelope: Envelope<'a>, schema: Option<&'a str>, text: &str) -> Result<Shape<'a>, Reason> {
    let Some(op) = envelope.op.as_deref() else {
        return control_without_op(&envelope, text)
            .map(Shape::Control)
            .ok_or_else(|| Reason::UnknownShape(first_fields(text)));
    };
    let (op, letter) = match op {
        "c" => (Op::Create, "c"),
        "u" => (Op::Update, "u"),
        "d" => (Op::Delete, "d"),
        "r" => (Op::Read, "r"),
        "m" => return Ok(Shape::Control(Control::Message)),
        "t" => {
            let raw = envelope.source.as_ref().ok_or(SourceError::Missing)?;
            return Ok(Shape::Truncate { source: SourceBlock::check(raw)? });
        }
        other => return Err(Reason::UnknownOp(other.to_owned())),
    };
    let raw = envelope.source.as_ref().ok_or(SourceError::Missing)?;
    let source = SourceBlock::check(raw)?;
    let row = if op == Op::Delete { envelope.before } else { envelope.after };
    let row = row.map(|raw| raw.get());
    if is_signal(&source.table, row) {
        return Ok(Shape::Control(Control::Signal));
    }
    let after = match op {
        Op::Delete => None,
        _ => Some(row.filter(|json| json.starts_with('{')).ok_or(Reason::NoRow(letter))?),
    };
    Ok(Shape::Row { op, after, source, schema })
}

/// Debezium's own records that have no `op`, by their fields.
fn control_without_op(envelope: &Envelope<'_>, text: &str) -> Option<Control> {
    if envelope.source.is_some() && (envelope.ddl.is_some() || envelope.table_changes.is_some()) {
        return Some(Control::SchemaChange);
    }
    if envelope.source.is_some() || envelope.before.is_some() || envelope.after.is_some() {
        return None;
    }
    let status = envelope.status.and_then(|raw| serde_json::from_str::<Cow<'_, str>>(raw.get()).ok());
    if matches!(status.as_deref(), Some("BEGIN" | "END")) {
        return Some(Control::Transaction);
    }
    let alone = || Columns::of(text).iter().all(|c| matches!(&*c.name, "ts_ms" | "ts_us" | "ts_ns"));
    (envelope.ts_ms.is_some() && alone()).then_some(Control::Heartbeat)
}

/// A row of the signal table: its three columns, a known signal, and a name that says so.
fn is_signal(table: &str, row: Option<&str>) -> bool {
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
    if !table.to_ascii_lowercase().contains("signal") {
        return false;
    }
    let signal: Option<Signal<'_>> = row.and_then(|json| serde_json::from_str(json).ok());
    // A delete's `before` may hold nothing but the key: the type is empty then.
    signal.is_some_and(|s| {
        matches!(
            s.kind.as_deref().unwrap_or_default(),
            "" | "execute-snapshot"
                | "stop-snapshot"
                | "pause-snapshot"
                | "resume-snapshot"
                | "snapshot-window-open"
                | "snapshot-window-close"
                | "schema-changes"
                | "log"
        )
    })
}

fn not_json(payload: &[u8], error: &serde_json::Error) -> Reason {
    let hint = match payload {
        [0, _, _, _, _, ..] => "starts with byte 0, as Confluent-framed Avro does",
        [0xEF, 0xBB, 0xBF, ..] => "starts with a byte order mark",
        _ if error.is_eof() => "ends too early",
        _ if std::str::from_utf8(payload).is_err() => "is not UTF-8",
        _ if error.is_data() => return Reason::UnknownShape(shape_of(payload, error)),
        _ => return Reason::NotJson(format!("at line {} column {}", error.line(), error.column())),
    };
    Reason::NotJson(hint.to_owned())
}

/// What stands where an envelope should, without its content.
fn shape_of(payload: &[u8], error: &serde_json::Error) -> String {
    match payload.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => {
            format!("an object whose field at line {} column {} is of another type", error.line(), error.column())
        }
        Some(b'[') => "an array".to_owned(),
        Some(b'"') => "a string".to_owned(),
        _ => "a scalar".to_owned(),
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
