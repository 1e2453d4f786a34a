//! A cluster that is away, refuses, or fails in the middle. Where the real one cannot be made to,
//! librdkafka's own stand-in for a cluster does.

use std::net::TcpListener;

use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use settle_core::sink::FailureKind;
use settle_engine::config::dlq::DlqPlace;
use settle_engine::dead_letter::{DeadLetterLog, DeadLetters};

use crate::{WILD, letter, log_of, open};

const TOPIC: &str = "dlq";

fn log(brokers: &str) -> DeadLetterLog {
    log_of(
        "shop",
        &DlqPlace::Topic { brokers: brokers.to_owned(), topic: TOPIC.to_owned(), properties: Default::default() },
    )
}

fn cluster() -> (MockCluster<'static, DefaultProducerContext>, DeadLetterLog) {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(TOPIC, 3, 1).unwrap();
    let log = log(&cluster.bootstrap_servers());
    (cluster, log)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_away_is_waited_for() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut log = log(&format!("127.0.0.1:{port}"));
    let error = log.write(&[letter(1, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    let error = log.read().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_and_comes_back_has_every_letter_in_the_end() {
    let (cluster, mut log) = cluster();
    log.write(&[letter(1, WILD)]).await.unwrap();
    cluster.broker_down(1).unwrap();
    let letters = [letter(2, WILD), letter(3, WILD)];
    let error = log.write(&letters).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Unreachable, "{error}");
    cluster.broker_up(1).unwrap();
    log.write(&letters).await.unwrap();
    assert_eq!(open(&log.read().await.unwrap()), [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_producer_that_gave_up_for_good_is_replaced() {
    use RDKafkaRespErr::{
        RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
    };
    for (code, kind) in [
        (RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, FailureKind::Unreachable),
        (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, FailureKind::Denied),
    ] {
        let (cluster, mut log) = cluster();
        log.write(&[letter(1, WILD)]).await.unwrap();
        cluster.request_errors(RDKafkaApiKey::Produce, &[code]);
        let error = log.write(&[letter(2, WILD)]).await.unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        log.write(&[letter(2, WILD)]).await.unwrap();
        assert_eq!(open(&log.read().await.unwrap()), [1, 2]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_may_not_be_seen_is_not_an_empty_one() {
    let (cluster, mut log) = cluster();
    cluster.topic_error(TOPIC, RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
    let error = log.read().await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied, "{error}");
    let error = log.write(&[letter(1, WILD)]).await.unwrap_err();
    assert_eq!(error.kind, FailureKind::Denied, "{error}");
}
