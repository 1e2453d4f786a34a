//! Where dead letters are kept is looked at before anything is written there: a place that is a wrong
//! one is refused by a look and by a run, in the same words.

use serde_json::json;

use crate::dead_letters::{Line, Pairs};

fn poison() -> Pairs {
    vec![(Some(json!({"id": 1}).to_string()), Some("no json".to_owned()))]
}

/// The files of a stage with what is in them.
fn files(line: &Line) -> Vec<(String, Vec<u8>)> {
    let folder = std::fs::read_dir(line.stage.path("")).unwrap();
    let mut files: Vec<_> = folder
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

async fn line(path: &str) -> Line {
    let line = Line::with_texts(false, &poison(), &[]).await;
    line.stage.reconfigure("path = \"dead.jsonl\"", &format!("path = \"{path}\""));
    line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_the_pipeline_reads_or_writes_is_refused_and_stays_as_it_is() {
    for (path, told) in [
        ("shop.db", "the database that [sink] writes"),
        ("shop.db-wal", "SQLite keeps beside the database"),
        ("capture.jsonl", "a capture that [source] reads"),
        ("./capture.jsonl.g.offsets", "the offsets of a capture"),
    ] {
        let line = line(path).await;
        let before = files(&line);
        for args in [&["run", "--until-end"][..], &["check"], &["dlq", "ls"], &["dlq", "drop", "--yes"]] {
            let (code, said) = line.stage.said(args);
            assert_eq!(code, 2, "{path} {args:?}: {said}");
            assert!(said.contains("[dlq] path") && said.contains(told), "{path} {args:?}: {said}");
        }
        assert_eq!(files(&line), before, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_something_else_and_a_folder_that_is_missing_are_told_alike_by_check_and_run() {
    let kcat = r#"{"topic":"shop","partition":0,"offset":0,"ts":1,"headers":[],"key":"{}","payload":"x"}"#;
    for (path, content, told) in [
        ("notes.txt", "a list of things\n", "line 1: it is no dead letter"),
        ("other.db", "SQLite format 3\0\x10\0\x01", "line 1: it is no dead letter"),
        ("pretty.json", "{\n  \"a\": 1\n}\n", "is `path` in [dlq] the right file?"),
        ("other.jsonl", kcat, "is `path` in [dlq] the right file?"),
        ("settle.toml", "", "line 1: it is no dead letter"),
        ("missing/dead.jsonl", "", "missing does not exist; create it, or change `path` in [dlq]"),
    ] {
        let line = line(path).await;
        if !content.is_empty() {
            line.stage.write(path, content);
        }
        let before = files(&line);
        for args in [&["run", "--until-end"][..], &["check"], &["dlq", "retry"], &["replay", "--from", "shop:0:0"]] {
            let (code, said) = line.stage.said(args);
            assert_eq!(code, 5, "{path} {args:?}: {said}");
            let one_line = said.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(one_line.contains(told), "{path} {args:?}: {said}");
        }
        assert_eq!(files(&line), before, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_taken_for_one_also_when_a_crash_left_its_first_line_torn() {
    for torn in ["", "\n", "{\"topic\":\"shop\",\"parti", "{\"to", "\0\0\0\0", "{\"topic\":\"shop\",\"part\0\0\0\n"] {
        let line = line("dead.jsonl").await;
        line.stage.write("dead.jsonl", torn);
        let (code, said) = line.stage.said(&["check"]);
        assert_eq!(code, 0, "{torn:?}: {said}");
        assert_eq!(line.run().dead_lettered, 1, "{torn:?}");
        // With its first letter in it, it is one still.
        assert_eq!(line.run().read, 0);
        assert_eq!(line.letters().len(), 1, "{torn:?}");
    }
}
