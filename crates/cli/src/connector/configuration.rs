//! The configuration of a connector: what Settle needs of Debezium, in one place.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::connector::Server;
use crate::database::Address;

/// What to register.
#[derive(Clone)]
pub struct Configuration {
    /// The connector's name.
    pub name: String,
    /// First part of the topics' names.
    pub prefix: String,
    /// The database.
    pub address: Address,
    /// Tables, with or without their schema (PostgreSQL) or database; all where empty.
    pub tables: Vec<String>,
    /// The table that signals are written to.
    pub signal: Option<String>,
    /// Keys of tables without one: `public.visits:customer_id,visited_at`.
    pub keys: Vec<String>,
    /// Whether records carry their schema.
    pub schemas: bool,
    /// Partitions of new topics.
    pub partitions: u32,
    /// Replicas of new topics; the broker's default where absent.
    pub replication_factor: Option<u16>,
    /// Milliseconds between heartbeats.
    pub heartbeat_ms: u64,
    /// A statement to run with every heartbeat.
    pub heartbeat_query: Option<String>,
    /// Brokers, for the history of schemas that MySQL and MariaDB need.
    pub kafka: Option<String>,
    /// Id among the replicas of a MySQL or MariaDB server; made of name and prefix where absent.
    pub server_id: Option<u32>,
    /// Replication slot of PostgreSQL; made of the name where absent.
    pub slot: Option<String>,
    /// Publication of PostgreSQL; named as the slot where absent.
    pub publication: Option<String>,
    /// Settings that replace those made here; an empty one takes a setting away.
    pub set: BTreeMap<String, String>,
}

impl Configuration {
    /// All tables of a database, with everything else at its default.
    pub fn new(name: &str, prefix: &str, address: Address) -> Self {
        Self {
            name: name.to_owned(),
            prefix: prefix.to_owned(),
            address,
            tables: Vec::new(),
            signal: None,
            keys: Vec::new(),
            schemas: true,
            partitions: 3,
            replication_factor: None,
            heartbeat_ms: 10_000,
            heartbeat_query: None,
            kafka: None,
            server_id: None,
            slot: None,
            publication: None,
            set: BTreeMap::new(),
        }
    }

    /// The replication slot.
    pub fn slot(&self) -> String {
        self.slot.clone().unwrap_or_else(|| slot_name(&self.name))
    }

    /// The publication.
    pub fn publication(&self) -> String {
        self.publication.clone().unwrap_or_else(|| self.slot())
    }

    /// A table as the connector names it.
    pub fn qualified(&self, table: &str, server: Server) -> String {
        match (table.contains('.'), server) {
            (true, _) => table.to_owned(),
            (false, Server::Postgres) => format!("public.{table}"),
            (false, Server::MySql | Server::MariaDb) => format!("{}.{table}", self.address.database()),
        }
    }

    /// The tables to capture, as the connector names them, the signal table among them.
    pub fn captured(&self, server: Server) -> Vec<String> {
        let mut tables: Vec<String> = self.tables.iter().map(|table| self.qualified(table, server)).collect();
        if let Some(signal) = self.signal.as_ref().map(|table| self.qualified(table, server))
            && !tables.is_empty()
            && !tables.contains(&signal)
        {
            // Signals arrive as changes of a captured table.
            tables.push(signal);
        }
        tables
    }

    /// The settings for a server of this kind. `unsigned` says that there are unsigned bigints to capture.
    pub fn settings(&self, server: Server, unsigned: bool) -> Result<Settings, String> {
        let mut all = Settings::default();
        all.add("connector.class", server.class());
        all.add("tasks.max", "1");
        all.add("topic.prefix", &self.prefix);
        all.add("database.hostname", self.address.host());
        all.add("database.port", self.address.port());
        all.add("database.user", self.address.user());
        all.add("database.password", self.address.reveal_password());
        self.values(&mut all);
        self.events(&mut all, server);
        self.topics(&mut all);
        match server {
            Server::Postgres => self.of_postgres(&mut all),
            Server::MySql | Server::MariaDb => self.of_binlog(&mut all, unsigned)?,
        }
        for (key, value) in &self.set {
            match value.as_str() {
                "" => drop(all.0.remove(key)),
                value => all.add(key, value),
            }
        }
        Ok(all)
    }

    /// Every value in a form that says all of it.
    fn values(&self, all: &mut Settings) {
        // Exact without a schema, and NaN is told from NULL.
        all.add("decimal.handling.mode", "string");
        // One unit for every timestamp and time of day, which holds all digits of these servers.
        all.add("time.precision.mode", "microseconds");
        for side in ["key", "value"] {
            all.add(&format!("{side}.converter"), "org.apache.kafka.connect.json.JsonConverter");
            all.add(&format!("{side}.converter.schemas.enable"), self.schemas);
        }
    }

