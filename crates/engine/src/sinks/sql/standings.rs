//! What `settle_meta` keeps of epochs (kind `epoch`) and of groups that have offsets (kind `group`).

use settle_core::epoch::{Boundary, Epoch};
use settle_core::position::{Offset, Partition, TopicId};
use settle_core::sink::PlacedPartition;
use settle_core::version::Version;
use uuid::Uuid;

use super::meta::{Line, READ, of_kind, put};
use super::session::{Cells, Outcome, Session, contract};
use crate::epochs::RecordedEpoch;
use crate::sinks::plan::Plan;

/// All epochs recorded.
pub(crate) async fn epochs(session: &mut impl Session) -> Outcome<Vec<RecordedEpoch>> {
    let sql = of_kind(session.dialect(), &["subject", "at", "hi"]);
    let rows = session.query(READ, &sql, &["epoch".into()]).await?;
    let mut epochs = Vec::with_capacity(rows.len());
    for row in rows {
        let mut cells = Cells::of(READ, row);
        let (subject, offset, number) = (cells.text()?, cells.int()?, cells.int()?);
        let unreadable =
            || contract(READ, format!("an epoch at offset {offset} is not of the form this program writes"));
        let (topic, id, partition): (String, Uuid, i32) = serde_json::from_str(&subject).map_err(|_| unreadable())?;
        let epoch = u64::try_from(number).ok().and_then(|number| Epoch::new(number).ok()).ok_or_else(unreadable)?;
        epochs.push(RecordedEpoch { topic, topic_id: TopicId(id), partition, boundary: Boundary { offset, epoch } });
    }
    Ok(epochs)
}

/// Records where epochs begin.
pub(crate) async fn record(session: &mut impl Session, epochs: &[RecordedEpoch]) -> Outcome<()> {
    for RecordedEpoch { topic, topic_id, partition, boundary } in epochs {
        let subject = serde_json::json!([topic, topic_id.0, partition]).to_string();
        let hi = i64::from(boundary.epoch.number());
        put(session, Line { kind: "epoch", subject: &subject, at: boundary.offset, hi, ..Line::default() }, &[])
            .await?;
    }
    Ok(())
}

/// Refuses a table with rows of an epoch that is not recorded: they would win over everything that
/// comes. They are of another tool, or `settle_meta` was lost.
pub(crate) async fn refuse_outranking(session: &mut impl Session, plan: &Plan, table: &str) -> Outcome<()> {
    let dialect = session.dialect();
    let recorded = epochs(session).await?.iter().map(|recorded| recorded.boundary.epoch.number()).max().unwrap_or(0);
    let Ok(next) = Epoch::new(u64::from(recorded) + 1) else { return Ok(()) };
    let least = Version::default().with_epoch(next);
    let (name, hi) = (dialect.quoted(table), dialect.quoted(&plan.version_hi()));
    let operation = format!("read the versions of table \"{table}\"");
    let sql = format!("SELECT {hi} FROM {name} WHERE {hi} >= {} LIMIT 1", dialect.place(1));
    if session.query(&operation, &sql, &[least.hi_signed().into()]).await?.is_empty() {
        return Ok(());
    }
    let context = format!(
        "it holds rows whose version is above every epoch recorded in settle_meta ({recorded}): they would win over \
         everything that comes. If another tool wrote them, run UPDATE {name} SET {hi} = 0; if settle_meta was lost, \
         restore it from a backup"
    );
    Err(contract(operation, context))
}

/// The partitions in which the group is known to have had an offset, of the topics of `parts`:
/// those of their earlier incarnations, too.
pub(crate) async fn of_group(
    session: &mut impl Session,
    group: &str,
    parts: &[PlacedPartition],
) -> Outcome<Vec<PlacedPartition>> {
    let sql = of_kind(session.dialect(), &["subject"]);
    let mut known = Vec::new();
    for row in session.query(READ, &sql, &["group".into()]).await? {
        let (owner, topic, id, number): (String, String, Uuid, i32) =
            serde_json::from_str(&Cells::of(READ, row).text()?)
                .map_err(|_| contract(READ, "a group is not of the form this program writes"))?;
        if owner == group && parts.iter().any(|part| *part.partition.topic == *topic) {
            known.push(PlacedPartition { topic_id: TopicId(id), partition: Partition::new(topic, number) });
        }
    }
    Ok(known)
}

/// Remembers that the group has offsets in these partitions.
pub(crate) async fn remember(
    session: &mut impl Session,
    group: &str,
    committed: &[(PlacedPartition, Offset)],
) -> Outcome<()> {
    // How far the group is, the rows say.
    for (PlacedPartition { topic_id, partition }, _) in committed {
        let subject = serde_json::json!([group, &*partition.topic, topic_id.0, partition.number]).to_string();
        put(session, Line { kind: "group", subject: &subject, ..Line::default() }, &[]).await?;
    }
    Ok(())
}
