//! Findings of the place where records are set aside that cannot be applied.
//!
//! A run looks whether it is the right place, and opens it when it sets the first one aside: it
//! pauses there while it cannot.

use settle_core::causes::chain;

use super::{can_be_made, count};
use crate::config::dlq::{DlqConfig, DlqPlace};
use crate::dead_letter::DeadLetterLog;
use crate::finding::Finding;
use crate::sampling::Sample;

/// Where dead letters go, whether they could be written, and whether the sample has too many.
pub(crate) async fn findings(dlq: &DlqConfig, group: &str, sample: &Sample) -> Vec<Finding> {
    let place = match &dlq.place {
        DlqPlace::File { path } => format!("the file {}", path.display()),
        DlqPlace::Topic { brokers, topic, .. } => format!("topic {topic} on {brokers}"),
    };
    let log = DeadLetterLog::new(dlq, group);
    if let Err(error) = log.look().await {
        return std::iter::once(Finding::of_sink(&error)).chain(too_many(dlq, sample)).collect();
    }
    let mut findings = vec![match log.summary().await {
        Ok(summary) => {
            let open = count(summary.open, "open letter", "open letters");
            Finding::note(format!("records that cannot be applied are set aside in {place}, which holds {open}"))
        }
        Err(error) => cannot(&place, &chain(&error)),
    }];
    if let DlqPlace::File { path } = &dlq.place
        && let Err(error) = if path.exists() { opens(path) } else { can_be_made(path) }
    {
        findings.push(cannot(&place, &error.to_string()));
    }
    findings.extend(too_many(dlq, sample));
    findings
}

fn opens(path: &std::path::Path) -> std::io::Result<()> {
    std::fs::OpenOptions::new().append(true).open(path).map(drop)
}

fn cannot(place: &str, why: &str) -> Finding {
    Finding::warning(
        format!("dead letters cannot be kept in {place}: {why}"),
        "mend [dlq]; a run starts, and pauses at the first record that it has to set aside",
    )
}

/// A share that would stop a run over more records like these.
fn too_many(dlq: &DlqConfig, sample: &Sample) -> Option<Finding> {
    let read: u64 = sample.seen.values().map(|seen| seen.records).sum();
    let dead = sample.poison.len() as u64;
    #[expect(clippy::cast_precision_loss, reason = "counts of a sample")]
    let over = dead > 0 && dead as f64 > dlq.limit.max_ratio * read as f64;
    over.then(|| {
        Finding::warning(
            format!(
                "{dead} of {read} sampled records would be set aside, which is more than max_ratio = {} in [dlq]: a run \
                 that reads {} like them stops (exit 6)",
                dlq.limit.max_ratio, dlq.limit.min_records
            ),
            "mend what is wrong with the records above, or raise max_ratio",
        )
    })
}
