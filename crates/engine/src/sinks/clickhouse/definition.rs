//! What a table looks like that Settle creates: from the Connect schema, from declared columns,
//! or from both, where the declared type wins.

use settle_core::change::TableName;
use settle_core::schema::{Inferred, RowSchema, SourceType};
use settle_core::sink::{FailureKind, SinkError};

use super::column_type::ColumnType;
use super::ddl::{CreateTable, create_view};
use super::meta;
use super::names::{QualifiedName, identifier};
use super::naming::Naming;
use crate::config::Target;

/// The ClickHouse type that holds every value of a source type exactly; none where there is no
/// such type.
///
/// Times without a zone are written as if in UTC, and columns for them say so: their text is then
/// the source's, whatever the server's own zone.
pub(crate) fn type_of(source: &SourceType, optional: bool) -> Option<String> {
    let text = match source {
        SourceType::Bool => "Bool".to_owned(),
        SourceType::Int { bits } => format!("Int{bits}"),
        SourceType::Float32 => "Float32".to_owned(),
        SourceType::Float64 => "Float64".to_owned(),
        SourceType::Decimal { scale, precision } => decimal(*scale, *precision)?,
        SourceType::EpochDays => "Date32".to_owned(),
        SourceType::Timestamp { digits } => format!("DateTime64({digits}, 'UTC')"),
        SourceType::ZonedTimestamp => "DateTime64(6, 'UTC')".to_owned(),
        SourceType::Year => "Int32".to_owned(),
        SourceType::MicroDuration | SourceType::NanoDuration => "Int64".to_owned(),
        SourceType::Uuid => "UUID".to_owned(),
        // New labels appear at the source; an Enum here would have to be altered first.
        SourceType::Enum { .. } => "LowCardinality(String)".to_owned(),
        SourceType::Text
        | SourceType::Bytes
        | SourceType::VariableDecimal
        | SourceType::TimeOfDay { .. }
        | SourceType::ZonedTime
        | SourceType::IsoText
        | SourceType::Interval
        | SourceType::Json
        | SourceType::Bits { .. }
        | SourceType::NamedText(_)
        // An array or map that may be NULL has no ClickHouse type: their JSON text does.
        | SourceType::Array(_)
        | SourceType::Map => "String".to_owned(),
        SourceType::Other(_) => return None,
    };
    Some(if optional { ColumnType::nullable_text(&text) } else { text })
}

fn decimal(scale: i32, precision: Option<u32>) -> Option<String> {
    // A negative scale is trailing zeros: whole numbers with more digits.
    let zeros = if scale < 0 { scale.unsigned_abs() } else { 0 };
    let scale = u32::try_from(scale).unwrap_or(0);
    let precision = precision.map_or(76, |digits| digits.saturating_add(zeros).max(scale).max(1));
    (precision <= 76 && scale <= precision).then(|| format!("Decimal({precision}, {scale})"))
}

/// The ClickHouse type for values that came without a schema.
pub(crate) fn inferred_type(inferred: Inferred) -> &'static str {
    match inferred {
        Inferred::Bool => "Bool",
        Inferred::Int64 => "Int64",
        Inferred::Float64 => "Float64",
        Inferred::Text | Inferred::Json => "String",
    }
}

/// Where the columns of a new table are taken from, beside those that the configuration declares.
#[derive(Clone, Copy, Debug)]
pub enum Columns<'a> {
    /// The records' Connect schema.
    Schema(&'a RowSchema),
    /// Values that were seen: for `settle ddl`, whose output a user looks over. None where a column
    /// was always NULL.
    Seen(&'a [(String, Option<Inferred>)]),
    /// Nothing.
    Declared,
}

impl Columns<'_> {
    /// Names in the source, each with its type, or with why it has none.
    fn types(&self, key: &[&str]) -> Vec<(String, Result<String, String>)> {
        let is_key = |name: &String| key.contains(&name.as_str());
        match self {
            Self::Schema(schema) => schema
                .fields
                .iter()
                .map(|field| {
                    let text = type_of(&field.source_type, field.optional && !is_key(&field.name));
                    (field.name.clone(), text.ok_or_else(|| field.source_type.to_string()))
                })
                .collect(),
            Self::Seen(columns) => columns
                .iter()
                .map(|(name, seen)| {
                    let text = inferred_type(seen.unwrap_or(Inferred::Text));
                    let text = if is_key(name) { text.to_owned() } else { ColumnType::nullable_text(text) };
                    (name.clone(), Ok(text))
                })
                .collect(),
            Self::Declared => Vec::new(),
        }
    }
}

