//! Brokers that are away, at the start and later.

use std::net::TcpListener;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::types::RDKafkaRespErr;
use settle_core::position::Partition;
use settle_engine::kafka::{KafkaConfig, probe};
use settle_engine::source::CommitPoint;
use settle_engine::source::SourceFailure;
use settle_testkit::kafka as broker;

use crate::stage::{LIMIT, Reading, config, numbered};

/// A port at which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_down_at_the_start_is_told_once_with_its_address() {
    let brokers = format!("127.0.0.1:{}", closed_port());
    let config = KafkaConfig { brokers: brokers.clone(), ..config("g", &["t"]) };
    let mut reading = Reading::start(config.clone());
    let error = reading.away().await;
    assert_eq!(error.kind, SourceFailure::Unreachable);
    let message = error.to_string();
    assert!(message.starts_with(&format!("Kafka at {brokers} does not answer: ")), "{message}");
    assert!(message.contains("Connection refused"), "{message}");
    let again = tokio::time::timeout(Duration::from_secs(5), reading.events.recv()).await;
    assert!(again.is_err(), "told twice: {again:?}");
    reading.close().await;

    let error = probe(config).await.unwrap_err();
    assert_eq!(error.kind, SourceFailure::Unreachable);
    assert!(error.to_string().contains("Connection refused"), "{error}");
}

/// librdkafka's own mock of a cluster: the shared broker cannot be switched off for a test.
struct Cluster {
    mock: MockCluster<'static, DefaultProducerContext>,
    topic: String,
}

impl Cluster {
    fn start() -> Self {
        let mock = MockCluster::new(1).unwrap();
        let topic = broker::unique("mocked");
        mock.create_topic(&topic, 1, 1).unwrap();
        Self { mock, topic }
    }

    fn config(&self) -> KafkaConfig {
        let mut config = config(&broker::unique("g"), &[&self.topic]);
        config.brokers = self.mock.bootstrap_servers();
        config
    }

    fn produce(&self, first: usize, count: usize) {
        let producer: BaseProducer =
            ClientConfig::new().set("bootstrap.servers", self.mock.bootstrap_servers()).create().unwrap();
        for number in first..first + count {
            let value = format!("v{number}");
            producer.send(BaseRecord::<str, str>::to(&self.topic).partition(0).payload(&value)).unwrap();
        }
        producer.flush(LIMIT).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_goes_and_comes_back_is_told_and_nothing_is_lost() {
    let cluster = Cluster::start();
    cluster.produce(0, 3);
    let mut config = cluster.config();
    config.properties.insert("session.timeout.ms".to_owned(), "60000".to_owned());
    let mut reading = Reading::start(config);
    let partition = Partition::new(&*cluster.topic, 0);
    assert_eq!(reading.assigned().await.len(), 1);
    assert_eq!(reading.values_of(&partition, 3).await, numbered(0, 3));

    cluster.mock.broker_down(1).unwrap();
    assert_eq!(reading.away().await.kind, SourceFailure::Unreachable);
    let unable =
        tokio::time::timeout(LIMIT, reading.offsets.commit(&[CommitPoint::bare(partition.clone(), 3)])).await.unwrap();
    assert_eq!(unable.unwrap_err().kind, SourceFailure::Unreachable);

    cluster.mock.broker_up(1).unwrap();
    reading.back().await;
    cluster.produce(3, 2);
    assert_eq!(reading.values_of(&partition, 2).await, numbered(3, 2));
    reading.commit(&partition, 5).await;
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_whose_broker_is_away_closes_all_the_same() {
    let cluster = Cluster::start();
    cluster.produce(0, 1);
    let mut reading = Reading::start(cluster.config());
    let partition = Partition::new(&*cluster.topic, 0);
    assert_eq!(reading.assigned().await.len(), 1);
    reading.values_of(&partition, 1).await;
    cluster.mock.broker_down(1).unwrap();
    reading.away().await;
    tokio::time::timeout(Duration::from_secs(20), reading.close()).await.expect("closed in time");
}

#[tokio::test(flavor = "multi_thread")]
async fn access_that_is_taken_away_and_granted_again() {
    let cluster = Cluster::start();
    cluster.produce(0, 3);
    let mut reading = Reading::start(cluster.config());
    let partition = Partition::new(&*cluster.topic, 0);
    assert_eq!(reading.assigned().await.len(), 1);
    assert_eq!(reading.values_of(&partition, 3).await, numbered(0, 3));

    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.mock.topic_error(&cluster.topic, denied).unwrap();
    let error = reading.away().await;
    assert_eq!(error.kind, SourceFailure::Unreachable);
    assert!(error.to_string().contains("denies access"), "{error}");
    cluster.mock.topic_error(&cluster.topic, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
    reading.back().await;
    cluster.produce(3, 1);
    assert_eq!(reading.values_of(&partition, 1).await, numbered(3, 1));
    reading.close().await;
}
