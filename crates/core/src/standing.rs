//! Where a group stands in a partition, as it is kept beside its committed offset: one line of JSON.
//!
//! Kafka keeps such a line with each offset (up to 4,096 bytes by the broker's default), a capture
//! keeps it in its offsets file. It belongs to its offset and to its topic: whoever moves the group
//! leaves it behind, and then detection of new logs starts anew.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::change::Lineage;
use crate::epoch::Epoch;
use crate::new_log::{Dip, Mark};
use crate::position::{Offset, TopicId};
use crate::version::Version;

/// Longest line, bytes.
pub const MAX_LINE: usize = 1024;
/// Lineages kept, those seen last.
pub const MAX_LINEAGES: usize = 8;

const FORM: u32 = 1;

/// What is known of a partition at a committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Incarnation of the topic.
    pub topic_id: TopicId,
    /// The committed offset: next to read.
    pub offset: Offset,
    /// Partitions that the topic had when the group began to read all of them; 0 where it is not
    /// known.
    pub partitions: u32,
    /// Epoch of the records before the offset.
    pub epoch: Epoch,
    /// What the records before it say of new logs; the lineages seen last first.
    pub marks: Vec<Mark>,
}

/// A line that is none of ours, or of a later form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the metadata of a committed offset is not what settle writes: {0}")]
pub struct Unreadable(String);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    settle: u32,
    topic: Uuid,
    offset: Offset,
    partitions: u32,
    epoch: u8,
    #[serde(borrow)]
    logs: Vec<Log<'a>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Log<'a> {
    #[serde(borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    db: std::borrow::Cow<'a, str>,
    p: u64,
    t: Option<i64>,
    streamed: bool,
    /// `first`, `since`, `count`, and the halves of `top`.
    #[serde(skip_serializing_if = "Option::is_none")]
    dip: Option<(Offset, Offset, u64, u64, u64)>,
}

impl Standing {
    /// As one line, below [`MAX_LINE`] bytes: lineages that do not fit are left out.
    pub fn line(&self) -> String {
        let mut logs: Vec<Log<'_>> = self.marks.iter().take(MAX_LINEAGES).map(log).collect();
        loop {
            let line = Line {
                settle: FORM,
                topic: self.topic_id.0,
                offset: self.offset,
                partitions: self.partitions,
                epoch: self.epoch.number(),
                logs,
            };
            // Numbers, texts and lists: nothing that JSON cannot say.
            let text = serde_json::to_string(&line).unwrap_or_default();
            logs = line.logs;
            if text.len() < MAX_LINE || logs.pop().is_none() {
                return text;
            }
        }
    }

    /// Reads a line back. `Ok(None)` where there is none.
    pub fn parse(line: &str) -> Result<Option<Self>, Unreadable> {
        if line.is_empty() {
            return Ok(None);
        }
        let strange = |e: &dyn std::fmt::Display| Unreadable(e.to_string());
        let line: Line<'_> = serde_json::from_str(line).map_err(|e| strange(&e))?;
        if line.settle != FORM {
            return Err(Unreadable(format!("it is of form {}, this program knows form {FORM}", line.settle)));
        }
        Ok(Some(Self {
            topic_id: TopicId(line.topic),
            offset: line.offset,
            partitions: line.partitions,
            epoch: Epoch::new(line.epoch.into()).map_err(|e| strange(&e))?,
            marks: line.logs.into_iter().map(mark).collect(),
        }))
    }
}

fn log(mark: &Mark) -> Log<'_> {
    Log {
        name: (&*mark.lineage.source).into(),
        db: (&*mark.lineage.database).into(),
        p: mark.commit,
        t: mark.time_ms,
        streamed: mark.streamed,
        dip: mark.dip.map(|Dip { first, since, count, top }| (first, since, count, top.hi(), top.lo())),
    }
}

fn mark(log: Log<'_>) -> Mark {
    Mark {
        lineage: Arc::new(Lineage { source: (*log.name).into(), database: (*log.db).into() }),
        commit: log.p,
        time_ms: log.t,
        streamed: log.streamed,
        dip: log.dip.map(|(first, since, count, hi, lo)| Dip {
            first,
            since,
            count,
            top: Version::from_halves(hi, lo),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(names: &[&str]) -> Standing {
        let mark = |name: &&str| Mark {
            lineage: Arc::new(Lineage { source: (**name).into(), database: "d\"b".into() }),
            commit: (1 << 56) - 1,
            time_ms: Some(i64::MAX),
            streamed: true,
            dip: Some(Dip { first: 1, since: 2, count: 3, top: Version::from_halves(4, 5) }),
        };
        Standing {
            topic_id: TopicId(Uuid::from_u128(7)),
            offset: 42,
            partitions: 3,
            epoch: Epoch::LAST,
            marks: names.iter().map(mark).collect(),
        }
    }

    #[test]
    fn a_line_is_read_back_as_it_was() {
        for standing in [standing(&[]), standing(&["a", "ü"])] {
            assert_eq!(Standing::parse(&standing.line()), Ok(Some(standing)));
        }
        let mut sparse = standing(&["a"]);
        (sparse.marks[0].time_ms, sparse.marks[0].dip) = (None, None);
        assert_eq!(
            sparse.line(),
            r#"{"settle":1,"topic":"00000000-0000-0000-0000-000000000007","offset":42,"partitions":3,"epoch":127,"logs":[{"name":"a","db":"d\"b","p":72057594037927935,"t":null,"streamed":true}]}"#
        );
        assert_eq!(Standing::parse(&sparse.line()), Ok(Some(sparse)));
    }

    #[test]
    fn a_line_stays_short_and_keeps_the_lineages_seen_last() {
        let names: Vec<String> = (0..20).map(|n| format!("server-{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let read = Standing::parse(&standing(&names).line()).unwrap().unwrap();
        assert!(!read.marks.is_empty() && read.marks.len() <= MAX_LINEAGES);
        assert_eq!(read.marks[..], standing(&names).marks[..read.marks.len()]);
        let long = "x".repeat(600);
        for names in [&names[..], &[&long, &long], &["a", &long, &long]] {
            assert!(standing(names).line().len() < MAX_LINE);
        }
        assert_eq!(Standing::parse(&standing(&[&"x".repeat(5000)]).line()).unwrap().unwrap().marks, []);
    }

    #[test]
    fn what_is_not_ours_is_not_read() {
        assert_eq!(Standing::parse(""), Ok(None));
        let ours = standing(&["a"]).line();
        for strange in [
            "x",
            "{}",
            &ours.replace("\"settle\":1", "\"settle\":2"),
            &ours.replace("\"offset\":42", "\"offset\":\"42\""),
            &ours.replace("\"epoch\":127", "\"epoch\":128"),
            &ours.replace("\"logs\"", "\"more\":1,\"logs\""),
            &ours[..ours.len() - 1],
        ] {
            assert!(Standing::parse(strange).is_err(), "{strange}");
        }
    }
}
