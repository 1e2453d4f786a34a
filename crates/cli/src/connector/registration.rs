//! Registering a connector: look at the database, ask the connector, then put it there, and watch it start.

use std::time::Duration;

use settle_engine::finding::Finding;
use tokio::time::Instant;

use crate::connector::{Configuration, Fitness, Server, Settings, Worker, WorkerError, inspect, neighbours};
use crate::database::DatabaseError;

const PAUSE: Duration = Duration::from_millis(200);

/// How to go about it.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Look at the database first; refuse where it is not fit.
    pub check: bool,
    /// Give a connector of that name other settings.
    pub replace: bool,
    /// Take a topic prefix, or a slot, that another connector has.
    pub shared: bool,
    /// How long to wait until it runs; not at all where zero.
    pub wait: Duration,
}

impl Default for Manner {
    fn default() -> Self {
        Self { check: true, replace: false, shared: false, wait: Duration::from_secs(60) }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is new.
    Created,
    /// It was there with the same settings.
    Unchanged,
    /// It was there with others.
    Replaced,
}

/// A connector that is there.
#[derive(Clone, Debug)]
pub struct Registered {
    /// What was done.
    pub outcome: Outcome,
    /// Its settings, the password among them.
    pub settings: Settings,
    /// What may surprise.
    pub findings: Vec<Finding>,
}

/// Why it is not there, or does not run.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// Something is missing in what was asked for.
    #[error("{0}")]
    Configuration(String),
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The database does not do what is needed.
    #[error("the database is not fit to be captured (--no-check registers all the same)")]
    Unfit(Vec<Finding>),
    /// Another connector has what is wanted.
    #[error("another connector would be disturbed (--shared registers all the same)")]
    Taken(Vec<Finding>),
    /// The worker.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A connector of that name has other settings.
    #[error(
        "a connector {name} is there with other settings:\n  {}\nchoose another --name, or change it with --replace",
        .differences.join("\n  ")
    )]
    Exists {
        /// Its name.
        name: String,
        /// What is different, secrets masked.
        differences: Vec<String>,
    },
    /// It is registered, and failed.
    #[error("connector {name} is registered and has failed: {why}")]
    Failed {
        /// Its name.
        name: String,
        /// The first line of the trace.
        why: String,
    },
    /// It is registered, and does not run.
    #[error("connector {name} is registered and does not run after {seconds} s; see: settle connector status")]
    NotRunning {
        /// Its name.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
}

/// The settings, and what was found at the database on the way. Nothing is registered.
pub async fn prepare(configuration: &Configuration, check: bool) -> Result<(Settings, Fitness), RegisterError> {
    let fitness = match check {
        true => inspect(configuration).await?,
        false => Fitness {
            server: Server::of_url(configuration),
            slot_is_read: false,
            unsigned: false,
            findings: Vec::new(),
        },
    };
    // Precise bytes do not say that they are a number where no schema comes with them.
    let unsigned = fitness.unsigned && configuration.schemas;
    let settings = configuration.settings(fitness.server, unsigned).map_err(RegisterError::Configuration)?;
    Ok((settings, fitness))
}

/// Registers a connector and waits until it runs.
pub async fn register(
    worker: &Worker,
    configuration: &Configuration,
    manner: Manner,
) -> Result<Registered, RegisterError> {
    let (settings, fitness) = prepare(configuration, manner.check).await?;
    if fitness.is_unfit() {
        return Err(RegisterError::Unfit(fitness.findings));
    }
    let name = &configuration.name;
    let there = worker.settings(name).await?;
    let differences = there.as_ref().map(|there| settings.differences(there));
    let outcome = match differences {
        None => Outcome::Created,
        Some(differences) if differences.is_empty() => Outcome::Unchanged,
        Some(_) if manner.replace => Outcome::Replaced,
        Some(differences) => return Err(RegisterError::Exists { name: name.clone(), differences }),
    };
    // One that is there as it is wanted takes nothing new.
    if outcome != Outcome::Unchanged && !manner.shared {
        let mut taken = neighbours::conflicts(name, &settings, &worker.connectors().await?);
        if fitness.slot_is_read && taken.is_empty() {
            taken.extend(neighbours::slot_in_use(&settings, there.as_ref()));
        }
        if !taken.is_empty() {
            return Err(RegisterError::Taken(taken));
        }
    }
    if outcome != Outcome::Unchanged {
        worker.validate(name, &settings).await?;
        worker.put(name, &settings).await?;
    }
    wait_running(worker, name, manner.wait).await?;
    Ok(Registered { outcome, settings, findings: fitness.findings })
}

/// Waits until a connector runs; ends at once where it has failed.
pub async fn wait_running(worker: &Worker, name: &str, wait: Duration) -> Result<(), RegisterError> {
    let until = Instant::now() + wait;
    while !wait.is_zero() {
        // A connector is known before it has a status.
        if let Some(status) = worker.status(name).await? {
            if let Some(why) = status.failure() {
                return Err(RegisterError::Failed { name: name.to_owned(), why });
            }
            if status.is_running() || status.connector.state == "PAUSED" {
                break;
            }
        }
        if Instant::now() > until {
            return Err(RegisterError::NotRunning { name: name.to_owned(), seconds: wait.as_secs() });
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
