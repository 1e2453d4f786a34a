//! The shapes that Debezium writes.

pub mod connect;
pub mod envelope;
pub mod source;

pub use connect::SchemaCache;
pub use envelope::Envelope;
pub use source::{Position, SourceBlock, SourceError};
