//! One writer: carries its plan out, one transaction after the other, at its pace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use settle_engine::shutdown::{Request, Shutdown};
use tokio::sync::watch;
use tokio::time::{Duration, Instant};

use crate::database::{Address, DatabaseError, Engine, FailureKind, Session};
use crate::simulate::moves::stands_alone;
use crate::simulate::plan::{End, Planner, Transaction, Work};
use crate::simulate::statement::Statement;
use crate::simulate::{Kind, Report, schema};

/// Tries of one transaction, before it is skipped.
const TRIES: u32 = 4;
/// How long a statement waits for another transaction, in seconds.
const LOCK_WAIT_S: u32 = 5;

/// What the writers have in common.
pub(crate) struct Common {
    pub(crate) show: watch::Sender<Report>,
    pub(crate) start: Instant,
    /// Truncates that were committed, by whomever.
    pub(crate) truncates: AtomicU64,
    /// A writer failed: the others end too.
    pub(crate) failed: AtomicBool,
}

/// When to go on, and when to end.
#[derive(Clone)]
pub(crate) struct Pace {
    pub(crate) period: Option<Duration>,
    pub(crate) until: Option<Instant>,
    pub(crate) transactions: Option<u64>,
    pub(crate) shutdown: Shutdown,
}

/// The writer.
pub(crate) struct Writer {
    address: Address,
    planner: Planner,
    session: Session,
    /// Of the transaction that stays open.
    side: Option<Session>,
    common: Arc<Common>,
    truncates_seen: u64,
}

impl Writer {
    pub(crate) async fn start(
        address: Address,
        mut planner: Planner,
        writer: usize,
        common: Arc<Common>,
    ) -> Result<Self, DatabaseError> {
        let mut session = open(&address).await?;
        let doing = |error: DatabaseError| error.while_doing("reading the rows of earlier runs");
        schema::adopt(&mut session, &mut planner, writer).await.map_err(doing)?;
        Ok(Self { address, planner, session, side: None, common, truncates_seen: 0 })
    }

    /// Writes until it is enough, and leaves nothing open.
    pub(crate) async fn write(mut self, mut pace: Pace) -> Result<(), DatabaseError> {
        let mut next = Instant::now();
        let mut left = pace.transactions;
        while left != Some(0) && self.may_go_on(&mut pace, next).await {
            match self.planner.next() {
                Work::CloseLong => {
                    self.close_long().await?;
                    continue;
                }
                Work::Run(transaction) => self.run(&transaction).await?,
            }
            left = left.map(|left| left - 1);
            if let Some(period) = pace.period {
                // Late by more than a second: what was missed is missed.
                next = (next + period).max(Instant::now().checked_sub(Duration::from_secs(1)).unwrap_or(next));
            }
        }
        if self.planner.has_long() {
            self.close_long().await?;
        }
        self.session.close().await;
        if let Some(side) = self.side {
            side.close().await;
        }
        Ok(())
    }

    /// Waits for the next turn; false where there is none.
    async fn may_go_on(&self, pace: &mut Pace, next: Instant) -> bool {
        let until = pace.until;
        if pace.period.is_some() {
            let turn = until.map_or(next, |until| until.min(next));
            tokio::select! {
                () = pace.shutdown.at_least(Request::Drain) => {}
                () = tokio::time::sleep_until(turn) => {}
            }
        }
        pace.shutdown.request() == Request::None
            && until.is_none_or(|until| Instant::now() < until)
            && !self.common.failed.load(Ordering::Relaxed)
    }

