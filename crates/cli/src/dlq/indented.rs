//! JSON with line breaks, every token as it was: numbers keep their digits, members their order, and
//! a member that stands twice stands twice.

use serde::de::IgnoredAny;

const STEP: usize = 2;

/// The same JSON, one member a line; none where the text is no JSON.
pub(super) fn indented(text: &str) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = rest.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while rest.next_if(|c| c.is_ascii_whitespace()).is_some() {}
                match rest.next_if(|c| matches!(c, '}' | ']')) {
                    Some(closed) => out.push(closed),
                    None => {
                        depth += 1;
                        line_break(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line_break(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line_break(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    Some(out)
}

fn line_break(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n(' ', depth * STEP));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_stays_as_it_was() {
        let text = r#" {"b":1.10,"a":[ ],"n":12345678901234567890.5e+400, "b":{},"s":"x, \"{y}\": [\\","l":[1,null]}"#;
        let expected = r#"{
  "b": 1.10,
  "a": [],
  "n": 12345678901234567890.5e+400,
  "b": {},
  "s": "x, \"{y}\": [\\",
  "l": [
    1,
    null
  ]
}"#;
        assert_eq!(indented(text).as_deref(), Some(expected));
        assert_eq!(indented(expected).as_deref(), Some(expected), "and again");
    }

    #[test]
    fn what_is_no_json_is_left_alone() {
        for text in ["", "plain words", r#"{"op":"c""#, "{} {}", r#"{"a":01}"#] {
            assert_eq!(indented(text), None, "{text}");
        }
    }
}
