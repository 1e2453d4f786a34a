//! Names of the source never become syntax.

use crate::records::{batch, event};
use crate::stage::{declaring, staged};

#[tokio::test]
async fn quotes_dots_spaces_and_backticks_in_names() {
    let names = ["a`b", "c\"d", "e'f", "g.h", "i j", "k\\l", "m;--", "größe", "select", "tab\tbed", "_part"];
    staged(async |stage| {
        let columns: Vec<_> =
            [("`k'ey`", "Int64")].into_iter().chain(names.iter().map(|n| (*n, "Nullable(String)"))).collect();
        let mut target = declaring(&columns);
        let table = "o`r\"d'e.r s\\";
        let rule = target.tables.get_mut("public.t").unwrap();
        rule.name = Some(table.into());
        let row = |id: u32| {
            let fields: Vec<String> =
                names.iter().map(|name| format!("{}:\"v{id}\"", serde_json::to_string(name).unwrap())).collect();
            format!("{{\"`k'ey`\":{id},{},\"new`\":{id}}}", fields.join(","))
        };
        let key = |id: u32| format!("{{\"`k'ey`\":{id}}}");
        let events =
            [event("c", 100, &key(1), &row(1)), event("c", 110, &key(2), &row(2)), event("d", 120, &key(2), "")];
        stage.apply(target.clone(), &batch(&events)).await.unwrap();
        stage.apply(target, &batch(&events)).await.unwrap();
        assert_eq!(
            stage.rows("SHOW TABLES").await,
            ["o`r\"d\\'e.r s\\\\", "o`r\"d\\'e.r s\\\\_current", "settle_meta"]
        );
        let shown = stage.rows("SELECT * FROM `o\\`r\"d'e.r s\\\\_current`").await;
        assert_eq!(shown, [format!("1\t{}1", "v1\t".repeat(names.len()))]);
    })
    .await;
}

#[tokio::test]
async fn a_hostile_database_name_is_quoted_everywhere() {
    staged(async |stage| {
        let name = format!("{}`.x'y z\\", stage.database.database());
        let mut config = stage.config();
        config.database.clone_from(&name);
        let target = declaring(&[("id", "Int64"), ("v", "Nullable(String)")]);
        let mut sink = settle_engine::sinks::clickhouse::ClickHouse::new(config, target).unwrap();
        crate::stage::open(&mut sink).await.unwrap();
        let events = [event("c", 100, r#"{"id":1}"#, r#"{"id":1,"v":"a"}"#)];
        crate::stage::apply(&mut sink, &batch(&events)).await.unwrap();
        let quoted = format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
        let shown = stage.rows(&format!("SELECT * FROM {quoted}.t_current")).await;
        stage.run(&format!("DROP DATABASE {quoted}")).await;
        assert_eq!(shown, ["1\ta"]);
    })
    .await;
}
