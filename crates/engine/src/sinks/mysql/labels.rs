//! The labels of an ENUM or SET.
//!
//! The server takes a text for a label that its collation takes for equal ('HAPPY ' for 'happy'), and a
//! number in a text for the place of one. What would be stored is another value: only a label as it is
//! written is taken.

/// What a column of an ENUM or SET takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Labels {
    /// Each in every way in which the type can be read.
    labels: Vec<String>,
    /// True of a SET: any number of them, with commas between.
    many: bool,
}

impl Labels {
    /// Those of a declared type, as `enum('a','b')`.
    ///
    /// Servers differ in whether they write `\` twice, and no label of one reading is refused for the
    /// other: the server still refuses what it does not know.
    pub(super) fn of(column_type: &str) -> Self {
        let many = column_type.trim_start().get(..3).is_some_and(|word| word.eq_ignore_ascii_case("set"));
        let mut labels = Vec::new();
        let mut rest = column_type;
        while let Some((_, quoted)) = rest.split_once('\'') {
            let (label, behind) = quoted_label(quoted);
            if label.contains('\\') {
                labels.push(unescaped(&label));
            }
            labels.push(label);
            rest = behind;
        }
        Self { labels, many }
    }

    /// True where `text` is stored as it is.
    pub(super) fn take(&self, text: &str) -> bool {
        match self.many {
            true => text.is_empty() || text.split(',').all(|label| self.has(label)),
            false => self.has(text),
        }
    }

    fn has(&self, text: &str) -> bool {
        let is = |text: &str| self.labels.iter().any(|label| label == text);
        // The declared type is told in characters of three bytes, with `?` for a longer one.
        is(text) || text.chars().any(is_long) && is(&text.replace(is_long, "?"))
    }
}

fn is_long(character: char) -> bool {
    character.len_utf8() > 3
}

/// A label behind its first quote, up to the one that ends it, and what comes then. Two quotes are one of
/// the label.
fn quoted_label(quoted: &str) -> (String, &str) {
    let mut label = String::new();
    let mut rest = quoted;
    while let Some((part, behind)) = rest.split_once('\'') {
        label.push_str(part);
        rest = behind;
        match rest.strip_prefix('\'') {
            Some(behind) => {
                label.push('\'');
                rest = behind;
            }
            None => return (label, rest),
        }
    }
    (label, "")
}

/// Without the `\` that a server writes before some characters.
fn unescaped(label: &str) -> String {
    let mut plain = String::new();
    let mut characters = label.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            plain.push(character);
            continue;
        }
        plain.push(match characters.next() {
            Some('n') => '\n',
            Some('r') => '\r',
            Some('0') => '\0',
            Some(other) => other,
            None => '\\',
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_taken_as_it_is_written_and_no_other_way() {
        let labels = Labels::of(r"enum('happy','it''s','','a,b)','c\\d','e\nf','?')");
        for text in ["happy", "it's", "", "a,b)", r"c\d", r"c\\d", "e\nf", "?", "😀"] {
            assert!(labels.take(text), "{text}");
        }
        for text in ["Happy", "happy ", "1", "it''s", "a", "happy,it's", "é"] {
            assert!(!labels.take(text), "{text}");
        }
    }

    #[test]
    fn a_set_takes_any_number_of_its_labels() {
        let labels = Labels::of("set('a','b')");
        for text in ["", "a", "b", "a,b", "b,a"] {
            assert!(labels.take(text), "{text}");
        }
        for text in ["A", "a,", "a, b", "a,c", "3"] {
            assert!(!labels.take(text), "{text}");
        }
    }
}
