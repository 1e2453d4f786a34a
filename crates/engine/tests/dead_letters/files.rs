//! Dead letters in files.

use std::fs;
use std::path::{Path, PathBuf};

use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqPlace;
use settle_engine::dead_letter::{DeadLetterLog, DeadLetters, Resolution};

use crate::{WILD, assert_come_back, letter, log_of, open};

fn log(path: &Path) -> DeadLetterLog {
    log_of("shop", &DlqPlace::File { path: path.to_owned() })
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dead.jsonl");
    (folder, path)
}

#[tokio::test]
async fn every_byte_comes_back_and_a_line_can_be_read_by_eye() {
    let (_folder, path) = folder();
    let letters = [letter(4, WILD), letter(9, br#"{"op":"q"}"#)];
    let mut log = log(&path);
    assert_eq!(log.read().await.unwrap().letters, [], "a file that is not there is empty");
    assert_come_back(&mut log, &letters).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.lines().nth(1).unwrap().contains(r#""payload":"{\"op\":\"q\"}""#), "{text}");
    assert_eq!(text.lines().count(), 2);
}

#[tokio::test]
async fn a_letter_is_open_until_something_is_done_and_again_when_it_comes_again() {
    let (_folder, path) = folder();
    let mut log = log(&path);
    log.write(&[letter(4, WILD), letter(5, WILD), letter(6, WILD)]).await.unwrap();
    let contents = log.read().await.unwrap();
    let entries: Vec<_> = contents.letters.iter().map(|found| &found.entry).collect();
    log.resolve(&entries[..1], Resolution::Retried).await.unwrap();
    log.resolve(&entries[1..2], Resolution::Dropped).await.unwrap();
    assert_eq!(open(&log.read().await.unwrap()), [6]);
    let summary = log.summary().await.unwrap();
    assert_eq!((summary.open, summary.by_class), (1, [("not-json".to_owned(), 1)].into()));
    assert_eq!(summary.oldest, Some(contents.letters[2].entry.failed_at));
    log.write(&[letter(4, WILD)]).await.unwrap();
    let contents = log.read().await.unwrap();
    assert_eq!(open(&contents), [4, 6]);
    assert_eq!(contents.letters[0].times, 2);
}

#[tokio::test]
async fn a_line_that_a_crash_cut_off_takes_no_other_with_it() {
    let (_folder, path) = folder();
    for payload in [WILD, br#"{"op":"q","after":{"note":"\u00e9}"}}"#, "{\"name\":\"é}\"}".as_bytes()] {
        let _ = fs::remove_file(&path);
        let mut log = log(&path);
        log.write(&[letter(4, payload)]).await.unwrap();
        let whole = fs::read(&path).unwrap();
        // Every place at which the second line may have been cut off.
        for cut in 1..whole.len() {
            // A file system that had made room, but not yet written, leaves zeros behind.
            for zeros in [512, 0] {
                fs::write(&path, [&whole[..], &whole[..cut], &vec![0; zeros]].concat()).unwrap();
                assert_eq!(open(&log.read().await.unwrap()), [4], "cut at {cut}");
            }
            // Each write waits for the disk: the cuts inside the value will do.
            if cut % 50 == 0 || cut + 60 > whole.len() {
                log.write(&[letter(5, payload)]).await.unwrap();
                let contents = log.read().await.unwrap();
                assert_eq!(open(&contents), [4, 5], "cut at {cut}");
                let lines_of_4 = contents.letters[0].times + contents.cut_off;
                assert_eq!(lines_of_4, 2, "cut at {cut}: the cut line is whole but for its break, or passed over");
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_is_none_of_ours_is_told_with_its_line() {
    let (_folder, path) = folder();
    fs::write(&path, "{\"topic\":\"t\",\"partition\":0,\"offset\":0,\"headers\":[],\"key\":null,\"payload\":\"\"}\n")
        .unwrap();
    let error = log(&path).read().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.to_string().contains("line 1: it has no header x-group"), "{error}");
    fs::write(&path, "\n{\"a\": oops}\n").unwrap();
    let error = log(&path).read().await.unwrap_err();
    assert!(error.to_string().contains("line 2: expected value"), "{error}");
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_told() {
    let (folder, _) = folder();
    let error = log(&folder.path().join("missing/dead.jsonl")).write(&[letter(4, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.to_string().contains("missing does not exist; create it"), "{error}");
    let error = log(folder.path()).write(&[letter(4, WILD)]).await.unwrap_err();
    assert!(error.to_string().contains("it is a folder"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_side_by_side_lose_nothing() {
    let (_folder, path) = folder();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let mut log = log(&path);
            tokio::spawn(async move {
                for offset in 0..20 {
                    log.write(&[letter(writer * 100 + offset, WILD)]).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let contents = log(&path).read().await.unwrap();
    assert_eq!((contents.letters.len(), contents.cut_off), (80, 0));
}

#[tokio::test]
async fn a_disk_that_is_full_is_waited_for() {
    // A device that takes nothing.
    let error = log(Path::new("/dev/full")).write(&[letter(4, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::NotWritable, "{error}");
    assert!(error.to_string().contains("/dev/full"), "{error}");
}

#[tokio::test]
async fn groups_that_share_a_file_see_and_mark_their_own() {
    let (_folder, path) = folder();
    let place = DlqPlace::File { path };
    let (mut shop, mut copy) = (log_of("shop", &place), log_of("copy", &place));
    shop.write(&[letter(4, WILD), letter(5, WILD)]).await.unwrap();
    copy.write(&[letter(4, WILD)]).await.unwrap();
    let contents = shop.read().await.unwrap();
    assert_eq!((open(&contents), contents.of_others), (vec![4, 5], [("copy".to_owned(), 1)].into()));
    let entries: Vec<_> = contents.letters.iter().map(|found| &found.entry).collect();
    shop.resolve(&entries, Resolution::Retried).await.unwrap();
    // The same record is not in the other's destination yet.
    assert_eq!(open(&copy.read().await.unwrap()), [4]);
    assert!(open(&shop.read().await.unwrap()).is_empty());
}
