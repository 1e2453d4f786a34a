//! What every sink says of a value that the source did not send and that is stored nowhere.

use settle_core::batch::Kept;
use settle_core::change::Change;

/// The contract error's text; `columns` are shown in the sink's own quotes.
pub fn nothing_stored(change: &Change, columns: &str, kept: Kept<'_>) -> String {
    let why = match kept {
        Kept::Row { .. } => "the table has no earlier row with a value",
        Kept::OtherHalf { .. } => {
            "the row changed its key, and its values under the old key are gone or not known to be the last"
        }
        Kept::Nowhere => "it is an insert that does not say which row it was before",
    };
    format!(
        "record {} does not carry {columns} (__debezium_unavailable_value) and {why}; set REPLICA IDENTITY FULL on {} at \
         the source, take a new snapshot of it, and start a new group at its rows",
        change.place(),
        change.table
    )
}
