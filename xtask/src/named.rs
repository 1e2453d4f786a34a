//! What the documents name must be there: files in ARCHITECTURE.md, tests in GUARANTEES.md.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::io;
use std::path::Path;

/// Fails with every name that is not there.
pub fn check(root: &Path) -> Result<(), Box<dyn Error>> {
    let mut missing = Vec::new();
    if let Some(text) = read(&root.join("ARCHITECTURE.md"))? {
        let named = file_names(&text);
        eprintln!("ARCHITECTURE.md: {} files named", named.len());
        missing.extend(named.iter().filter(|name| !root.join(name).exists()).map(|name| format!("file {name}")));
    }
    if let Some(text) = read(&root.join("GUARANTEES.md"))? {
        let named = test_names(&text);
        if named.is_empty() {
            return Err("GUARANTEES.md names no test: write `path/to/file.rs::name_of_the_test`".into());
        }
        eprintln!("GUARANTEES.md: {} tests named", named.len());
        missing.extend(named.iter().filter_map(|(file, test)| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            (!text.contains(&format!("fn {test}("))).then(|| format!("test {file}::{test}"))
        }));
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("named in a document, but not there: {}", missing.join(", ")).into())
    }
}

fn read(document: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(document) {
        Ok(text) => Ok(Some(text)),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => {
            eprintln!("{}: not written yet, nothing to check in it", document.display());
            Ok(None)
        }
        Err(other) => Err(other),
    }
}

/// Paths from the root: code spans with a slash, and targets of relative links.
fn file_names(text: &str) -> BTreeSet<&str> {
    let spans = code_spans(text).filter(|span| {
        span.contains('/') && span.chars().all(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-'))
    });
    let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    spans.chain(links.filter(|link| !link.is_empty() && !link.contains("://"))).collect()
}

/// Code spans of the form `path/file.rs::test_name`.
fn test_names(text: &str) -> BTreeSet<(&str, &str)> {
    let pair = |span: &'_ str| -> Option<(usize, usize)> {
        let at = span.find(".rs::")? + 3;
        Some((at, span.rfind("::")? + 2))
    };
    code_spans(text).filter_map(|span| pair(span).map(|(file, test)| (&span[..file], &span[test..]))).collect()
}

fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_code_spans_with_a_slash_and_relative_links() {
        let text =
            "`crates/core/` and `Durable`, [x](docs/guide.md#top), [y](https://example.org/z), `a/<b>/c`, `a / b`";
        assert_eq!(file_names(text), ["crates/core/", "docs/guide.md"].into());
    }

    #[test]
    fn a_document_that_names_what_is_not_there_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        write("proof.rs", "fn a_delete_stays() {}");
        write("ARCHITECTURE.md", "`./proof.rs` `gone/away.rs`");
        write("GUARANTEES.md", "`proof.rs::a_delete_stays` `proof.rs::another` `none.rs::a::b`");
        let refused = check(root.path()).unwrap_err().to_string();
        let expected = "named in a document, but not there: \
                        file gone/away.rs, test none.rs::b, test proof.rs::another";
        assert_eq!(refused, expected);

        write("ARCHITECTURE.md", "`./proof.rs`");
        write("GUARANTEES.md", "`proof.rs::a_delete_stays`");
        check(root.path()).unwrap();
        write("GUARANTEES.md", "all is well");
        assert!(check(root.path()).unwrap_err().to_string().contains("names no test"));
    }
}
