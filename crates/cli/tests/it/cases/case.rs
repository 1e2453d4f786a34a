//! A case as `testdata/cases/cases.jsonl` has it, and its records as they lie in a log.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use settle_testkit::kafka;

/// One reported failure.
#[derive(Debug, Deserialize)]
pub struct Case {
    pub id: String,
    /// How the records are written: `debezium-json`, `debezium-json+schema`, …
    pub wire: String,
    /// The destinations that it concerns.
    pub sinks: Vec<String>,
    pub table: Table,
    pub steps: Vec<Step>,
    pub expect: Value,
}

/// The source table.
#[derive(Debug, Deserialize)]
pub struct Table {
    pub name: String,
    /// Name and type at the source.
    pub columns: BTreeMap<String, String>,
    pub key: Vec<String>,
}

/// What happens next; which fields it has depends on `step`.
#[derive(Debug, Deserialize)]
pub struct Step {
    pub step: String,
    pub topic: Option<String>,
    pub partition: Option<i32>,
    pub offset: Option<i64>,
    pub until: Option<i64>,
    pub sql: Option<String>,
    #[serde(default, deserialize_with = "present")]
    key: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
    key_text: Option<String>,
    value_text: Option<String>,
    key_base64: Option<String>,
    value_base64: Option<String>,
    headers: Option<BTreeMap<String, Box<RawValue>>>,
    generate: Option<Generate>,
}

/// A value that is too large to be written down.
#[derive(Debug, Deserialize)]
struct Generate {
    field: Option<String>,
    repeat: Option<String>,
    raw: Option<String>,
    bytes: usize,
}

/// A field that is there, null included: a null value is a tombstone, a missing one stands elsewhere.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A record at its place in a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(String, String)>,
}

impl Step {
    /// The record that a `produce` step writes.
    pub fn entry(&self) -> Entry {
        let bytes = |raw: &Option<Box<RawValue>>, text: &Option<String>, base64: &Option<String>| match (text, base64) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (_, Some(base64)) => Some(STANDARD.decode(base64).unwrap()),
            _ => raw.as_ref().map(|raw| raw.get()).filter(|json| *json != "null").map(|json| json.as_bytes().to_vec()),
        };
        let mut value = bytes(&self.value, &self.value_text, &self.value_base64);
        if let Some(generate) = &self.generate {
            value = Some(generate.value(value));
        }
        let text =
            |json: &RawValue| serde_json::from_str::<String>(json.get()).unwrap_or_else(|_| json.get().to_owned());
        let headers = self.headers.iter().flatten().map(|(name, json)| (name.clone(), text(json))).collect();
        Entry {
            topic: self.topic.clone().expect("a record has a topic"),
            partition: self.partition.expect("a record has a partition"),
            offset: self.offset.expect("a record has an offset"),
            key: bytes(&self.key, &self.key_text, &self.key_base64),
            value,
            headers,
        }
    }
}

impl Generate {
    fn value(&self, template: Option<Vec<u8>>) -> Vec<u8> {
        if let Some(raw) = &self.raw {
            return raw.repeat(self.bytes / raw.len()).into_bytes();
        }
        let mut envelope: Value = serde_json::from_slice(&template.unwrap()).unwrap();
        let repeat = self.repeat.as_deref().unwrap();
        envelope["after"][self.field.as_deref().unwrap()] = repeat.repeat(self.bytes / repeat.len()).into();
        envelope.to_string().into_bytes()
    }
}

impl Entry {
    /// As `kcat -J` prints it.
    pub fn line(&self) -> String {
        let text = |bytes: &Option<Vec<u8>>| bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let headers: Vec<&String> = self.headers.iter().flat_map(|(name, value)| [name, value]).collect();
        json!({
            "topic": self.topic, "partition": self.partition, "offset": self.offset, "tstype": "create",
            "ts": 1_767_225_600_000_i64, "broker": 0, "headers": headers,
            "key": text(&self.key), "payload": text(&self.value),
        })
        .to_string()
    }

    /// To be produced into `topic`.
    pub fn record(&self, topic: &str) -> kafka::Record {
        let mut record = kafka::Record::new(topic, self.partition, None, None);
        record.key.clone_from(&self.key);
        record.payload.clone_from(&self.value);
        record.headers =
            self.headers.iter().map(|(name, value)| (name.clone(), Some(value.clone().into_bytes()))).collect();
        record
    }

    /// The change event in it, without its schema.
    pub fn envelope(&self) -> Option<Value> {
        let value: Value = serde_json::from_slice(self.value.as_deref()?).ok()?;
        Some(if value.get("payload").is_some() { value["payload"].clone() } else { value })
    }

    /// The source table, as `namespace.name`.
    pub fn table(&self) -> Option<String> {
        let envelope = self.envelope()?;
        let source = envelope.get("source")?;
        let namespace = source["schema"].as_str().or(source["db"].as_str())?;
        Some(format!("{namespace}.{}", source["table"].as_str()?))
    }
}

impl Case {
    /// Its records, in order.
    pub fn entries(&self) -> Vec<Entry> {
        self.steps.iter().filter(|step| step.step == "produce").map(Step::entry).collect()
    }

    /// Its records in one topic.
    pub fn of_topic(&self, topic: &str) -> Vec<Entry> {
        self.entries().into_iter().filter(|entry| entry.topic == topic).collect()
    }
}

/// The folder of the cases.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cases")
}

/// All cases.
pub fn all() -> Vec<Case> {
    let text = std::fs::read_to_string(folder().join("cases.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line:.60}"))).collect()
}
