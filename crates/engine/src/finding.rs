//! What a look at a destination found, before a run.

use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// A run would start, but something there may surprise.
    Warning,
    /// A run would not start.
    Error,
}

/// One finding, with what to do about it. Holds no row values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What was found, and where.
    pub what: String,
    /// What to do about it; empty where there is nothing to do.
    pub fix: String,
}

impl Finding {
    /// Worth knowing.
    pub fn note(what: impl Into<String>) -> Self {
        Self { severity: Severity::Note, what: what.into(), fix: String::new() }
    }

    /// Something that may surprise.
    pub fn warning(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, what: what.into(), fix: fix.into() }
    }

    /// Something that keeps a run from starting.
    pub fn error(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Error, what: what.into(), fix: fix.into() }
    }

    /// True if a run would not start.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
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
