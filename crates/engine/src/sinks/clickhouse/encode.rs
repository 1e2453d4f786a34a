//! Rows into the bytes of one insert: an Arrow stream of a single batch.
//!
//! The bytes are a function of the rows and the table's columns: a batch that is applied again
//! sends the identical block.

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, MapArray, RecordBatch, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};
use bytes::Bytes;
use serde_json::value::RawValue;
use settle_core::columns::Columns;
use settle_core::schema::{Origin, SourceType};
use settle_core::value::{Kind, Value, ValueError, decode};

use super::buffer::{Buffer, Calendar, Misfit};
use super::column_type::{Base, ColumnType};
use super::row_binary::Cell;

/// Why a value is not written to its column. Holds no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum WriteError {
    /// It does not decode to the column's kind.
    #[error("{0}")]
    Value(#[from] ValueError),
    /// It decodes, but the column does not hold it.
    #[error("{0}")]
    Misfit(#[from] Misfit),
    /// JSON of another form than a container's.
    #[error("no JSON {0} where the column holds one")]
    NoContainer(&'static str),
    /// The type cannot be written at all.
    #[error("a type to which values cannot be written exactly")]
    Unsupported,
    /// Arrow refused what we built: a fault of ours.
    #[error("Arrow: {0}")]
    Arrow(String),
}

impl From<ArrowError> for WriteError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error.to_string())
    }
}

/// One column of a block.
pub(crate) struct ColumnWriter {
    base: Base,
    nullable: bool,
    kind: Option<Kind>,
    calendar: Calendar,
    values: Values,
}

enum Values {
    Scalar(Buffer),
    Array { item: Box<ColumnWriter>, ends: Vec<i32> },
    Map { key: Box<ColumnWriter>, value: Box<ColumnWriter>, ends: Vec<i32> },
}

impl ColumnWriter {
    pub(crate) fn new(column: &ColumnType, calendar: Calendar) -> Result<Self, WriteError> {
        let values = match &column.base {
            Base::Array(item) => Values::Array { item: Box::new(Self::new(item, calendar)?), ends: vec![0] },
            Base::Map(key, value) => Values::Map {
                key: Box::new(Self::new(key, calendar)?),
                value: Box::new(Self::new(value, calendar)?),
                ends: vec![0],
            },
            base => Values::Scalar(Buffer::new(base)?.ok_or(WriteError::Unsupported)?),
        };
        Ok(Self { base: column.base.clone(), nullable: column.nullable, kind: column.kind(), calendar, values })
    }

    /// Strings of records stand for bytes here, in the declared form.
    pub(crate) fn read_bytes(&mut self) {
        if matches!(self.base, Base::String | Base::FixedString(_)) {
            self.kind = Some(Kind::Bytes);
        }
    }

