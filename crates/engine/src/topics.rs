//! Topics by name or glob.

/// True if `name` matches `pattern`, where `*` stands for any characters and `?` for one.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                // Let the last star take one character more.
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// True if the topic is asked for: no patterns ask for all.
pub fn wanted(patterns: &[String], topic: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| matches(pattern, topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_names() {
        assert!(matches("shop.public.*", "shop.public.orders"));
        assert!(matches("*", ""));
        assert!(matches("a?c*e", "abcdde"));
        assert!(!matches("shop.public.*", "xshop.public.orders"));
        assert!(!matches("a.b", "a.bc"));
        assert!(!matches("a?b", "ab"));
    }
}