/// The columns of a table to be created, with their types, in order.
pub(crate) fn columns(
    naming: &Naming<'_>,
    key: &[&str],
    from: Columns<'_>,
) -> Result<Vec<(String, String)>, SinkError> {
    let refused = |context: String| {
        SinkError::new(FailureKind::Contract, format!("laying out the table for {}", naming.source()), context)
    };
    let mut columns: Vec<(String, String)> = Vec::new();
    for (source, text) in from.types(key) {
        let Some(name) = naming.target(&source, key.contains(&source.as_str())) else { continue };
        let declared = naming.declared().find(|(declared, _)| *declared == name).map(|(_, text)| text.to_owned());
        let text = declared.map_or(text, Ok).map_err(|source_type| {
            refused(format!(
                "column {} has source type {source_type}, for which there is no ClickHouse type; declare one under \
                 `columns` in {}, or exclude the column",
                identifier(&source),
                naming.section()
            ))
        })?;
        columns.push((name.to_owned(), text));
    }
    for (name, text) in naming.declared() {
        if !columns.iter().any(|(known, _)| known == name) {
            columns.push((name.to_owned(), text.to_owned()));
        }
    }
    check_key(naming, key, &columns).map_err(refused)?;
    refuse_clashes(naming, &columns).map_err(refused)?;
    Ok(columns)
}

fn check_key(naming: &Naming<'_>, key: &[&str], columns: &[(String, String)]) -> Result<(), String> {
    for name in key.iter().map(|field| naming.key_target(field)) {
        match columns.iter().find(|(column, _)| column == name) {
            None => {
                return Err(format!(
                    "the key column {} is neither in the records' schema nor declared; add it under `columns` in {}",
                    identifier(name),
                    naming.section()
                ));
            }
            Some((_, text)) if ColumnType::parse(text).nullable => {
                return Err(format!(
                    "the key column {} is declared as {text}; a key is never NULL, declare it without Nullable in {}",
                    identifier(name),
                    naming.section()
                ));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// A column of the source may not have the name of one that Settle adds, nor two one name.
fn refuse_clashes(naming: &Naming<'_>, columns: &[(String, String)]) -> Result<(), String> {
    for (at, (name, _)) in columns.iter().enumerate() {
        if naming.is_meta(name) {
            return Err(meta_clash(naming, name));
        }
        if columns[..at].iter().any(|(other, _)| other == name) {
            return Err(two_into_one(naming, name));
        }
    }
    Ok(())
}

/// Says that a column of the source has the name of one that Settle adds.
pub(crate) fn meta_clash(naming: &Naming<'_>, column: &str) -> String {
    format!(
        "column {} of the source has the name of a column that settle adds; rename or exclude it in {}, or give settle's \
         column another name in [sink.meta]",
        identifier(column),
        naming.section()
    )
}

/// Says that two columns of the source have one target.
pub(crate) fn two_into_one(naming: &Naming<'_>, column: &str) -> String {
    format!(
        "two columns of the source are written to {}; give one another name under `rename` in {}",
        identifier(column),
        naming.section()
    )
}

/// The statements that create a table, the view of its current rows and `settle_meta`, which the
/// view reads, as `settle ddl` prints them. `key` is in names of the source.
pub fn table_ddl(
    table: &TableName,
    key: &[&str],
    from: Columns<'_>,
    target: &Target,
    database: &str,
    cluster: Option<&str>,
) -> Result<Vec<String>, SinkError> {
    let naming = Naming::new(table, target);
    let columns = columns(&naming, key, from)?;
    let key: Vec<String> = key.iter().map(|field| naming.key_target(field).to_owned()).collect();
    let create = CreateTable {
        database,
        table: naming.table(),
        columns: &columns,
        key: &key,
        meta: naming.meta(),
        cluster,
        replicated: cluster.is_some(),
    };
    let shown: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let name = QualifiedName::new(database, naming.table());
    let places = meta::create_table(database, cluster, cluster.is_some());
    Ok(vec![places, create.sql(), create_view(&name, &shown, naming.meta(), cluster)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_schema_says_of_a_decimal_is_a_type_or_none() {
        assert_eq!(decimal(2, Some(10)).as_deref(), Some("Decimal(10, 2)"));
        assert_eq!(decimal(-3, Some(10)).as_deref(), Some("Decimal(13, 0)"));
        assert_eq!(decimal(4, None).as_deref(), Some("Decimal(76, 4)"));
        for (scale, precision) in
            [(i32::MIN, Some(10)), (-1, Some(u32::MAX)), (i32::MIN, Some(u32::MAX)), (i32::MAX, None)]
        {
            assert_eq!(decimal(scale, precision), None, "{scale} {precision:?}");
        }
        // No precision, and zeros before the point: as wide as it gets.
        assert_eq!(decimal(i32::MIN, None).as_deref(), Some("Decimal(76, 0)"));
    }
}
