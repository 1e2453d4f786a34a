//! Dead letters on the real Kafka.

use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqPlace;
use settle_engine::dead_letter::{DeadLetterLog, DeadLetters, Resolution};
use settle_testkit::{kafka, services};

use crate::{WILD, assert_come_back, assert_same, letter, log_of, open};

fn log(topic: &str, properties: &[(&str, &str)]) -> DeadLetterLog {
    let properties = properties.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    log_of("shop", &DlqPlace::Topic { brokers: services::kafka().to_owned(), topic: topic.to_owned(), properties })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_comes_back_from_a_topic_that_is_made_for_it() {
    let topic = kafka::unique("dlq");
    let mut log = log(&topic, &[]);
    assert_eq!(log.read().await.unwrap().letters, [], "a topic that is not there is empty");
    let letters = [letter(4, WILD), letter(9, b"")];
    assert_come_back(&mut log, &letters).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_stand_behind_their_letters_in_a_topic_of_several_partitions() {
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 5, &[]).await;
    let mut log = log(&topic, &[]);
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
async fn marks_stand_behind_their_letters_when_the_topic_grows() {
    let topic = kafka::unique("dlq");
    let mut log = log(&topic, &[]);
    let letters: Vec<_> = (0..20).map(|offset| letter(offset, WILD)).collect();
    log.write(&letters).await.unwrap();
    kafka::create_partitions(&topic, 7).await;
    let mut log = self::log(&topic, &[]);
    let contents = log.read().await.unwrap();
    let entries: Vec<_> = contents.letters.iter().map(|found| &found.entry).collect();
    log.resolve(&entries, Resolution::Retried).await.unwrap();
    assert!(open(&log.read().await.unwrap()).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_too_big_for_the_topic_keeps_its_origin_and_takes_no_other_with_it() {
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 1, &[("max.message.bytes", "20000")]).await;
    let letters = [letter(1, WILD), letter(2, &[b'x'; 30_000]), letter(3, &[b'y'; 3_000_000]), letter(4, WILD)];
    // The broker says so, or a client that is told to.
    for properties in [&[][..], &[("message.max.bytes", "1000000")]] {
        let mut log = log(&topic, properties);
        assert_eq!(log.write(&letters).await.unwrap().truncated, 2);
        let contents = log.read().await.unwrap();
        assert_eq!(open(&contents), [1, 2, 3, 4]);
        for (found, letter) in contents.letters.iter().zip(&letters) {
            assert_same(found, letter);
        }
        let kept: Vec<_> = contents
            .letters
            .iter()
            .map(|found| (found.entry.record.payload.is_some(), found.entry.truncated))
            .collect();
        assert_eq!(kept, [(true, None), (false, Some(30_000)), (false, Some(3_000_000)), (true, None)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_topic_takes_is_kept_whole_whatever_the_client_would_take() {
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 1, &[("max.message.bytes", "5000000")]).await;
    let mut log = log(&topic, &[]);
    let letters = [letter(1, &[b'x'; 3_000_000]), letter(2, &[b'y'; 1_200_000])];
    assert_eq!(log.write(&letters).await.unwrap().truncated, 0);
    for (found, letter) in log.read().await.unwrap().letters.iter().zip(&letters) {
        assert_eq!(found.entry.record.payload, letter.dead.record.payload);
    }
    // A summary has no use for them.
    assert!(log.outline().await.unwrap().letters.iter().all(|found| found.entry.record.payload.is_none()));
    assert_eq!(log.summary().await.unwrap().open, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_is_made_keeps_what_it_gets_and_one_that_would_not_is_refused() {
    let topic = kafka::unique("dlq");
    log(&topic, &[]).write(&[letter(1, WILD)]).await.unwrap();
    for (name, value) in [("cleanup.policy", "delete"), ("retention.ms", "-1"), ("retention.bytes", "-1")] {
        assert_eq!(kafka::topic_setting(&topic, name).await, value, "{name}");
    }
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 1, &[("cleanup.policy", "compact,delete")]).await;
    let error = log(&topic, &[]).write(&[letter(1, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.to_string().contains("cleanup.policy is compact,delete"), "{error}");
    assert!(error.to_string().contains("set it to delete"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_may_not_have_the_size_for_a_letter_without_its_value() {
    let topic = kafka::unique("dlq");
    kafka::create_topic(&topic, 1, &[("max.message.bytes", "200")]).await;
    let error = log(&topic, &[]).write(&[letter(1, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Contract);
    assert!(error.to_string().contains("raise max.message.bytes of the topic"), "{error}");
}
