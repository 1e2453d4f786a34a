//! What a run would find at its start: topics, the ends of their logs, where the group stands, what
//! the broker keeps. Nothing is joined, committed or changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::consumer::Consumer as _;
use rdkafka::error::KafkaError;
use settle_core::position::{Offset, Partition, TopicId};

use super::client::{self, Consumer};
use super::config::KafkaConfig;
use super::failure::of_call;
use super::growth::{self, Committed, Growth};
use super::keeping::{self, Keeping};
use super::probe::blocking;
use super::start::{self, At, PATIENCE};
use super::topic_id::topic_ids;
use super::topics::{self, Topic};
use crate::source::{Assignment, SourceError, SourceFailure};

/// How long a coordinator that is being chosen is waited for.
const COORDINATOR_PATIENCE: Duration = Duration::from_secs(15);

/// What a run would find.
#[derive(Debug)]
pub struct Outlook {
    /// The topics that would be read, by name.
    pub topics: Vec<TopicOutlook>,
    /// Members that the group has now; none where it may not be looked at.
    pub members: Option<usize>,
}

/// One topic.
#[derive(Debug)]
pub struct TopicOutlook {
    /// Its name.
    pub name: String,
    /// Its incarnation; none where the broker gives no ids (Kafka before 2.8).
    pub id: Option<TopicId>,
    /// Its partitions, from 0.
    pub partitions: Vec<PartitionOutlook>,
    /// What the broker keeps of it; none where it may not be asked.
    pub keeping: Option<Keeping>,
}

/// One partition.
#[derive(Debug)]
pub struct PartitionOutlook {
    /// Which.
    pub partition: Partition,
    /// First offset of the log.
    pub first: Offset,
    /// Last stable offset: next to be read behind everything that may be read now.
    pub end: Offset,
    /// As a run is given it; or why it would not start there.
    pub assignment: Result<Assignment, SourceError>,
}

impl PartitionOutlook {
    /// Where a run would begin; the log's beginning where it would refuse.
    pub fn start(&self) -> Offset {
        self.assignment.as_ref().map_or(self.first, |assignment| assignment.start)
    }
}

/// Looks at everything that a run would look at before it reads.
pub async fn outlook(config: KafkaConfig) -> Result<Outlook, SourceError> {
    let asked = config.clone();
    let mut outlook = blocking("looking at the source", move || look(&asked)).await?;
    let names: Vec<&str> = outlook.topics.iter().map(|topic| topic.name.as_str()).collect();
    let keeping = keeping::of_topics(&config, &names).await.unwrap_or_default();
    for topic in &mut outlook.topics {
        topic.keeping = keeping.get(&topic.name).cloned();
    }
    Ok(outlook)
}

fn look(config: &KafkaConfig) -> Result<Outlook, SourceError> {
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
        let id = ids.get(&topic.name).copied().flatten();
        let growth = Growth::of(topic, &committed);
        let mut partitions = Vec::new();
        for number in 0..topic.partitions {
            let partition = Partition::new(topic.name.as_str(), number);
            let (first, end) = start::watermarks(&client, config, &partition)?;
            let at = At { topic, topic_id: id, growth: &growth, kept: committed.get(&partition) };
            let assignment = match at.start(&client, config, None, partition.clone(), (first, end)) {
                Err(error) if error.kind != SourceFailure::Contract => return Err(error),
                start => start.map(|start| start.into_assignment(0)),
            };
            partitions.push(PartitionOutlook { partition, first, end, assignment });
        }
        topics.push(TopicOutlook { name: topic.name.clone(), id, partitions, keeping: None });
    }
    let groups = client.fetch_group_list(Some(&config.group), PATIENCE).ok();
    let members = groups.map(|list| list.groups().iter().map(|group| group.members().len()).sum());
    Ok(Outlook { topics, members })
}

/// Where the group stands. Its coordinator may just be being chosen, which a run waits for, too; that
/// the broker answers is known.
fn committed(
    client: &Consumer,
    config: &KafkaConfig,
    topics: &[Topic],
) -> Result<BTreeMap<Partition, Committed>, SourceError> {
    let patience = Instant::now() + COORDINATOR_PATIENCE;
    loop {
        match growth::committed(client, config, topics, PATIENCE) {
            Err(error) if error.kind == SourceFailure::Unreachable && Instant::now() < patience => {
                std::thread::sleep(Duration::from_millis(100));
            }
            found => return found.map_err(|error| client::explain(client, config, error)),
        }
    }
}
