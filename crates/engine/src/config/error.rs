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

/// Turns serde's "unknown field `x`, expected one of `a`, `b`" into the nearest name and the list.
fn with_suggestion(message: &str) -> String {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return message.trim_end().to_owned();
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
    fn an_unknown_key_gets_the_nearest_name() {
        let message = with_suggestion("unknown field `topcis`, expected one of `brokers`, `group`, `topics`");
        assert_eq!(message, "unknown key `topcis`: did you mean `topics`? (known here: brokers, group, topics)");
        let message = with_suggestion("unknown field `zzz`, expected `rows`");
        assert_eq!(message, "unknown key `zzz` (known here: rows)");
    }
}
