//! The change event envelope, as raw parts: nothing below the first level is decoded here.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::source::RawSource;

/// A message value, with or without the Connect schema wrapper, split into raw parts.
///
/// Only the fields that tell the shapes apart are listed; others are skipped unread.
#[derive(Default, Deserialize)]
pub struct Envelope<'a> {
    /// Operation letter.
    #[serde(borrow, default)]
    pub(crate) op: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(crate) before: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) after: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) source: Option<RawSource<'a>>,
    #[serde(borrow, default)]
    pub(crate) schema: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(crate) payload: Option<&'a RawValue>,
    // Transaction topic.
    #[serde(borrow, default)]
    pub(crate) status: Option<&'a RawValue>,
    // Schema-change topic.
    #[serde(borrow, default)]
    pub(crate) ddl: Option<&'a RawValue>,
    #[serde(default, rename = "tableChanges")]
    pub(crate) table_changes: Option<IgnoredAny>,
    // Heartbeat: `ts_ms` alone.
    #[serde(default)]
    pub(crate) ts_ms: Option<IgnoredAny>,
}

/// True if this is a Connect schema: an object with a `type`. A table may well have columns
/// called `schema` and `payload`, so the names alone decide nothing.
pub(crate) fn is_connect_schema(json: &str) -> bool {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        _kind: IgnoredAny,
    }
    // Connect writes the type first. Reading the rest would cost as much as the record itself.
    json.starts_with("{\"type\":") || (json.starts_with('{') && serde_json::from_str::<Typed>(json).is_ok())
}

/// A message key or header: the payload of a Connect wrapper (exactly `schema` and `payload`), or
/// the text itself.
pub(crate) fn unwrap(json: &str) -> &str {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wrapper<'a> {
        #[serde(borrow)]
        schema: &'a RawValue,
        #[serde(borrow)]
        payload: &'a RawValue,
    }
    let first = json.trim_start().strip_prefix('{').unwrap_or_default().trim_start();
    if !first.starts_with("\"schema\"") && !first.starts_with("\"payload\"") {
        return json;
    }
    match serde_json::from_str::<Wrapper<'_>>(json) {
        Ok(wrapper) if is_connect_schema(wrapper.schema.get()) => wrapper.payload.get(),
        _ => json,
    }
}
