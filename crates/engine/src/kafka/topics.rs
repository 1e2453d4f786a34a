//! Which topics are read: names and globs against what the cluster has.
//!
//! Internal topics (`__consumer_offsets` and the like) are read only by a name or a pattern that
//! itself begins with `__`. librdkafka's expressions know no "but not", so the exception is
//! woven into the expression of each glob.

use crate::source::{SourceError, SourceFailure};
use crate::topics::matches;

/// How names of internal topics begin.
const INTERNAL: &str = "__";
/// Topics offered where one is missing.
const SUGGESTIONS: usize = 3;

/// A topic that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    /// Its name.
    pub(super) name: String,
    /// Number of partitions.
    pub(super) partitions: i32,
}

/// True for a pattern, false for a name.
fn is_glob(topic: &str) -> bool {
    topic.contains(['*', '?'])
}

/// Refuses what can be no topic's name.
pub(super) fn check(topic: &str) -> Result<(), String> {
    let strange = |c: &char| !(c.is_ascii_alphanumeric() || ".-_*?".contains(*c));
    match topic.chars().find(strange) {
        Some(c) => Err(format!(
            "topic \"{topic}\" has the character {c:?}: names are made of letters, digits, '.', '_' and '-', patterns \
             also of '*' and '?'"
        )),
        None if topic.is_empty() => Err("a topic's name is empty".to_owned()),
        None => Ok(()),
    }
}

/// The subscription: names as they are, globs as librdkafka's `^` expressions.
pub(super) fn subscription(topics: &[String]) -> Vec<String> {
    topics.iter().map(|topic| if is_glob(topic) { expression(topic) } else { topic.clone() }).collect()
}

fn expression(glob: &str) -> String {
    let symbols: Vec<char> = glob.chars().collect();
    let body =
        if glob.starts_with(INTERNAL) { Some(plain(&symbols)) } else { without_prefix(&symbols, INTERNAL.len()) };
    // A glob that matches internal topics only is one that begins with their prefix.
    format!("^{}$", body.unwrap_or_default())
}

/// The expression of a glob.
fn plain(glob: &[char]) -> String {
    let symbol = |c: &char| match c {
        '*' => ".*".to_owned(),
        '?' => ".".to_owned(),
        '.' => "\\.".to_owned(),
        c => c.to_string(),
    };
    glob.iter().map(symbol).collect()
}

/// The expression of what a glob matches that does not begin with `underscores` underscores; none
/// where nothing is left.
fn without_prefix(glob: &[char], underscores: usize) -> Option<String> {
    let fewer = |glob: &[char]| {
        (underscores > 1).then(|| without_prefix(glob, underscores - 1)).flatten().map(|rest| format!("_{rest}"))
    };
    match glob {
        [] => Some(String::new()),
        ['*', rest @ ..] => {
            any_of([without_prefix(rest, underscores), Some(format!("[^_].*{}", plain(rest))), fewer(glob)])
        }
        ['?', rest @ ..] => any_of([Some(format!("[^_]{}", plain(rest))), fewer(rest), None]),
        ['_', rest @ ..] => fewer(rest),
        _ => Some(plain(glob)),
    }
}

fn any_of(choices: [Option<String>; 3]) -> Option<String> {
    let mut choices: Vec<String> = choices.into_iter().flatten().collect();
    let count = choices.len();
    choices.retain(|choice| !choice.is_empty());
    // POSIX has no empty alternative.
    let optional = if choices.len() < count { "?" } else { "" };
    match choices.as_slice() {
        [] => (count > 0).then(String::new),
        [one] if optional.is_empty() => Some(one.clone()),
        many => Some(format!("({}){optional}", many.join("|"))),
    }
}

/// True if the topic is asked for.
fn wanted(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| takes(pattern, name))
}

fn takes(pattern: &str, name: &str) -> bool {
    let hidden = name.starts_with(INTERNAL) && !pattern.starts_with(INTERNAL);
    matches(pattern, name) && !hidden
}

/// The topics to read. Every name must exist, and every pattern match something: a run that waits
/// for a mistyped topic looks like one that has nothing to do.
pub(super) fn select(patterns: &[String], existing: &[Topic], brokers: &str) -> Result<Vec<Topic>, SourceError> {
    for pattern in patterns {
        if !existing.iter().any(|topic| takes(pattern, &topic.name)) {
            return Err(missing(pattern, existing, brokers));
        }
    }
    let mut selected: Vec<Topic> = existing.iter().filter(|topic| wanted(patterns, &topic.name)).cloned().collect();
    selected.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(selected)
}

