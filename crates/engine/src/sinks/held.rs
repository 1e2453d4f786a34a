//! Ghosts beside dead letters: a row whose record was set aside was not refreshed by its snapshot,
//! but the source has it. So nothing is swept while rows of the topic are held.

use settle_core::sink::{FailureKind, SinkError};

/// Why the ghosts of a table are not swept now. The sweep stays planned.
pub fn not_swept(operation: &str, rows: u64) -> SinkError {
    let context = format!(
        "{rows} rows of its topic are held behind dead letters, and the source may have them still; retry the letters, or \
         have the connector send the rows once more, and the next run sweeps (`settle dlq ls` shows them)"
    );
    SinkError::new(FailureKind::Contract, operation, context)
}
