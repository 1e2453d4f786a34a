//! The state file: which services run, so that a later command, and tests started by hand, find them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Folders, Process, ServiceError};

/// A service that was started here.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Running {
    /// The service's name.
    pub name: String,
    /// Its process.
    pub process: Process,
    /// Where it answers, for people.
    pub address: String,
    /// Its data, configuration and log.
    pub folder: PathBuf,
    /// Its log file.
    pub log: PathBuf,
    /// The environment that tells tests where it is.
    pub exports: BTreeMap<String, String>,
    /// The environment it was started with: where the services are that it needs.
    #[serde(default)]
    pub given: BTreeMap<String, String>,
    /// Started by `services up`: outlives the command that started it.
    pub kept: bool,
}

/// All services that were started here, in the order of their start.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The services.
    pub services: Vec<Running>,
}

impl State {
    /// Reads the state file; no file is no service.
    pub fn load(folders: &Folders) -> Result<Self, ServiceError> {
        let path = folders.state_file();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                return Err(ServiceError::io(format!("reading {}", path.display()))(source));
            }
        };
        serde_json::from_str(&text).map_err(|why| ServiceError::State { path, why: why.to_string() })
    }

    /// Writes the state file in one step, so that a reader never sees half of it.
    pub fn save(&self, folders: &Folders) -> Result<(), ServiceError> {
        let path = folders.state_file();
        let fresh = path.with_extension("json.new");
        let text = serde_json::to_string_pretty(self)
            .map_err(|why| ServiceError::State { path: path.clone(), why: why.to_string() })?;
        fs::write(&fresh, text + "\n")
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(ServiceError::io(format!("writing {}", path.display())))
    }

    /// The live service of that name.
    pub fn alive(&self, name: &str) -> Option<&Running> {
        self.services.iter().find(|running| running.name == name && running.process.is_alive())
    }
}