fn missing(pattern: &str, existing: &[Topic], brokers: &str) -> SourceError {
    let what = if is_glob(pattern) {
        format!("no topic on {brokers} matches {pattern}")
    } else {
        format!("topic {pattern} does not exist on {brokers}")
    };
    let alike = alike(pattern, existing);
    let hint = if alike.is_empty() {
        "no existing topic is like it; is the connector running, and may this user describe its topics?".to_owned()
    } else {
        format!("existing topics like it: {}", alike.join(", "))
    };
    SourceError::new(SourceFailure::Contract, format!("{what}; {hint}"))
}

/// The nearest names, best first: a slip of the pen away, or with the pattern's words in them.
fn alike<'a>(pattern: &str, existing: &'a [Topic]) -> Vec<&'a str> {
    let word = pattern.trim_matches(['*', '?', '.']);
    let length = word.chars().count();
    let distance = |name: &str| {
        if name.contains(word) {
            return 0;
        }
        // A pattern is compared with as much of the name as it says something about.
        let seen: String = name.chars().take(if is_glob(pattern) { length } else { usize::MAX }).collect();
        strsim::damerau_levenshtein(word, &seen)
    };
    let mut near: Vec<(usize, &str)> = existing
        .iter()
        .map(|topic| topic.name.as_str())
        .filter(|name| !name.starts_with(INTERNAL))
        .map(|name| (distance(name), name))
        .filter(|(distance, _)| *distance <= (length / 5).max(1))
        .collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTIONS).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(names: &[&str]) -> Vec<Topic> {
        names.iter().map(|name| Topic { name: (*name).to_owned(), partitions: 1 }).collect()
    }

    fn selected(patterns: &[&str], existing: &[&str]) -> Result<Vec<String>, String> {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        match select(&patterns, &topics(existing), "127.0.0.1:9092") {
            Ok(found) => Ok(found.into_iter().map(|topic| topic.name).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn internal_topics_are_read_only_by_name() {
        let existing = ["__consumer_offsets", "_private", "shop.orders", "__debezium-heartbeat.shop"];
        assert_eq!(selected(&["*"], &existing).unwrap(), ["_private", "shop.orders"]);
        assert_eq!(selected(&["__deb*"], &existing).unwrap(), ["__debezium-heartbeat.shop"]);
        assert_eq!(selected(&["__consumer_offsets"], &existing).unwrap(), ["__consumer_offsets"]);
    }

    #[test]
    fn expressions_leave_internal_topics_out() {
        assert_eq!(expression("shop.public.*"), "^shop\\.public\\..*$");
        assert_eq!(expression("sh?p-*"), "^sh.p-.*$");
        assert_eq!(expression("*"), "^([^_].*|_([^_].*)?)?$");
        assert_eq!(expression("*.orders"), "^(\\.orders|[^_].*\\.orders|_(\\.orders|[^_].*\\.orders))$");
        assert_eq!(expression("_?x"), "^_[^_]x$");
        assert_eq!(expression("__x*"), "^__x.*$");
    }

    #[test]
    fn a_missing_topic_is_told_with_those_like_it() {
        let existing = ["shop.public.customers", "shop.public.orders", "other"];
        assert_eq!(
            selected(&["shop.public.custmers"], &existing).unwrap_err(),
            "topic shop.public.custmers does not exist on 127.0.0.1:9092; existing topics like it: shop.public.customers"
        );
        assert_eq!(
            selected(&["shop.publik.*"], &existing).unwrap_err(),
            "no topic on 127.0.0.1:9092 matches shop.publik.*; existing topics like it: shop.public.customers, \
             shop.public.orders"
        );
        assert!(selected(&["orders"], &existing).unwrap_err().ends_with("topics like it: shop.public.orders"));
        assert_eq!(
            selected(&["inventory"], &existing).unwrap_err(),
            "topic inventory does not exist on 127.0.0.1:9092; no existing topic is like it; is the connector running, \
             and may this user describe its topics?"
        );
    }

    #[test]
    fn names_that_kafka_cannot_have_are_refused() {
        assert!(check("shop.public.orders-v2_x").is_ok());
        assert!(check("^shop.*").unwrap_err().contains("'^'"));
        assert!(check("").is_err());
    }
}
