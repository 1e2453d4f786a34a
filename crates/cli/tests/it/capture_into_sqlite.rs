//! Captures into SQLite: every keyed shop topic ends as the source table, however it is cut,
//! replayed, interleaved, stopped or resumed.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use settle_testkit::services::is_full;

use crate::shop::{SHOPS, shop};
use crate::stage::Stage;

/// Topics above this are cut to it where many runs are made of them.
const LARGE: usize = 4_000;

#[test]
fn every_shop_topic_equals_its_source_after_one_pass_and_two_replays() {
    for shop in SHOPS {
        let stage = Stage::new();
        stage.capture_into_sqlite(shop, &shop.lines(), 10_000);
        let first = stage.run(&["--until-end"]);
        stage.assert_sqlite_equals_source(shop, "one pass");
        for group in ["replay-1", "replay-2"] {
            let replay = stage.run(&["--until-end", "--group", group]);
            assert_eq!(replay.read, first.read, "{}: a replay reads everything", shop.topic);
            assert_eq!(replay.applied, 0, "{}: a replay changes nothing", shop.topic);
            stage.assert_sqlite_equals_source(shop, group);
        }
    }
}

/// What a run warned of rules for tables, in the words of the log.
fn warned_of_rules(stage: &Stage, args: &[&str]) -> Vec<String> {
    let output = stage.output(args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let entries = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let warned =
        entries.filter(|entry| entry["level"] == "WARN").map(|entry| entry["message"].as_str().unwrap().to_owned());
    warned.filter(|message| message.starts_with("[tables.")).collect()
}

#[test]
fn rules_that_matched_no_table_are_said_at_the_end_of_a_run() {
    let (shop, stage) = (shop("pg-hazards", "shop.public.customers"), Stage::new());
    stage.capture_into_sqlite(&shop, &shop.lines(), 100);
    let config = std::fs::read_to_string(stage.path("settle.toml")).unwrap();
    let rules = "[tables.\"public.customer\"]\nname = \"people\"\n[tables.\"audit.log\"]\ndeletes = \"hard\"\n";
    stage.write("settle.toml", &format!("{config}{rules}"));
    let slip = "[tables.\"public.customer\"] matches no table that was read, which are public.customers; did you mean \
                [tables.\"public.customers\"]?";
    let other = "[tables.\"audit.log\"] matches no table that was read, which are public.customers; remove it, or see that \
                 its topic is among those that are read";
    assert_eq!(warned_of_rules(&stage, &["--max-messages", "40"]), [slip], "the rest is not read yet");
    assert_eq!(warned_of_rules(&stage, &["--until-end"]), [slip], "the beginning was read by another run");
    assert_eq!(warned_of_rules(&stage, &["--until-end"]), [""; 0], "nothing was read");
    assert_eq!(warned_of_rules(&stage, &["--until-end", "--group", "another"]), [other, slip]);
    let proof = stage.settle(&["prove", "--times", "1"]).output().unwrap();
    assert_eq!((proof.status.code(), String::from_utf8(proof.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn the_size_of_batches_changes_nothing() {
    for shop in SHOPS {
        for batch in [1, 2, 7] {
            let mut lines = shop.lines();
            let whole = lines.len() <= if batch == 1 && !is_full() { 400 } else { LARGE };
            if !whole {
                lines.truncate(if is_full() { LARGE } else { 600 });
            }
            let stage = Stage::new();
            stage.capture_into_sqlite(shop, &lines, batch);
            stage.run(&["--until-end"]);
            if whole {
                stage.assert_sqlite_equals_source(shop, &format!("batches of {batch}"));
            } else {
                // A prefix has no source table to be compared with: one big batch is the reference.
                let reference = Stage::new();
                reference.capture_into_sqlite(shop, &lines, 10_000);
                reference.run(&["--until-end"]);
                assert_eq!(stage.sqlite_table(shop), reference.sqlite_table(shop), "{} batch {batch}", shop.topic);
            }
        }
    }
}

#[test]
fn any_interleaving_of_partitions_ends_the_same() {
    for shop in SHOPS.iter().filter(|shop| shop.lines().len() <= LARGE) {
        for seed in 0..5 {
            let stage = Stage::new();
            stage.capture_into_sqlite(shop, &interleaved(&shop.lines(), seed), 7);
            stage.run(&["--until-end"]);
            stage.assert_sqlite_equals_source(shop, &format!("interleaving {seed}"));
        }
    }
}

#[test]
fn a_run_stopped_after_any_number_of_records_resumes_as_a_new_process() {
    let small = [
        shop("pg-hazards", "shop.public.customers"),
        shop("pg-hazards", "shop.public.order_items"),
        shop("pg-hazards", "shop.public.documents"),
        shop("mariadb", "mshop.mshop.customers"),
        shop("pg-composite-key", "cmp.public.stock"),
    ];
    for shop in &small {
        let lines = shop.lines();
        let step = if is_full() { 1 } else { lines.len() / 6 + 1 };
        for stop in (1..lines.len()).step_by(step) {
            let stage = Stage::new();
            stage.capture_into_sqlite(shop, &lines, 7);
            let first = stage.run(&["--max-messages", &stop.to_string()]);
            assert_eq!((first.read, first.ended.as_str()), (stop as u64, "max-messages"));
            let rest = stage.run(&["--until-end"]);
            assert_eq!(rest.read, (lines.len() - stop) as u64, "{}: nothing is read twice", shop.topic);
            stage.assert_sqlite_equals_source(shop, &format!("stopped after {stop}"));
        }
    }
}

#[test]
fn offsets_moved_back_by_a_tool_end_the_same() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let stage = Stage::new();
    stage.capture_into_sqlite(&shop, &shop.lines(), 7);
    stage.run(&["--until-end"]);
    let path = stage.path("capture.jsonl.g.offsets");
    let at_end = std::fs::read_to_string(&path).unwrap();
    let mut rng = StdRng::seed_from_u64(7);
    for _ in 0..if is_full() { 40 } else { 6 } {
        let moved: Vec<String> = at_end
            .lines()
            .map(|line| {
                let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
                let end = line["offset"].as_i64().unwrap();
                line["offset"] = rng.random_range(0..=end).into();
                line.to_string()
            })
            .collect();
        std::fs::write(&path, moved.join("\n")).unwrap();
        let report = stage.run(&["--until-end"]);
        assert_eq!(report.applied, 0, "everything was there before");
        stage.assert_sqlite_equals_source(&shop, &format!("offsets moved to {moved:?}"));
    }
}

#[test]
fn a_record_from_before_a_delete_replayed_alone_does_not_resurrect() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let stage = Stage::new();
    stage.capture_into_sqlite(&shop, &shop.lines(), 100);
    stage.run(&["--until-end"]);
    // Customer 5 was deleted: every earlier record of it, alone, must leave it deleted.
    let of_deleted =
        |line: &&String| line.contains(r#""key":"{\"customer_id\":5}""#) && !line.contains(r#""payload":null"#);
    let lines = shop.lines();
    let before: Vec<&String> = lines.iter().filter(of_deleted).collect();
    assert!(before.len() >= 2, "the recording has records of the deleted customer");
    for (n, line) in before.iter().enumerate() {
        stage.write("capture.jsonl", line);
        let report = stage.run(&["--until-end", "--group", &format!("alone-{n}")]);
        assert_eq!((report.read, report.stale), (1, 1));
        stage.assert_sqlite_equals_source(&shop, "a record from before the delete");
    }
}

/// The lines with the partitions mixed anew, each in its own order.
pub fn interleaved(lines: &[String], seed: u64) -> Vec<String> {
    let mut partitions: std::collections::BTreeMap<i64, std::collections::VecDeque<&String>> = Default::default();
    for line in lines {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        partitions.entry(record["partition"].as_i64().unwrap()).or_default().push_back(line);
    }
    let mut rng = StdRng::seed_from_u64(seed);
    let mut mixed = Vec::with_capacity(lines.len());
    let mut queues: Vec<_> = partitions.into_values().collect();
    while !queues.is_empty() {
        let at = rng.random_range(0..queues.len());
        for _ in 0..rng.random_range(1..20) {
            mixed.extend(queues[at].pop_front().cloned());
        }
        queues.retain(|queue| !queue.is_empty());
    }
    mixed
}
