//! Names and texts as they stand in a statement.

use super::Engine;

/// A string literal. PostgreSQL reads a backslash as itself (standard_conforming_strings); the sessions with MySQL
/// have NO_BACKSLASH_ESCAPES off.
pub(crate) fn quoted(text: &str, engine: Engine) -> String {
    let text = text.replace('\'', "''");
    match engine {
        Engine::Postgres => format!("'{text}'"),
        Engine::MySql => format!("'{}'", text.replace('\\', "\\\\")),
    }
}

/// A name of a table or column, or of a table with its schema in two parts.
pub(crate) fn name(parts: &[&str], engine: Engine) -> String {
    let one = |part: &&str| match engine {
        Engine::Postgres => format!("\"{}\"", part.replace('"', "\"\"")),
        Engine::MySql => format!("`{}`", part.replace('`', "``")),
    };
    parts.iter().map(one).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(name(&["public", "a\"b"], Engine::Postgres), "\"public\".\"a\"\"b\"");
        assert_eq!(name(&["shop", "a`b"], Engine::MySql), "`shop`.`a``b`");
    }
}