    async fn run(&mut self, transaction: &Transaction) -> Result<(), DatabaseError> {
        let truncates = self.common.truncates.load(Ordering::Acquire);
        if truncates != self.truncates_seen {
            self.truncates_seen = truncates;
            self.planner.items_emptied();
        }
        for _ in 0..TRIES {
            let session = match transaction.end {
                End::StayOpen => {
                    let side = match self.side.take() {
                        Some(side) => side,
                        None => open(&self.address).await?,
                    };
                    self.side.insert(side)
                }
                End::Commit | End::Rollback => &mut self.session,
            };
            match carry_out(session, transaction).await {
                Ok(rows) => {
                    self.done(transaction, rows);
                    return Ok(());
                }
                Err(error) if matches!(error.kind, FailureKind::Conflict | FailureKind::Duplicate) => {
                    self.common.show.send_modify(|report| report.retried += 1);
                }
                Err(error) => return Err(error.while_doing(format!("transaction {}", transaction.kind.name()))),
            }
        }
        if transaction.end == End::StayOpen {
            self.planner.closed(false);
        }
        self.common.show.send_modify(|report| {
            report.skipped += 1;
            report.elapsed_ms = elapsed_ms(self.common.start);
        });
        Ok(())
    }

    fn done(&mut self, transaction: &Transaction, rows: u64) {
        match transaction.end {
            End::Commit => self.planner.committed(transaction),
            End::Rollback => {}
            End::StayOpen => return self.planner.stays_open(transaction),
        }
        if transaction.kind == Kind::Truncate {
            self.truncates_seen = self.common.truncates.fetch_add(1, Ordering::AcqRel) + 1;
        }
        self.count(transaction.kind, transaction.end, rows);
    }

    async fn close_long(&mut self) -> Result<(), DatabaseError> {
        let Some(side) = &mut self.side else { return Ok(()) };
        side.execute("COMMIT").await.map_err(|error| error.while_doing("committing the open transaction"))?;
        self.planner.closed(true);
        self.count(Kind::LongOpen, End::Commit, 3);
        Ok(())
    }

    fn count(&self, kind: Kind, end: End, rows: u64) {
        self.common.show.send_modify(|report| {
            match end {
                End::Rollback => report.rolled_back += 1,
                End::Commit | End::StayOpen => {
                    report.committed += 1;
                    report.rows += rows;
                }
            }
            *report.kinds.entry(kind).or_default() += 1;
            report.elapsed_ms = elapsed_ms(self.common.start);
        });
    }
}

/// Milliseconds since `start`.
pub(crate) fn elapsed_ms(start: Instant) -> u64 {
    start.elapsed().as_millis().try_into().unwrap_or(u64::MAX)
}

/// A session that waits for nobody for ever.
async fn open(address: &Address) -> Result<Session, DatabaseError> {
    let mut session = Session::open(address).await?;
    let patience = match session.engine() {
        Engine::Postgres => format!("SET lock_timeout = '{LOCK_WAIT_S}s'"),
        Engine::MySql => format!("SET innodb_lock_wait_timeout = {LOCK_WAIT_S}, lock_wait_timeout = {LOCK_WAIT_S}"),
    };
    session.execute(&patience).await?;
    Ok(session)
}

/// Runs a transaction; the rows that it changed. After a failure nothing of it is left.
async fn carry_out(session: &mut Session, transaction: &Transaction) -> Result<u64, DatabaseError> {
    match statements(session, transaction).await {
        Ok(rows) => Ok(rows),
        Err(error) => {
            if error.kind != FailureKind::Unreachable {
                session.execute("ROLLBACK").await?;
                if transaction.statements.iter().any(|statement| matches!(statement, Statement::Clock(_))) {
                    session.execute(&Statement::Clock(None).sql(session.engine())).await?;
                }
            }
            Err(error)
        }
    }
}

async fn statements(session: &mut Session, transaction: &Transaction) -> Result<u64, DatabaseError> {
    let engine = session.engine();
    let mut rows = 0;
    if stands_alone(transaction, engine) {
        for statement in &transaction.statements {
            rows += session.execute(&statement.sql(engine)).await?;
        }
        return Ok(rows);
    }
    session.execute("BEGIN").await?;
    for statement in &transaction.statements {
        rows += session.execute(&statement.sql(engine)).await?;
    }
    match transaction.end {
        End::Commit => session.execute("COMMIT").await?,
        End::Rollback => session.execute("ROLLBACK").await?,
        End::StayOpen => 0,
    };
    Ok(rows)
}
