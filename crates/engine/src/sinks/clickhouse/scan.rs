//! Takes apart what the server prints of its own types and clauses. Quotes and brackets are
//! respected; nothing else of the grammar needs to be known.

use super::names::unescaped;

/// Walks over `text` and reports every character outside of quotes, with the depth of brackets
/// around it.
fn outside_quotes(text: &str) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let mut chars = text.char_indices();
    let mut quote: Option<char> = None;
    let mut depth = 0usize;
    std::iter::from_fn(move || {
        loop {
            let (at, c) = chars.next()?;
            match (quote, c) {
                (Some(_), '\\') => {
                    chars.next();
                }
                (Some(open), c) if c == open => quote = None,
                (Some(_), _) => {}
                (None, '\'' | '"' | '`') => quote = Some(c),
                (None, '(' | '[' | '{') => {
                    depth += 1;
                    return Some((at, c, depth - 1));
                }
                (None, ')' | ']' | '}') => {
                    depth = depth.saturating_sub(1);
                    return Some((at, c, depth));
                }
                (None, c) => return Some((at, c, depth)),
            }
        }
    })
}

/// The parts between commas that stand in no bracket; none for a blank text.
pub(crate) fn list(text: &str) -> Vec<&str> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c, depth) in outside_quotes(text) {
        if c == ',' && depth == 0 {
            parts.push(text[start..at].trim());
            start = at + 1;
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// `name(inside)rest` taken apart; `None` where no bracket follows the name.
pub(crate) fn call(text: &str) -> Option<(&str, &str, &str)> {
    let (open, c, _) = outside_quotes(text).find(|(_, c, _)| !c.is_alphanumeric() && *c != '_')?;
    if c != '(' {
        return None;
    }
    let (close, _, _) = outside_quotes(text).find(|&(at, c, depth)| at > open && c == ')' && depth == 0)?;
    Some((text[..open].trim(), &text[open + 1..close], text[close + 1..].trim()))
}

/// Without the brackets around the whole text, if there are.
pub(crate) fn unwrapped(text: &str) -> &str {
    let text = text.trim();
    match call(text) {
        Some(("" | "tuple", inside, "")) => inside.trim(),
        _ => text,
    }
}

/// What stands behind `keyword` outside of brackets and quotes, up to the first of `ends`.
pub(crate) fn clause<'a>(text: &'a str, keyword: &str, ends: &[&str]) -> Option<&'a str> {
    let start = word(text, 0, keyword)? + keyword.len();
    let end = ends.iter().filter_map(|end| word(text, start, end)).min().unwrap_or(text.len());
    Some(text[start..end].trim())
}

/// Where `word` stands at or behind `from`, as a word outside of brackets and quotes.
fn word(text: &str, from: usize, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    outside_quotes(text).filter(|&(at, _, depth)| at >= from && depth == 0).map(|(at, _, _)| at).find(|&at| {
        text[at..].starts_with(word) && !text[..at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part)
    })
}

/// The content of a string literal; `None` if the text is none.
pub(crate) fn string_literal(text: &str) -> Option<String> {
    let inner = text.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(unescaped(chars.next()?)),
            '\'' => return None,
            c => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_quotes_and_brackets_do_not_separate() {
        assert_eq!(list("a, f(b, c), `d,\\`e`, 'x,y'"), ["a", "f(b, c)", "`d,\\`e`", "'x,y'"]);
        assert_eq!(list("  "), Vec::<&str>::new());
    }

    #[test]
    fn calls_are_taken_apart() {
        assert_eq!(call("Enum8('a(' = 1) rest"), Some(("Enum8", "'a(' = 1", "rest")));
        assert_eq!(call("String"), None);
        assert_eq!(unwrapped("(a, (b))"), "a, (b)");
        assert_eq!(unwrapped("tuple(a, b DESC)"), "a, b DESC");
        assert_eq!(unwrapped("(a) + (b)"), "(a) + (b)");
    }

    #[test]
    fn clauses_end_where_the_next_begins() {
        let text =
            "R(v) PARTITION BY `TTL x` ORDER BY (k, 'SETTINGS') TTL d + f(1) WHERE x = 0 SETTINGS a = 1 COMMENT 'TTL'";
        let ends = ["TTL", "SETTINGS", "COMMENT"];
        assert_eq!(clause(text, "TTL", &ends[1..]), Some("d + f(1) WHERE x = 0"));
        assert_eq!(clause(text, "SETTINGS", &ends), Some("a = 1"));
        assert_eq!(clause(text, "SAMPLE BY", &ends), None);
    }

    #[test]
    fn literals_are_unescaped() {
        assert_eq!(string_literal("'it\\'s'").as_deref(), Some("it's"));
        assert_eq!(string_literal("it"), None);
    }
}