    /// Every event that a destination needs.
    fn events(&self, all: &mut Settings, server: Server) {
        all.add("snapshot.mode", "initial");
        all.add("tombstones.on.delete", "true");
        // By default truncates are not sent.
        all.add("skipped.operations", "none");
        // Moves the position on while only other tables change.
        all.add("heartbeat.interval.ms", self.heartbeat_ms);
        if let Some(query) = &self.heartbeat_query {
            all.add("heartbeat.action.query", query);
        }
        let tables = self.captured(server);
        if !tables.is_empty() {
            all.add("table.include.list", tables.iter().map(|table| pattern(table)).collect::<Vec<_>>().join(","));
        }
        if let Some(signal) = &self.signal {
            all.add("signal.data.collection", self.qualified(signal, server));
        }
        if !self.keys.is_empty() {
            let keys: Vec<String> = self.keys.iter().map(|key| self.qualified(key, server)).collect();
            all.add("message.key.columns", keys.join(";"));
        }
    }

    fn topics(&self, all: &mut Settings) {
        all.add("topic.creation.default.partitions", self.partitions);
        let replicas = self.replication_factor.map_or(-1, i32::from);
        all.add("topic.creation.default.replication.factor", replicas);
    }

    fn of_postgres(&self, all: &mut Settings) {
        all.add("database.dbname", self.address.database());
        all.add("plugin.name", "pgoutput");
        all.add("slot.name", self.slot());
        all.add("publication.name", self.publication());
        // Only the captured tables, so that other tables cost nothing and stay updatable without a key.
        all.add("publication.autocreate.mode", "filtered");
        // As text: in microseconds a month has 30.4375 days.
        all.add("interval.handling.mode", "string");
    }

    fn of_binlog(&self, all: &mut Settings, unsigned: bool) -> Result<(), String> {
        let kafka = self.kafka.as_deref().ok_or(
            "--kafka: a connector for MySQL or MariaDB keeps the history of the schemas in a topic of its own; name \
             the brokers as the Connect worker reaches them, as in --kafka 127.0.0.1:9092",
        )?;
        all.add("database.include.list", pattern(self.address.database()));
        all.add("database.server.id", self.server_id.unwrap_or_else(|| replica_id(&self.name, &self.prefix)));
        all.add("schema.history.internal.kafka.bootstrap.servers", kafka);
        // Not below the prefix: whoever reads `prefix.*` wants tables.
        all.add("schema.history.internal.kafka.topic", format!("schema-history.{}", self.prefix));
        if unsigned {
            // As `long`, the upper half comes out negative.
            all.add("bigint.unsigned.handling.mode", "precise");
        }
        Ok(())
    }
}

/// Settings of a connector by name, with the password in them.
#[derive(Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, String>);

/// Secrets masked.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.masked().0).finish()
    }
}

/// Without what is set by hand: there may be secrets in it.
impl fmt::Debug for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connector {} for {}", self.name, self.address)
    }
}

/// What stands for a secret where it is shown.
const MASK: &str = "***";

impl Settings {
    fn add(&mut self, key: &str, value: impl ToString) {
        self.0.insert(key.to_owned(), value.to_string());
    }

    /// Settings as a worker gives them.
    pub fn of(map: BTreeMap<String, String>) -> Self {
        Self(map)
    }

    /// One setting.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All of it, for the worker. It holds the password.
    pub fn to_json(&self) -> serde_json::Value {
        self.0.iter().map(|(key, value)| (key.clone(), serde_json::Value::from(value.as_str()))).collect()
    }

    /// All of it, to be shown: secrets masked.
    pub fn masked(&self) -> Self {
        let shown = |(key, value): (&String, &String)| (key.clone(), shown(key, value).to_owned());
        Self(self.0.iter().map(shown).collect())
    }

    /// Secrets that must not be repeated, wherever they come back from.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(key, value)| is_secret(key) && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    /// What another configuration of the same connector has otherwise, a line each, secrets masked.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut keys: Vec<&String> = self.0.keys().chain(other.0.keys()).collect();
        keys.sort();
        keys.dedup();
        // The worker adds the name.
        keys.retain(|key| *key != "name" && self.0.get(*key) != other.0.get(*key));
        let side =
            |all: &Self, key: &str| all.get(key).map_or("nothing".to_owned(), |v| format!("\"{}\"", shown(key, v)));
        keys.into_iter().map(|key| format!("{key}: {} there, {} wanted", side(other, key), side(self, key))).collect()
    }
}

fn shown<'a>(key: &str, value: &'a str) -> &'a str {
    if is_secret(key) { MASK } else { value }
}

fn is_secret(key: &str) -> bool {
    ["password", "secret", "jaas", "credential", "token"].iter().any(|word| key.contains(word))
}

/// A name for a replication slot: lower case letters, digits and underscores, at most 63.
fn slot_name(name: &str) -> String {
    let clean = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '_' };
    format!("settle_{}", name.to_ascii_lowercase().chars().map(clean).take(56).collect::<String>())
}

