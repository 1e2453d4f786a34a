//! What is found to be wrong with a destination, with its fix.

use std::fmt;

use settle_core::sink::{FailureKind, SinkError};

/// Whether a run would start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Said so that it is known.
    Note,
    /// A run starts; something may not be as wished.
    Warning,
    /// A run refuses to start.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How grave.
    pub severity: Severity,
    /// What and where.
    pub what: String,
    /// What to do; empty for a note.
    pub fix: String,
}

impl Finding {
    pub(crate) fn error(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Error, what: what.into(), fix: fix.into() }
    }

    pub(crate) fn warning(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, what: what.into(), fix: fix.into() }
    }

    pub(crate) fn note(what: impl Into<String>) -> Self {
        Self { severity: Severity::Note, what: what.into(), fix: String::new() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fix.as_str() {
            "" => f.write_str(&self.what),
            fix => write!(f, "{}; {fix}", self.what),
        }
    }
}

/// The findings that stop a run, as one error; none where a run may start.
pub(crate) fn refusal(operation: &str, findings: &[Finding]) -> Option<SinkError> {
    let grave: Vec<_> =
        findings.iter().filter(|finding| finding.severity == Severity::Error).map(ToString::to_string).collect();
    (!grave.is_empty()).then(|| SinkError::new(FailureKind::Contract, operation, grave.join(". And: ")))
}
