use super::*;

fn line(topic: &str, offset: Offset) -> String {
    format!(r#"{{"topic":"{topic}","partition":0,"offset":{offset},"key":"k","payload":null}}"#)
}

/// What reading these captures comes to: records by topic and offset, and why it failed.
fn read(captures: &[&[String]]) -> (Vec<(String, Offset)>, Option<String>) {
    read_topics(captures, &[])
}

fn read_topics(captures: &[&[String]], topics: &[&str]) -> (Vec<(String, Offset)>, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let write = |(number, lines): (usize, &&[String])| {
        let path = folder.path().join(format!("{number}.jsonl"));
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    };
    let topics = topics.iter().map(|topic| (*topic).to_owned()).collect();
    let paths = captures.iter().enumerate().map(write).collect();
    let config = CaptureConfig { paths, topics, group: "g".to_owned(), topic_id: None };
    let mut source = start(config).unwrap();
    let mut records = Vec::new();
    loop {
        match source.events.blocking_recv().unwrap() {
            SourceEvent::Records(chunk) => {
                records.extend(chunk.records.iter().map(|r| (r.partition.topic.to_string(), r.offset)));
            }
            SourceEvent::Ended => return (records, None),
            SourceEvent::Failed(error) => return (records, Some(error.to_string())),
            _ => {}
        }
    }
}

#[test]
fn captures_of_different_topics_are_read_one_after_the_other() {
    let (records, error) = read(&[&[line("a", 0), line("a", 1)], &[line("b", 0)]]);
    assert_eq!(records, [("a".to_owned(), 0), ("a".to_owned(), 1), ("b".to_owned(), 0)]);
    assert_eq!(error, None);
}

#[test]
fn a_topic_in_a_second_capture_is_refused_before_its_records_are_delivered_again() {
    let (records, error) = read(&[&[line("a", 0), line("a", 1)], &[line("a", 0), line("a", 1)]]);
    assert_eq!(records.len(), 2, "those of the first capture alone: {records:?}");
    assert!(error.unwrap().contains("topic a is in two captures"));
}

#[test]
fn empty_lines_and_carriage_returns_mean_nothing() {
    let (records, error) = read(&[&[String::new(), line("a", 0) + "\r", " ".to_owned(), line("a", 1) + "\r\n"]]);
    assert_eq!((records.len(), error), (2, None));
}

#[test]
fn a_pattern_that_no_topic_matches_is_refused_with_those_that_are_there() {
    let (records, error) = read_topics(&[&[line("shop.orders", 0)], &[line("shop.items", 0)]], &["shop.order"]);
    assert_eq!(records, []);
    assert_eq!(
        error.unwrap(),
        "no topic of the captures matches topics = [\"shop.order\"] in [source]; they hold shop.items, shop.orders"
    );
    let (records, error) = read_topics(&[&[line("shop.orders", 0)], &[line("shop.items", 0)]], &["shop.o*"]);
    assert_eq!((records.len(), error), (1, None));
}
