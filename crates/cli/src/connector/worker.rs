//! A Kafka Connect worker, by its REST interface.

use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;

use crate::connector::{Settings, Status};

/// One request. A validation asks the database, and a worker that starts a connector is slow.
const REQUEST: Duration = Duration::from_secs(60);
/// How long a group of workers may take to find its balance.
const BALANCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);

/// Why the worker did not do it.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The address is none.
    #[error("--connect: not an http address ({0}); use http://host:8083")]
    Address(String),
    /// No answer.
    #[error(
        "no Connect worker answers at {url} ({why}); start it, or name its REST interface with --connect \
         (port 8083 unless its `listeners` say otherwise)"
    )]
    Unreachable {
        /// The worker.
        url: String,
        /// What happened.
        why: String,
    },
    /// The connector's class is not installed.
    #[error(
        "the worker has no plugin {class}; put it into a folder of the worker's `plugin.path` and restart the worker \
         (there: {})", found.join(", ")
    )]
    Plugin {
        /// The class.
        class: String,
        /// Classes and versions of the source connectors that are there.
        found: Vec<String>,
    },
    /// Settings that the connector refuses.
    #[error("the connector refuses its configuration:{}", refusals(.0))]
    Settings(Vec<(String, String)>),
    /// No connector of that name.
    #[error("there is no connector {name} on {url} (there: {})", or_none(.known))]
    Unknown {
        /// The name.
        name: String,
        /// The worker.
        url: String,
        /// Those that are there.
        known: Vec<String>,
    },
    /// Any other refusal.
    #[error("the worker at {url} answered {status}: {message}")]
    Refused {
        /// The worker.
        url: String,
        /// HTTP status.
        status: u16,
        /// What it said.
        message: String,
    },
}

impl WorkerError {
    /// True if the worker's group is finding its balance: the same again may pass. It says so with 409, and with 500
    /// where the question was on its way inside the worker when the group began to.
    fn is_out_of_balance(&self) -> bool {
        match self {
            Self::Refused { status: 409, .. } => true,
            Self::Refused { status: 500, message, .. } => message.contains("rebalance"),
            _ => false,
        }
    }
}

