//! A destination that lost what the group had written to it: restored from a backup, or gone. The
//! run stops before anything is applied and says what to do; that done, every row is there again.

use settle_testkit::kafka;

use crate::new_logs::{Pipeline, changes, values};
use crate::shop::shop;
use crate::stage::Stage;

/// Removes the database, and what SQLite keeps beside it.
fn remove_database(stage: &Stage) {
    for name in ["shop.db", "shop.db-wal", "shop.db-shm"] {
        match std::fs::remove_file(stage.path(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{name}: {error}"),
            _ => {}
        }
    }
}

/// Runs the commands that the message holds.
async fn move_as_told(pipeline: &Pipeline, said: &str) {
    let of_partition = |command: &str| -> (i32, i64) {
        let mut words = command.split_whitespace();
        let place = words.find(|word| word.starts_with(&pipeline.topic)).expect("a partition");
        let offset = words.skip_while(|word| *word != "--to-offset").nth(1).expect("an offset");
        (place.rsplit(':').next().unwrap().parse().unwrap(), offset.parse().unwrap())
    };
    let offsets: Vec<(i32, i64)> = said.split("--topic ").skip(1).map(of_partition).collect();
    assert!(!offsets.is_empty(), "{said}");
    kafka::move_group(&pipeline.group(), &pipeline.topic, &offsets).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_restored_from_a_backup_is_noticed_and_brought_up_again() {
    let pipeline = Pipeline::into_sqlite(2).await;
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    let backup = std::fs::read(pipeline.stage.path("shop.db")).unwrap();
    pipeline.produce(&changes(200, 910_000, 2_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    remove_database(&pipeline.stage);
    std::fs::write(pipeline.stage.path("shop.db"), backup).unwrap();

    let said = pipeline.refuses().await;
    let topic = &pipeline.topic;
    let told =
        format!("the group is ahead of the destination ({topic}:0 at 10, applied up to 5; {topic}:1 at 10, applied");
    assert!(said.contains(&told), "{said}");
    assert_eq!(pipeline.rows().await, values(100), "nothing was applied");
    let checked = pipeline.command(&["check"]);
    assert!(checked.code != 0 && checked.text.contains("the group is ahead of the destination"), "{}", checked.text);
    move_as_told(&pipeline, &said).await;
    assert_eq!(pipeline.run_well(&["--until-end"]).read, 10, "what the backup had not");
    assert_eq!(pipeline.rows().await, values(200));
    assert_eq!(pipeline.run_well(&["--until-end"]).read, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_gone_is_noticed_and_filled_again() {
    let pipeline = Pipeline::into_sqlite(2).await;
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    pipeline.run_well(&["--until-end"]);
    remove_database(&pipeline.stage);
    let checked = pipeline.command(&["check"]);
    assert!(
        checked.code != 0 && checked.text.contains("the destination holds nothing of the group"),
        "{}",
        checked.text
    );
    // A refusal leaves a database behind that was opened by the group, and holds nothing of it.
    for _ in 0..2 {
        let said = pipeline.stops();
        assert!(
            said.contains("the destination holds nothing of the group, which has read and written before"),
            "{said}"
        );
        assert_eq!(pipeline.committed().await, [Some(5), Some(5)]);
    }
    let said = pipeline.refuses().await;
    move_as_told(&pipeline, &said).await;
    assert_eq!(pipeline.run_well(&["--until-end"]).applied, 10);
    assert_eq!(pipeline.rows().await, values(100));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_group_that_a_tool_placed_somewhere_begins_there() {
    let pipeline = Pipeline::into_sqlite(2).await;
    pipeline.produce(&changes(100, 900_000, 1_000_000)).await;
    let group = kafka::unique("placed");
    kafka::move_group(&group, &pipeline.topic, &[(0, 3), (1, 4)]).await;
    assert_eq!(pipeline.run_well(&["--until-end", "--group", &group]).read, 2 + 1);
    // Forward again, behind its back: what lies between was never read.
    pipeline.produce(&changes(200, 910_000, 2_000_000)).await;
    kafka::move_group(&group, &pipeline.topic, &[(0, 8)]).await;
    let output = pipeline.stage.output(&["--until-end", "--group", &group]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("at 8, applied up to 5): ") && said.contains("a tool moved the group forward"), "{said}");
}

#[test]
fn a_capture_whose_offsets_outlived_the_database_is_refused() {
    let shop = shop("pg-hazards", "shop.public.customers");
    let stage = Stage::new();
    stage.capture_into_sqlite(&shop, &shop.lines(), 100);
    stage.run(&["--until-end"]);
    remove_database(&stage);
    for _ in 0..2 {
        let output = stage.output(&["--until-end"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains("it is a new one, or was lost"), "{said}");
    }
    stage.run(&["--until-end", "--group", "another"]);
    stage.assert_sqlite_equals_source(&shop, "under a new group");
}
