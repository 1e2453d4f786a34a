//! What the other connectors of a worker have, and a new one must not take: their topics, and their
//! replication slots.
//!
//! Two connectors of one topic prefix write into the same topics, each with positions of its own,
//! and a slot has one reader: neither is seen before rows are wrong, or a task fails.

use std::collections::BTreeMap;

use settle_engine::finding::Finding;

use crate::connector::Settings;

/// What is in the way of a connector called `name` with these settings.
pub(super) fn conflicts(name: &str, wanted: &Settings, there: &BTreeMap<String, Settings>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (other, settings) in there.iter().filter(|(other, _)| *other != name) {
        let prefix = wanted.get("topic.prefix");
        if prefix.is_some() && settings.get("topic.prefix") == prefix {
            let prefix = prefix.unwrap_or_default();
            findings.push(Finding::error(
                format!(
                    "topic prefix {prefix} is that of connector {other}: both would write into the topics {prefix}.*"
                ),
                "choose another --prefix, or allow it with --shared",
            ));
        }
        if let Some(slot) = slot(wanted).filter(|taken| slot(settings).as_ref() == Some(taken)) {
            findings.push(Finding::error(
                format!("slot {} is that of connector {other}: a slot has one reader", slot.2),
                "choose another --slot, or allow it with --shared",
            ));
        }
    }
    findings
}

/// A slot that somebody reads who is not the connector that has it.
pub(super) fn slot_in_use(wanted: &Settings, own: Option<&Settings>) -> Option<Finding> {
    let name = wanted.get("slot.name")?;
    if own.is_some_and(|own| own.get("slot.name") == Some(name)) {
        return None;
    }
    Some(Finding::error(
        format!("slot {name} is being read by another connector or program: a slot has one reader"),
        "choose another --slot, or allow it with --shared. A connector that was just deleted lets go of its slot within \
         seconds",
    ))
}

/// Host, port and name: slots are the server's.
fn slot(settings: &Settings) -> Option<(&str, &str, &str)> {
    Some((settings.get("database.hostname")?, settings.get("database.port")?, settings.get("slot.name")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(prefix: &str, host: &str, slot: &str) -> Settings {
        let pairs =
            [("topic.prefix", prefix), ("database.hostname", host), ("database.port", "5432"), ("slot.name", slot)];
        Settings::of(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
    }

    #[test]
    fn a_prefix_and_a_slot_of_another_connector_are_told_and_its_own_are_not() {
        let there = BTreeMap::from([
            ("shop".to_owned(), settings("shop", "db", "settle_shop")),
            ("stock".to_owned(), settings("stock", "db", "settle_stock")),
        ]);
        let told = |name: &str, wanted: Settings| -> Vec<String> {
            conflicts(name, &wanted, &there).iter().map(ToString::to_string).collect()
        };
        assert_eq!(told("shop", settings("shop", "db", "settle_shop")), Vec::<String>::new());
        assert_eq!(told("new", settings("new", "db", "settle_new")), Vec::<String>::new());
        assert_eq!(told("new", settings("new", "other", "settle_shop")), Vec::<String>::new(), "another server");
        let both = told("new", settings("shop", "db", "settle_stock"));
        assert!(both[0].starts_with("topic prefix shop is that of connector shop"), "{both:?}");
        assert!(both[1].starts_with("slot settle_stock is that of connector stock"), "{both:?}");
    }
}
