//! What `settle_meta` keeps of a target table: what fills it, and its last truncates.
//!
//! The line that says what fills a table is also the one that transactions wait at. A batch shares
//! it, so that no truncate or sweep comes between what the batch reads of the truncates and the rows
//! that it writes; a truncate or a sweep owns it. The lines of truncates would not do: there is none
//! before the first.

use std::collections::{BTreeMap, HashMap};

use settle_core::truncate::{Cut, Cuts, LogOrder};
use settle_core::version::Version;

use super::dialect::{Lock, Take};
use super::meta::{Line, READ, WRITE, is_subject, of_kind, put, subject_key, subject_value, table};
use super::session::{Cells, Outcome, Session, SqlValue, contract};
use crate::owner::Owner;

/// Records what fills a target table, and refuses another: a truncate of one would empty the other,
/// too.
pub(crate) async fn claim(session: &mut impl Session, target: &str, source: &Owner) -> Outcome<()> {
    let dialect = session.dialect();
    let (subject, ours) = (dialect.canonical(target), source.recorded());
    put(session, Line { kind: "table", subject: &subject, detail: &ours, ..Line::default() }, &[]).await?;
    let sql = format!("SELECT {} FROM {} WHERE {}", dialect.quoted("detail"), table(dialect), is_subject(dialect, 1));
    let unreadable =
        || contract(READ, format!("what fills table \"{target}\" is not recorded in the form this program writes"));
    let known = session.query(READ, &sql, &["table".into(), subject_value(dialect, &subject)]).await?;
    let known = known.into_iter().next().ok_or_else(unreadable)?;
    let known = Owner::of_record(&Cells::of(READ, known).text()?).ok_or_else(unreadable)?;
    match known.conflict(source, target) {
        None => Ok(()),
        Some(conflict) => Err(contract(format!("write {source}"), conflict)),
    }
}

/// Waits for these tables, all at once and in one order, until the transaction ends. What the
/// transaction reads of them comes behind: a SELECT that waited may have seen what was before.
pub(crate) async fn lock(session: &mut impl Session, tables: &BTreeMap<String, Lock>) -> Outcome<()> {
    let dialect = session.dialect();
    if !dialect.has_row_locks() {
        return Ok(());
    }
    for (target, lock) in tables {
        let sql = format!(
            "SELECT {} FROM {} WHERE {}{}",
            dialect.quoted("at"),
            table(dialect),
            is_subject(dialect, 1),
            dialect.lock(*lock)
        );
        let place = ["table".into(), subject_value(dialect, &dialect.canonical(target))];
        if session.query(READ, &sql, &place).await?.is_empty() {
            return Err(contract(
                READ,
                format!("what fills table \"{target}\" is recorded no more; restore settle_meta from a backup"),
            ));
        }
    }
    Ok(())
}

/// Records a truncate of a target table, which this transaction owns. False where all that it removes
/// was removed before.
pub(crate) async fn record_truncate(session: &mut impl Session, target: &str, cut: Cut) -> Outcome<bool> {
    let mut cuts = truncates(session, &[target]).await?.remove(target).unwrap_or_default();
    if cut.order == LogOrder::Record {
        // Written before the order was recorded. The lineage that fills the table is this one's.
        let earlier = Cut { version: cuts.of(LogOrder::Commit), order: LogOrder::Record };
        if earlier.version > Version::default() {
            if cuts.add(earlier) {
                put_truncate(session, target, earlier).await?;
            }
            let dialect = session.dialect();
            let sql = format!(
                "DELETE FROM {} WHERE {} AND {} = {}",
                table(dialect),
                is_subject(dialect, 1),
                dialect.quoted("at"),
                dialect.place(3)
            );
            let subject = subject_value(dialect, &dialect.canonical(target));
            session.execute(WRITE, &sql, &["truncate".into(), subject, code(LogOrder::Commit).into()]).await?;
        }
    }
    let is_news = cuts.add(cut);
    if is_news {
        put_truncate(session, target, cut).await?;
    }
    Ok(is_news)
}

async fn put_truncate(session: &mut impl Session, target: &str, Cut { version, order }: Cut) -> Outcome<()> {
    let subject = session.dialect().canonical(target).into_owned();
    let (hi, lo) = (version.hi_signed(), version.lo_signed());
    let line = Line { kind: "truncate", subject: &subject, at: code(order), hi, lo, detail: "" };
    put(session, line, &[("hi", Take::New), ("lo", Take::New)]).await
}

/// Tables that are asked for at once.
const AT_ONCE: usize = 500;

/// What is known of the truncates of target tables; nothing of those that never had one.
pub(crate) async fn truncates<'t>(session: &mut impl Session, targets: &[&'t str]) -> Outcome<HashMap<&'t str, Cuts>> {
    let dialect = session.dialect();
    let mut found: HashMap<&str, Cuts> = HashMap::new();
    for targets in targets.chunks(AT_ONCE) {
        let key = dialect.quoted(subject_key(dialect));
        let sql = format!(
            "SELECT {key}, {} FROM {} WHERE {} = {} AND {key} IN ({})",
            dialect.list(["at", "hi", "lo"]),
            table(dialect),
            dialect.quoted("kind"),
            dialect.place(1),
            dialect.places(2, targets.len())
        );
        let keys: Vec<SqlValue> =
            targets.iter().map(|target| subject_value(dialect, &dialect.canonical(target))).collect();
        let values: Vec<SqlValue> = std::iter::once("truncate".into()).chain(keys.iter().cloned()).collect();
        for row in session.query(READ, &sql, &values).await? {
            let mut cells = Cells::of(READ, row);
            let (key, at) = (SqlValue::Text(cells.text()?), cells.int()?);
            let (hi, lo) = (cells.int()?, cells.int()?);
            for (target, _) in targets.iter().zip(&keys).filter(|(_, known)| **known == key) {
                found.entry(target).or_default().add(cut(target, at, hi, lo)?);
            }
        }
    }
    Ok(found)
}

/// What is known of the truncates of every target table.
pub(crate) async fn all_truncates(session: &mut impl Session) -> Outcome<Vec<(String, Cuts)>> {
    let sql = of_kind(session.dialect(), &["subject", "at", "hi", "lo"]);
    let mut found: BTreeMap<String, Cuts> = BTreeMap::new();
    for row in session.query(READ, &sql, &["truncate".into()]).await? {
        let mut cells = Cells::of(READ, row);
        let (target, at, hi, lo) = (cells.text()?, cells.int()?, cells.int()?, cells.int()?);
        let cut = cut(&target, at, hi, lo)?;
        found.entry(target).or_default().add(cut);
    }
    Ok(found.into_iter().collect())
}

fn cut(target: &str, at: i64, hi: i64, lo: i64) -> Outcome<Cut> {
    let order = LogOrder::ALL
        .into_iter()
        .find(|order| code(*order) == at)
        .ok_or_else(|| contract(READ, format!("a truncate of \"{target}\" is not of the form this program writes")))?;
    Ok(Cut { version: Version::from_halves(hi.cast_unsigned(), lo.cast_unsigned()), order })
}

/// Rows written before the order was recorded have 0, and were compared by the whole version.
fn code(order: LogOrder) -> i64 {
    match order {
        LogOrder::Commit => 0,
        LogOrder::Record => 1,
    }
}
