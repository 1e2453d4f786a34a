//! What the traffic does that a consumer of change events may get wrong, and which of it is on.

use std::collections::BTreeSet;

use clap::ValueEnum;

use crate::database::Engine;

/// One hazard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Hazard {
    /// Insert and update of a key in one transaction (and sometimes its delete)
    InsertUpdate,
    /// Delete and new insert of a key in one transaction
    Reinsert,
    /// Change of a primary key, of one column and of two; sometimes there and back
    KeyChange,
    /// Statements that change many rows, shared ones among them
    MultiRow,
    /// Changes taken back to a savepoint inside a transaction that commits
    Savepoint,
    /// Transactions that are rolled back
    Rollback,
    /// Transactions that stay open while others commit
    LongOpen,
    /// Updates of one key by everybody
    HotKey,
    /// Updates of rows with a big text that do not touch the text
    Toast,
    /// MySQL and MariaDB: changes under a clock that was set back
    SetTimestamp,
    /// MySQL and MariaDB: REPLACE that takes the place of a row with another key
    Replace,
    /// Truncates; off unless asked for
    Truncate,
    /// A table without a key; off unless asked for
    Keyless,
}

impl Hazard {
    /// True where it is on unless something else is said.
    fn is_default(self) -> bool {
        !matches!(self, Self::Truncate | Self::Keyless)
    }

    /// True where a server of this kind can do it.
    fn exists_on(self, engine: Engine) -> bool {
        engine == Engine::MySql || !matches!(self, Self::SetTimestamp | Self::Replace)
    }
}

/// The hazards that are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hazards(BTreeSet<Hazard>);

impl Default for Hazards {
    fn default() -> Self {
        Self(Hazard::value_variants().iter().copied().filter(|hazard| hazard.is_default()).collect())
    }
}

impl Hazards {
    /// None of them.
    pub fn none() -> Self {
        Self(BTreeSet::new())
    }

    /// Switches one on.
    #[must_use]
    pub fn with(mut self, hazard: Hazard) -> Self {
        self.0.insert(hazard);
        self
    }

    /// Switches one off.
    #[must_use]
    pub fn without(mut self, hazard: Hazard) -> Self {
        self.0.remove(&hazard);
        self
    }

    /// Reads a list with commas: names, `default`, `all`, `none`; later words change what earlier ones said, and a
    /// minus switches one off, as in `default,truncate,-hot-key`.
    pub fn parse(list: &str) -> Result<Self, String> {
        let mut on = Self::none();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (off, name) = match word.strip_prefix('-') {
                Some(name) => (true, name),
                None => (false, word),
            };
            on = match (name, off) {
                ("default", false) => Self(on.0.union(&Self::default().0).copied().collect()),
                ("all", false) => Self(Hazard::value_variants().iter().copied().collect()),
                ("none", false) => Self::none(),
                _ => match (Hazard::from_str(name, false), off) {
                    (Ok(hazard), true) => on.without(hazard),
                    (Ok(hazard), false) => on.with(hazard),
                    (Err(_), _) => {
                        let known = Hazard::value_variants().iter().filter_map(ValueEnum::to_possible_value);
                        let names: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
                        return Err(format!("no hazard {name}; known: default, all, none, {}", names.join(", ")));
                    }
                },
            };
        }
        Ok(on)
    }

    /// True if it is on and a server of this kind can do it.
    pub fn has(&self, hazard: Hazard, engine: Engine) -> bool {
        hazard.exists_on(engine) && self.0.contains(&hazard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_truncate_and_keyless_are_on_unless_something_else_is_said() {
        let on = Hazards::default();
        assert!(on.has(Hazard::KeyChange, Engine::Postgres) && on.has(Hazard::Replace, Engine::MySql));
        assert!(!on.has(Hazard::Truncate, Engine::MySql) && !on.has(Hazard::Keyless, Engine::MySql));
        assert!(!on.has(Hazard::Replace, Engine::Postgres), "PostgreSQL has no REPLACE");
    }

    #[test]
    fn a_list_adds_and_takes_away() {
        assert_eq!(Hazards::parse("default"), Ok(Hazards::default()));
        assert_eq!(Hazards::parse("none"), Ok(Hazards::none()));
        assert_eq!(Hazards::parse("toast, hot-key"), Ok(Hazards::none().with(Hazard::Toast).with(Hazard::HotKey)));
        assert_eq!(
            Hazards::parse("default,truncate,-hot-key"),
            Ok(Hazards::default().with(Hazard::Truncate).without(Hazard::HotKey))
        );
        assert!(Hazards::parse("tost").unwrap_err().contains("toast"));
        assert!(Hazards::parse("-default").is_err());
    }
}
