//! A set-up that cannot work is refused before anything is applied: the whole message says what,
//! where and how to fix it.

use settle_testkit::clickhouse::Client;
use settle_testkit::kafka::{self, Record};

use crate::live::Live;
use crate::shop::shop;
use crate::stage::Stage;

/// What `settle` says on standard error, without logs, with its exit code.
fn said(stage: &Stage, args: &[&str], names: &[(&str, &str)]) -> String {
    let output = stage.settle(args).arg("--log-format").arg("json").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut said: String = text.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n");
    for (name, placeholder) in names {
        said = said.replace(name, placeholder);
    }
    format!("exit {}\n{said}", output.status.code().unwrap())
}

fn replaced<'a>(live: &'a Live, folder: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        (folder, "FOLDER"),
        (&live.topic, "TOPIC"),
        (live.database.database(), "DATABASE"),
        (settle_testkit::services::kafka(), "BROKER"),
    ]
}

async fn orders() -> Live {
    let shop = shop("pg-hazards", "shop.public.orders");
    Live::of(shop, &shop.lines(), "").await
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_one() {
    let stage = Stage::new();
    stage.write(
        "settle.toml",
        "[source]\nkind = \"kafka\"\nbrokers = \"127.0.0.1:9092\"\ngroup = \"g\"\ntopcis = [\"shop.*\"]\n\
         [sink]\nkind = \"sqlite\"\npath = \"x.db\"\n",
    );
    let folder = stage.folder();
    insta::assert_snapshot!(said(&stage, &["run"], &[(&folder, "FOLDER")]));
}

#[test]
fn a_configuration_that_is_not_there_says_how_to_get_one() {
    let stage = Stage::new();
    let folder = stage.folder();
    insta::assert_snapshot!(said(&stage, &["run"], &[(&folder, "FOLDER")]));
}

#[test]
fn a_secret_in_the_file_is_refused() {
    let stage = Stage::new();
    stage.write(
        "settle.toml",
        "[source]\nkind = \"stdin\"\n[sink]\nkind = \"clickhouse\"\nurl = \"http://127.0.0.1:1\"\ndatabase = \"d\"\npassword = \"hunter2\"\n",
    );
    let folder = stage.folder();
    let said = said(&stage, &["run"], &[(&folder, "FOLDER")]);
    assert!(!said.contains("hunter2"));
    insta::assert_snapshot!(said);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_down_is_named() {
    let live = orders().await;
    // A port that nobody listens on, held so that nobody will.
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = held.local_addr().unwrap().to_string();
    drop(held);
    live.stage.reconfigure(settle_testkit::services::kafka(), &dead);
    let folder = live.stage.folder();
    let mut names = replaced(&live, &folder);
    names.push((&dead, "DEAD"));
    insta::assert_snapshot!(said(&live.stage, &["run", "--until-end", "--deadline", "2s"], &names));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_missing_is_named_with_those_like_it() {
    let live = orders().await;
    let missing = format!("{}-typo", live.topic);
    live.stage.reconfigure(&format!("\"{}\"]", live.topic), &format!("\"{missing}\"]"));
    let folder = live.stage.folder();
    // Other tests have topics like it, too.
    insta::with_settings!({filters => vec![(r"(like it: TOPIC)(, [^\s,;]+)*", "$1")]}, {
        insta::assert_snapshot!(said(&live.stage, &["run", "--until-end"], &replaced(&live, &folder)));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_not_ordered_by_the_key_is_refused() {
    let live = orders().await;
    create(&live.database, "UInt128", "(customer_id, order_id)").await;
    let folder = live.stage.folder();
    insta::assert_snapshot!(said(&live.stage, &["run", "--until-end"], &replaced(&live, &folder)));
    assert_eq!(live.physical_rows().await, 0);
    assert_eq!(live.committed().await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_column_of_another_type_is_refused() {
    let live = orders().await;
    create(&live.database, "UInt64", "order_id").await;
    let folder = live.stage.folder();
    insta::assert_snapshot!(said(&live.stage, &["run", "--until-end"], &replaced(&live, &folder)));
    assert_eq!(live.committed().await, [0, 0, 0]);
}

async fn create(database: &Client, version: &str, order_by: &str) {
    database
        .query(&format!(
            "CREATE TABLE orders (order_id Int32, customer_id Int32, status String, amount Decimal(12, 2), \
             updated_at DateTime64(6, 'UTC'), _op LowCardinality(String), _source_ts_ms Nullable(Int64), \
             _version {version}, _is_deleted UInt8) ENGINE = ReplacingMergeTree(_version, _is_deleted) ORDER BY {order_by}"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_and_never_shown() {
    let live = orders().await;
    live.stage.write("password", "not-the-password");
    let folder = live.stage.folder();
    let said = said(&live.stage, &["run", "--until-end", "--deadline", "1s"], &replaced(&live, &folder));
    assert!(!said.contains("not-the-password"));
    let user = format!("code 516: {}:", live.database.address().user);
    let said = said.replace(&live.database.address().url, "CLICKHOUSE").replace(&user, "code 516: USER:");
    insta::assert_snapshot!(said);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_without_keys_is_refused_with_the_setting_to_make() {
    let shop = shop("pg-hazards", "shop.public.orders");
    let topic = kafka::unique("keyless");
    kafka::create_topic(&topic, 3, &[]).await;
    let lines = shop.lines();
    let records = lines.iter().map(|line| {
        let mut record = Record::from_kcat(line).in_topic(&topic);
        record.key = None;
        record.partition = 0;
        record
    });
    kafka::produce(records.collect::<Vec<_>>()).await;
    let live = Live::reading(shop, topic, "").await;
    let folder = live.stage.folder();
    insta::assert_snapshot!(said(&live.stage, &["run", "--until-end"], &replaced(&live, &folder)));
    assert_eq!(live.committed().await, [0, 0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_lists_every_finding_and_exits_by_the_worst() {
    let live = orders().await;
    create(&live.database, "UInt64", "(customer_id, order_id)").await;
    let output = live.stage.settle(&["check"]).env("COLUMNS", "10000").output().unwrap();
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    let folder = live.stage.folder();
    for (name, placeholder) in replaced(&live, &folder) {
        said = said.replace(name, placeholder);
    }
    insta::with_settings!({filters => vec![(r"ClickHouse \d[\d.]*", "ClickHouse VERSION")]}, {
        insta::assert_snapshot!(format!("exit {}\n{said}", output.status.code().unwrap()));
    });
}

#[test]
fn the_demo_leaves_a_pipeline_of_somebody_elses_alone() {
    let stage = Stage::new();
    let own = stage.write("settle.toml", "# my own\n");
    let folder = stage.folder();
    insta::assert_snapshot!(said(&stage, &["demo", "--keep", &folder], &[(&folder, "FOLDER")]));
    assert_eq!(std::fs::read_to_string(own).unwrap(), "# my own\n");
}

#[test]
fn a_folder_for_the_demo_that_cannot_be_made_is_a_mistake_of_usage() {
    let stage = Stage::new();
    let file = stage.write("file", "");
    let folder = stage.folder();
    let under = file.join("demo").display().to_string();
    insta::assert_snapshot!(said(&stage, &["demo", "--keep", &under], &[(&folder, "FOLDER")]));
}
