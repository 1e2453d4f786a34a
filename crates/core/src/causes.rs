//! An error told with what caused it: no `Display` here prints its source, so that nothing stands
//! twice in one line.

use std::error::Error;

/// The error and everything beneath it that it does not say itself, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let beneath = error.to_string();
        if !text.contains(&beneath) {
            text.push_str(": ");
            text.push_str(&beneath);
        }
        next = error.source();
    }
    text
}
