//! The REST interface of a worker: register, wait until it runs, delete.

use std::thread;
use std::time::{Duration, Instant};

use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::Config;
use crate::{http, services};

const LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// An answer of the worker that is not a success.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{status}: {text}")]
pub struct Refused {
    /// The HTTP status; 0 when there was no answer.
    pub status: u16,
    /// The body, or why there was none.
    pub text: String,
}

/// Talks to one worker.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
}

impl Client {
    /// The worker that all tests share.
    pub fn shared() -> Self {
        Self::at(services::connect())
    }

    /// A worker at `http://host:port`.
    pub fn at(url: &str) -> Self {
        Self { url: url.trim_end_matches('/').to_owned() }
    }

    /// `http://host:port`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Makes or changes a connector, and waits until it runs.
    pub async fn register(&self, name: &str, config: &Config) {
        let body = serde_json::to_value(config).expect("a configuration of text");
        let done = self.when_balanced(Method::PUT, &format!("/connectors/{name}/config"), Some(&body)).await;
        done.unwrap_or_else(|refused| panic!("registering connector {name}: {refused}"));
        self.wait_running(name).await;
    }

    /// What the worker says of a connector and its tasks; `None` when it knows none of that name. After a worker was killed this is
    /// what was true before, until its successor has started the connector: then wait for records instead.
    pub async fn status(&self, name: &str) -> Option<Value> {
        match self.send(Method::GET, &format!("/connectors/{name}/status"), None).await {
            Ok(text) => Some(serde_json::from_str(&text).expect("a status of JSON")),
            Err(Refused { status: 404, .. }) => None,
            Err(refused) => panic!("asking for connector {name}: {refused}"),
        }
    }

    /// Waits until a connector and at least one task run. Panics at once when one has failed, with its reason.
    pub async fn wait_running(&self, name: &str) {
        let deadline = Instant::now() + LIMIT;
        loop {
            // A connector is known before it has a status.
            let status = self.status(name).await.unwrap_or_default();
            let tasks = status["tasks"].as_array().map(Vec::as_slice).unwrap_or_default();
            let parts = || std::iter::once(&status["connector"]).chain(tasks);
            assert!(parts().all(|part| part["state"] != "FAILED"), "connector {name} has failed: {status:#}");
            if !tasks.is_empty() && parts().all(|part| part["state"] == "RUNNING") {
                return;
            }
            assert!(Instant::now() < deadline, "connector {name} does not run after {LIMIT:?}: {status:#}");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Deletes a connector and waits until it is gone; one that does not exist is fine. Slot and publication go with the database.
    pub async fn delete(&self, name: &str) -> Result<(), Refused> {
        match self.when_balanced(Method::DELETE, &format!("/connectors/{name}"), None).await {
            Ok(_) | Err(Refused { status: 404, .. }) => {}
            Err(refused) => return Err(refused),
        }
        let deadline = Instant::now() + LIMIT;
        while self.status(name).await.is_some() {
            assert!(Instant::now() < deadline, "connector {name} is still there after {LIMIT:?}");
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// A worker refuses changes (409) while its group finds its balance after a change, also one of another test.
    async fn when_balanced(&self, method: Method, path: &str, body: Option<&Value>) -> Result<String, Refused> {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.send(method.clone(), path, body).await {
                Err(Refused { status: 409, .. }) if Instant::now() < deadline => tokio::time::sleep(POLL).await,
                done => return done,
            }
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<String, Refused> {
        let failed = |failure: reqwest::Error| Refused { status: 0, text: format!("{failure:?}") };
        let mut request = http::client().request(method, format!("{}{path}", self.url)).timeout(LIMIT);
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body.to_string());
        }
        let answer = request.send().await.map_err(failed)?;
        let status: StatusCode = answer.status();
        let text = answer.text().await.map_err(failed)?;
        if status.is_success() { Ok(text) } else { Err(Refused { status: status.as_u16(), text }) }
    }
}

/// A connector on the shared worker, deleted with the value. Make it after its database: what is made last goes first.
pub struct Connector {
    client: Client,
    name: String,
}

impl Connector {
    /// Registers a connector and waits until it runs.
    pub async fn start(name: &str, config: &Config) -> Self {
        let connector = Self { client: Client::shared(), name: name.to_owned() };
        connector.client.register(name, config).await;
        connector
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Connector {
    fn drop(&mut self) {
        let (client, name) = (self.client.clone(), self.name.clone());
        // A runtime cannot wait inside another; a thread of its own can.
        let deleted = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(client.delete(&name))
        })
        .join();
        let done = matches!(deleted, Ok(Ok(())));
        assert!(done || thread::panicking(), "connector {} could not be deleted", self.name);
    }
}