/// The lists of the connector are lists of patterns: what is no letter of a plain name is quoted.
fn pattern(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if !(c.is_alphanumeric() || matches!(c, '_' | '.')) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// An id among the replicas: two of one id throw each other out, so it hangs on both names (FNV-1a).
fn replica_id(name: &str, prefix: &str) -> u32 {
    let bytes = name.bytes().chain([0]).chain(prefix.bytes());
    let hash = bytes.fold(0x811C_9DC5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // Small ids are given by people.
    hash % 2_000_000_000 + 100_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shop(url: &str) -> Configuration {
        let mut shop = Configuration::new("shop", "shop", Address::parse(url).unwrap());
        shop.tables = vec!["orders".to_owned(), "archive.notes".to_owned()];
        shop.signal = Some("debezium_signal".to_owned());
        shop.kafka = Some("kafka:9092".to_owned());
        shop
    }

    fn lines(settings: &Settings) -> String {
        settings.0.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
    }

    #[test]
    fn settings_for_postgres() {
        let shop = shop("postgres://ann:s3cret@db/shop");
        insta::assert_snapshot!(lines(&shop.settings(Server::Postgres, false).unwrap().masked()), @r#"
        connector.class = io.debezium.connector.postgresql.PostgresConnector
        database.dbname = shop
        database.hostname = db
        database.password = ***
        database.port = 5432
        database.user = ann
        decimal.handling.mode = string
        heartbeat.interval.ms = 10000
        interval.handling.mode = string
        key.converter = org.apache.kafka.connect.json.JsonConverter
        key.converter.schemas.enable = true
        plugin.name = pgoutput
        publication.autocreate.mode = filtered
        publication.name = settle_shop
        signal.data.collection = public.debezium_signal
        skipped.operations = none
        slot.name = settle_shop
        snapshot.mode = initial
        table.include.list = public.orders,archive.notes,public.debezium_signal
        tasks.max = 1
        time.precision.mode = microseconds
        tombstones.on.delete = true
        topic.creation.default.partitions = 3
        topic.creation.default.replication.factor = -1
        topic.prefix = shop
        value.converter = org.apache.kafka.connect.json.JsonConverter
        value.converter.schemas.enable = true
        "#);
    }

    #[test]
    fn settings_for_mariadb() {
        let shop = shop("mysql://ann:s3cret@db/shop");
        insta::assert_snapshot!(lines(&shop.settings(Server::MariaDb, true).unwrap().masked()), @r#"
        bigint.unsigned.handling.mode = precise
        connector.class = io.debezium.connector.mariadb.MariaDbConnector
        database.hostname = db
        database.include.list = shop
        database.password = ***
        database.port = 3306
        database.server.id = 41989847
        database.user = ann
        decimal.handling.mode = string
        heartbeat.interval.ms = 10000
        key.converter = org.apache.kafka.connect.json.JsonConverter
        key.converter.schemas.enable = true
        schema.history.internal.kafka.bootstrap.servers = kafka:9092
        schema.history.internal.kafka.topic = schema-history.shop
        signal.data.collection = shop.debezium_signal
        skipped.operations = none
        snapshot.mode = initial
        table.include.list = shop.orders,archive.notes,shop.debezium_signal
        tasks.max = 1
        time.precision.mode = microseconds
        tombstones.on.delete = true
        topic.creation.default.partitions = 3
        topic.creation.default.replication.factor = -1
        topic.prefix = shop
        value.converter = org.apache.kafka.connect.json.JsonConverter
        value.converter.schemas.enable = true
        "#);
    }

    #[test]
    fn settings_can_be_replaced_and_taken_away() {
        let mut shop = shop("postgres://ann:s3cret@db/shop");
        shop.set = BTreeMap::from([("snapshot.mode", "no_data"), ("heartbeat.interval.ms", "")])
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let settings = shop.settings(Server::Postgres, false).unwrap();
        assert_eq!(settings.get("snapshot.mode"), Some("no_data"));
        assert_eq!(settings.get("heartbeat.interval.ms"), None);
    }

    #[test]
    fn differences_show_no_secret() {
        let wanted = shop("postgres://ann:s3cret@db/shop").settings(Server::Postgres, false).unwrap();
        let mut there = wanted.clone();
        there.add("name", "shop");
        assert!(wanted.differences(&there).is_empty());
        there.add("database.password", "0ther");
        there.add("snapshot.mode", "no_data");
        assert_eq!(
            wanted.differences(&there),
            [
                "database.password: \"***\" there, \"***\" wanted",
                "snapshot.mode: \"no_data\" there, \"initial\" wanted"
            ]
        );
        assert_eq!(wanted.secrets().collect::<Vec<_>>(), ["s3cret"]);
    }

    #[test]
    fn a_connector_for_a_binlog_needs_the_brokers() {
        let mut shop = shop("mysql://ann:s3cret@db/shop");
        shop.kafka = None;
        assert!(shop.settings(Server::MySql, false).unwrap_err().starts_with("--kafka: "));
    }

    #[test]
    fn names_for_slots_and_replicas() {
        assert_eq!(slot_name("Shop-1.eu"), "settle_shop_1_eu");
        assert!(slot_name(&"x".repeat(200)).len() <= 63);
        assert_ne!(replica_id("a", "bc"), replica_id("ab", "c"));
        assert_eq!(pattern("public.a$b"), "public.a\\$b");
    }
}
