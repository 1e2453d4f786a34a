//! What was kept with a committed offset, taken only where it belongs to it.

use settle_core::position::{Offset, Partition, TopicId};
use settle_core::standing::Standing;

/// Reads the line. One that is not readable, or of another topic or offset, is none: detection of
/// new logs starts anew.
pub(crate) fn of(partition: &Partition, topic_id: TopicId, offset: Offset, line: &str) -> Option<Standing> {
    read(partition, line).filter(|standing| {
        let belongs = standing.topic_id == topic_id && standing.offset == offset;
        if !belongs {
            tracing::info!(%partition, offset, "the group was moved: what was kept with its offset is not used");
        }
        belongs
    })
}

/// Reads the line, whatever it belongs to.
pub(crate) fn read(partition: &Partition, line: &str) -> Option<Standing> {
    Standing::parse(line).unwrap_or_else(|error| {
        tracing::warn!(%partition, %error, "it is not used");
        None
    })
}
