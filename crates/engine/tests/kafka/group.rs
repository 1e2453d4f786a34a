//! Several instances in one group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use settle_core::position::{Offset, Partition};
use settle_core::record::Record;
use settle_engine::source::CommitPoint;
use settle_engine::source::{SourceEvent, SourceFailure};
use settle_testkit::kafka as broker;

use crate::stage::{Reading, committed, config, fill, numbered, record, topic, values};
use crate::wire;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_instance_takes_over_without_losing_or_disturbing_anything() {
    let topic = topic("shared", 4, 1500).await;
    let group = broker::unique("g");
    let mut first = Reading::start(config(&group, &[&topic]));
    let assigned = first.assigned().await;
    assert_eq!(assigned.len(), 4);
    let generation = assigned[0].generation;
    let mut second = Reading::start(config(&group, &[&topic]));

    // The first reads on until half of its partitions are revoked.
    let mut read: BTreeMap<Partition, Vec<Record>> = BTreeMap::new();
    let (revoked, done) = loop {
        match first.next().await {
            SourceEvent::Records(chunk) => read.entry(chunk.partition).or_default().extend(chunk.records),
            SourceEvent::Revoked { partitions, done } => break (partitions, done),
            SourceEvent::ReachedEnd { .. } => {}
            other => panic!("before the revocation: {other:?}"),
        }
    };
    assert_eq!(revoked.len(), 2, "the others stay");
    let next = |partition: &Partition| read.get(partition).and_then(|r| r.last()).map_or(0, |r| r.offset + 1);
    let offsets: Vec<_> = revoked.iter().map(|p| CommitPoint::bare(p.clone(), next(p))).collect();
    first.offsets.commit(&offsets).await.unwrap();
    done.send(()).unwrap();

    // The second goes on exactly there.
    let taken = second.assigned().await;
    assert_eq!(
        taken.iter().map(|a| (a.partition.clone(), a.start)).collect::<BTreeMap<_, _>>(),
        offsets.iter().map(|point| (point.partition.clone(), point.offset)).collect()
    );
    assert!(taken.iter().all(|a| a.resumed));
    let mut of_second: BTreeMap<Partition, Vec<Record>> = BTreeMap::new();
    while revoked.iter().any(|p| next(p) + len(&of_second, p) < 1500) {
        match second.next().await {
            SourceEvent::Records(chunk) => of_second.entry(chunk.partition).or_default().extend(chunk.records),
            SourceEvent::ReachedEnd { .. } => {}
            other => panic!("while the second reads: {other:?}"),
        }
    }
    for partition in &revoked {
        let mut all = values(read.get(partition).map_or(&[], Vec::as_slice));
        all.extend(values(of_second.get(partition).map_or(&[], Vec::as_slice)));
        assert_eq!(all, numbered(0, 1500), "{partition}");
    }

    // The first goes on with what it kept, under the same generation, and gets the rest of it.
    let kept: BTreeSet<Partition> =
        assigned.iter().map(|a| a.partition.clone()).filter(|p| !revoked.contains(p)).collect();
    while kept.iter().any(|partition| len(&read, partition) < 1500) {
        match first.next().await {
            SourceEvent::Records(chunk) => {
                assert!(kept.contains(&chunk.partition), "{} was revoked", chunk.partition);
                assert_eq!(chunk.generation, generation);
                read.entry(chunk.partition).or_default().extend(chunk.records);
            }
            SourceEvent::ReachedEnd { .. } => {}
            other => panic!("of what is kept: {other:?}"),
        }
    }
    for partition in &kept {
        assert_eq!(values(&read[partition]), numbered(0, 1500), "{partition}");
    }

    // When the second leaves, they come back under a generation of their own.
    for partition in &revoked {
        second.commit(partition, 1500).await;
    }
    second.close().await;
    let back = first.assigned().await;
    assert_eq!(back.iter().map(|a| a.partition.clone()).collect::<BTreeSet<_>>(), revoked.into_iter().collect());
    assert!(back.iter().all(|a| a.generation > generation && a.start == 1500 && a.resumed));
    first.close().await;
}

