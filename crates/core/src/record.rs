//! A record as it was read, before anything is made of it.

use bytes::Bytes;

use crate::position::{Offset, Partition, Place};

/// One header of a record. Names may repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Header name.
    pub name: Box<str>,
    /// Value, as bytes; headers may be null.
    pub value: Option<Bytes>,
}

/// A record with its original bytes. They are kept until the batch that holds it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Partition it came from.
    pub partition: Partition,
    /// Its offset there.
    pub offset: Offset,
    /// Kafka timestamp, milliseconds since 1970; never used for ordering.
    pub timestamp_ms: Option<i64>,
    /// Message key.
    pub key: Option<Bytes>,
    /// Message value; `None` is a tombstone, an empty value is not.
    pub payload: Option<Bytes>,
    /// Headers in order.
    pub headers: Vec<Header>,
}

impl Record {
    /// Takes its bytes out and leaves its place.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            partition: self.partition.clone(),
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.take(),
            payload: self.payload.take(),
            headers: std::mem::take(&mut self.headers),
        }
    }

    /// The place of this record.
    pub fn place(&self) -> Place {
        Place { partition: self.partition.clone(), offset: self.offset }
    }

    /// The last header called `name`, as Kafka clients read it.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.iter().rev().find(|h| &*h.name == name).and_then(|h| h.value.as_deref())
    }

    /// Bytes held: key, value and headers.
    pub fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len)).sum();
        self.key.as_ref().map_or(0, Bytes::len) + self.payload.as_ref().map_or(0, Bytes::len) + headers
    }
}