    /// Appends a value of a record, given as JSON text.
    pub(crate) fn append_json(&mut self, json: &str, origin: Origin<'_>) -> Result<(), WriteError> {
        let item = match origin {
            Origin::Connect(SourceType::Array(item)) => Origin::Connect(item),
            Origin::Connect(SourceType::Map) => Origin::Connect(&SourceType::Text),
            other => other,
        };
        match &mut self.values {
            Values::Scalar(_) => {
                let value = self.value(json, origin)?;
                self.append(&value)?;
            }
            Values::Array { .. } | Values::Map { .. } if json == "null" => return Err(Misfit::Null.into()),
            Values::Array { item: writer, ends } => {
                let items: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| WriteError::NoContainer("array"))?;
                for element in &items {
                    writer.append_json(element.get(), item)?;
                }
                ends.push(grown(ends, items.len())?);
            }
            Values::Map { key, value, ends } => {
                if !json.starts_with('{') {
                    return Err(WriteError::NoContainer("object"));
                }
                let entries = Columns::of(json);
                for entry in entries.iter() {
                    key.append(&Value::Text(entry.name.clone()))?;
                    value.append_json(entry.json, item)?;
                }
                ends.push(grown(ends, entries.len())?);
            }
        }
        Ok(())
    }

    /// Appends what the table holds.
    pub(crate) fn append_cell(&mut self, cell: &Cell) -> Result<(), WriteError> {
        match (&mut self.values, cell) {
            (Values::Scalar(_), Cell::Scalar(value)) => self.append(value)?,
            (Values::Array { item, ends }, Cell::Array(items)) => {
                for element in items {
                    item.append_cell(element)?;
                }
                ends.push(grown(ends, items.len())?);
            }
            (Values::Map { key, value, ends }, Cell::Map(entries)) => {
                for (name, element) in entries {
                    key.append_cell(name)?;
                    value.append_cell(element)?;
                }
                ends.push(grown(ends, entries.len())?);
            }
            _ => return Err(Misfit::Kind.into()),
        }
        Ok(())
    }

    /// The value of a record's JSON text, as a column that is no container takes it.
    pub(crate) fn value<'j>(&self, json: &'j str, origin: Origin<'_>) -> Result<Value<'j>, WriteError> {
        // Bytes go into a String as they are, not as a text that stands for them.
        let raw = matches!(self.base, Base::String | Base::FixedString(_))
            && matches!(origin, Origin::Connect(SourceType::Bytes));
        let kind = if raw { Some(&Kind::Bytes) } else { self.kind.as_ref() };
        Ok(decode(json, origin, kind.ok_or(WriteError::Unsupported)?)?)
    }

    /// Appends a decoded value.
    pub(crate) fn append(&mut self, value: &Value<'_>) -> Result<(), Misfit> {
        let Values::Scalar(buffer) = &mut self.values else { return Err(Misfit::Kind) };
        match value {
            Value::Null if self.nullable => buffer.append_null(),
            Value::Null => return Err(Misfit::Null),
            value => buffer.append(value, self.calendar)?,
        }
        Ok(())
    }

    fn finish(self) -> Result<(ArrayRef, bool), ArrowError> {
        let offsets = |ends: Vec<i32>| OffsetBuffer::new(ScalarBuffer::from(ends));
        let array: ArrayRef = match self.values {
            Values::Scalar(buffer) => buffer.finish(),
            Values::Array { item, ends } => {
                let (values, nullable) = item.finish()?;
                let field = Field::new("item", values.data_type().clone(), nullable);
                Arc::new(ListArray::try_new(Arc::new(field), offsets(ends), values, None)?)
            }
            Values::Map { key, value, ends } => {
                let ((keys, _), (values, nullable)) = (key.finish()?, value.finish()?);
                let entries = StructArray::try_new(
                    vec![
                        Field::new("key", keys.data_type().clone(), false),
                        Field::new("value", values.data_type().clone(), nullable),
                    ]
                    .into(),
                    vec![keys, values],
                    None,
                )?;
                let field = Field::new("entries", arrow_array::Array::data_type(&entries).clone(), false);
                Arc::new(MapArray::try_new(Arc::new(field), offsets(ends), entries, None, false)?)
            }
        };
        Ok((array, self.nullable))
    }
}

fn grown(ends: &[i32], by: usize) -> Result<i32, WriteError> {
    let last = ends.last().copied().unwrap_or(0);
    i32::try_from(by)
        .ok()
        .and_then(|by| last.checked_add(by))
        .ok_or(WriteError::Misfit(Misfit::Range("the elements of one block")))
}

/// The bytes of a block: the columns under their names, in order.
pub(crate) fn arrow_stream(columns: Vec<(String, ColumnWriter)>) -> Result<Bytes, ArrowError> {
    let mut fields = Vec::with_capacity(columns.len());
    let mut arrays = Vec::with_capacity(columns.len());
    for (name, writer) in columns {
        let (array, nullable) = writer.finish()?;
        fields.push(Field::new(name, array.data_type().clone(), nullable));
        arrays.push(array);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), arrays)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_has_no_default() {
        let mut writer = ColumnWriter::new(&ColumnType::parse("Int32"), Calendar::NARROW).unwrap();
        assert_eq!(writer.append(&Value::Null), Err(Misfit::Null));
        let mut writer = ColumnWriter::new(&ColumnType::parse("Nullable(Int32)"), Calendar::NARROW).unwrap();
        assert_eq!(writer.append(&Value::Null), Ok(()));
    }

    #[test]
    fn the_same_rows_are_the_same_bytes() {
        let block = || {
            let mut id = ColumnWriter::new(&ColumnType::parse("Int64"), Calendar::NARROW).unwrap();
            let mut name = ColumnWriter::new(&ColumnType::parse("Nullable(String)"), Calendar::NARROW).unwrap();
            for n in 0..100 {
                id.append(&Value::Int(n)).unwrap();
                name.append(&if n % 3 == 0 { Value::Null } else { Value::Text("x".into()) }).unwrap();
            }
            arrow_stream(vec![("id".into(), id), ("name".into(), name)]).unwrap()
        };
        assert_eq!(block(), block());
    }

    #[test]
    fn types_without_an_exact_form_are_refused() {
        for text in ["JSON", "Tuple(Int8)", "Array(JSON)", "AggregateFunction(sum, Int8)"] {
            let refused = ColumnWriter::new(&ColumnType::parse(text), Calendar::NARROW).err();
            assert_eq!(refused, Some(WriteError::Unsupported), "{text}");
        }
    }
}
