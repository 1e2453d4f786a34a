//! What a table looks like that Settle creates: from the Connect schema, from declared columns,
//! or from both, where the declared type wins.

use settle_core::change::TableName;
use settle_core::schema::{RowSchema, SourceType};
use settle_core::sink::{FailureKind, SinkError};

use super::column_type::ColumnType;
use super::ddl::CreateTable;
use super::names::QualifiedName;
use super::naming::Naming;
use crate::config::MetaNames;

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
    let zeros = u32::try_from(-scale).unwrap_or(0);
    let scale = u32::try_from(scale).unwrap_or(0);
    let precision = precision.map_or(76, |digits| (digits + zeros).max(scale).max(1));
    (precision <= 76 && scale <= precision).then(|| format!("Decimal({precision}, {scale})"))
}

/// The columns of a table to be created, with their types, in order.
pub(crate) fn columns(
    naming: &Naming<'_>,
    key: &[&str],
    schema: Option<&RowSchema>,
) -> Result<Vec<(String, String)>, SinkError> {
    let refused = |context: String| SinkError::new(FailureKind::Contract, naming.designing(), context);
    let declared = naming.declared();
    let mut columns: Vec<(String, String)> = Vec::new();
    for field in schema.iter().flat_map(|schema| &schema.fields) {
        let is_key = key.contains(&field.name.as_str());
        let Some(name) = naming.target(&field.name, is_key) else { continue };
        let declared = declared.iter().find(|(declared, _)| declared == name).map(|(_, text)| text.clone());
        let text = declared.or_else(|| type_of(&field.source_type, field.optional && !is_key)).ok_or_else(|| {
            refused(format!(
                "column `{}` has source type {}, for which there is no ClickHouse type; declare one under `columns` \
                 in {}, or exclude the column",
                field.name,
                field.source_type,
                naming.section()
            ))
        })?;
        columns.push((name.to_owned(), text));
    }
    for (name, text) in declared {
        if !columns.iter().any(|(known, _)| known == name) {
            columns.push((name.clone(), text.clone()));
        }
    }
    for field in key {
        let name = naming.target(field, true).unwrap_or(field);
        match columns.iter().find(|(column, _)| column == name) {
            None => {
                return Err(refused(format!(
                    "the key column `{name}` is neither in the records' schema nor declared; add it under `columns` in {}",
                    naming.section()
                )));
            }
            Some((_, text)) if ColumnType::parse(text).nullable => {
                return Err(refused(format!(
                    "the key column `{name}` is declared as {text}; a key is never NULL, declare it without Nullable in {}",
                    naming.section()
                )));
            }
            Some(_) => {}
        }
    }
    refuse_clashes(naming, columns.iter().map(|(name, _)| name.as_str())).map_err(refused)?;
    Ok(columns)
}

/// A column of the source may not have the name of one that Settle adds, nor two one name.
pub(crate) fn refuse_clashes<'a>(
    naming: &Naming<'_>,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), String> {
    for (at, name) in names.clone().enumerate() {
        if is_meta(naming.meta(), name) {
            return Err(format!(
                "column `{name}` of the source has the name of a column that settle adds; rename or exclude it in {}, or \
                 give settle's column another name in [sink.meta]",
                naming.section()
            ));
        }
        if names.clone().take(at).any(|other| other == name) {
            return Err(format!(
                "two columns of the source are written to `{name}`; give one another name in {}",
                naming.section()
            ));
        }
    }
    Ok(())
}

/// True for a column that Settle adds.
pub(crate) fn is_meta(meta: &MetaNames, name: &str) -> bool {
    [&meta.op, &meta.source_ts_ms, &meta.is_deleted, &meta.version].into_iter().any(|own| own == name)
}

/// How the definition is used by `settle ddl`: the statements that create the table and its view.
pub fn table_ddl(
    table: &TableName,
    key: &[&str],
    schema: Option<&RowSchema>,
    target: &crate::config::Target,
    database: &str,
    cluster: Option<&str>,
) -> Result<Vec<String>, SinkError> {
    let naming = Naming::new(table, target);
    let columns = columns(&naming, key, schema)?;
    let key: Vec<String> = key.iter().filter_map(|field| naming.target(field, true)).map(str::to_owned).collect();
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
    Ok(vec![create.sql(), super::ddl::create_view(&name, &shown, naming.meta(), cluster)])
}
