//! The suite's rules in the words of the engine's configuration.

use settle_engine::config::target::{Deletes, Evolution, OnResnapshot, TableRule, Target};
use settle_testkit::suite::{self, Kind, Rules, Table};

/// What a sink is told; `column_type` is the declared type of a column, which is not NULL where it is of the key.
pub fn target(rules: &Rules, column_type: fn(Kind, bool) -> &'static str) -> Target {
    let declared = |table: &Table| {
        let column = |column: &suite::Column| (column.name.clone(), column_type(column.kind, column.is_key).to_owned());
        let columns = table.columns.iter().map(column).collect();
        (format!("public.{}", table.name), TableRule { columns, ..TableRule::default() })
    };
    Target {
        tables: if rules.declares { rules.tables.iter().map(declared).collect() } else { Default::default() },
        deletes: rules.deletes.map(|deletes| match deletes {
            suite::Deletes::Soft => Deletes::Soft,
            suite::Deletes::Hard => Deletes::Hard,
        }),
        on_resnapshot: if rules.sweeps { OnResnapshot::Sweep } else { OnResnapshot::Report },
        evolution: if rules.refuses_columns { Evolution::Refuse } else { Evolution::Add },
        create: true,
        ..Target::default()
    }
}