fn len(read: &BTreeMap<Partition, Vec<Record>>, partition: &Partition) -> Offset {
    Offset::try_from(read.get(partition).map_or(0, Vec::len)).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_takes_too_long_is_a_loss_and_commits_nothing() {
    let topic = topic("late", 2, 10).await;
    let group = broker::unique("g");
    let mut config = config(&group, &[&topic]);
    config.revoke_deadline = Duration::from_secs(1);
    let mut first = Reading::start(config.clone());
    first.whole(2).await;
    let mut second = Reading::start(config);
    let (revoked, done) = first.revoked().await;
    assert_eq!(first.lost().await, revoked);
    assert!(done.is_closed(), "nobody waits for the answer any more");

    let taken = second.assigned().await;
    assert_eq!(taken[0].start, 0);
    let partition = taken[0].partition.clone();
    second.commit(&partition, 8).await;
    // The first is late, and still a member of the group: the broker would take it.
    first.commit(&partition, 3).await;
    let number = usize::try_from(partition.number).unwrap();
    assert_eq!(committed(&group, &topic, number).await, Some(8));
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_that_meets_a_full_channel_does_not_wait_for_ever() {
    let topic = topic("full", 2, 5000).await;
    let group = broker::unique("g");
    let mut config = config(&group, &[&topic]);
    config.revoke_deadline = Duration::from_secs(1);
    // Nothing of it is taken until the second has what it needs.
    let mut first = Reading::start_with(config.clone(), 1);
    let assigned = first.assigned().await;
    let mut second = Reading::start(config);
    let taken = second.assigned().await;
    assert_eq!(taken.len(), 1);
    let lost = first.lost().await;
    assert_eq!(lost, [taken[0].partition.clone()]);
    let kept = assigned.into_iter().map(|a| a.partition).find(|p| *p != lost[0]).unwrap();
    fill(&topic, 2, 5000, 1).await;
    while !first.values_of(&kept, 1).await.contains(&"v5000".to_owned()) {}
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assignment_that_is_lost_is_told_and_comes_back() {
    let topic = topic("lost", 2, 10).await;
    let group = broker::unique("g");
    let mut reading = Reading::start(config(&group, &[&topic]));
    let whole = reading.whole(2).await;
    let partition = Partition::new(&*topic, 0);
    reading.commit(&partition, 4).await;

    let member = wire::members(&group);
    wire::remove_member(&group, &member[0]);
    let lost: BTreeSet<Partition> = reading.lost().await.into_iter().collect();
    assert_eq!(lost, whole.assigned.keys().cloned().collect());

    let assigned = reading.assigned().await;
    assert_eq!(assigned.iter().map(|a| a.start).collect::<Vec<_>>(), [4, 0]);
    assert!(assigned.iter().all(|a| a.generation > whole.assigned[&partition].generation));
    assert_eq!(reading.values_of(&partition, 6).await, numbered(4, 6));
    reading.commit(&partition, 10).await;
    assert_eq!(committed(&group, &topic, 0).await, Some(10));
    reading.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_whose_name_is_taken_is_fenced() {
    let topic = topic("fenced", 1, 1).await;
    let mut config = config(&broker::unique("g"), &[&topic]);
    config.instance = Some("one".to_owned());
    let mut first = Reading::start(config.clone());
    first.whole(1).await;
    let mut second = Reading::start(config);
    let error = first.failed().await;
    assert_eq!(error.kind, SourceFailure::Fenced);
    assert!(error.to_string().contains("as instance one"), "{error}");
    second.whole(1).await;
    first.close().await;
    second.close().await;
}

/// A named instance that is killed gets its partitions back at once: no session has to time out.
#[tokio::test(flavor = "multi_thread")]
async fn a_named_instance_resumes_at_once() {
    let topic = topic("named", 2, 5).await;
    let group = broker::unique("g");
    let mut config = config(&group, &[&topic]);
    config.instance = Some("one".to_owned());
    config.properties.insert("session.timeout.ms".to_owned(), "60000".to_owned());
    let mut first = Reading::start(config.clone());
    first.whole(2).await;
    let partition = Partition::new(&*topic, 0);
    first.commit(&partition, 3).await;
    first.close().await; // a named member stays in the group until its session times out
    assert_eq!(wire::members(&group).len(), 1);
    broker::produce([record(&topic, 0, 5)]).await;
    let mut second = Reading::start(config);
    let whole = second.whole(2).await;
    assert_eq!(whole.values(&topic, 0), numbered(3, 3));
    second.close().await;
}
