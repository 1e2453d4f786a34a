//! From librdkafka's message to a record that owns its bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::{Bytes, BytesMut};
use rdkafka::Message;
use rdkafka::message::{BorrowedMessage, Headers};
use settle_core::position::Partition;
use settle_core::record::{Header, Record};

use crate::source::{SourceError, SourceFailure};

/// Copies a message; key, value and header values share one allocation.
pub(super) fn record_of(partition: &Partition, message: &BorrowedMessage<'_>) -> Result<Record, SourceError> {
    let headers = headers_of(partition, message)?;
    let parts = [message.key(), message.payload()];
    let all = parts.iter().flatten().chain(headers.iter().filter_map(|(_, value)| value.as_ref()));
    let mut buffer = BytesMut::with_capacity(all.map(|bytes| bytes.len()).sum());
    let mut owned = |bytes: &[u8]| -> Bytes {
        buffer.extend_from_slice(bytes);
        buffer.split().freeze()
    };
    Ok(Record {
        partition: partition.clone(),
        offset: message.offset(),
        timestamp_ms: message.timestamp().to_millis(),
        key: parts[0].map(&mut owned),
        payload: parts[1].map(&mut owned),
        headers: headers
            .into_iter()
            .map(|(name, value)| Header { name: name.into(), value: value.map(&mut owned) })
            .collect(),
    })
}

type Named<'m> = (&'m str, Option<&'m [u8]>);

/// The headers; none where a name is not UTF-8. rdkafka panics on it, and a foreign producer may well
/// have written one; that must cost a message and not the process.
pub(crate) fn headers<'m>(message: &'m BorrowedMessage<'_>) -> Option<Vec<Named<'m>>> {
    let Some(headers) = message.headers() else { return Some(Vec::new()) };
    let read = || headers.iter().map(|header| (header.key, header.value)).collect();
    catch_unwind(AssertUnwindSafe(read)).ok()
}

fn headers_of<'m>(partition: &Partition, message: &'m BorrowedMessage<'_>) -> Result<Vec<Named<'m>>, SourceError> {
    headers(message).ok_or_else(|| {
        let offset = message.offset();
        SourceError::new(
            SourceFailure::Contract,
            format!(
                "the record {partition}:{offset} has a header whose name is not UTF-8, which settle cannot keep; if it \
                 may be left out, move the group past it to {}",
                offset + 1
            ),
        )
    })
}
