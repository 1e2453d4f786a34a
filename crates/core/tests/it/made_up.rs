//! Orders that no recording has, taken from what the connector's code can do. Each must end at the
//! last value, whatever is delivered again.

use std::collections::BTreeMap;

use settle_core::record::Record;

use crate::support::destination::{Columns, Destination};
use crate::support::line::settle;
use crate::support::sample::{Placed, Sample, postgres};

struct Order {
    name: &'static str,
    log: Vec<Sample>,
    /// Row id and value.
    end: &'static [(u64, &'static str)],
}

/// A change of row 1 to `value`.
fn change(op: &str, sequence: (Option<u64>, u64), value: &str) -> Sample {
    let sample = postgres(op, sequence, Some(sequence.1));
    if op == "d" { sample } else { sample.row(&format!(r#"{{"id":1,"v":"{value}"}}"#)) }
}

fn orders() -> Vec<Order> {
    let other = |sequence, value| {
        let sample = change("r", sequence, value).id(2).server("other");
        sample.row(&format!(r#"{{"id":2,"v":"{value}"}}"#))
    };
    vec![
        Order {
            name: "a worker killed inside the first transaction, which is open across the snapshot, restarts with its \
                   last lsn as the commit before it",
            log: vec![change("r", (None, 1000), "old"), change("u", (Some(900), 950), "new")],
            end: &[(1, "new")],
        },
        Order {
            name: "a blocking snapshot before any commit was seen, and older transactions behind it",
            log: vec![
                change("r", (None, 1000), "now"),
                change("u", (None, 600), "a"),
                change("d", (Some(700), 800), ""),
            ],
            end: &[],
        },
        Order {
            name: "a snapshot taken again at a later position wins over what was streamed before it",
            log: vec![
                change("r", (None, 100), "a"),
                change("u", (Some(150), 160), "b"),
                change("r", (None, 500), "c"),
                change("u", (None, 490), "d"),
            ],
            end: &[(1, "d")],
        },
        Order {
            name: "another server on the topic does not lift this one",
            log: vec![other((None, 9000), "x"), change("u", (None, 100), "a"), change("u", (Some(120), 130), "b")],
            end: &[(1, "b"), (2, "x")],
        },
    ]
}

fn rows(destination: &Destination) -> BTreeMap<String, Columns> {
    destination.rows("public.t").into_iter().map(|(key, columns)| (key.to_owned(), columns.clone())).collect()
}

#[test]
fn each_order_ends_at_its_last_value_in_any_cut_and_after_any_replay() {
    for Order { name, log, end } in orders() {
        let records: Vec<Record> = log.iter().zip(0..).map(|(sample, offset)| sample.clone().at(0, offset)).collect();
        let row = |&(id, value): &(u64, &str)| {
            let columns = [("id".to_owned(), id.to_string()), ("v".to_owned(), format!("\"{value}\""))];
            (format!(r#"{{"id":{id}}}"#), columns.into_iter().collect())
        };
        let end: BTreeMap<String, Columns> = end.iter().map(row).collect();
        for batch in [1, 2, 7] {
            let mut destination = Destination::default();
            settle(&mut destination, &records, batch);
            assert_eq!(rows(&destination), end, "{name}, batches of {batch}");
            let settled = destination.clone();
            for from in 0..records.len() {
                for to in from..=records.len() {
                    settle(&mut destination, &records[from..to], batch);
                    assert!(destination == settled, "{name}, records {from} to {to} again");
                }
            }
        }
    }
}
