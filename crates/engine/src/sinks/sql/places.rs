//! What the destination knows of partitions of the log, all of it at once.

use settle_core::sink::{PlacedPartition, Places};

use super::session::{Outcome, Session};
use super::{claims, filled, holds, meta, positions, standings, sweeps, tombstones};
use crate::config::target::Target;
use crate::epochs::{latest_last, placed};

/// What is known of these partitions, and of the group in them.
pub(crate) async fn read(
    session: &mut impl Session,
    group: &str,
    target: &Target,
    parts: &[PlacedPartition],
) -> Outcome<Places> {
    let epochs = standings::epochs(session).await?;
    Ok(Places {
        floors: meta::floors(session, parts).await?,
        applied: positions::read(session, group, parts).await?,
        epochs: placed(&epochs, parts),
        written: latest_last(&epochs, standings::of_group(session, group, parts).await?),
        begun: Vec::new(),
        missing: filled::missing(session, target, parts).await?,
        holds: holds::read(session, parts).await?,
        pending: sweeps::pending(session, parts).await?,
        purged: tombstones::purged(session, target).await?,
        truncates: Vec::new(),
    })
}

/// The same of a destination that is only looked at: how far its rows are, and what waits, is the
/// run's to know.
pub(crate) async fn look(session: &mut impl Session, group: &str, parts: &[PlacedPartition]) -> Outcome<Places> {
    let epochs = standings::epochs(session).await?;
    Ok(Places {
        floors: meta::floors(session, parts).await?,
        epochs: placed(&epochs, parts),
        written: latest_last(&epochs, standings::of_group(session, group, parts).await?),
        holds: holds::read(session, parts).await?,
        truncates: claims::all_truncates(session).await?,
        ..Places::default()
    })
}
