//! Secrets: named, never written in the file, never printed.

use std::fmt;

/// A secret read from the environment or a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Reads `env:NAME` or `file:PATH`; anything else is refused, so that no secret stands in a
    /// configuration file.
    pub fn read(key: &str, reference: &str) -> Result<Self, String> {
        if let Some(name) = reference.strip_prefix("env:") {
            return std::env::var(name)
                .map(Self)
                .map_err(|_| format!("{key}: environment variable {name} is not set (or not UTF-8); export it"));
        }
        if let Some(path) = reference.strip_prefix("file:") {
            let text =
                std::fs::read_to_string(path).map_err(|e| format!("{key}: the file {path} cannot be read ({e})"))?;
            return Ok(Self(text.trim_end_matches(['\n', '\r']).to_owned()));
        }
        Err(format!("{key}: a secret is named, not written here: use \"env:NAME\" or \"file:PATH\""))
    }

    /// The secret itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}
