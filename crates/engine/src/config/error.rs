//! What is wrong in a configuration, where, and how to fix it.

use std::path::Path;

/// A mistake in the configuration file.
#[derive(Debug, thiserror::Error)]
#[error("{file}{at}: {message}", at = line.map(|line| format!(" line {line}")).unwrap_or_default())]
pub struct ConfigError {
    file: String,
    line: Option<usize>,
    message: String,
}

impl ConfigError {
    pub(crate) fn new(file: &str, message: String) -> Self {
        Self { file: file.to_owned(), line: None, message }
    }

    /// What is wrong with a value of `text`; messages begin with `[section] key`.
    pub(crate) fn in_text(file: &str, text: &str, message: String) -> Self {
        Self { file: file.to_owned(), line: line_of(text, &message), message }
    }

    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "no such file; name one with -c FILE, or try `settle demo --keep DIR` for one to start from"
            }
            _ => "the file cannot be read",
        };
        Self::new(&path.display().to_string(), format!("{hint} ({error})"))
    }

    pub(crate) fn from_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        Self { file: file.to_owned(), line, message: with_suggestion(error.message()) }
    }
}

/// The line of the key that a message is about: `[section] key …`. The section's own line where the key is missing.
fn line_of(text: &str, message: &str) -> Option<usize> {
    let end = message.find(']').filter(|_| message.starts_with('['))?;
    let (section, rest) = message.split_at(end + 1);
    let key: String = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let mut of_section = None;
    let mut inside = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        if line.starts_with('[') {
            inside = line.starts_with(section);
            of_section = of_section.or(inside.then_some(number));
        } else if inside
            && !key.is_empty()
            && line.strip_prefix(key.as_str()).is_some_and(|rest| rest.trim_start().starts_with('='))
        {
            return Some(number);
        }
    }
    of_section
}

/// Turns serde's "unknown field `x`, expected one of `a`, `b`" into the nearest name and the list.
fn with_suggestion(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        // Rust's names of types say nothing to people.
        let plain = ["usize", "u64", "u32"].iter().fold(message.trim_end().to_owned(), |text, name| {
            text.replace(&format!("expected {name}"), "expected a whole number, without quotes")
        });
        return plain;
    };
    let mut names = rest.split('`').step_by(2).filter(|n| !n.is_empty());
    let unknown = names.next().unwrap_or_default().to_owned();
    let known: Vec<&str> = rest.split('`').skip(1).skip(1).step_by(2).collect();
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&unknown, name), *name))
        .min()
        .filter(|(distance, name)| *distance <= name.len().max(unknown.len()) / 2);
    match nearest {
        Some((_, name)) => {
            format!("unknown key `{unknown}`: did you mean `{name}`? (known here: {})", known.join(", "))
        }
        None => format!("unknown key `{unknown}` (known here: {})", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checked_value_is_told_with_its_line() {
        let text = "[source]\nkind = \"file\"\n\n[sink]\nkind = \"x\"\n[tables.\"a.b\"]\ndeletes = \"no\"\n";
        assert_eq!(line_of(text, "[sink] kind = \"x\" is not known"), Some(5));
        assert_eq!(line_of(text, "[source] path is missing"), Some(1));
        assert_eq!(line_of(text, "[tables.\"a.b\"] deletes = \"no\" is not known"), Some(7));
        assert_eq!(line_of(text, "[batch] max_rows must be at least 1"), None);
        assert_eq!(line_of(text, "something else"), None);
    }

    #[test]
    fn a_mistake_is_told_with_its_line_whatever_characters_are_round_it() {
        for line in [
            "é",
            "k = é",
            "k = \"\\é\"",
            "ké = 1é",
            "k = \"é",
            "[é",
            "k = '''é",
            "k = {é = é}",
            "k = 1é",
            "\u{feff}é = 1é",
        ] {
            let text = format!("# ä\n{line}\nn = 1");
            let error = toml::from_str::<toml::Table>(&text).unwrap_err();
            let told = ConfigError::from_toml("settle.toml", &text, &error);
            assert!(matches!(told.line, Some(2 | 3)), "{line}: {told:?}");
        }
    }

    #[test]
    fn an_unknown_key_gets_the_nearest_name() {
        let message = with_suggestion("unknown field `topcis`, expected one of `brokers`, `group`, `topics`");
        assert_eq!(message, "unknown key `topcis`: did you mean `topics`? (known here: brokers, group, topics)");
        let message = with_suggestion("unknown field `zzz`, expected `rows`");
        assert_eq!(message, "unknown key `zzz` (known here: rows)");
    }
}
