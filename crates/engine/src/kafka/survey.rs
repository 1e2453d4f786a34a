//! What a run would find at its start: topics, the ends of their logs, where the group stands, what
//! the broker keeps. Nothing is joined, committed or changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::TopicPartitionList;
use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use settle_core::position::{Offset, Partition, TopicId};

use super::client::{self, Consumer};
use super::config::KafkaConfig;
use super::failure::{Verdict, judge, of_call};
use super::probe::blocking;
use super::start::{self, PATIENCE};
use super::topic_id::topic_ids;
use super::topics;
use crate::source::{SourceError, SourceFailure};

/// How long a coordinator that is being chosen is waited for.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(15);

/// What a run would find.
#[derive(Debug)]
pub struct Survey {
    /// The topics that would be read, by name.
    pub topics: Vec<SurveyedTopic>,
    /// Members that the group has now; none where it may not be looked at.
    pub members: Option<usize>,
}

/// One topic.
#[derive(Debug)]
pub struct SurveyedTopic {
    /// Its name.
    pub name: String,
    /// Its incarnation; none where the broker gives no ids (Kafka before 2.8).
    pub id: Option<TopicId>,
    /// Its partitions, from 0.
    pub partitions: Vec<SurveyedPartition>,
    /// What the broker keeps of it; none where it may not be asked.
    pub keeping: Option<Keeping>,
}

/// One partition.
#[derive(Debug)]
pub struct SurveyedPartition {
    /// Which.
    pub partition: Partition,
    /// First offset of the log.
    pub first: Offset,
    /// Last stable offset: next to be read behind everything that may be read now.
    pub end: Offset,
    /// Where the group stands; none where it never committed.
    pub committed: Option<Offset>,
    /// Why a run would not start there.
    pub refused: Option<SourceError>,
}

impl SurveyedPartition {
    /// Where a run would begin; the log's beginning where it would refuse.
    pub fn start(&self) -> Offset {
        if self.refused.is_some() { self.first } else { self.committed.unwrap_or(self.first) }
    }
}

/// How long a topic keeps its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keeping {
    /// `delete`, `compact`, or both with a comma between.
    pub cleanup_policy: String,
    /// Milliseconds; none for ever.
    pub retention_ms: Option<u64>,
}

impl Keeping {
    /// True where records that newer ones of their key replace may go.
    pub fn compacts(&self) -> bool {
        self.cleanup_policy.contains("compact")
    }

    /// True where records go by their age or by the size of the log.
    pub fn deletes(&self) -> bool {
        self.cleanup_policy.contains("delete")
    }
}

/// Looks at everything that a run would look at before it reads.
pub async fn survey(config: KafkaConfig) -> Result<Survey, SourceError> {
    let asked = config.clone();
    let mut survey = blocking("looking at the source", move || look(&asked)).await?;
    let keeping = keeping(&config, &survey.topics).await;
    for topic in &mut survey.topics {
        topic.keeping = keeping.get(&topic.name).cloned();
    }
    Ok(survey)
}

fn look(config: &KafkaConfig) -> Result<Survey, SourceError> {
    config.check()?;
    let mut settings = config.client();
    let client = client::create(config, settings.set("group.id", &config.group))?;
    let existing = client::list(&client, config, PATIENCE)?;
    let selected = topics::select(&config.topics, &existing, &config.brokers)?;
    let names: Vec<&str> = selected.iter().map(|topic| topic.name.as_str()).collect();
    let ids = topic_ids(client.client(), &names, PATIENCE)
        .map_err(|code| of_call("reading topic ids", &config.brokers, &KafkaError::MetadataFetch(code)))?;
    let committed = committed(&client, config, &selected)?;
    let mut topics = Vec::with_capacity(selected.len());
    for topic in &selected {
        let mut partitions = Vec::new();
        for number in 0..topic.partitions {
            let partition = Partition::new(topic.name.as_str(), number);
            let (first, end) = start::watermarks(&client, config, &partition)?;
            let committed = committed.get(&partition).copied();
            let refused = match start::check(config, &partition, committed.unwrap_or(first), first, end) {
                Ok(()) => None,
                Err(error) if error.kind == SourceFailure::Contract => Some(error),
                Err(error) => return Err(error),
            };
            partitions.push(SurveyedPartition { partition, first, end, committed, refused });
        }
        let id = ids.get(&topic.name).copied().flatten();
        topics.push(SurveyedTopic { name: topic.name.clone(), id, partitions, keeping: None });
    }
    let groups = client.fetch_group_list(Some(&config.group), PATIENCE).ok();
    let members = groups.map(|list| list.groups().iter().map(|group| group.members().len()).sum());
    Ok(Survey { topics, members })
}

/// Where the group stands in every partition in which it ever committed.
fn committed(
    client: &Consumer,
    config: &KafkaConfig,
    topics: &[topics::Topic],
) -> Result<BTreeMap<Partition, Offset>, SourceError> {
    let mut wanted = TopicPartitionList::new();
    for topic in topics {
        for number in 0..topic.partitions {
            wanted.add_partition(&topic.name, number);
        }
    }
    let what = format!("reading the offsets of group {}", config.group);
    let patience = Instant::now() + COORDINATOR_PATIENCE;
    let found = loop {
        match client.committed_offsets(wanted.clone(), PATIENCE) {
            Ok(found) => break found,
            // A coordinator may just be being chosen, which a run waits for, too.
            Err(error) if is_passing(&error) && Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(error) => return Err(client::explain(client, config, of_call(&what, &config.brokers, &error))),
        }
    };
    let mut committed = BTreeMap::new();
    for element in found.elements() {
        let partition = Partition::new(element.topic(), element.partition());
        element.error().map_err(|error| of_call(&format!("{what} for {partition}"), &config.brokers, &error))?;
        if let rdkafka::Offset::Offset(offset) = element.offset() {
            committed.insert(partition, offset);
        }
    }
    Ok(committed)
}

fn is_passing(error: &KafkaError) -> bool {
    error.rdkafka_error_code().is_some_and(|code| judge(code) == Verdict::Heals)
}

/// What the broker keeps of each topic, as far as it tells.
async fn keeping(config: &KafkaConfig, topics: &[SurveyedTopic]) -> BTreeMap<String, Keeping> {
    let mut settings = config.client();
    // An admin client is a producer to librdkafka, which would complain of a consumer's property.
    settings.remove("isolation.level");
    let Ok(admin) = settings.create::<AdminClient<DefaultClientContext>>() else { return BTreeMap::new() };
    let wanted: Vec<_> = topics.iter().map(|topic| ResourceSpecifier::Topic(&topic.name)).collect();
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let Ok(answers) = admin.describe_configs(&wanted, &options).await else { return BTreeMap::new() };
    // A topic that we may not describe is an error of its own.
    answers.into_iter().filter_map(|answer| kept(&answer.ok()?)).collect()
}

fn kept(resource: &ConfigResource) -> Option<(String, Keeping)> {
    let OwnedResourceSpecifier::Topic(topic) = &resource.specifier else { return None };
    let value = |name: &str| resource.entries.iter().find(|entry| entry.name == name)?.value.clone();
    let keeping = Keeping {
        cleanup_policy: value("cleanup.policy")?,
        // -1 stands for ever.
        retention_ms: value("retention.ms").and_then(|text| text.parse().ok()),
    };
    Some((topic.clone(), keeping))
}