fn refusals(all: &[(String, String)]) -> String {
    all.iter().map(|(field, why)| format!("\n  {field}: {why}")).collect()
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// A worker.
pub struct Worker {
    http: reqwest::Client,
    url: Url,
}

#[derive(Deserialize)]
struct Plugin {
    class: String,
    #[serde(rename = "type")]
    kind: String,
    version: Option<String>,
}

/// A connector in the list of all.
#[derive(Deserialize)]
struct Expanded {
    info: Info,
}

#[derive(Deserialize)]
struct Info {
    config: BTreeMap<String, String>,
}

/// What a connector says of settings.
#[derive(Deserialize)]
struct Validation {
    configs: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    /// A connector does not look at every setting that it has a definition of.
    value: Option<FieldValue>,
}

#[derive(Deserialize)]
struct FieldValue {
    name: String,
    #[serde(default)]
    errors: Vec<String>,
}

impl Validation {
    fn refused(&self) -> impl Iterator<Item = &FieldValue> {
        self.configs.iter().filter_map(|field| field.value.as_ref()).filter(|value| !value.errors.is_empty())
    }
}

impl Worker {
    /// The worker at this address; nothing is sent yet.
    pub fn at(url: &str) -> Result<Self, WorkerError> {
        let parsed = Url::parse(url).map_err(|e| WorkerError::Address(e.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") || parsed.cannot_be_a_base() {
            return Err(WorkerError::Address(format!("scheme {}", parsed.scheme())));
        }
        // Fails where another part of the process was first; then there is one, which is all we need.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .timeout(REQUEST)
            .connect_timeout(Duration::from_secs(10))
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("settle/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| WorkerError::Address(e.to_string()))?;
        Ok(Self { http, url: parsed })
    }

    /// Where it is, without a login.
    pub fn url(&self) -> String {
        let mut url = self.url.clone();
        // Fails only for addresses that have no login either.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.to_string().trim_end_matches('/').to_owned()
    }

    /// Asks the connector itself whether it takes these settings.
    pub async fn validate(&self, name: &str, settings: &Settings) -> Result<(), WorkerError> {
        let class = settings.get("connector.class").unwrap_or_default();
        let plugins: Vec<Plugin> = self.ask(Method::GET, &["connector-plugins"], None).await?;
        if plugins.iter().all(|plugin| plugin.class != class) {
            let there = plugins.into_iter().filter(|plugin| plugin.kind == "source");
            let found = there.map(|p| format!("{} {}", p.class, p.version.unwrap_or_default()).trim_end().to_owned());
            return Err(WorkerError::Plugin { class: class.to_owned(), found: found.collect() });
        }
        let mut body = settings.to_json();
        body["name"] = name.into();
        let path = ["connector-plugins", class, "config", "validate"];
        let answer: Validation = self.ask(Method::PUT, &path, Some(&body)).await?;
        let refused: Vec<(String, String)> =
            answer.refused().map(|value| (value.name.clone(), mask(&value.errors.join("; "), settings))).collect();
        if refused.is_empty() { Ok(()) } else { Err(WorkerError::Settings(refused)) }
    }

    /// The settings of a connector; none where there is no such connector.
    pub async fn settings(&self, name: &str) -> Result<Option<Settings>, WorkerError> {
        match self.ask(Method::GET, &["connectors", name, "config"], None).await {
            Ok(settings) => Ok(Some(Settings::of(settings))),
            Err(WorkerError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The settings of all connectors, by name.
    pub async fn connectors(&self) -> Result<BTreeMap<String, Settings>, WorkerError> {
        let all: BTreeMap<String, Expanded> = self.ask(Method::GET, &["connectors?expand=info"], None).await?;
        Ok(all.into_iter().map(|(name, expanded)| (name, Settings::of(expanded.info.config))).collect())
    }

    /// Makes the connector, or gives it other settings.
    pub async fn put(&self, name: &str, settings: &Settings) -> Result<(), WorkerError> {
        let body = settings.to_json();
        match self.when_balanced(Method::PUT, &["connectors", name, "config"], Some(&body)).await {
            Ok(_) => Ok(()),
            Err(WorkerError::Refused { url, status, message }) => {
                Err(WorkerError::Refused { url, status, message: mask(&message, settings) })
            }
            Err(error) => Err(error),
        }
    }

    /// How the connector is; none where there is no such connector, or none yet.
    pub async fn status(&self, name: &str) -> Result<Option<Status>, WorkerError> {
        match self.ask(Method::GET, &["connectors", name, "status"], None).await {
            Ok(status) => Ok(Some(status)),
            Err(WorkerError::Refused { status: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops reading until it is resumed; keeps its place.
    pub async fn pause(&self, name: &str) -> Result<(), WorkerError> {
        self.known(name, self.when_balanced(Method::PUT, &["connectors", name, "pause"], None).await).await
    }

    /// Goes on after a pause.
    pub async fn resume(&self, name: &str) -> Result<(), WorkerError> {
        self.known(name, self.when_balanced(Method::PUT, &["connectors", name, "resume"], None).await).await
    }

    /// Starts the connector and its tasks anew.
    pub async fn restart(&self, name: &str) -> Result<(), WorkerError> {
        let path = ["connectors", name, "restart?includeTasks=true&onlyFailed=false"];
        self.known(name, self.when_balanced(Method::POST, &path, None).await).await
    }

    /// Takes the connector away, and waits until it is gone.
    pub async fn delete(&self, name: &str) -> Result<(), WorkerError> {
        self.known(name, self.when_balanced(Method::DELETE, &["connectors", name], None).await).await?;
        let until = Instant::now() + BALANCE;
        while self.status(name).await?.is_some() {
            if Instant::now() > until {
                let message = format!("connector {name} is still there after {} s", BALANCE.as_secs());
                return Err(WorkerError::Refused { url: self.url(), status: 200, message });
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The error for a connector that is not there.
    pub async fn unknown(&self, name: &str) -> WorkerError {
        match self.ask::<Vec<String>>(Method::GET, &["connectors"], None).await {
            Ok(known) => WorkerError::Unknown { name: name.to_owned(), url: self.url(), known },
            Err(error) => error,
        }
    }

    async fn known(&self, name: &str, answer: Result<String, WorkerError>) -> Result<(), WorkerError> {
        match answer {
            Ok(_) => Ok(()),
            Err(WorkerError::Refused { status: 404, .. }) => Err(self.unknown(name).await),
            Err(error) => Err(error),
        }
    }

    /// A worker refuses changes while its group finds its balance.
    async fn when_balanced(&self, method: Method, path: &[&str], body: Option<&Value>) -> Result<String, WorkerError> {
        let until = Instant::now() + BALANCE;
        loop {
            match self.send(method.clone(), path, body).await {
                Err(error) if error.is_out_of_balance() && Instant::now() < until => tokio::time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<T, WorkerError> {
        let text = self.when_balanced(method, path, body).await?;
        serde_json::from_str(&text).map_err(|_| WorkerError::Refused {
            url: self.url(),
            status: 200,
            message: "no answer of a Connect worker; is --connect its REST interface?".to_owned(),
        })
    }

    async fn send(&self, method: Method, path: &[&str], body: Option<&Value>) -> Result<String, WorkerError> {
        let mut url = self.url.clone();
        let (last, folders) = path.split_last().unwrap_or((&"", &[]));
        let (last, query) = last.split_once('?').map_or((*last, None), |(last, query)| (last, Some(query)));
        if let Ok(mut segments) = url.path_segments_mut() {
            // A name may hold anything.
            segments.pop_if_empty().extend(folders).push(last);
        }
        url.set_query(query);
        let mut request = self.http.request(method, url);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        let lost = |error: reqwest::Error| WorkerError::Unreachable {
            url: self.url(),
            why: crate::exit::chain(&error.without_url()),
        };
        let answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        let text = answer.text().await.map_err(lost)?;
        if status.is_success() {
            return Ok(text);
        }
        Err(WorkerError::Refused { url: self.url(), status: status.as_u16(), message: message(&text) })
    }
}

/// What the worker says in words, where it does.
fn message(text: &str) -> String {
    let json: Result<BTreeMap<String, Value>, _> = serde_json::from_str(text);
    let message = json.ok().and_then(|mut json| json.remove("message"));
    match message {
        Some(Value::String(message)) => message,
        _ if text.trim().is_empty() => "nothing".to_owned(),
        _ => "a page that is none of Connect's; is --connect its REST interface?".to_owned(),
    }
}

/// The text without the secrets of these settings.
fn mask(text: &str, settings: &Settings) -> String {
    settings.secrets().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_the_connector_did_not_look_at_is_not_refused() {
        let answer: Validation = serde_json::from_str(
            r#"{"name": "c", "error_count": 1, "configs": [
                {"definition": {"name": "slot.name"}, "value": null},
                {"definition": {"name": "topic.prefix"}, "value": {"name": "topic.prefix", "value": "a", "errors": []}},
                {"definition": {"name": "plugin.name"}, "value": {"name": "plugin.name", "errors": ["no such plugin"]}}
            ]}"#,
        )
        .unwrap();
        let refused: Vec<&str> = answer.refused().map(|value| value.name.as_str()).collect();
        assert_eq!(refused, ["plugin.name"]);
    }

    #[test]
    fn a_group_that_finds_its_balance_is_asked_again() {
        let refused = |status, message: &str| {
            let (url, message) = ("http://c".to_owned(), message.to_owned());
            WorkerError::Refused { url, status, message }.is_out_of_balance()
        };
        assert!(refused(409, "Cannot complete request because of a conflicting operation"));
        assert!(refused(500, "Request cannot be completed because a rebalance is expected"));
        assert!(!refused(500, "Failed to find any class"));
    }
}
