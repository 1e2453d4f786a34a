//! The sampled rows held against a target table as a run would write them, up to the bytes of the
//! insert; nothing is sent. And declared types held against the server.
//!
//! A table that does not exist yet is the one that a run would create, with the types as the server
//! reads them.

use serde::Deserialize;
use settle_core::batch::TableRows;
use settle_core::policy::{Verdict, decide};
use settle_core::sink::{FailureKind, SinkError};

use super::apply::Encoder;
use super::column_type::ColumnType;
use super::destination::Known;
use super::failure::{ServerError, tidy};
use super::names::{identifier, literal};
use super::naming::Naming;
use super::rows::Rows;
use super::server::Server;
use super::stored::Values;
use super::table::{Engine, Table, TableColumn};
use crate::config::{Evolution, MetaNames, Target};
use crate::finding::{Cause, Finding};
use crate::owner::Owner;

/// Refused rows of a table that are told.
const TOLD: usize = 3;

#[derive(Deserialize)]
struct TypeRow {
    #[serde(rename = "type")]
    text: String,
}

/// The type as the server reads it in the definition of a column; why it does not, as the error inside.
pub(crate) async fn read_type(server: &Server, column: &str, text: &str) -> Result<Result<String, String>, SinkError> {
    let operation = format!("asking the server for the type {text}");
    // A table of no rows with this one column: what may be declared in it may be in a table.
    let structure = format!("{} {text}", identifier(column));
    let sql = format!("DESCRIBE TABLE null({})", literal(&structure));
    match server.client.rows::<TypeRow>(&operation, &sql).await {
        Ok(rows) => Ok(rows.into_iter().next().map(|row| row.text).ok_or_else(|| "it is empty".to_owned())),
        Err(error) => match error.source.as_ref().and_then(|source| source.downcast_ref::<ServerError>()) {
            // The rest of the statement is ours, so it is the type.
            Some(server) if error.kind == FailureKind::Contract => Ok(Err(tidy(&server.text))),
            // Who may not ask may still create.
            Some(ServerError { code: 497, .. }) => Ok(Ok(text.to_owned())),
            _ => Err(error),
        },
    }
}

/// Holds the declared types against the server; those of columns that `existing` has are not used.
pub(crate) async fn declared_types(
    server: &Server,
    naming: &Naming<'_>,
    existing: Option<&Table>,
    findings: &mut Vec<Finding>,
) -> Result<(), SinkError> {
    for (name, text) in naming.declared() {
        // A declared word for bytes is read as one by settle; the server knows the same words.
        let Err(why) = read_type(server, name, text).await? else { continue };
        let what = format!(
            "column {} is declared as {text} in {}, which the server does not take: {why}",
            identifier(name),
            naming.section().replace(']', ".columns]"),
        );
        let is_used = existing.is_none_or(|table| table.column(name).is_none());
        findings.push(if is_used {
            Finding::error(
                what,
                "declare a type of this server, as SELECT name FROM system.data_type_families lists them",
            )
            .because(Cause::Configuration)
        } else {
            Finding::warning(
                what,
                "the table has the column, so its own type counts; remove the declaration, or mend it",
            )
        });
    }
    Ok(())
}

/// The table that a run would create.
pub(crate) async fn new_table(
    server: &Server,
    naming: &Naming<'_>,
    columns: &[(String, String)],
) -> Result<Table, SinkError> {
    let MetaNames { op, source_ts_ms, is_deleted, version, .. } = naming.meta();
    let added = [
        (op, "LowCardinality(String)"),
        (source_ts_ms, "Nullable(Int64)"),
        (is_deleted, "UInt8"),
        (version, "UInt128"),
    ];
    let mut table = Table {
        name: server.name(naming.table()),
        engine: Engine::default(),
        sorting_key: Vec::new(),
        partition_key: String::new(),
        comment: String::new(),
        columns: Vec::new(),
    };
    for (name, text) in columns {
        table.columns.push(new_column(server, name, text).await?);
    }
    table.columns.extend(added.into_iter().map(|(name, text)| column(name, text)));
    Ok(table)
}

async fn new_column(server: &Server, name: &str, text: &str) -> Result<TableColumn, SinkError> {
    let read = read_type(server, name, text).await?;
    read.map(|text| column(name, &text)).map_err(|why| {
        let context = format!("the server does not take the type {text} for column {}: {why}", identifier(name));
        SinkError::new(FailureKind::Contract, "laying out the table", context)
    })
}

fn column(name: &str, text: &str) -> TableColumn {
    TableColumn {
        name: name.to_owned(),
        column_type: ColumnType::parse(text),
        is_written: true,
        has_default: false,
        is_read: true,
        in_partition_key: false,
    }
}

/// What a run would refuse of these rows, and which columns it would add for them.
pub(crate) async fn rows(
    server: &Server,
    target: &Target,
    table: Table,
    sampled: &TableRows<'_>,
    findings: &mut Vec<Finding>,
) -> Result<(), SinkError> {
    let Some(first) = sampled.rows().next() else { return Ok(()) };
    let naming = Naming::new(sampled.table, target);
    let key: Vec<&str> = first.key().names().collect();
    let owner = Owner { table: sampled.table.clone(), lineage: first.change().lineage.clone() };
    let mut known = Known::new(table, &naming, &key, owner)?;
    known.check_rows(sampled, &naming)?;
    let mut read = Rows::read(sampled)?;
    let missing = read.place(&known, &naming, sampled, target.evolution)?;
    if !missing.is_empty() {
        match target.evolution {
            // It adds none, so nothing is sent.
            Evolution::Refuse | Evolution::Ignore => known.evolve(server, target, &naming, &missing).await?,
            Evolution::Add => {
                findings.push(added(&known, &read, &naming, &missing));
                for (name, text) in &missing {
                    known.table.columns.push(new_column(server, name, text).await?);
                }
            }
        }
        read.place(&known, &naming, sampled, target.evolution)?;
    }
    let encoder = Encoder::new(server, naming, &read, sampled, target);
    let mut refused = Vec::new();
    let all: Vec<usize> = (0..read.read.len()).collect();
    for block in read.blocks(&all) {
        for row in block.rows {
            refused.extend(encoder.encode(&known, &block.columns, &[row], &Values::new()).err());
        }
    }
    let others = refused.len().saturating_sub(TOLD);
    let all_alone = refused.iter().skip(TOLD).all(|error| decide(error.kind) == Verdict::Isolate);
    findings.extend(refused.iter().take(TOLD).map(Finding::of_sink));
    if others > 0 {
        let cause = if all_alone { Cause::Record } else { Cause::Contract };
        let what = format!("{others} more sampled rows of {} are refused", sampled.table);
        findings.push(Finding::error(what, "mend those above, and check again").because(cause));
    }
    Ok(())
}

fn added(known: &Known, read: &Rows<'_>, naming: &Naming<'_>, missing: &[(String, String)]) -> Finding {
    let shown: Vec<String> = missing.iter().map(|(name, text)| format!("{} {text}", identifier(name))).collect();
    let what = format!("a run adds to {}: {}", known.table.name, shown.join(", "));
    match read.looks_renamed(known, naming) {
        Some((old, new)) => Finding::warning(
            format!("{what}; records carry `{new}`, and no longer `{old}`, of which their rows take the default"),
            format!("if it was renamed, name it in `rename` of {}", naming.section()),
        ),
        None => Finding::note(what),
    }
}
