//! Why a value does not fit its column.

use crate::schema::SourceType;

use super::kind::Kind;

/// Why a value does not fit its column. Never holds the value itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// Wrong JSON form.
    #[error("{found} where {wanted} is expected")]
    Form {
        /// JSON form that was found.
        found: &'static str,
        /// What the column needs.
        wanted: String,
    },
    /// Outside of the column's range.
    #[error("out of the range of {0}")]
    Range(String),
    /// Digits would be lost.
    #[error("more digits than {0} holds")]
    Precision(String),
    /// The unit or form must be declared.
    #[error("{what} without a schema: declare `{setting}` in [source]")]
    Undeclared {
        /// What was found.
        what: &'static str,
        /// Setting to declare.
        setting: &'static str,
    },
    /// The unit depends on something that the record does not say, whatever is declared.
    #[error("{what}: {cure}")]
    UnitUnknown {
        /// What was found.
        what: &'static str,
        /// How to make it readable.
        cure: &'static str,
    },
    /// Not a number where the column has none.
    #[error("{0} has no place in {1}")]
    NotFinite(&'static str, String),
    /// Infinite date or timestamp.
    #[error("an infinite {0} has no place in the column")]
    Infinite(&'static str),
    /// No mapping.
    #[error("source type {0} has no mapping to {1}")]
    NoMapping(String, String),
}

impl ValueError {
    pub(super) fn form(found: &'static str, wanted: impl Into<String>) -> Self {
        Self::Form { found, wanted: wanted.into() }
    }

    pub(super) fn range(kind: &Kind) -> Self {
        Self::Range(kind.to_string())
    }

    pub(super) fn precision(kind: &Kind) -> Self {
        Self::Precision(kind.to_string())
    }

    pub(super) fn no_mapping(source: &SourceType, kind: &Kind) -> Self {
        Self::NoMapping(source.to_string(), kind.to_string())
    }
}
