//! Dead letters on the real Kafka.

use std::net::TcpListener;

use settle_core::sink::FailureKind;
use settle_engine::config::dlq::{DlqConfig, DlqLimit, DlqPlace};
use settle_engine::dead_letter::{DeadLetterLog, DeadLetters, Resolution};
use settle_testkit::{kafka, services};

use crate::{WILD, assert_same, letter, open};

fn log(brokers: &str, topic: &str) -> DeadLetterLog {
    let place =
        DlqPlace::Topic { brokers: brokers.to_owned(), topic: topic.to_owned(), properties: Default::default() };
    DeadLetterLog::new(&DlqConfig { place, limit: DlqLimit::default() })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_comes_back_from_a_topic_that_is_made_for_it() {
    let topic = kafka::unique("dlq");
    let mut log = log(services::kafka(), &topic);
    assert_eq!(log.read().await.unwrap().letters, [], "a topic that is not there is empty");
    let letters = [letter(4, WILD), letter(9, b"")];
    assert_eq!(log.write(&letters).await.unwrap().truncated, 0);
    let contents = log.read().await.unwrap();
    assert_eq!(contents.letters.len(), 2);
    for (found, letter) in contents.letters.iter().zip(&letters) {
        assert_same(found, letter);
        assert_eq!(found.entry.record.payload, letter.dead.record.payload);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_stand_behind_their_letters_in_a_topic_of_several_partitions() {
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 5, &[]).await;
    let mut log = log(services::kafka(), &topic);
    let letters: Vec<_> = (0..30).map(|offset| letter(offset, WILD)).collect();
    log.write(&letters).await.unwrap();
    let contents = log.read().await.unwrap();
    let entries: Vec<_> = contents.letters.iter().map(|found| &found.entry).collect();
    log.resolve(&entries[..29], Resolution::Dropped).await.unwrap();
    assert_eq!(open(&log.read().await.unwrap()), [29]);
    log.write(&letters[3..4]).await.unwrap();
    assert_eq!(open(&log.read().await.unwrap()), [3, 29], "it came again after it was dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_too_big_for_the_topic_keeps_its_origin_and_takes_no_other_with_it() {
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 1, &[("max.message.bytes", "20000")]).await;
    let mut log = log(services::kafka(), &topic);
    // The first is too big for the topic, the second for the client as well.
    let letters = [letter(1, WILD), letter(2, &[b'x'; 30_000]), letter(3, &[b'y'; 3_000_000]), letter(4, WILD)];
    assert_eq!(log.write(&letters).await.unwrap().truncated, 2);
    let contents = log.read().await.unwrap();
    assert_eq!(open(&contents), [1, 2, 3, 4]);
    for (found, letter) in contents.letters.iter().zip(&letters) {
        assert_same(found, letter);
    }
    let kept = |at: usize| (contents.letters[at].entry.record.payload.is_some(), contents.letters[at].entry.truncated);
    assert_eq!(
        [kept(0), kept(1), kept(2), kept(3)],
        [(true, None), (false, Some(30_000)), (false, Some(3_000_000)), (true, None)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_waited_for() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut log = log(&format!("127.0.0.1:{port}"), "dlq");
    let error = log.write(&[letter(1, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    let error = log.read().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
}
