use super::*;

fn line(topic: &str, offset: Offset) -> String {
    format!(r#"{{"topic":"{topic}","partition":0,"offset":{offset},"key":"k","payload":null}}"#)
}

/// What reading these captures comes to: records by topic and offset, and why it failed.
fn read(captures: &[&[String]]) -> (Vec<(String, Offset)>, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let write = |(number, lines): (usize, &&[String])| {
        let path = folder.path().join(format!("{number}.jsonl"));
        std::fs::write(&path, lines.join("\n")).unwrap();
        path
    };
    let paths = captures.iter().enumerate().map(write).collect();
    let config = CaptureConfig { paths, topics: Vec::new(), group: "g".to_owned(), topic_id: None };
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
