//! Where downloads and run data of the services lie.

use std::env;
use std::path::{Path, PathBuf};

/// The two folders of the services: what is downloaded once, and what belongs to the run.
#[derive(Debug, Clone)]
pub struct Folders {
    /// Downloads: `$SETTLE_SERVICES_CACHE`, else `<target>/services/cache`.
    pub cache: PathBuf,
    /// Data, logs and the state file: `$SETTLE_SERVICES_RUN`, else `<target>/services/run`.
    pub run: PathBuf,
}

impl Folders {
    /// The folders of this workspace, after `SETTLE_SERVICES_CACHE`, `SETTLE_SERVICES_RUN` and `CARGO_TARGET_DIR`.
    pub fn of_workspace() -> Self {
        let services = at_root("CARGO_TARGET_DIR").unwrap_or_else(|| workspace().join("target")).join("services");
        Self {
            cache: at_root("SETTLE_SERVICES_CACHE").unwrap_or_else(|| services.join("cache")),
            run: at_root("SETTLE_SERVICES_RUN").unwrap_or_else(|| services.join("run")),
        }
    }

    /// The file that says which services run.
    pub fn state_file(&self) -> PathBuf {
        self.run.join("state.json")
    }
}

/// A folder from the environment; a relative one starts at the workspace, whatever the current folder is.
fn at_root(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(|value| workspace().join(value))
}

/// The root of the workspace this crate was built in.
pub fn workspace() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest)
}
