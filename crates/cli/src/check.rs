//! `settle check`: everything that a run depends on, every finding with its fix.
//!
//! The exit code is that of the worst error, by how much stands between it and a run, worst first:
//!
//! | code | errors of | why there |
//! |---|---|---|
//! | 70 | Settle itself | nothing else that was said can be relied on |
//! | 2 | the configuration | the file must change, and what it says is what everything else was held against |
//! | 5 | a contract, a record | somebody must decide; waiting does not help |
//! | 7 | the place in the group | another instance must end |
//! | 3 | a source that is away | a run waits for it; what is behind it could not be looked at |
//! | 4 | a sink that is away | a run waits for it |
//!
//! 0 means that no error was found. Of standard input, which can be read once only, the records are
//! not looked at: the last line says so.

use std::path::Path;

use settle_engine::check::{self, Checked};
use settle_engine::finding::{Cause, Finding, Severity};
use textwrap::Options;

use crate::args::CheckArgs;
use crate::exit::{self, Exit};

/// Where no terminal says how wide it is.
const WIDTH: usize = 100;
/// Narrower lines hold no word beside the indent.
const NARROWEST: usize = 40;
/// A mark and the spaces behind it.
const INDENT: &str = "        ";

/// Checks and prints; exit 0 only if a run would start.
pub fn execute(path: &Path, args: &CheckArgs) -> Exit {
    exit::by_config(path, async |config| {
        let checked = check::check(&config, args.sample).await;
        print!("{}", shown(&path.display().to_string(), &checked, width()));
        exit_of(&checked)
    })
}

/// How wide lines may be: as COLUMNS says, or the terminal, which may be too wide to read.
fn width() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0).min(WIDTH));
    said.or_else(terminal).unwrap_or(WIDTH).max(NARROWEST)
}

/// The code of the worst error.
fn exit_of(checked: &Checked) -> Exit {
    let has = |cause: Cause| checked.findings().any(|finding| finding.is_error() && finding.cause == cause);
    let worst_first = [
        (Cause::Bug, Exit::Bug),
        (Cause::Configuration, Exit::Usage),
        (Cause::Contract, Exit::Contract),
        (Cause::Record, Exit::Contract),
        (Cause::Fenced, Exit::Fenced),
        (Cause::SourceAway, Exit::SourceUnreachable),
        (Cause::SinkAway, Exit::SinkUnreachable),
    ];
    worst_first.into_iter().find(|(cause, _)| has(*cause)).map_or(Exit::Done, |(_, exit)| exit)
}

/// The findings by what they are about, and the verdict.
fn shown(file: &str, checked: &Checked, width: usize) -> String {
    let configuration = [Finding::note(format!("{file} is read"))];
    let sections: [(&str, &[Finding]); 5] = [
        ("configuration", &configuration),
        ("source", &checked.source),
        ("records", &checked.records),
        ("tables", &checked.tables),
        ("destination", &checked.destination),
    ];
    let mut text = String::new();
    for (name, findings) in sections.into_iter().filter(|(_, findings)| !findings.is_empty()) {
        text.push_str(name);
        text.push('\n');
        for finding in findings {
            let mark = match finding.severity {
                Severity::Note => "  note  ",
                Severity::Warning => "  warn  ",
                Severity::Error => "  FAIL  ",
            };
            text.push_str(&wrapped(&finding.what, mark, INDENT, width));
            if !finding.fix.is_empty() {
                text.push_str(&wrapped(&finding.fix, "        fix: ", "             ", width));
            }
        }
    }
    text.push_str(&verdict(checked));
    text.push('\n');
    text
}

/// Wrapped at spaces, so that a statement can still be copied; its own lines stay.
fn wrapped(text: &str, first: &str, others: &str, width: usize) -> String {
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        let options = Options::new(width)
            .initial_indent(if at == 0 { first } else { others })
            .subsequent_indent(others)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .word_separator(textwrap::WordSeparator::AsciiSpace);
        out.push_str(&textwrap::fill(line, options));
        out.push('\n');
    }
    out
}

fn verdict(checked: &Checked) -> String {
    let number = |severity| checked.findings().filter(|finding| finding.severity == severity).count();
    let counted = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        number => format!("{number} {what}s"),
    };
    let warnings = match number(Severity::Warning) {
        0 => String::new(),
        number => format!(" ({})", counted(number, "warning")),
    };
    let away = |finding: &Finding| matches!(finding.cause, Cause::SourceAway | Cause::SinkAway);
    let waits = checked.findings().filter(|finding| finding.is_error()).all(away);
    match (number(Severity::Error), checked.unread) {
        (0, false) => format!("a run would start{warnings}"),
        (0, true) => {
            format!("nothing was found that keeps a run from starting; the records were not looked at{warnings}")
        }
        (errors, _) if waits => format!("a run would wait for what is away: {}{warnings}", counted(errors, "error")),
        (errors, _) => format!("a run would not start: {}{warnings}", counted(errors, "error")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(causes: &[Cause]) -> Checked {
        let finding = |cause: &Cause| Finding::error("x", "").because(*cause);
        Checked { destination: causes.iter().map(finding).collect(), ..Checked::default() }
    }

    #[test]
    fn the_worst_error_gives_the_exit_code_whatever_their_order() {
        use Cause::{Bug, Configuration, Contract, Fenced, Record, SinkAway, SourceAway};
        for (causes, exit) in [
            (&[][..], Exit::Done),
            (&[SinkAway], Exit::SinkUnreachable),
            (&[SinkAway, SourceAway], Exit::SourceUnreachable),
            (&[SourceAway, Fenced], Exit::Fenced),
            (&[SourceAway, Record], Exit::Contract),
            (&[SourceAway, Contract, SinkAway], Exit::Contract),
            (&[Contract, Configuration], Exit::Usage),
            (&[Configuration, Bug], Exit::Bug),
        ] {
            assert_eq!(exit_of(&checked(causes)), exit, "{causes:?}");
        }
        let warned = Checked { source: vec![Finding::warning("x", "").because(SourceAway)], ..Checked::default() };
        assert_eq!(exit_of(&warned), Exit::Done);
    }

    #[test]
    fn lines_fit_and_statements_keep_their_words() {
        let mut checked = checked(&[]);
        let statement = "run ALTER TABLE `shop`.`orders` MODIFY COLUMN `amount` Nullable(Decimal(12, 2)), and again";
        checked.tables.push(Finding::warning("one\n  two", statement));
        let text = shown("settle.toml", &checked, 40);
        assert_eq!(
            text,
            "configuration\n  note  settle.toml is read\ntables\n  warn  one\n          two\n        fix: run ALTER TABLE\n             \
             `shop`.`orders` MODIFY\n             COLUMN `amount`\n             Nullable(Decimal(12, 2)),\n             \
             and again\na run would start (1 warning)\n"
        );
    }
}
