//! Names and texts inside SQL: always quoted, so that no name of a source can become syntax.

use std::fmt;

/// A table of the destination, quoted where it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QualifiedName {
    pub(crate) database: String,
    pub(crate) table: String,
}

impl QualifiedName {
    pub(crate) fn new(database: &str, table: &str) -> Self {
        Self { database: database.to_owned(), table: table.to_owned() }
    }

    /// The table beside this one whose name ends in `suffix`.
    pub(crate) fn beside(&self, suffix: &str) -> Self {
        Self { database: self.database.clone(), table: format!("{}{suffix}", self.table) }
    }
}

impl fmt::Display for QualifiedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", identifier(&self.database), identifier(&self.table))
    }
}

/// An identifier in backticks.
pub(crate) fn identifier(name: &str) -> String {
    quoted(name, '`')
}

/// Identifiers in backticks, between commas.
pub(crate) fn identifiers<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(identifier).collect::<Vec<_>>().join(", ")
}

/// A string literal.
pub(crate) fn literal(text: &str) -> String {
    quoted(text, '\'')
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0' => out.push_str("\\0"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Reads a name as the server prints it: bare, or quoted with escapes. `None` where the text is
/// an expression.
pub(crate) fn bare_name(text: &str) -> Option<String> {
    let text = text.trim();
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '`' | '"')) else {
        let is_name = !text.is_empty()
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        return is_name.then(|| text.to_owned());
    };
    let mut name = String::new();
    let mut chars = text[1..].chars();
    loop {
        match chars.next()? {
            '\\' => name.push(unescaped(chars.next()?)),
            c if c == quote => return chars.next().is_none().then_some(name),
            c => name.push(c),
        }
    }
}

/// What `\c` stands for in ClickHouse's quoting.
pub(crate) fn unescaped(c: char) -> char {
    match c {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        '0' => '\0',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_names() {
        for name in ["a`; DROP TABLE b; --", "a\\", "`", "we\"i'r.d name", "line\nbreak\t", "ünïcode", ""] {
            let text = identifier(name);
            assert!(text.starts_with('`') && text.ends_with('`'));
            assert_eq!(bare_name(&text).as_deref(), Some(name), "{text}");
        }
        assert_eq!(identifier("a`b\\c"), "`a\\`b\\\\c`");
        assert_eq!(literal("it's \\"), "'it\\'s \\\\'");
    }

    #[test]
    fn expressions_are_no_names() {
        for text in ["lower(a)", "a b", "`a` + 1", "`a", "1a", "", "a.b"] {
            assert_eq!(bare_name(text), None, "{text}");
        }
        assert_eq!(bare_name(" account_id ").as_deref(), Some("account_id"));
    }
}
