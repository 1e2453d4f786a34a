//! What came of a case, and the checked-in table of it.

use std::fmt;

/// What came of a case in one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as the case wants it; the note says how, where that is not plain.
    Pass(&'static str),
    /// Everything is as the case wants it, beside these dead letters.
    SetAside(String),
    /// Settle refuses, as its contract wants it: the first words of the refusal.
    Refused(String),
    /// A later part of Settle will meet it. What holds today was checked.
    Part(u8, String),
}

/// The verdict, or what is wrong.
pub type Outcome = Result<Verdict, String>;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass("") => f.write_str("pass"),
            Self::Pass(note) => write!(f, "pass ({note})"),
            Self::SetAside(which) => write!(f, "pass ({which})"),
            Self::Refused(words) => write!(f, "refused: {words}"),
            Self::Part(part, why) => write!(f, "part {part}: {why}"),
        }
    }
}

/// A line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    pub case: String,
    pub sink: &'static str,
    pub outcome: Outcome,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, sink, outcome } = self;
        match outcome {
            Ok(verdict) => write!(f, "{case:<5}{sink:<11}{verdict}"),
            Err(why) => write!(f, "{case:<5}{sink:<11}FAIL: {why}"),
        }
    }
}

/// The counts below the table.
pub fn counts(lines: &[Line]) -> String {
    let count = |is: fn(&Outcome) -> bool| lines.iter().filter(|line| is(&line.outcome)).count();
    format!(
        "{} lines: {} pass, {} refused as promised, {} for a later part, {} FAIL",
        lines.len(),
        count(|outcome| matches!(outcome, Ok(Verdict::Pass(_) | Verdict::SetAside(_)))),
        count(|outcome| matches!(outcome, Ok(Verdict::Refused(_)))),
        count(|outcome| matches!(outcome, Ok(Verdict::Part(..)))),
        count(Result::is_err),
    )
}

/// The first words of a message, without what differs from run to run.
pub fn first_words(message: &str) -> String {
    let mut words = String::new();
    for word in message.split_whitespace() {
        if words.len() + word.len() > 110 {
            words.push_str(" …");
            break;
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
    }
    words
}
