//! What each recorded record is: changes by operation, control records by form, refusals by reason.

use std::collections::BTreeMap;

use settle_core::change::Event;
use settle_core::key::KeyError;
use settle_core::lane::{Lane, LoneTombstones};
use settle_core::refusal::Reason;

use crate::support::capture::{self, Topic};

/// Counts of what the records of a topic are, as `form=count`, in order of name.
fn forms(topic: &Topic) -> String {
    let mut lanes: BTreeMap<i32, Lane> = BTreeMap::new();
    let mut forms: BTreeMap<String, usize> = BTreeMap::new();
    for record in &topic.records {
        let new = || Lane::new(record.partition.clone(), 0, &[], LoneTombstones::Refuse);
        let lane = lanes.entry(record.partition.number).or_insert_with(new);
        let form = match lane.feed(record.clone()) {
            Ok(fed) => match fed.event {
                Event::Change(change) if change.schema.is_some() => format!("{}+schema", change.op.letter()),
                Event::Change(change) => change.op.letter().to_owned(),
                Event::Truncate(_) => "t".to_owned(),
                Event::Control(control) => format!("{control:?}"),
            },
            Err(refusal) => match refusal.reason {
                Reason::UnknownShape(_) => "no envelope".to_owned(),
                Reason::NotJson(hint) if hint == "starts with byte 0, as Confluent-framed Avro does" => {
                    "Confluent framing".to_owned()
                }
                Reason::Key(KeyError::Missing) => "no key".to_owned(),
                Reason::Key(KeyError::NotAnObject(_)) => "unreadable key".to_owned(),
                reason => reason.to_string(),
            },
        };
        *forms.entry(form).or_default() += 1;
    }
    forms.into_iter().map(|(form, count)| format!("{form}={count}")).collect::<Vec<_>>().join(" ")
}

/// Tombstones and changes by operation; `no envelope` are outbox payloads and flattened rows, which
/// need a reader of their own.
const FORMS: &str = "\
mariadb mshop: SchemaChange=21
mariadb mshop.mshop.children: c=3
mariadb mshop.mshop.customers: Tombstone=9 c=12 d=9 r=21 u=85
mariadb mshop.mshop.debezium_signal: Signal=20
mariadb mshop.mshop.order_items: Tombstone=3 c=8 d=3 r=6 t=1 u=4
mariadb mshop.mshop.orders: c=4 r=11 u=46
mariadb mshop.mshop.parents: Tombstone=1 c=2 d=1
mariadb mshop.mshop.wide: c=4 r=2
mariadb mshop.transaction: Transaction=179
mariadb-duplicates mshop.mshop.orders: Tombstone=58 c=62 d=58 r=19 u=720
mariadb-types-schemas mwide.mshop.wide: c+schema=1 r+schema=5
outbox obraw.public.outbox: Tombstone=2 c=6 d=2
outbox outbox.event.charge: no envelope=3
outbox outbox.event.email: no envelope=3
outbox outboxmin.event.charge: no envelope=3
outbox outboxmin.event.email: no envelope=3
pg-avro-confluent shopv.public.all_types.b64: Confluent framing=10
pg-avro-confluent shopv.public.all_types.decoded: r=10
pg-avro-confluent shopv.public.customers.b64: Confluent framing=16 Tombstone=1
pg-avro-confluent shopv.public.customers.decoded: Tombstone=1 c=2 d=1 r=12 u=1
pg-avro-confluent shopv.public.order_items.b64: Confluent framing=7 Tombstone=1
pg-avro-confluent shopv.public.order_items.decoded: Tombstone=1 c=1 d=1 r=4 u=1
pg-avro-confluent shopv.public.orders.b64: Confluent framing=12
pg-avro-confluent shopv.public.orders.decoded: c=1 r=9 u=2
pg-composite-key cmp.public.stock: Tombstone=6 c=4 d=6 r=12 u=17
pg-connector-killed kl.public.t: Tombstone=1040 c=1040 d=1040 r=30 u=17428
pg-hazards shop.public.customers: Tombstone=6 c=13 d=6 r=27 u=12
pg-hazards shop.public.debezium_signal: Signal=16
pg-hazards shop.public.documents: r=3 u=3
pg-hazards shop.public.nokey: Empty=1 no key=3
pg-hazards shop.public.order_items: Tombstone=2 c=6 d=2 r=6 t=1 u=1
pg-hazards shop.public.orders: Tombstone=1 c=6 d=1 r=4 u=3
pg-hazards shop.transaction: Transaction=20
pg-json-schemas shopa.public.all_types: Tombstone=1 c+schema=5 d+schema=1 r+schema=2 u+schema=2
pg-json-schemas shopa.public.customers: Tombstone=2 c+schema=4 d+schema=2 r+schema=10 u+schema=1
pg-json-schemas shopa.public.order_items: Tombstone=2 c+schema=4 d+schema=2 r+schema=2 u+schema=1
pg-json-schemas shopa.public.orders: Tombstone=1 c+schema=2 d+schema=1 r+schema=8 u+schema=1
pg-race race.public.t: r=20 u=3394
pg-restart rst.public.t: r=24 u=75
pg-schemaless-defaults shopd.public.all_types: Tombstone=1 c=5 d=1 r=2 u=2
pg-schemaless-defaults shopd.public.customers: Tombstone=2 c=4 d=2 r=10 u=1
pg-schemaless-defaults shopd.public.order_items: Tombstone=2 c=4 d=2 r=2 u=1
pg-schemaless-defaults shopd.public.orders: Tombstone=1 c=2 d=1 r=8 u=1
pg-types-special shopa.public.all_types: Tombstone=1 c+schema=9 d+schema=1 r+schema=2 u+schema=2
pg-types-special shopb.public.all_types: no envelope=14
pg-types-special shopc.public.all_types: Tombstone=1 c=9 d=1 r=2 u=2
pg-types-special shopd.public.all_types: Tombstone=1 c=9 d=1 r=2 u=2
pg-types-string-connect shopc.public.all_types: Tombstone=1 c=5 d=1 r=2 u=2
pg-unwrap shopb.public.all_types: no envelope=10
pg-unwrap shopb.public.customers: no envelope=17
pg-unwrap shopb.public.order_items: no envelope=9
pg-unwrap shopb.public.orders: no envelope=12
";

#[test]
fn every_recorded_topic_is_recognised_record_by_record() {
    let found: String = capture::all().iter().map(|t| format!("{} {}: {}\n", t.folder, t.name, forms(t))).collect();
    assert_eq!(found, FORMS);
}
