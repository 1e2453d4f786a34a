//! What `settle check` finds, with its fix.

use std::fmt;

/// Whether a run would start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Said so that it is known.
    Note,
    /// A run starts; something may not be as wished.
    Warning,
    /// A run refuses to start, or would stop.
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
    /// A run would not start.
    pub fn error(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Error, what: what.into(), fix: fix.into() }
    }

    /// A run starts.
    pub fn warning(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, what: what.into(), fix: fix.into() }
    }

    /// All is well.
    pub fn note(what: impl Into<String>) -> Self {
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
