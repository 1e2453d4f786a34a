//! `settle prove`: agrees where the destination is what the log says, and names the keys where not.

use std::path::Path;
use std::process::Output;

use rusqlite::Connection;

use crate::shop::{Shop, shop};
use crate::stage::Stage;

/// A stage with a capture that was settled into SQLite.
fn settled(shop: &Shop) -> Stage {
    let stage = Stage::new();
    stage.capture_into_sqlite(shop, &shop.lines(), 100);
    stage.run(&["--until-end"]);
    stage
}

fn customers() -> Shop {
    shop("pg-hazards", "shop.public.customers")
}

/// What `settle` printed, with its exit code; panics if it said something on standard error.
fn said(stage: &Stage, args: &[&str]) -> (i32, String) {
    let output: Output = stage.settle(args).arg("--log-format").arg("json").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors: Vec<&str> = errors.lines().filter(|line| !line.starts_with('{')).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
}

fn change(stage: &Stage, sql: &str) {
    let changed = Connection::open(stage.path("shop.db")).unwrap().execute(sql, []).unwrap();
    assert!(changed > 0, "{sql}");
}

/// Files of the stage's folder.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.ends_with("-wal") && !name.ends_with("-shm"))
        .collect();
    names.sort();
    names
}

fn groups(stage: &Stage) -> Vec<String> {
    let connection = Connection::open(stage.path("shop.db")).unwrap();
    let mut select = connection.prepare("SELECT DISTINCT consumer_group FROM settle_positions").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

/// Scratch names and the like change with every run.
fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    if let Some(at) = text.find("applied anew to ") {
        let end = at + text[at..].find(".db").unwrap() + 3;
        text.replace_range(at + 16..end, "SCRATCH");
    }
    text
}

#[test]
fn a_good_run_agrees_and_a_proof_leaves_nothing_behind() {
    let stage = settled(&customers());
    let before = files(&stage.path(""));
    let (code, text) = said(&stage, &["prove"]);
    insta::assert_snapshot!(text);
    assert_eq!(code, 0);
    assert_eq!(files(&stage.path("")), before, "no offsets file of a group that was made for it");
    assert_eq!(groups(&stage), ["g"], "no place of such a group");
    let (code, text) = said(&stage, &["prove", "--fresh"]);
    insta::assert_snapshot!("fresh", steady(&text));
    assert_eq!(code, 0);
    assert_eq!(files(&stage.path("")), before);
}

#[test]
fn every_shop_topic_agrees_by_a_replay_and_anew() {
    for shop in crate::shop::SHOPS {
        let stage = settled(shop);
        for args in [&["prove", "--times", "1"][..], &["prove", "--fresh"]] {
            let (code, text) = said(&stage, args);
            assert_eq!(code, 0, "{} {args:?}: {text}", shop.topic);
        }
    }
}

#[test]
fn a_lost_row_is_brought_back_by_the_first_replay_which_says_so() {
    let stage = settled(&customers());
    change(&stage, "DELETE FROM customers WHERE customer_id = 10");
    let (code, text) = said(&stage, &["prove"]);
    insta::assert_snapshot!(text);
    assert_eq!(code, 5, "the destination was not what the log says");
    assert_eq!(said(&stage, &["prove"]).0, 0, "now it is");
}

#[test]
fn a_row_that_was_changed_by_hand_is_seen_by_fresh_and_by_no_replay() {
    let stage = settled(&customers());
    change(&stage, "UPDATE customers SET city = 'Elsewhere' WHERE customer_id IN (4, 10)");
    change(&stage, "INSERT INTO customers (customer_id, name, _version_hi, _version_lo) VALUES (9999, 'x', 1, 1)");
    change(&stage, "DELETE FROM customers WHERE customer_id = 20");
    let (code, text) = said(&stage, &["prove", "--fresh"]);
    insta::assert_snapshot!(steady(&text));
    assert_eq!(code, 5);
    assert_eq!(said(&stage, &["prove", "--times", "1"]).0, 5, "the lost row is brought back");
    let (code, text) = said(&stage, &["prove", "--times", "1"]);
    assert_eq!(code, 0, "an equal version is no reason to write: {text}");
    assert!(text.contains("settle prove --fresh"), "{text}");
    assert_eq!(said(&stage, &["prove", "--fresh"]).0, 5);
}

#[test]
fn what_the_pipeline_has_not_settled_yet_is_no_part_of_the_proof() {
    let shop = customers();
    let stage = Stage::new();
    stage.capture_into_sqlite(&shop, &shop.lines(), 7);
    stage.run(&["--max-messages", "60"]);
    let (code, text) = said(&stage, &["prove", "--times", "1"]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("records behind what group g has settled are not part of it"), "{text}");
    assert_eq!(said(&stage, &["prove", "--fresh"]).0, 0);
    assert_eq!(stage.run(&["--until-end"]).read, shop.lines().len() as u64 - 60, "the pipeline's place has not moved");
    stage.assert_sqlite_equals_source(&shop, "after proofs in the middle");
}

#[test]
fn standard_input_is_refused_with_what_to_do() {
    let stage = Stage::new();
    stage.write("settle.toml", "[source]\nkind = \"stdin\"\n[sink]\nkind = \"sqlite\"\npath = \"shop.db\"\n");
    let output = stage.settle(&["prove"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    insta::assert_snapshot!(String::from_utf8_lossy(&output.stderr));
}
