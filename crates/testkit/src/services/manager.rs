//! Starts, finds and stops the services; the one place that knows them all.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::clickhouse::ClickHouse;
use super::connect::Connect;
use super::kafka::Kafka;
use super::mariadb::MariaDb;
use super::postgres::Postgres;
use super::{Folders, Process, Progress, Running, ServiceError, State, home};

const PATIENCE: Duration = Duration::from_secs(10);

/// What a service has to know about itself. `prepare` may download and takes long; `start` only starts.
pub trait Service: Send {
    /// Its name in commands and folders.
    fn name(&self) -> &'static str;
    /// The environment variable with the address of one that the user brings instead.
    fn replaced_by(&self) -> &'static str;
    /// The environment variables of services that have to be up before it, see [`Given`].
    fn needs(&self) -> &'static [&'static str] {
        &[]
    }
    /// What it is, for people.
    fn describe(&self) -> String;
    /// Makes sure that all it needs is on this machine.
    fn prepare(&self, folders: &Folders, progress: Progress<'_>) -> Result<(), ServiceError>;
    /// Starts it with fresh data in `folder`, beside services that start at the same time.
    fn start(&self, folders: &Folders, folder: &Path, given: &Given) -> Result<Launch, ServiceError>;
    /// Waits until it answers, and completes the address where that is known only then.
    fn wait_ready(&self, running: &mut Running) -> Result<(), ServiceError>;
}

/// What a service needs of others: environment variables with the addresses of services, the user's own or started here.
pub type Given = BTreeMap<String, String>;

type Started = (Box<dyn Service>, Child);

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
        self.up_with(all(), keep, progress)
    }

    fn up_with(
        &self,
        services: Vec<Box<dyn Service>>,
        keep: bool,
        progress: Progress<'_>,
    ) -> Result<Given, ServiceError> {
        let (replaced, services): (Vec<_>, Vec<_>) =
            services.into_iter().partition(|service| env::var_os(service.replaced_by()).is_some());
        let replaced: Vec<&str> = replaced.iter().map(|service| service.name()).collect();
        let mut state = State::load(&self.folders)?;
        state.services.retain(|running| running.process.is_alive());
        let found: Vec<Process> = state.services.iter().map(|running| running.process.clone()).collect();
        self.start_missing(services, &mut state, keep, progress).inspect_err(|_| {
            for started in state.services.iter().filter(|running| !found.contains(&running.process)) {
                let _ = started.process.stop(PATIENCE); // the failure to report is the first one
                home::clear_elsewhere(&started.folder);
            }
        })?;
        // The user's own goes before one that still runs here.
        let ours = state.services.iter().filter(|running| !replaced.contains(&running.name.as_str()));
        Ok(ours.flat_map(|running| running.exports.clone()).collect())
    }

    fn start_missing(
        &self,
        services: Vec<Box<dyn Service>>,
        state: &mut State,
        keep: bool,
        progress: Progress<'_>,
    ) -> Result<(), ServiceError> {
        if keep {
            state.services.iter_mut().for_each(|running| running.kept = true);
        }
        let mut wanted = Vec::new();
        for service in services {
            match state.alive(service.name()) {
                Some(running) if running.given == given(service.as_ref(), state) => {}
                // What it was started with is gone: a broker at another address.
                Some(stale) => {
                    progress(&format!("{}: stopping process {}", stale.name, stale.process.pid()));
                    stale.process.stop(PATIENCE)?;
                    state.services.retain(|running| running.name != service.name());
                    wanted.push(service);
                }
                None => wanted.push(service),
            }
        }
        for service in &wanted {
            service.prepare(&self.folders, progress)?;
        }
        let (late, early): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|service| !service.needs().is_empty());
        let mut waiting = self.start_together(early, state, keep, progress)?;
        if !late.is_empty() {
            let needed =
                |service: &dyn Service| late.iter().any(|later| later.needs().contains(&service.replaced_by()));
            let (first, others): (Vec<_>, Vec<_>) =
                waiting.into_iter().partition(|(service, _)| needed(service.as_ref()));
            first.into_iter().try_for_each(|started| await_ready(started, state, progress))?;
            waiting = others;
            waiting.extend(self.start_together(late, state, keep, progress)?);
        }
        waiting.into_iter().try_for_each(|started| await_ready(started, state, progress))?;
        state.save(&self.folders)
    }

    /// Starts services side by side: some make their data folders first, which takes seconds.
    fn start_together(
        &self,
        services: Vec<Box<dyn Service>>,
        state: &mut State,
        keep: bool,
        progress: Progress<'_>,
    ) -> Result<Vec<Started>, ServiceError> {
        let (send, launches) = mpsc::channel();
        thread::scope(|scope| {
            for service in services {
                progress(&format!("{}: starting {}", service.name(), service.describe()));
                let (send, given) = (send.clone(), given(service.as_ref(), state));
                scope.spawn(move || {
                    let folder = self.folders.run.join(service.name());
                    home::clear(&folder); // the data of an earlier run
                    let launch = fs::create_dir_all(&folder)
                        .map_err(ServiceError::io(format!("creating {}", folder.display())))
                        .and_then(|()| service.start(&self.folders, &folder, &given));
                    let _ = send.send((service, folder, given, launch)); // nobody listens after a failure to save
                });
            }
            drop(send);
            let (mut started, mut failure) = (Vec::new(), None);
            for (service, folder, given, launch) in launches {
                match launch {
                    Ok(launch) => {
                        state.services.push(Running {
                            name: service.name().to_owned(),
                            process: launch.process,
                            address: launch.address,
                            folder,
                            log: launch.log,
                            exports: launch.exports,
                            given,
                            kept: keep,
                        });
                        // Before it is ready: whatever happens next, it can be found and stopped.
                        failure = failure.or(state.save(&self.folders).err());
                        started.push((service, launch.child));
                    }
                    Err(why) => failure = failure.or(Some(why)),
                }
            }
            failure.map_or(Ok(started), Err)
        })
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
            home::clear_elsewhere(&running.folder);
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

/// What `service` needs, as far as it is there.
fn given(service: &dyn Service, state: &State) -> Given {
    let value = |need: &&str| -> Option<(String, String)> {
        let started = || state.services.iter().find_map(|running| running.exports.get(*need).cloned());
        Some(((*need).to_owned(), env::var(need).ok().or_else(started)?))
    };
    service.needs().iter().filter_map(value).collect()
}

fn await_ready((service, mut child): Started, state: &mut State, progress: Progress<'_>) -> Result<(), ServiceError> {
    let Some(running) = state.services.iter_mut().find(|running| running.name == service.name()) else {
        return Ok(());
    };
    if let Err(failure) = service.wait_ready(running) {
        let _ = child.try_wait(); // reaps it, so that it is not taken for alive
        return Err(failure);
    }
    progress(&format!("{}: ready on {}", service.name(), running.address));
    Ok(())
}

fn all() -> Vec<Box<dyn Service>> {
    vec![Box::new(Kafka), Box::new(ClickHouse), Box::new(Postgres), Box::new(MariaDb), Box::new(Connect)]
}

#[cfg(test)]
mod tests;
