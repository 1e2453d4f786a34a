//! Starts, finds and stops the services; the one place that knows them all.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use super::clickhouse::ClickHouse;
use super::kafka::Kafka;
use super::{Folders, Process, Progress, Running, ServiceError, State};

const PATIENCE: Duration = Duration::from_secs(10);

/// What a service has to know about itself. `prepare` may download and takes long; `start` only starts.
pub trait Service {
    /// Its name in commands and folders.
    fn name(&self) -> &'static str;
    /// The environment variable with the address of one that the user brings instead.
    fn replaced_by(&self) -> &'static str;
    /// What it is, for people.
    fn describe(&self) -> String;
    /// Makes sure that all it needs is on this machine.
    fn prepare(&self, folders: &Folders, progress: Progress<'_>) -> Result<(), ServiceError>;
    /// Starts it with fresh data in `folder`.
    fn start(&self, folders: &Folders, folder: &Path) -> Result<Launch, ServiceError>;
    /// Waits until it answers, and completes the address where that is known only then.
    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError>;
}

/// A service that has been started and may not answer yet.
pub struct Launch {
    /// Its process.
    pub process: Process,
    /// The same process as our child.
    pub child: Child,
    /// Its log file.
    pub log: PathBuf,
    /// Where it will answer.
    pub address: String,
    /// The environment for tests.
    pub exports: BTreeMap<String, String>,
}

/// Where a service of the current environment comes from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// The user's own, by an environment variable.
    Given(String),
    /// Started here.
    Started(Box<Running>),
    /// Neither.
    Down,
}

/// The services of this workspace. Only one manager at a time holds the run folder.
pub struct Services {
    folders: Folders,
    _lock: File,
}

impl Services {
    /// Takes hold of the run folder; waits while another command has it.
    pub fn open(folders: Folders, progress: Progress<'_>) -> Result<Self, ServiceError> {
        fs::create_dir_all(&folders.run).map_err(ServiceError::io(format!("creating {}", folders.run.display())))?;
        let path = folders.run.join("lock");
        let what = || format!("locking {}", path.display());
        let lock = File::create(&path).map_err(ServiceError::io(what()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                progress(&format!("another command uses the services in {}; waiting for it", folders.run.display()));
                lock.lock().map_err(ServiceError::io(what()))?;
            }
            Err(TryLockError::Error(source)) => return Err(ServiceError::io(what())(source)),
        }
        Ok(Self { folders, _lock: lock })
    }

    /// The folders in use.
    pub fn folders(&self) -> &Folders {
        &self.folders
    }

    /// Has every service up, and gives the environment for tests. What already runs is left as it is. With `keep` the services
    /// outlive this command, also those that an earlier command started for itself. A failure stops what this call started.
    pub fn up(&self, keep: bool, progress: Progress<'_>) -> Result<BTreeMap<String, String>, ServiceError> {
        let mut state = State::load(&self.folders)?;
        state.services.retain(|running| running.process.is_alive());
        let found = state.services.len();
        self.start_missing(&mut state, keep, progress).inspect_err(|_| {
            for started in state.services.iter().skip(found) {
                let _ = started.process.stop(PATIENCE); // the failure to report is the first one
            }
        })?;
        Ok(state.services.iter().flat_map(|running| running.exports.clone()).collect())
    }

    fn start_missing(&self, state: &mut State, keep: bool, progress: Progress<'_>) -> Result<(), ServiceError> {
        let wanted: Vec<Box<dyn Service>> = all()
            .into_iter()
            .filter(|service| env::var_os(service.replaced_by()).is_none() && state.alive(service.name()).is_none())
            .collect();
        if keep {
            state.services.iter_mut().for_each(|running| running.kept = true);
        }
        for service in &wanted {
            service.prepare(&self.folders, progress)?;
        }
        let mut waiting = Vec::new();
        for service in wanted {
            progress(&format!("{}: starting {}", service.name(), service.describe()));
            let folder = self.folders.run.join(service.name());
            let _ = fs::remove_dir_all(&folder); // the data of an earlier run
            fs::create_dir_all(&folder).map_err(ServiceError::io(format!("creating {}", folder.display())))?;
            let launch = service.start(&self.folders, &folder)?;
            state.services.push(Running {
                name: service.name().to_owned(),
                process: launch.process,
                address: launch.address,
                folder,
                log: launch.log,
                exports: launch.exports,
                kept: keep,
            });
            state.save(&self.folders)?; // before it is ready: whatever happens next, it can be found and stopped
            waiting.push((service, state.services.len() - 1, launch.child));
        }
        for (service, at, mut child) in waiting {
            if let Err(failure) = service.wait_ready(&mut state.services[at]) {
                let _ = child.try_wait(); // reaps it, so that it is not taken for alive
                return Err(failure);
            }
            progress(&format!("{}: ready on {}", service.name(), state.services[at].address));
        }
        state.save(&self.folders)
    }

    /// Stops what was started here: all of it, or only what no `services up` asked to keep.
    pub fn down(&self, kept_too: bool, progress: Progress<'_>) -> Result<(), ServiceError> {
        let mut state = State::load(&self.folders)?;
        while let Some(at) = state.services.iter().rposition(|running| kept_too || !running.kept) {
            let running = state.services.remove(at);
            if running.process.is_alive() {
                progress(&format!("{}: stopping process {}", running.name, running.process.pid()));
                running.process.stop(PATIENCE)?;
            }
            state.save(&self.folders)?;
        }
        Ok(())
    }
}

/// Every service by name with where it comes from.
pub fn status(folders: &Folders) -> Result<Vec<(&'static str, Origin)>, ServiceError> {
    let state = State::load(folders)?;
    let origin = |service: &dyn Service| match env::var(service.replaced_by()) {
        Ok(address) => Origin::Given(address),
        Err(_) => {
            state.alive(service.name()).map_or(Origin::Down, |running| Origin::Started(Box::new(running.clone())))
        }
    };
    Ok(all().iter().map(|service| (service.name(), origin(service.as_ref()))).collect())
}

fn all() -> Vec<Box<dyn Service>> {
    vec![Box::new(ClickHouse), Box::new(Kafka)]
}
