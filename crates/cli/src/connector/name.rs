//! The name of a connector. It stands in the addresses of the worker's REST interface, whose server
//! answers some characters with a page of its own, escaped or not.

/// The name, or why no worker could take it.
pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() || text == "." || text == ".." {
        return Err("a connector needs a name, as shop-orders".to_owned());
    }
    let refused = |c: &char| matches!(c, '/' | '\\' | '%') || c.is_control();
    match text.chars().find(refused) {
        Some(c) => Err(format!(
            "a connector's name stands in the worker's addresses, which take no {}; choose one of letters, digits, dots, \
             underscores and hyphens",
            if c.is_control() { "control character".to_owned() } else { format!("\"{c}\"") }
        )),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_worker_answers_with_a_page_are_refused() {
        for refused in ["", ".", "..", "a/b", "a\\b", "a%b", "a\u{1}b", "a\nb", "a\u{7f}"] {
            assert!(name(refused).is_err(), "{refused:?}");
        }
        for taken in ["shop-orders", "a b", "ä.b_c", "a;b?c#d", "..a"] {
            assert_eq!(name(taken).as_deref(), Ok(taken));
        }
    }
}
