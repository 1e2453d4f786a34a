//! What a look before a run found: how much it matters, whose fault it is, and what to do.

use std::fmt;

use settle_core::causes::chain;
use settle_core::policy::{Verdict, decide};
use settle_core::sink::{FailureKind, SinkError};

use crate::source::{SourceError, SourceFailure};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// A run would start, but something there may surprise.
    Warning,
    /// A run would not start, or would stop at what was seen.
    Error,
}

/// What an error stands for: the exit code that a run would end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The configuration file.
    Configuration,
    /// The source does not answer: a run waits for it.
    SourceAway,
    /// The destination does not answer, or lets nothing be written now: a run waits for it.
    SinkAway,
    /// Something that a run stands on does not hold.
    Contract,
    /// A record that cannot be applied. Where such records are set aside, it stops no run.
    Record,
    /// Another instance has our place.
    Fenced,
    /// Settle itself.
    Bug,
}

/// One finding, with what to do about it. Holds no row values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Why, where it is an error.
    pub cause: Cause,
    /// What was found, and where.
    pub what: String,
    /// What to do about it; empty where there is nothing to do, or `what` says it.
    pub fix: String,
}

impl Finding {
    /// Worth knowing.
    pub fn note(what: impl Into<String>) -> Self {
        Self::new(Severity::Note, what, "")
    }

    /// Something that may surprise.
    pub fn warning(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Severity::Warning, what, fix)
    }

    /// Something that keeps a run from starting: a contract, unless [`Finding::because`] says otherwise.
    pub fn error(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(Severity::Error, what, fix)
    }

    fn new(severity: Severity, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { severity, cause: Cause::Contract, what: what.into(), fix: fix.into() }
    }

    /// The same with another cause.
    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }

    /// What a run would say of the source.
    pub fn of_source(error: &SourceError) -> Self {
        let cause = match error.kind {
            SourceFailure::Unreachable => Cause::SourceAway,
            SourceFailure::Contract => Cause::Contract,
            SourceFailure::Fenced => Cause::Fenced,
        };
        Self::error(chain(error), "").because(cause)
    }

    /// What a run would say of the destination.
    pub fn of_sink(error: &SinkError) -> Self {
        let cause = match decide(error.kind) {
            Verdict::Retry | Verdict::Pause => Cause::SinkAway,
            Verdict::Isolate => Cause::Record,
            Verdict::Stop => Cause::Contract,
            Verdict::Bug => Cause::Bug,
        };
        let fix = match error.kind {
            FailureKind::Unreachable => "see that the server runs, and that `url` in [sink] is right from here",
            _ => "",
        };
        Self::error(chain(error), fix).because(cause)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_meaning_that_it_has_for_a_run() {
        let source = |kind| Finding::of_source(&SourceError::new(kind, "x")).cause;
        assert_eq!(source(SourceFailure::Unreachable), Cause::SourceAway);
        assert_eq!(source(SourceFailure::Contract), Cause::Contract);
        assert_eq!(source(SourceFailure::Fenced), Cause::Fenced);
        let sink = |kind| Finding::of_sink(&SinkError::new(kind, "do", "x")).cause;
        assert_eq!(sink(FailureKind::Denied), Cause::SinkAway);
        assert_eq!(sink(FailureKind::Overloaded), Cause::SinkAway);
        assert_eq!(sink(FailureKind::Row), Cause::Record);
        assert_eq!(sink(FailureKind::Bug), Cause::Bug);
        assert_eq!(Finding::error("a table", "").cause, Cause::Contract);
    }
}
